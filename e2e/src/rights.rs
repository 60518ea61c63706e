//! Waits until the API server knows the rights that the chart has granted. Its authorizer reads roles and bindings with a watch, some time after helm returns.
//!
//! A program that starts earlier would see a refusal that a real pod would not see, because pulling its image takes longer.

use anyhow::Result;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::chart;
use crate::wait::{Seen, secs, wait_until};

/// Waits until the authorizer allows everything that is granted to the ServiceAccount `account` of the chart's namespace; returns the number of checks.
pub async fn known(client: &Client, account: &str) -> Result<usize> {
    let mut questions = Vec::new();
    for binding in Api::<ClusterRoleBinding>::all(client.clone()).list(&ListParams::default()).await? {
        if names(binding.subjects.as_deref(), account) {
            questions.extend(granted(client, &binding.role_ref).await?.iter().flat_map(|rule| asked(rule, None)));
        }
    }
    for binding in Api::<RoleBinding>::namespaced(client.clone(), chart::NAMESPACE).list(&ListParams::default()).await? {
        if names(binding.subjects.as_deref(), account) {
            questions.extend(granted(client, &binding.role_ref).await?.iter().flat_map(|rule| asked(rule, Some(chart::NAMESPACE))));
        }
    }
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    for question in &questions {
        let review: SubjectAccessReview =
            serde_json::from_value(json!({"spec": {"user": chart::user(account), "resourceAttributes": question}}))?;
        wait_until(secs(20), &format!("{account} may {question}"), || async {
            let status = reviews.create(&PostParams::default(), &review).await?.status;
            Ok(Seen::when(status.is_some_and(|status| status.allowed), || "the authorizer refuses it".to_owned()))
        })
        .await?;
    }
    Ok(questions.len())
}

fn names(subjects: Option<&[Subject]>, account: &str) -> bool {
    let mut subjects = subjects.unwrap_or_default().iter();
    subjects.any(|each| each.kind == "ServiceAccount" && each.name == account && each.namespace.as_deref() == Some(chart::NAMESPACE))
}

async fn granted(client: &Client, role: &RoleRef) -> Result<Vec<PolicyRule>> {
    let rules = match role.kind.as_str() {
        "Role" => Api::<Role>::namespaced(client.clone(), chart::NAMESPACE).get(&role.name).await?.rules,
        _ => Api::<ClusterRole>::all(client.clone()).get(&role.name).await?.rules,
    };
    Ok(rules.unwrap_or_default())
}

/// Returns the access reviews that a rule must allow; none for a rule about URL paths.
fn asked(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Value> {
    let resources = rule.resources.iter().flatten().map(|text| text.split_once('/').unwrap_or((text, "")));
    let mut names: Vec<Option<&String>> = rule.resource_names.iter().flatten().map(Some).collect();
    if names.is_empty() {
        names.push(None);
    }
    let mut questions = Vec::new();
    for (resource, subresource) in resources {
        for group in rule.api_groups.iter().flatten() {
            for verb in &rule.verbs {
                questions.extend(names.iter().map(|name| {
                    json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb, "namespace": namespace, "name": name})
                }));
            }
        }
    }
    questions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_becomes_one_review_for_each_granted_right() {
        let rule = |value: Value| serde_json::from_value::<PolicyRule>(value).unwrap();
        let pods = rule(json!({"apiGroups": [""], "resources": ["pods/binding", "nodes"], "verbs": ["create", "get"]}));
        let questions = asked(&pods, None);
        assert_eq!(questions.len(), 4);
        assert_eq!(
            questions[0],
            json!({"group": "", "resource": "pods", "subresource": "binding", "verb": "create", "namespace": null, "name": null})
        );
        let lease =
            rule(json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["a", "b"], "verbs": ["get"]}));
        let names: Vec<_> = asked(&lease, Some("here")).iter().map(|each| each["name"].clone()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(asked(&rule(json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})), None).is_empty());
    }
}
