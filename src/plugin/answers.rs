//! Reads the answers of the scheduler's debug endpoint, whatever version of it runs.
//!
//! Each entry is read by itself, and an absent field is unknown. So an answer of another version loses only the entries that differ, and the loss
//! is reported.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::quantities::{self, RawResources};
use crate::cycle::explain::Explanation;
use crate::resources::Resources;

use super::gap::Gap;

/// One queue of `/debug/queues`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueAnswer {
    /// The name.
    pub name: String,
    /// What its pods and those of the queues below it use.
    pub used: Option<RawResources>,
    /// What PodGroups have reserved beyond that.
    pub reserved: Option<RawResources>,
    /// The unused guarantee, beyond what is used and reserved.
    pub kept: Option<RawResources>,
    /// The part of its guarantee that is in force.
    pub floor: Option<RawResources>,
    /// The share.
    pub share: Option<RawResources>,
    /// What is wrong with it beside its place in the tree; absent in the answer of an older scheduler.
    pub faults: Option<Vec<String>>,
}

/// One node of `/debug/ledger`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAnswer {
    /// The name.
    pub name: String,
    /// What its pods use.
    pub used: Option<RawResources>,
    /// What is reserved there for nominated PodGroups until preempted pods end.
    pub nominated: Option<RawResources>,
    /// The number of charged pods.
    pub pods: Option<u64>,
}

/// One PodGroup that waits, in `/debug/queues`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WaitingAnswer {
    /// As `namespace/name`.
    pub group: String,
    /// Why it waits.
    pub why: Explanation,
    /// What it asks for.
    #[serde(default)]
    pub requested: Option<RawResources>,
    /// Whether it is admitted for this and reserves none of it.
    #[serde(default)]
    pub unreserved: bool,
    /// Every amount for which its queues refuse it.
    #[serde(default)]
    pub shortages: Vec<Explanation>,
    /// Its position among the PodGroups that wait in its queue, from 1.
    #[serde(default)]
    pub position: Option<u32>,
}

/// What the endpoint answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// The queues by name; `None` where the endpoint was not asked or did not answer.
    pub queues: Option<BTreeMap<String, QueueAnswer>>,
    /// Why PodGroups wait, by `namespace/name`.
    pub waiting: BTreeMap<String, WaitingAnswer>,
    /// The nodes by name; `None` likewise.
    pub nodes: Option<BTreeMap<String, NodeAnswer>>,
}

/// Returns the queues of an answer, and adds a gap for unreadable ones.
#[must_use]
pub fn queues(answer: &Value, gaps: &mut Vec<Gap>) -> BTreeMap<String, QueueAnswer> {
    entries(answer, "queues", gaps, |queue: &QueueAnswer| queue.name.clone())
}

/// Returns why the PodGroups of an answer of `/debug/queues` wait, by `namespace/name`. A PodGroup with a reason of another version is left out.
#[must_use]
pub fn waiting(answer: &Value) -> BTreeMap<String, WaitingAnswer> {
    let lists = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_queues = answer.get("queues").map(lists).unwrap_or_default();
    let in_queues = of_queues.iter().filter_map(|queue| queue.get("waiting"));
    let homeless = answer.get("homeless").and_then(Value::as_object).into_iter().flat_map(|queues| queues.values());
    let all = in_queues.chain(homeless).chain(answer.get("groupless"));
    let entries = all.filter_map(Value::as_array).flatten().filter_map(|entry| WaitingAnswer::deserialize(entry).ok());
    entries.map(|entry| (entry.group.clone(), entry)).collect()
}

/// Returns the nodes of an answer, and adds a gap for unreadable ones.
#[must_use]
pub fn nodes(answer: &Value, gaps: &mut Vec<Gap>) -> BTreeMap<String, NodeAnswer> {
    entries(answer, "nodes", gaps, |node: &NodeAnswer| node.name.clone())
}

fn entries<T: DeserializeOwned>(answer: &Value, key: &str, gaps: &mut Vec<Gap>, name: impl Fn(&T) -> String) -> BTreeMap<String, T> {
    let Some(list) = answer.get(key).and_then(Value::as_array) else {
        gaps.push(Gap::new(format!("the scheduler's {key}"), "its answer has none; is it of another version?"));
        return BTreeMap::new();
    };
    let read: BTreeMap<String, T> = list
        .iter()
        .filter_map(|entry| T::deserialize(entry).ok())
        .map(|entry| (name(&entry), entry))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let lost = list.len().saturating_sub(read.len());
    if lost > 0 {
        gaps.push(Gap::new(format!("{lost} of the scheduler's {key}"), "the answer cannot be read; is it of another version?"));
    }
    read
}

/// Returns the amounts of an answer; `None` where they are absent. Unreadable amounts are left out.
#[must_use]
pub fn amounts(raw: Option<&RawResources>) -> Option<Resources> {
    raw.map(|raw| quantities::offered(Some(raw), "", &mut Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_of_another_version_loses_only_the_entries_that_differ() {
        let mut gaps = Vec::new();
        let answer = json!({"queues": [{"name": "a", "used": {"cpu": 2}, "new": []}, {"name": "b", "used": "much"}, 7], "more": 1});
        let read = queues(&answer, &mut gaps);
        assert_eq!(read.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(amounts(read["a"].used.as_ref()).unwrap().get("cpu").to_string(), "2");
        assert_eq!(read["a"].reserved, None);
        assert_eq!(gaps.len(), 1);
        assert!(queues(&json!([1]), &mut gaps).is_empty() && gaps.len() == 2);
    }

    #[test]
    fn why_groups_wait_is_found_wherever_they_are_listed_and_a_code_of_another_version_is_not_known() {
        let entry = |group: &str, code: &str| json!({ "group": group, "message": "m", "why": { "code": code, "later": 1 } });
        let answer = json!({
            "queues": [{"name": "q", "waiting": [entry("ns/a", "QueueClosed"), entry("ns/b", "OfAnotherVersion")]}, 7],
            "homeless": {"gone": [entry("ns/c", "QueueNotFound")]},
            "groupless": [entry("ns/d", "PodGroupNotFound")],
        });
        let read: Vec<_> = waiting(&answer).into_iter().map(|(group, why)| format!("{group} {}", why.why.code.as_str())).collect();
        assert_eq!(read, ["ns/a QueueClosed", "ns/c QueueNotFound", "ns/d PodGroupNotFound"]);
        assert!(waiting(&json!([])).is_empty());
    }
}
