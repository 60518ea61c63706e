//! The input of the benchmarks: a cluster of equal nodes with running pods, and new pods.
//!
//! Objects are read once and copied. UIDs are scattered like those of the API server.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::storage::v1::StorageClass;
use podgroup::api::names::DEFAULT_QUEUE;
use podgroup::api::pod_facts::PodPhase;
use podgroup::api::volumes::{ClaimFacts, PersistentVolume, PersistentVolumeClaim, StorageClassFacts, VolumeFacts};
use podgroup::api::{GroupFacts, GroupKey, Node, NodeFacts, Pod, PodFacts, PodGroup, Queue, QueueFacts, Uid};
use podgroup::cycle::placement::Strategy;
use podgroup::cycle::plan::Plan;
use podgroup::cycle::policy::Policy;
use podgroup::cycle::state::SchedulingState;
use podgroup::resources::{Amount, Resources};
use serde_json::{Value, from_value, json};

/// The default settings.
const POLICY: Policy = Policy {
    placement: Strategy::Auto,
    admit_within_nodes: false,
    evictions: true,
    admission_timeout: Duration::from_secs(30),
    release: Duration::from_secs(300),
    volume_timeout: Duration::from_secs(600),
};

/// The size of the input. Other sizes are compared with the default.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    /// The number of new pods.
    pub(crate) pods: u32,
    /// The size of each gang.
    pub(crate) gang: u32,
    /// What each new pod requests of the cpu, in thousandths of a core.
    pub(crate) millis: i64,
    /// The number of running pods.
    pub(crate) running: u32,
    /// The number of queues below one queue below `root`; PodGroups are distributed among them in turn. With one, it is `default`.
    pub(crate) queues: u32,
    /// Whether each pod has a request of its own, different from all other pods.
    pub(crate) own_classes: bool,
    /// What the new pods require of nodes and of each other.
    pub(crate) requires: Requires,
    /// Whether each new pod has a label of its own, as those of indexed Jobs and StatefulSets have.
    pub(crate) own_labels: bool,
    /// How many of the running pods have anti-affinity on the host, against pods with the label `tier`.
    pub(crate) keepers: u32,
    /// Whether the pods of each fifth gang have the label `tier`, so that the keepers keep them away. Otherwise no new pod has it.
    pub(crate) kept_away: bool,
    /// The claims of every third new pod.
    pub(crate) claims: Claims,
    /// Whether nodes have images, and pods need one.
    pub(crate) images: bool,
    /// How many labels with the keys of [`Requires::ManyKeys`] and [`Requires::ManyTerms`] each node has.
    pub(crate) keys: u32,
}

/// What new pods require. Each gang selects its own members.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Requires {
    Nothing,
    /// In the first third of the gangs, a node selector, a node affinity and a toleration.
    Nodes,
    /// The same, and in the last fifth a spread over zones or anti-affinity on the host.
    Usual,
    /// A spread over zones.
    Spread,
    /// Anti-affinity on the host.
    Apart,
    /// Affinity in the zone.
    Together,
    /// Affinity on the host.
    OneHost,
    /// Affinity in the rack.
    OneRack,
    /// Nothing, and prefer a zone.
    PreferNodes,
    /// Nothing, and prefer hosts without members of their gang.
    PreferApart,
    /// Nothing, and prefer the zones with the fewest members of their gang (`ScheduleAnyway`).
    Anyway,
    /// Nothing, and have an image that every second node has.
    Images,
    /// 100 spread constraints. All pods together name [`KEYS`] topology keys, and no two of them name the same in the same order.
    ManyKeys,
    /// 100 terms: a spread over each of [`NODE_KEYS`] topology keys, as one pod may have, and anti-affinity in the domains of these, with
    /// selectors of its own.
    ManyTerms,
}

/// The claims of every third new pod, one each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claims {
    None,
    /// Bound to a volume in one of the zones.
    Bound,
    /// Without a volume, of a `WaitForFirstConsumer` class. Each node has one local volume that is free.
    Unbound,
}

/// The number of topology keys of [`Requires::ManyKeys`].
const KEYS: u32 = 300;

/// The number of topology keys of [`Requires::ManyTerms`]: so many labels a node may have.
pub(crate) const NODE_KEYS: u32 = 20;

impl Size {
    /// Returns whether the new pod of this number has a claim.
    const fn has_claim(&self, number: u32) -> bool {
        !matches!(self.claims, Claims::None) && number.is_multiple_of(3)
    }

    /// Returns the number of claims without a volume.
    pub(crate) fn unbound(&self) -> usize {
        if self.claims == Claims::Unbound { self.pods.div_ceil(3) as usize } else { 0 }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self {
            nodes: 5_000,
            pods: 10_000,
            gang: 8,
            millis: 500,
            running: 0,
            queues: 1,
            own_classes: false,
            requires: Requires::Nothing,
            own_labels: false,
            keepers: 0,
            kept_away: false,
            claims: Claims::None,
            images: true,
            keys: 0,
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    from_value(value).unwrap_or_else(|error| panic!("the benchmark's own object: {error}"))
}

/// Returns a UID that looks random.
fn uid(kind: u32, number: u32) -> Uid {
    let scattered = number.wrapping_mul(2_654_435_761).rotate_left(13) ^ kind;
    Uid::from(format!("{scattered:08x}-{kind:04x}-4000-8000-{number:012x}"))
}

/// Returns thousandths of a core, mebibytes of memory, and additional nano-cores.
pub(crate) fn request(millis: i64, mebibytes: i64, nanos: u32) -> Resources {
    let cpu = Amount::from_nanos(i128::from(millis) * 1_000_000 + i128::from(nanos));
    Resources::new().with("cpu", cpu).with("memory", Amount::from_units(mebibytes << 20)).with("pods", Amount::from_units(1))
}

/// A scheduling with the objects of a [`Size`], and templates for new objects.
pub(crate) struct Cluster {
    pub(crate) scheduling: SchedulingState,
    pub(crate) size: Size,
    pod: PodFacts,
    group: GroupFacts,
    /// The time of the cycles.
    pub(crate) now: Duration,
    /// A number in the requests of new pods. It makes them a little different in each round, so that no shortlist of nodes helps.
    round: u32,
}

impl Cluster {
    /// Creates the cluster with `size.running` pods of this request on its nodes, in PodGroups of ten.
    pub(crate) fn new(size: Size, runs: &Resources) -> Self {
        let pod: Pod = read(json!({
            "metadata": {"namespace": "team", "name": "p", "uid": "p", "labels": {"app": "train"}, "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"schedulerName": "podgroup-scheduler", "containers": [{"name": "c", "image": BASE}]},
            "status": {"phase": "Pending"},
        }));
        let group: PodGroup = read(json!({"metadata": {"namespace": "team", "name": "g", "uid": "g"}, "spec": {}}));
        let scheduling = SchedulingState::new(["podgroup-scheduler".to_owned()]);
        let mut cluster = Self { scheduling, size, pod: PodFacts::of(&pod), group: GroupFacts::of(&group), now: Duration::ZERO, round: 0 };
        for number in 0..size.nodes {
            cluster.scheduling.apply_node(node(number, &size));
        }
        let mut queue = |name: &str, parent: &str| {
            let queue: Queue = read(json!({"metadata": {"name": name, "uid": name}, "spec": {"parent": parent}}));
            cluster.scheduling.apply_queue(QueueFacts::of(&queue));
        };
        if size.queues > 1 {
            queue("org", "root");
            (0..size.queues).for_each(|number| queue(&name_of_queue(number), "org"));
        }
        add_claims(&mut cluster.scheduling, &size);
        let keeper = keeper();
        for number in 0..size.running.max(size.keepers) {
            if number.is_multiple_of(10) {
                cluster.scheduling.apply_group(cluster.group("runs", number / 10, 10));
            }
            let pod = cluster.runs(number, runs);
            let kept = PodFacts { labels: keeper.labels.clone(), terms: Arc::clone(&keeper.terms), ..pod.clone() };
            cluster.scheduling.apply_pod(if number < size.keepers { kept } else { pod });
        }
        let _none = cluster.decide();
        cluster
    }

    fn queue(&self, number: u32) -> String {
        if self.size.queues > 1 { name_of_queue(number % self.size.queues) } else { DEFAULT_QUEUE.to_owned() }
    }

    /// Returns a PodGroup. PodGroups are distributed among the queues.
    pub(crate) fn group(&self, kind: &str, number: u32, gang: u32) -> GroupFacts {
        let key = GroupKey::new("team", &format!("{kind}-{number:05}"));
        GroupFacts { uid: uid(1, number), min_member: gang, queue: self.queue(number), key, ..self.group.clone() }
    }

    /// Returns a waiting pod of this PodGroup.
    pub(crate) fn waits(&self, group: &GroupKey, number: u32, request: Resources) -> PodFacts {
        let name = Arc::from(format!("waits-{number:06}"));
        let gang = number / self.size.gang;
        let mut pod = required(self.size.requires, gang, self.size.pods.div_ceil(self.size.gang)).unwrap_or_else(|| self.pod.clone());
        if self.size.has_claim(number) {
            let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim_name(number)}});
            pod.terms = pod_of(&json!({}), &json!({"volumes": [volume]})).terms;
        }
        if self.size.own_labels {
            pod.labels.insert("index".to_owned(), number.to_string());
        }
        if self.size.kept_away && gang.is_multiple_of(5) {
            pod.labels.insert("tier".to_owned(), "db".to_owned());
        }
        if !self.size.images {
            pod.images = None;
        }
        PodFacts { name, uid: uid(2, number), group: group.clone(), request, ..pod }
    }

    /// Returns a running pod. Running pods are distributed among the nodes.
    pub(crate) fn runs(&self, number: u32, request: &Resources) -> PodFacts {
        PodFacts {
            name: Arc::from(format!("runs-{number:06}")),
            uid: uid(3, number),
            group: GroupKey::new("team", &format!("runs-{:05}", number / 10)),
            node: Some(Arc::from(format!("node-{:05}", number % self.size.nodes))),
            phase: PodPhase::Running,
            charged_queue: Some(self.queue(number / 10)),
            request: request.clone(),
            ..self.pod.clone()
        }
    }

    /// Returns `size.pods` new pods of half a core each, in gangs, with their PodGroups.
    pub(crate) fn arrivals(&mut self) -> (Vec<GroupFacts>, Vec<PodFacts>) {
        self.round += 1;
        let groups: Vec<_> =
            (0..self.size.pods.div_ceil(self.size.gang)).map(|number| self.group("waits", number, self.size.gang)).collect();
        let pod = |number: u32| {
            let own = if self.size.own_classes { number } else { 0 };
            let group = groups.get((number / self.size.gang) as usize).unwrap_or_else(|| panic!("pod {number} has no group"));
            self.waits(&group.key, number, request(self.size.millis, 1024, self.round * 100_000 + own))
        };
        let pods = (0..groups.len() as u32 * self.size.gang).map(pod).collect();
        (groups, pods)
    }

    /// Applies the creation of these objects.
    pub(crate) fn come(&mut self, (groups, pods): (Vec<GroupFacts>, Vec<PodFacts>)) {
        groups.into_iter().for_each(|group| self.scheduling.apply_group(group));
        pods.into_iter().for_each(|pod| self.scheduling.apply_pod(pod));
    }

    /// Applies the deletion of these objects.
    pub(crate) fn go(&mut self, groups: &[GroupKey], pods: &[Uid]) {
        pods.iter().for_each(|uid| self.scheduling.delete_pod(uid));
        groups.iter().for_each(|key| self.scheduling.delete_group(key));
        let _none = self.decide();
        let _told = self.scheduling.take_dirty();
    }

    /// Sets the capability of the queue `default`, in cores.
    pub(crate) fn limit(&mut self, cores: Option<i64>) {
        let capability = cores.map_or_else(|| json!({}), |cores| json!({"cpu": cores.to_string()}));
        let queue: Queue = read(json!({"metadata": {"name": DEFAULT_QUEUE, "uid": DEFAULT_QUEUE}, "spec": {"capability": capability}}));
        self.scheduling.apply_queue(QueueFacts::of(&queue));
    }

    /// Runs one cycle.
    pub(crate) fn decide(&mut self) -> Plan {
        podgroup::cycle::run(&mut self.scheduling, &POLICY, self.now)
    }
}

/// Returns a pod of this gang with what it requires; none where it requires nothing.
fn required(requires: Requires, gang: u32, gangs: u32) -> Option<PodFacts> {
    let app = format!("train-{gang}");
    let selector = json!({"matchLabels": {"app": app}});
    let term = |key: &str| json!([{"topologyKey": key, "labelSelector": selector}]);
    let nodes = json!({
        "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z0", "z1"]}]}]}}},
    });
    let spread = json!({"topologySpreadConstraints":
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]});
    let apart =
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term("kubernetes.io/hostname")}}});
    let together = |key: &str| json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term(key)}}});
    let host = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
    let prefer = "preferredDuringSchedulingIgnoredDuringExecution";
    let in_zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z0"]}]});
    let prefer_nodes = json!({"affinity": {"nodeAffinity": {prefer: [{"weight": 10, "preference": in_zone}]}}});
    let prefer_apart = json!({"affinity": {"podAntiAffinity": {prefer: [{"weight": 10, "podAffinityTerm": host}]}}});
    let anyway = json!({"topologySpreadConstraints":
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]});
    let images = json!({"containers": [{"name": "c", "image": TRAIN}]});
    let one_of_many = |number: u32| json!({"maxSkew": 1, "topologyKey": key((gang * 37 + number) % KEYS), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
    let of_node = |number: u32| key((gang * 7 + number) % NODE_KEYS);
    let over_key = |number: u32| json!({"maxSkew": 1, "topologyKey": of_node(number), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
    let off_others =
        |number: u32| json!({"topologyKey": of_node(number), "labelSelector": {"matchLabels": {"app": format!("other-{gang}-{number}")}}});
    let spec = match requires {
        Requires::PreferNodes => prefer_nodes,
        Requires::PreferApart => prefer_apart,
        Requires::Anyway => anyway,
        Requires::Images => images,
        Requires::ManyKeys => json!({"topologySpreadConstraints": (0..100).map(one_of_many).collect::<Vec<_>>()}),
        Requires::ManyTerms => json!({
            "topologySpreadConstraints": (0..NODE_KEYS).map(over_key).collect::<Vec<_>>(),
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (NODE_KEYS..100).map(off_others).collect::<Vec<_>>()}},
        }),
        Requires::Nodes | Requires::Usual if gang < gangs / 3 => nodes,
        Requires::Spread => spread,
        Requires::Apart => apart,
        Requires::Together => together("zone"),
        Requires::OneHost => together("kubernetes.io/hostname"),
        Requires::OneRack => together("rack"),
        Requires::Usual if gang >= gangs - gangs / 5 => {
            if gang.is_multiple_of(2) {
                spread
            } else {
                apart
            }
        }
        Requires::Nothing | Requires::Nodes | Requires::Usual => return None,
    };
    Some(pod_of(&json!({"app": app}), &spec))
}

/// Returns a pod that keeps pods with the label `tier` off its host.
fn keeper() -> PodFacts {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tier": "db"}}});
    pod_of(&json!({"tier": "db"}), &json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}))
}

fn pod_of(labels: &Value, spec: &Value) -> PodFacts {
    let mut pod = json!({
        "metadata": {"namespace": "team", "name": "p", "uid": "p", "labels": labels, "annotations": {"scheduling.k8s.io/group-name": "g"}},
        "spec": {"schedulerName": "podgroup-scheduler", "containers": [{"name": "c", "image": BASE}]},
        "status": {"phase": "Pending"},
    });
    let (Some(all), Some(more)) = (pod.get_mut("spec").and_then(Value::as_object_mut), spec.as_object()) else { panic!("objects") };
    all.extend(more.clone());
    let pod: Pod = read(pod);
    PodFacts::of(&pod)
}

fn claim_name(number: u32) -> String {
    format!("claim-{number:06}")
}

/// Adds the claims of the new pods, and their volumes.
fn add_claims(scheduling: &mut SchedulingState, size: &Size) {
    let class =
        json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    let class: StorageClass = read(class);
    scheduling.apply_storage_class(StorageClassFacts::of(&class));
    let (mode, amount) = (json!(["ReadWriteOnce"]), json!({"storage": "1Gi"}));
    let volume = |name: &str, (label, value): (&str, &str), claim: Value| -> PersistentVolume {
        let terms = json!([{"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}]);
        let spec = json!({
            "accessModes": mode, "capacity": amount, "storageClassName": "local", "claimRef": claim,
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        });
        read(json!({"metadata": {"name": name}, "spec": spec, "status": {"phase": if claim.is_null() { "Available" } else { "Bound" }}}))
    };
    for number in (0..size.pods).filter(|number| size.has_claim(*number)) {
        let is_bound = size.claims == Claims::Bound;
        let (name, volume_name) = (claim_name(number), if is_bound { format!("volume-{number:06}") } else { String::new() });
        let annotations = if is_bound { json!({"pv.kubernetes.io/bind-completed": "yes"}) } else { json!({}) };
        let meta = json!({"namespace": "team", "name": name, "uid": uid(5, number).as_str(), "annotations": annotations});
        let spec = json!({"accessModes": mode, "storageClassName": "local", "volumeName": volume_name, "resources": {"requests": amount}});
        let claim: PersistentVolumeClaim = read(json!({"metadata": meta, "spec": spec}));
        scheduling.apply_claim(ClaimFacts::of(&claim));
        if is_bound {
            let claim = json!({"namespace": "team", "name": name, "uid": uid(5, number).as_str()});
            scheduling.apply_volume(VolumeFacts::of(&volume(&volume_name, ("zone", &format!("z{}", number / 3 % 3)), claim)));
        }
    }
    for number in 0..if size.unbound() > 0 { size.nodes } else { 0 } {
        let at = ("kubernetes.io/hostname", &*format!("node-{number:05}"));
        scheduling.apply_volume(VolumeFacts::of(&volume(&format!("local-{number:05}"), at, Value::Null)));
    }
}

fn key(number: u32) -> String {
    format!("topology.example.com/key-{number:03}")
}

fn name_of_queue(number: u32) -> String {
    format!("queue-{number:04}")
}

/// An image that every node has, and one that every second node has.
const BASE: &str = "registry.example.com/base:1";
const TRAIN: &str = "registry.example.com/train:1";

/// Returns a node of 32 cores, in one of three zones and in a rack of 20 nodes, with as many images as a kubelet reports, or with none.
pub(crate) fn node(number: u32, size: &Size) -> NodeFacts {
    let allocatable = json!({"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"});
    let (host, zone, rack) = (format!("node-{number:05}"), format!("z{}", number % 3), format!("r{}", number / 20));
    let mut labels = json!({"kubernetes.io/hostname": host, "kubernetes.io/os": "linux", "zone": zone, "rack": rack});
    if let Some(labels) = labels.as_object_mut() {
        labels.extend((0..size.keys).map(|at| (key(at), json!(zone))));
    }
    let image = |at: u32| {
        let name = match at {
            0 => BASE.to_owned(),
            1 if number.is_multiple_of(2) => TRAIN.to_owned(),
            _ => format!("registry.example.com/team-{}/service-{}:1", at % 7, (number % 40) * 50 + at),
        };
        json!({"names": [name, format!("{name}@sha256:{at:064}")], "sizeBytes": 8_000_000_000_u64 >> (at / 2)})
    };
    let images: Vec<Value> = (0..if size.images { 50 } else { 0 }).map(image).collect();
    let node: Node = read(json!({
        "metadata": {"name": format!("node-{number:05}"), "uid": uid(4, number).as_str(), "labels": labels},
        "status": {"allocatable": allocatable, "images": images},
    }));
    NodeFacts::of(&node)
}
