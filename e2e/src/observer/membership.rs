//! Which PodGroup does a pod ask for? This is the observer's own reading of the pod's labels and annotations.

use kube::api::ObjectMeta;

/// Returns the PodGroup of the whole JobSet, if the pod asks for it. The annotation has a meaning only beside the labels of a JobSet: its
/// name, the number of its restarts, and the number of its Jobs.
pub(super) fn of_jobset(meta: &ObjectMeta) -> Option<String> {
    let asks = meta.annotations.as_ref()?.get("podgroup.dev/gang")? == "jobset";
    let label = |name: &str| meta.labels.as_ref()?.get(&format!("jobset.sigs.k8s.io/{name}"));
    let name = label("jobset-name").filter(|name| is_dns_label(name))?;
    let attempt = label("restart-attempt").filter(|text| is_number(text))?;
    let _jobs = label("global-replicas").filter(|text| is_number(text)).filter(|jobs| !jobs.starts_with('0'))?;
    asks.then(|| format!("jobset-{name}-{attempt}"))
}

/// Returns the PodGroup of its group of a LeaderWorkerSet, if the pod asks for it. The annotation has a meaning only beside the labels with
/// the name of the LeaderWorkerSet, the number of the group and the revision of the template, and the annotation with its size.
pub(super) fn of_lws(meta: &ObjectMeta) -> Option<String> {
    let label = |name: &str| meta.labels.as_ref()?.get(&format!("leaderworkerset.sigs.k8s.io/{name}"));
    let annotations = meta.annotations.as_ref()?;
    let name = label("name").filter(|name| is_dns_label(name))?;
    let group = label("group-index").filter(|text| is_number(text))?;
    let is_hash = |text: &&String| (1..=20).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    let revision = label("template-revision-hash").filter(is_hash)?;
    let _size = annotations
        .get("leaderworkerset.sigs.k8s.io/size")
        .filter(|text| is_number(text))
        .filter(|size| size.bytes().any(|byte| byte != b'0'))?;
    (annotations.get("podgroup.dev/gang")? == "leaderworkerset").then(|| format!("lws-{name}-{group}-{revision}"))
}

/// Returns whether the text is a number of at most nine digits.
fn is_number(text: &str) -> bool {
    (1..10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether the text is a DNS-1123 label.
fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..64).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns whether a name is the prefix plus a UID. An annotation with such a name repeats the default and does not choose a PodGroup.
pub(super) fn is_generated(prefix: &str, name: &str) -> bool {
    let parts: Vec<&str> = name.strip_prefix(prefix).unwrap_or_default().split('-').collect();
    let hex = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(hex)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_may_ask_for_its_group_of_a_leaderworkerset() {
        let of = |gang: &str, [name, group, revision, size]: [&str; 4]| {
            let labels = json!({"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": group,
                "leaderworkerset.sigs.k8s.io/template-revision-hash": revision});
            let annotations = json!({"podgroup.dev/gang": gang, "leaderworkerset.sigs.k8s.io/size": size});
            of_lws(&serde_json::from_value(json!({"annotations": annotations, "labels": labels})).unwrap())
        };
        assert_eq!(of("leaderworkerset", ["serve", "2", "5b9c", "4"]).as_deref(), Some("lws-serve-2-5b9c"));
        assert_eq!(of("jobset", ["serve", "2", "5b9c", "4"]), None);
        for (at, value) in [(0, "Serve"), (1, "x"), (1, ""), (2, ""), (2, "a-b"), (3, "00"), (3, "many")] {
            let mut all = ["serve", "2", "5b9c", "4"];
            all[at] = value;
            assert_eq!(of("leaderworkerset", all), None, "{all:?}");
        }
        assert_eq!(of_lws(&ObjectMeta::default()), None);
    }

    #[test]
    fn a_pod_may_ask_for_the_group_of_its_jobset() {
        let of = |gang: &str, [name, attempt, jobs]: [&str; 3]| {
            let pairs = [("jobset-name", name), ("restart-attempt", attempt), ("global-replicas", jobs)];
            let labels =
                pairs.iter().filter(|(_, value)| *value != "absent").map(|(key, value)| (format!("jobset.sigs.k8s.io/{key}"), value));
            let labels: BTreeMap<_, _> = labels.collect();
            of_jobset(&serde_json::from_value(json!({"annotations": {"podgroup.dev/gang": gang}, "labels": labels})).unwrap())
        };
        assert_eq!(of("jobset", ["train", "2", "4"]).as_deref(), Some("jobset-train-2"));
        assert_eq!(of("jobset", ["train", "02", "4"]).as_deref(), Some("jobset-train-02"), "as it is written");
        assert_eq!(of("other", ["train", "2", "4"]), None);
        assert_eq!(of_jobset(&ObjectMeta::default()), None);
        for (at, values) in [
            (0, &["absent", "", "Train", "a.b", "-a", "a-"][..]),
            (1, &["absent", "", "x", "-1", "1234567890"][..]),
            (2, &["absent", "", "x", "0", "04", "-1", "1234567890"][..]),
        ] {
            for value in values {
                let mut labels = ["train", "2", "4"];
                labels[at] = value;
                assert_eq!(of("jobset", labels), None, "labels that JobSet does not write: {labels:?}");
            }
        }
    }
}
