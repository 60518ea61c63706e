//! Which images does a pod need, and which images does a node have?

use std::sync::Arc;

use super::node::NodeStatus;
use super::pod::PodSpec;

/// The most names of images that are read of one node. The kubelet reports 50 images with up to 5 names each by default, the largest first.
const MOST_NAMES: usize = 1_024;

/// The images that a pod needs before it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodImages {
    /// The number of its containers and init containers.
    pub containers: u32,
    /// The complete names, with a tag or a digest, of the images of containers, init containers and volumes; a name stands there as often
    /// as it is needed.
    pub names: Vec<Arc<str>>,
}

/// An image on a node, under one of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// The name, with a tag or a digest.
    pub name: Arc<str>,
    /// Its size in bytes.
    pub size: u64,
}

impl PodImages {
    /// Reads the images of the pod; none where it names no image.
    #[must_use]
    pub(super) fn of(spec: &PodSpec) -> Option<Arc<Self>> {
        let containers = || spec.init_containers.iter().chain(&spec.containers);
        let volumes = spec.volumes.iter().filter_map(|volume| volume.image.as_ref()).map(|image| &image.reference);
        let names: Vec<Arc<str>> =
            containers().map(|container| &container.image).chain(volumes).filter_map(|name| complete(name)).collect();
        let count = u32::try_from(containers().count()).unwrap_or(u32::MAX);
        (!names.is_empty()).then(|| Arc::new(Self { containers: count, names }))
    }
}

impl NodeImage {
    /// Reads the images of a node, each under each of its names, at most [`MOST_NAMES`].
    #[must_use]
    pub(super) fn of(status: &NodeStatus) -> Arc<[Self]> {
        let images = status.images.iter().flatten();
        let named = images.flat_map(|image| {
            let size = u64::try_from(image.size_bytes).unwrap_or(0);
            image.names.iter().flatten().map(move |name| Self { name: Arc::from(name.as_str()), size })
        });
        named.take(MOST_NAMES).collect()
    }
}

/// Returns the name with the tag `latest` where it has neither a tag nor a digest, as kube-scheduler does; none for an empty name.
fn complete(name: &str) -> Option<Arc<str>> {
    // A colon before the last slash is that of a port.
    let has_tag = name.rfind(':') > name.rfind('/');
    (!name.is_empty()).then(|| if has_tag { Arc::from(name) } else { Arc::from(format!("{name}:latest")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{NodeFacts, PodFacts};
    use serde_json::json;

    #[test]
    fn a_name_without_a_tag_has_the_tag_latest() {
        let table = [
            ("busybox", "busybox:latest"),
            ("busybox:1.2", "busybox:1.2"),
            ("registry:5000/a/b", "registry:5000/a/b:latest"),
            ("registry:5000/a/b:v1", "registry:5000/a/b:v1"),
            ("a/b@sha256:0123", "a/b@sha256:0123"),
        ];
        for (name, whole) in table {
            assert_eq!(complete(name).as_deref(), Some(whole));
        }
        assert_eq!(complete(""), None);
    }

    #[test]
    fn the_images_of_all_containers_and_volumes_count_until_the_pod_has_a_node() {
        let spec = json!({
            "containers": [{ "name": "c", "image": "a:1" }, { "name": "d", "image": "a:1" }, { "name": "e" }],
            "initContainers": [{ "name": "i", "image": "b" }],
            "volumes": [{ "name": "v", "image": { "reference": "model:7" } }, { "name": "w" }],
        });
        let of = |spec: &serde_json::Value| PodFacts::of(&serde_json::from_value(json!({ "spec": spec })).unwrap()).images;
        let images = of(&spec).unwrap();
        assert_eq!(images.containers, 4);
        assert_eq!(images.names.iter().map(|name| &**name).collect::<Vec<_>>(), ["b:latest", "a:1", "a:1", "model:7"]);
        let mut bound = spec;
        bound["nodeName"] = json!("n");
        assert_eq!(of(&bound), None);
        assert_eq!(of(&json!({ "containers": [{ "name": "c" }] })), None);
    }

    #[test]
    fn the_images_of_a_node_are_bounded_and_may_lack_names_and_sizes() {
        let images = json!([
            { "names": ["a:1", "a@sha256:0"], "sizeBytes": 7 }, { "names": null, "sizeBytes": 5 }, { "sizeBytes": 5 }, { "names": ["b:1"] },
            { "names": ["c:1"], "sizeBytes": -1 },
        ]);
        let of = |images: serde_json::Value| {
            let facts = NodeFacts::of(&serde_json::from_value(json!({ "metadata": {}, "status": { "images": images } })).unwrap());
            facts.images.iter().map(|image| (image.name.to_string(), image.size)).collect::<Vec<_>>()
        };
        let expected = [("a:1", 7), ("a@sha256:0", 7), ("b:1", 0), ("c:1", 0)].map(|(name, size)| (name.to_owned(), size));
        assert_eq!(of(images), expected);
        assert_eq!(of(serde_json::Value::Null), []);
        let many: Vec<_> = (0..3_000).map(|at| json!({ "names": [format!("i:{at}")], "sizeBytes": 1 })).collect();
        assert_eq!(of(many.into()).len(), MOST_NAMES);
    }
}
