//! Is any field of a pod, a PodGroup or a Queue overlooked, and do the fields mean what the tables beside this file say?
//!
//! The decoder drops fields that it does not know, so a new field of Kubernetes would be ignored silently. Hence every field of the pinned
//! API is listed in a table, one a line: `path | verdict | sample | why`, with one of these verdicts:
//!
//! * `honoured`: the facts are others when the field says `sample`;
//! * `refused X`: with `sample` the object is refused, and `X` is what says so (a sample that begins with `spec=` is a whole spec);
//! * `irrelevant`: no scheduling decision depends on it, for the reason `why`;
//! * `parts`: its own fields are listed.
//!
//! A path that ends with `.*` is the field and all below it. The list of a pod's fields comes from the types of `k8s-openapi`, by
//! [`reflect`]. Those of PodGroups and Queues, and the keys of annotations, labels and resources, come from `volcano.txt`:
//! `e2e/tools/volcano` prints it from pinned versions of Volcano.

mod reflect;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{GroupFacts, PodFacts, QueueFacts, pod, podgroup, queue};

const POD: &str = include_str!("pod.txt");
const PODGROUP: &str = include_str!("podgroup.txt");
const QUEUE: &str = include_str!("queue.txt");
const ANNOTATIONS: &str = include_str!("annotations.txt");
const VOLCANO: &str = include_str!("volcano.txt");

/// What Volcano has of one type: the paths of its fields; or its keys, of `key`.
fn of_volcano(kind: &str) -> BTreeSet<String> {
    let lines = VOLCANO.lines().filter_map(|line| line.split_once(' ')).filter(|(of, _)| *of == kind);
    let found: BTreeSet<String> = lines.map(|(_, name)| name.to_owned()).collect();
    assert!(!found.is_empty(), "volcano.txt has nothing of {kind}");
    found
}

/// One line of a table.
struct Row {
    path: &'static str,
    verdict: &'static str,
    sample: &'static str,
    why: &'static str,
}

impl Row {
    fn sample(&self) -> Value {
        serde_json::from_str(self.sample).unwrap_or_else(|error| panic!("{}: {error}: {}", self.path, self.sample))
    }

    /// Its path, and whether all below it is meant as well.
    fn field(&self) -> (&'static str, bool) {
        self.path.strip_suffix(".*").map_or((self.path, false), |path| (path, true))
    }
}

fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &'static str| {
        let columns: Vec<&str> = line.splitn(4, '|').map(str::trim).collect();
        let [path, verdict, sample, why] = columns[..] else { panic!("four columns: {line}") };
        Row { path, verdict, sample, why }
    };
    lines.map(row).collect()
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with(['.', '[', '{']))
}

/// What is wrong with a table, one line each: fields that it does not list, and lines that list nothing.
fn gaps(fields: &BTreeSet<String>, rows: &[Row]) -> Vec<String> {
    let lists = |row: &Row, field: &str| {
        let (path, all) = row.field();
        field == path || (all && is_below(field, path))
    };
    let unlisted = fields.iter().filter(|field| !rows.iter().any(|row| lists(row, field))).map(|field| format!("not listed: {field}"));
    let gone = rows.iter().filter(|row| !fields.contains(row.field().0)).map(|row| format!("no such field: {}", row.path));
    let twice = rows.iter().enumerate().filter(|(at, row)| rows[..*at].iter().any(|other| other.path == row.path));
    let twice = twice.map(|(_, row)| format!("listed twice: {}", row.path));
    let parts = |row: &&Row| row.verdict == "parts" && !fields.iter().any(|field| is_below(field, row.path));
    let no_parts = rows.iter().filter(parts).map(|row| format!("has no parts: {}", row.path));
    unlisted.chain(gone).chain(twice).chain(no_parts).collect()
}

/// Writes `value` at `path`; the first element of lists on the way, and objects that are not there.
fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for part in path.split('.') {
        let (name, list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name];
        if list {
            if !at.is_array() {
                *at = json!([{}]);
            }
            at = &mut at[0];
        }
    }
    *at = value;
}

/// Holds each row against what the facts say: `says` are the facts of a spec as text, `refuses` the names of what refuses it.
fn judge(rows: &[Row], full: &Value, least: &Value, says: impl Fn(&Value) -> String, refuses: impl Fn(&Value) -> Vec<String>) {
    assert_eq!(refuses(least), [""; 0]);
    let before = says(full);
    for row in rows {
        let (path, _) = row.field();
        match row.verdict.split_once(' ') {
            None if row.verdict == "honoured" => {
                let mut changed = full.clone();
                set(&mut changed, path, row.sample());
                assert_ne!(says(&changed), before, "{path} is said to be honoured, and nothing follows from it");
            }
            Some(("refused", by)) => {
                let mut spec = least.clone();
                match row.sample.strip_prefix("spec=") {
                    Some(whole) => spec = serde_json::from_str(whole).unwrap(),
                    None => set(&mut spec, path, row.sample()),
                }
                assert!(
                    refuses(&spec).iter().any(|found| found == by),
                    "{path} is said to be refused by {by}: {:?} for {spec}",
                    refuses(&spec)
                );
            }
            None if matches!(row.verdict, "irrelevant" | "parts") => assert!(row.verdict == "parts" || !row.why.is_empty(), "{path}: why?"),
            _ => panic!("{path}: no such verdict: {}", row.verdict),
        }
    }
}

/// A pod with this spec, of which a status says what it was given.
fn pod(spec: &Value, metadata: &Value) -> PodFacts {
    let status = json!({
        "containerStatuses": [{ "name": "c", "allocatedResources": { "cpu": "7" } }],
        "initContainerStatuses": [{ "name": "i", "allocatedResources": { "cpu": "20" } }],
    });
    PodFacts::of(&serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap())
}

fn unsupported(facts: &PodFacts) -> Vec<String> {
    facts.unsupported.iter().map(|field| format!("{field:?}")).collect()
}

fn group(spec: &Value, metadata: &Value) -> GroupFacts {
    GroupFacts::of(&serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap())
}

fn refuses_group(facts: &GroupFacts) -> Vec<String> {
    let all = [("network_topology", facts.network_topology)];
    all.into_iter().filter(|(_, refuses)| *refuses).map(|(name, _)| name.to_owned()).collect()
}

fn queue(spec: &Value, metadata: &Value) -> QueueFacts {
    QueueFacts::of(&serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap())
}

#[test]
fn every_field_of_a_pod_is_listed_and_means_what_is_listed() {
    let (fields, rows) = (reflect::fields::<k8s_openapi::api::core::v1::PodSpec>(), rows(POD));
    assert_eq!(gaps(&fields, &rows), [""; 0]);
    let requirement = json!([{ "key": "k", "operator": "In", "values": ["v"] }]);
    let selector = json!({ "matchLabels": { "k": "v" }, "matchExpressions": requirement });
    let term = json!({ "topologyKey": "t", "labelSelector": selector, "namespaceSelector": selector, "namespaces": ["n"] });
    let terms = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": term }],
    });
    let nodes = json!({ "matchExpressions": requirement, "matchFields": requirement });
    let full = json!({
        "hostNetwork": true,
        "hostUsers": false,
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore",
            "labelSelector": { "matchLabels": { "k": "v" }, "matchExpressions": requirement },
        }],
        "affinity": { "podAffinity": terms, "podAntiAffinity": terms, "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [nodes] },
            "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": nodes }],
        } },
        "containers": [{ "name": "c", "ports": [{ "hostPort": 8080 }], "resources": { "requests": { "cpu": "2" } } }],
        "initContainers": [{ "name": "i", "ports": [{ "hostPort": 9090 }], "restartPolicy": "Always", "resources": { "requests": { "cpu": "1" } } }],
        "schedulingGates": [{ "name": "g" }],
        "tolerations": [{ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" }],
    });
    let none = json!({});
    let least = json!({ "containers": [{ "name": "c" }] });
    let labelled = json!({ "labels": { "l": "1" } });
    judge(&rows, &full, &least, |spec| format!("{:?}", pod(spec, &labelled)), |spec| unsupported(&pod(spec, &none)));
}

#[test]
fn a_field_that_is_not_listed_and_a_line_without_a_field_are_found() {
    let fields = || reflect::fields::<k8s_openapi::api::core::v1::PodSpec>();
    assert!(
        fields().contains("containers[].ports[].hostPort") && fields().contains("volumes[].ephemeral.volumeClaimTemplate.spec.resources")
    );
    let mut without = rows(POD);
    without.retain(|row| row.path != "hostUsers" && row.path != "volumes[].cinder.*");
    let found = gaps(&fields(), &without);
    assert!(
        found.contains(&"not listed: hostUsers".to_owned()) && found.contains(&"not listed: volumes[].cinder.fsType".to_owned()),
        "{found:?}"
    );
    let more = fields().into_iter().chain(["affinity.rackAffinity".to_owned()]).collect();
    assert_eq!(gaps(&more, &rows(POD)), ["not listed: affinity.rackAffinity"]);
    let mut fewer = fields();
    fewer.remove("hostUsers");
    assert_eq!(gaps(&fewer, &rows(POD)), ["no such field: hostUsers"]);
}

#[test]
fn what_the_decoder_of_pods_reads_is_a_field_of_pods() {
    let there = reflect::fields::<k8s_openapi::api::core::v1::PodSpec>();
    let read = reflect::fields::<pod::PodSpec>();
    assert_eq!(read.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn every_field_of_a_podgroup_and_a_queue_is_listed_and_means_what_is_listed() {
    let none = json!({});
    let (mut fields, table) = (reflect::fields::<podgroup::PodGroupSpec>(), rows(PODGROUP));
    fields.extend(of_volcano("PodGroupSpec"));
    assert_eq!(gaps(&fields, &table), [""; 0]);
    let full = json!({ "subGroupPolicy": [{ "subGroupSize": 2 }] });
    judge(&table, &full, &none, |spec| format!("{:?}", group(spec, &none)), |spec| refuses_group(&group(spec, &none)));

    let (mut fields, table) = (reflect::fields::<queue::QueueSpec>(), rows(QUEUE));
    fields.extend(of_volcano("QueueSpec"));
    assert_eq!(gaps(&fields, &table), [""; 0]);
    let refuses = |spec: &Value| queue(spec, &none).node_groups.map(|_| "node_groups".to_owned()).into_iter().collect();
    judge(&table, &none, &none, |spec| format!("{:?}", queue(spec, &none)), refuses);
}

#[test]
fn our_types_have_every_field_of_volcanos() {
    for (kind, ours) in [
        ("PodGroupSpec", reflect::fields::<podgroup::PodGroupSpec>()),
        ("PodGroupStatus", reflect::fields::<podgroup::PodGroupStatus>()),
        ("QueueSpec", reflect::fields::<queue::QueueSpec>()),
        ("QueueStatus", reflect::fields::<queue::QueueStatus>()),
    ] {
        let theirs = of_volcano(kind);
        assert_eq!(theirs.difference(&ours).collect::<Vec<_>>(), Vec::<&String>::new(), "{kind}");
    }
}

/// The keys that no row of the table is about.
fn keys_not_listed(keys: &BTreeSet<String>, rows: &[Row]) -> Vec<String> {
    let listed = |key: &str| rows.iter().any(|row| row.path.split_once(' ').is_some_and(|(_, of_row)| of_row == key));
    keys.iter().filter(|key| !listed(key)).cloned().collect()
}

#[test]
fn every_key_that_volcano_knows_is_listed() {
    let (keys, mut table) = (of_volcano("key"), rows(ANNOTATIONS));
    assert_eq!(keys_not_listed(&keys, &table), [""; 0]);
    let elsewhere = |row: &&Row| row.path.starts_with("owner ") || row.path.starts_with("node ");
    table.iter().filter(elsewhere).for_each(|row| assert!(!row.why.is_empty(), "{}: why?", row.path));
    // A key that is missing is found.
    table.retain(|row| !row.path.ends_with(" volcano.sh/revocable-zone"));
    assert_eq!(keys_not_listed(&keys, &table), ["volcano.sh/revocable-zone"]);
}

#[test]
fn every_resource_that_volcano_shares_out_itself_is_refused() {
    for (row, key) in rows(ANNOTATIONS).iter().filter_map(|row| Some((row, row.path.strip_prefix("resource ")?))) {
        let spec = json!({ "containers": [{ "name": "c", "resources": { "requests": { key: "1" } } }] });
        assert_eq!(row.verdict.strip_prefix("refused "), unsupported(&pod(&spec, &json!({}))).first().map(String::as_str), "{key}");
    }
}

#[test]
fn every_annotation_that_volcano_schedules_by_means_what_is_listed() {
    let (none, rows) = (json!({}), rows(ANNOTATIONS));
    for (object, says, refuses) in [
        (
            "pod",
            // That it asks for something is told where no scheduler takes it, and nothing is scheduled by it.
            (&|meta: &Value| format!("{:?}", PodFacts { asks_alone: false, ..pod(&none, meta) })) as &dyn Fn(&Value) -> String,
            (&|meta: &Value| unsupported(&pod(&none, meta))) as &dyn Fn(&Value) -> Vec<String>,
        ),
        ("podgroup", &|meta| format!("{:?}", group(&none, meta)), &|meta| refuses_group(&group(&none, meta))),
        ("queue", &|meta| format!("{:?}", queue(&none, meta)), &|_| Vec::new()),
    ] {
        let of = |row: &&Row| row.path.strip_prefix(object).is_some_and(|rest| rest.starts_with(' '));
        for row in rows.iter().filter(of) {
            let (_, key) = row.path.split_once(' ').unwrap();
            let with = json!({ "annotations": { key: row.sample } });
            match row.verdict.split_once(' ') {
                None if row.verdict == "honoured" => assert_ne!(says(&with), says(&none), "{}", row.path),
                None if row.verdict == "irrelevant" => {
                    assert!(!row.why.is_empty(), "{}: why?", row.path);
                    assert_eq!(says(&with), says(&none), "{}", row.path);
                }
                Some(("refused", by)) => assert_eq!(refuses(&with), [by], "{}", row.path),
                _ => panic!("{}: no such verdict: {}", row.path, row.verdict),
            }
        }
    }
    // What the code knows is listed, but for prefixes.
    let names = include_str!("../names.rs").split('"').filter(|name| name.starts_with("volcano.sh/") && !name.ends_with(['/', '-']));
    assert_eq!(keys_not_listed(&names.map(str::to_owned).collect(), &rows), [""; 0]);
}
