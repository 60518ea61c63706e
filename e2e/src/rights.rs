//! Which rights does the chart grant to the programs, does the API server know them, and which does no program use?
//!
//! The authorizer of the API server reads roles and bindings with a watch, some time after helm returns. A program that starts earlier
//! would see a refusal that a real pod would not see, because pulling its image takes longer. A missing right is a refused request, which
//! fails its case; a right that no program uses in all cases together fails the run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::audit_log::{self, Entry};
use crate::chart;
use crate::wait::{Seen, secs, wait_until};

/// A right that the chart grants to a program. It reads `podgroup-scheduler get leases.coordination.k8s.io podgroup-scheduler in podgroup-system`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The program, as [`chart::program_of`] names it: a release with another name has other ServiceAccounts and the same rights.
    pub program: String,
    /// get, list, watch, create, update, patch, delete.
    pub verb: String,
    /// The API group of the resource; empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The only namespace in which it holds; `None` for all.
    pub namespace: Option<String>,
    /// The only object for which it holds; `None` for all.
    pub name: Option<String>,
}

impl Right {
    /// Whether the right allows a request. The request is given as the right for its object alone; its namespace and name are `None` where
    /// it has none.
    pub fn allows(&self, request: &Self) -> bool {
        let within = |limit: &Option<String>, value: &Option<String>| limit.is_none() || limit == value;
        self.kind() == request.kind() && within(&self.namespace, &request.namespace) && within(&self.name, &request.name)
    }

    /// Returns the right that a request of a program used, for its object alone; `None` if it was refused or is for no object.
    fn of(request: &Entry) -> Option<Self> {
        let account = request.user.rsplit(':').next().unwrap_or_default();
        let program = chart::program_of(account).filter(|_| request.user == chart::user(account))?.to_owned();
        if request.is_refused() || request.resource.starts_with('/') {
            return None;
        }
        let (resource, subresource) = request.resource.split_once('/').unwrap_or((&request.resource, ""));
        let [verb, group, resource, subresource] = [&request.verb, &request.group, resource, subresource].map(str::to_owned);
        let [namespace, name] = [&request.namespace, &request.name].map(|text| (!text.is_empty()).then(|| text.clone()));
        Some(Self { program, verb, group, resource, subresource, namespace, name })
    }

    fn kind(&self) -> [&str; 5] {
        [&self.program, &self.verb, &self.group, &self.resource, &self.subresource]
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let led = |sign: &str, text: &str| if text.is_empty() { String::new() } else { format!("{sign}{text}") };
        let (group, subresource) = (led(".", &self.group), led("/", &self.subresource));
        let (name, namespace) =
            (led(" ", self.name.as_deref().unwrap_or_default()), led(" in ", self.namespace.as_deref().unwrap_or_default()));
        write!(f, "{} {} {}{group}{subresource}{name}{namespace}", self.program, self.verb, self.resource)
    }
}

/// The rights of the two programs, in one cluster or in all clusters of a run.
#[derive(Debug, Default)]
pub struct Rights {
    /// What the chart grants.
    pub granted: BTreeSet<Right>,
    /// How many requests used each right.
    pub used: BTreeMap<Right, u64>,
}

impl Rights {
    /// Adds the rights of another cluster.
    pub fn add(&mut self, other: Self) {
        self.granted.extend(other.granted);
        for (right, requests) in other.used {
            let count = self.used.entry(right).or_default();
            *count = count.saturating_add(requests);
        }
    }

    /// Returns the rights that are granted and that no request used.
    pub fn unused(&self) -> Vec<&Right> {
        self.granted.iter().filter(|right| !self.used.contains_key(*right)).collect()
    }

    /// Returns the granted rights that were used with the number of their requests, the fewest first.
    pub fn least_used(&self) -> Vec<(&Right, u64)> {
        let mut used: Vec<_> = self.granted.iter().filter_map(|right| Some((right, *self.used.get(right)?))).collect();
        used.sort_by_key(|(_, requests)| *requests);
        used
    }
}

/// Reads the whole audit log and counts the requests that used each of the rights. A refused request used none.
pub fn used(log: &Path, granted: &BTreeSet<Right>) -> Result<BTreeMap<Right, u64>> {
    Ok(used_by(&audit_log::read(log)?, granted))
}

fn used_by(entries: &[Entry], granted: &BTreeSet<Right>) -> BTreeMap<Right, u64> {
    let mut used = BTreeMap::new();
    for request in entries.iter().filter_map(Right::of) {
        for right in granted.iter().filter(|right| right.allows(&request)) {
            let count: &mut u64 = used.entry(right.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }
    used
}

/// Returns what is granted to a program in the chart's namespace, whatever the name of its release, as [`Rights::granted`].
pub async fn granted_to(client: &Client, program: &str) -> Result<BTreeSet<Right>> {
    let limit = |question: &Value, field: &str| question.get(field).and_then(Value::as_str).map(str::to_owned);
    let of = |question: &Value, field: &str| limit(question, field).unwrap_or_default();
    let right = |question: &Value| Right {
        program: program.to_owned(),
        verb: of(question, "verb"),
        group: of(question, "group"),
        resource: of(question, "resource"),
        subresource: of(question, "subresource"),
        namespace: limit(question, "namespace"),
        name: limit(question, "name"),
    };
    let mut granted = BTreeSet::new();
    for account in Api::<ServiceAccount>::namespaced(client.clone(), chart::NAMESPACE).list(&ListParams::default()).await? {
        let account = account.name_any();
        if chart::program_of(&account) == Some(program) {
            granted.extend(questions(client, &account).await?.iter().map(right));
        }
    }
    Ok(granted)
}

/// Returns an access review for each right of an account.
async fn questions(client: &Client, account: &str) -> Result<Vec<Value>> {
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
    Ok(questions)
}

/// Waits until the authorizer allows everything that is granted to the ServiceAccount `account` of the chart's namespace; returns the
/// number of checks.
pub async fn known(client: &Client, account: &str) -> Result<usize> {
    let questions = questions(client, account).await?;
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
pub(crate) mod tests {
    use super::*;
    use crate::audit_log::tests::entry;

    /// Returns the right `a list pods`: program, verb and resource.
    pub(crate) fn right(text: &str) -> Right {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let [program, verb, resource] = words.try_into().unwrap();
        let (group, subresource) = (String::new(), String::new());
        Right { program, verb, group, resource, subresource, namespace: None, name: None }
    }

    #[test]
    fn a_request_uses_the_right_for_its_object_and_not_that_for_another() {
        let get = |user: &str, name: &str, code| Entry { group: "g".to_owned(), name: name.to_owned(), ..entry(user, "get leases", code) };
        let right = |name: &str| {
            let [group, namespace, name] = ["g", "n", name].map(str::to_owned);
            Right { group, namespace: Some(namespace), name: Some(name), ..right("podgroup-controller get leases") }
        };
        let user = chart::user("gangs-controller");
        let elsewhere = get("system:serviceaccount:elsewhere:gangs-controller", "own", 200);
        let other_account = get(&chart::user("scraper"), "own", 200);
        let log = [get(&user, "own", 200), get(&user, "own", 404), get(&user, "others", 403), elsewhere, other_account];
        assert_eq!(used_by(&log, &["own", "others"].map(right).into()), [(right("own"), 2)].into());
    }

    #[test]
    fn a_right_is_unused_if_no_cluster_of_the_run_used_it() {
        let rights = |granted: &[&str], used: &[&str]| Rights {
            granted: granted.iter().map(|each| right(each)).collect(),
            used: used.iter().map(|each| (right(each), 1)).collect(),
        };
        let mut all = rights(&["a list pods", "a get pods"], &["a list pods"]);
        assert_eq!(all.unused(), [&right("a get pods")]);
        all.add(rights(&["a list pods", "b get leases"], &["a get pods", "a list pods"]));
        assert_eq!(all.unused(), [&right("b get leases")]);
        assert_eq!(all.least_used(), [(&right("a get pods"), 1), (&right("a list pods"), 2)]);
    }

    #[test]
    fn a_right_for_one_object_allows_requests_for_this_object_alone() {
        let [own, others] = ["own", "others"].map(|name| Right { name: Some(name.to_owned()), ..right("a get leases") });
        let elsewhere = Right { namespace: Some("elsewhere".to_owned()), ..own.clone() };
        assert!(right("a get leases").allows(&own) && own.allows(&elsewhere));
        for (right, request) in [(&own, &others), (&elsewhere, &own), (&right("a get leases"), &right("b get leases"))] {
            assert!(!right.allows(request), "{right} and {request}");
        }
        let grouped = Right { group: "g".to_owned(), ..own.clone() };
        assert!(!grouped.allows(&own) && !own.allows(&grouped));
        assert_eq!(Right { group: "g".to_owned(), ..elsewhere }.to_string(), "a get leases.g own in elsewhere");
    }

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
