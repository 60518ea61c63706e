//! Tests of names and messages, and of the list of members on a server that selects pods by their labels.

use axum::http::Uri;
use serde_json::{Value, json};

use super::*;
use crate::runtime::metrics::{RequestMetrics, registry};

const OWNER: &str = "0a1b2c3d-0000-1111-2222-333344445555";
const OTHER: &str = "ffffffff-0000-1111-2222-333344445555";

/// Returns whether labels match a selector of the forms `key=value` and `!key`.
fn matches(selector: &str, labels: &Value) -> bool {
    selector.split(',').all(|part| match (part.strip_prefix('!'), part.split_once('=')) {
        (Some(key), _) => labels[key].is_null(),
        (None, Some((key, value))) => labels[key] == value,
        (None, None) => !labels[part].is_null(),
    })
}

/// Returns the value of a parameter of the query; `None` if it is not there.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let (_, value) = uri.query()?.split('&').filter_map(|part| part.split_once('=')).find(|(key, _)| *key == name)?;
    let (first, rest) = value.split_once('%').map_or((value, None), |(first, rest)| (first, Some(rest)));
    let rest = rest.into_iter().flat_map(|rest| rest.split('%'));
    let decoded = rest.map(|part| format!("{}{}", char::from(u8::from_str_radix(&part[..2], 16).unwrap()), &part[2..]));
    Some(first.to_owned() + &decoded.collect::<String>())
}

/// Asks whether a PodGroup has members, where this is the only pod. The owner's pods have the label `app=set`.
async fn finds(labels: Value, owner: &str, selector: Option<&str>) -> bool {
    let reference = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": owner, "controller": true }]);
    let pod = json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "u", "labels": labels, "ownerReferences": reference } });
    let app = axum::Router::new().fallback(move |uri: Uri| {
        let selected = parameter(&uri, "labelSelector").is_none_or(|selector| matches(&selector, &pod["metadata"]["labels"]));
        let items: Vec<Value> = selected.then(|| pod.clone()).into_iter().collect();
        let list = json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": items });
        async move { axum::Json(list) }
    });
    let caller = Caller::new(Duration::from_secs(10), RequestMetrics::new(&registry().unwrap()).unwrap());
    let actor = Actor::new(kube::Client::new(app, "ns"), caller, &["ours".to_owned()]);
    let Reply::Members(members) = actor.list_members(&GroupKey::generated("ns", OWNER), selector).await else { panic!("no list") };
    members
}

#[tokio::test]
async fn the_list_finds_a_member_whatever_its_labels_are() {
    let group = crate::api::membership::generated_name(OWNER);
    for labels in [json!({ "app": "set" }), json!({ "app": "stray" }), json!({}), json!({ "app": "stray", GROUP_LABEL: group })] {
        for selector in [Some("app=set"), None] {
            assert!(finds(labels.clone(), OWNER, selector).await, "{labels} {selector:?}");
            assert!(!finds(labels.clone(), OTHER, selector).await, "{labels} {selector:?}: a pod of another owner");
        }
    }
    // A copied template brought the name of another PodGroup.
    assert!(finds(json!({ "app": "set", GROUP_LABEL: "podgroup-other" }), OWNER, Some("app=set")).await);
}
