//! Check 11, its second half: is a claim bound to two volumes, or a volume to two claims?
//!
//! Each watch is ordered by itself, so claims are compared with claims and volumes with volumes.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::facts::Kind;
use super::finding::Finding;

/// What is bound to what.
#[derive(Debug, Default)]
pub(super) struct BoundClaims {
    /// The UID of each claim that a volume is bound to, with the names of the volumes.
    of_volumes: BTreeMap<String, Vec<String>>,
    /// The name of each volume that a claim is bound to, with the UIDs of the claims.
    of_claims: BTreeMap<String, Vec<String>>,
    findings: Vec<Finding>,
}

impl BoundClaims {
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Takes one version of one object that arrived at a time in milliseconds.
    pub(super) fn add(&mut self, at: i64, kind: Kind, object: &DynamicObject, gone: bool) {
        let text = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (bound, key, of, other) = if kind == Kind::Volume {
            (&mut self.of_volumes, object.name_any(), text("/spec/claimRef/uid"), "claim")
        } else if kind == Kind::Claim {
            (&mut self.of_claims, object.uid().unwrap_or_default(), text("/spec/volumeName"), "volume")
        } else {
            return;
        };
        bound.retain(|_, all| {
            all.retain(|each| *each != key);
            !all.is_empty()
        });
        if gone || of.is_empty() || text("/status/phase") != "Bound" {
            return;
        }
        let all = bound.entry(of.clone()).or_default();
        all.push(key);
        if all.len() > 1 {
            let detail = format!("it is bound more than once at a time: {}", all.join(", "));
            self.findings.push(Finding { check: 11, object: format!("{other} {of}"), detail, at });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, claim: &str, phase: &str) -> DynamicObject {
        let object = json!({"metadata": {"name": name}, "spec": {"claimRef": {"uid": claim}}, "status": {"phase": phase}});
        serde_json::from_value(object).unwrap()
    }

    fn claim(uid: &str, volume: &str) -> DynamicObject {
        let object = json!({"metadata": {"name": "c", "uid": uid}, "spec": {"volumeName": volume}, "status": {"phase": "Bound"}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn two_volumes_of_one_claim_are_found_and_one_after_the_other_is_not() {
        let mut bound = BoundClaims::default();
        bound.add(1, Kind::Volume, &volume("v", "1", "Bound"), false);
        bound.add(2, Kind::Volume, &volume("v", "1", "Bound"), false);
        // It is made for the same claim, and not bound.
        bound.add(3, Kind::Volume, &volume("w", "1", "Available"), false);
        bound.add(4, Kind::Volume, &volume("v", "1", "Released"), false);
        bound.add(5, Kind::Volume, &volume("w", "1", "Bound"), false);
        bound.add(6, Kind::Volume, &volume("w", "1", "Bound"), true);
        bound.add(7, Kind::Volume, &volume("x", "1", "Bound"), false);
        assert_eq!(bound.findings(), []);
        bound.add(8, Kind::Volume, &volume("y", "1", "Bound"), false);
        assert_eq!(bound.findings().iter().map(|found| (found.check, found.object.as_str())).collect::<Vec<_>>(), [(11, "claim 1")]);
    }

    #[test]
    fn two_claims_on_one_volume_are_found_and_one_after_the_other_is_not() {
        let mut bound = BoundClaims::default();
        bound.add(1, Kind::Claim, &claim("1", "v"), false);
        bound.add(2, Kind::Claim, &claim("1", "v"), true);
        bound.add(3, Kind::Claim, &claim("2", "v"), false);
        bound.add(4, Kind::Claim, &claim("3", "w"), false);
        assert_eq!(bound.findings(), []);
        bound.add(5, Kind::Claim, &claim("4", "v"), false);
        assert_eq!(bound.findings().iter().map(|found| (found.check, found.object.as_str())).collect::<Vec<_>>(), [(11, "volume v")]);
    }
}
