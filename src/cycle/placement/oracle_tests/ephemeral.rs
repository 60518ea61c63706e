//! Random claims of generic ephemeral volumes: the pod's own, another object's, and missing ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::judge::{CLAIM, agree};

/// Whose the claim of an ephemeral volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The pod's: the claim is usable.
    Pod,
    /// Another pod's.
    Another,
    /// The pod's, which does not control it.
    NotControlled,
    /// No object's: a user made it by that name.
    Unowned,
    /// There is no claim yet.
    Missing,
}

/// Draws the owner of a claim, mostly the pod.
pub(super) fn owner() -> impl Strategy<Value = Owner> {
    let other = prop::sample::select(&[Owner::Another, Owner::NotControlled, Owner::Unowned, Owner::Missing][..]);
    prop_oneof![2 => Just(Owner::Pod), 1 => other]
}

/// Returns so many ephemeral volumes of a pod.
pub(super) fn ephemeral_volumes(count: usize) -> impl Iterator<Item = Value> {
    let template = json!({ "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    (0..count).map(move |at| json!({ "name": format!("e{at}"), "ephemeral": { "volumeClaimTemplate": template } }))
}

/// Returns the claims of the ephemeral volumes of the pod, one for each owner at most. `claim` gives the claim of a volume by its number,
/// but for its name, UID and owner.
pub(super) fn ephemeral_claims(pod: &Value, owners: &[Owner], claim: impl Fn(usize) -> Value) -> Vec<Value> {
    let (name, uid) = (pod["metadata"]["name"].as_str().unwrap(), &pod["metadata"]["uid"]);
    let volumes = pod["spec"]["volumes"].as_array().unwrap().iter().filter(|volume| !volume["ephemeral"].is_null());
    let made = volumes.zip(owners).enumerate().filter(|(_, (_, owner))| **owner != Owner::Missing);
    let of_volume = |(at, (volume, owner)): (usize, (&Value, &Owner))| {
        let mut claim = claim(at);
        let claim_name = format!("{name}-{}", volume["name"].as_str().unwrap());
        claim["metadata"]["uid"] = json!(format!("uid-{claim_name}"));
        claim["metadata"]["name"] = json!(claim_name);
        let by = |uid: &Value, controller: bool| json!([{ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": controller }]);
        claim["metadata"]["ownerReferences"] = match owner {
            Owner::Pod => by(uid, true),
            Owner::Another => by(&json!("another"), true),
            Owner::NotControlled => by(uid, false),
            Owner::Unowned | Owner::Missing => Value::Null,
        };
        claim
    };
    made.map(of_volume).collect()
}

/// Returns whether both refuse a node for the same reason. kube-scheduler has no plugin for a claim that cannot be used: any of its volume
/// plugins refuses it, and so may an earlier one for another claim. Its words are compared where a claim is not made yet.
pub(super) fn says_the_same(ours: &[String], theirs: &[String]) -> bool {
    if ours[0] != CLAIM {
        return agree(ours, theirs);
    }
    let is_not_made = |words: &[String]| words.iter().any(|words| words.starts_with("waiting for ephemeral volume controller"));
    let refuses_claims = theirs[0] == "NodeVolumeLimits" || theirs[0].starts_with("Volume");
    refuses_claims && (!is_not_made(theirs) || !is_not_made(ours) || ours[1..] == theirs[1..])
}
