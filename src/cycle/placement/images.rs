//! Which images are on which nodes, and how many points does each node get for the images that a pod needs?
//!
//! A pod starts sooner where its images are. As in kube-scheduler 1.36 (`plugins/imagelocality`) the points of a node follow from the sizes
//! of the images that are there already, and an image that few nodes have counts for little, so that these few are not overrun:
//!
//! ```text
//! sum of (size · nodes that have it / all nodes), from 23 MiB (no points) to 1,000 MiB for each container (all points)
//! ```
//!
//! Most often all nodes have the same points, because an image is on none of them, is small, or is on all: then images decide nothing, and
//! cost a few lookups. Otherwise the points of all nodes are worked out once for the same images on the same nodes. A change of a node's
//! images is no change of the node: it wakes no PodGroup, and only what was remembered for pods that need such an image is worked out
//! again, with the next such pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::images::{NodeImage, PodImages};
use crate::by_key::ByKey;

use super::nodes::{NodeId, Nodes};
use super::score::WHOLE;

const MIB: u64 = 1 << 20;

/// The sum of sizes below which a node has no points.
const LEAST: u64 = 23 * MIB;

/// The sum of sizes for each container from which a node has all points.
const MOST: u64 = 1_000 * MIB;

/// The most sets of images whose points are remembered, 4 bytes for each node. With more, all are forgotten.
const MOST_SETS: usize = 256;

/// The images on all nodes.
#[derive(Debug, Default)]
pub struct Images {
    numbers: ByKey<Arc<str>, u32>,
    /// By number; none where the number is free.
    images: Vec<Option<Image>>,
    free: Vec<u32>,
    /// The numbers of the images on each node, by the index of the node; sorted.
    on_nodes: Vec<Vec<u32>>,
    /// How often the nodes of any image changed.
    version: u64,
}

#[derive(Debug)]
struct Image {
    name: Arc<str>,
    /// As the first of its nodes reported it.
    size: u64,
    /// The nodes that have it, sorted.
    nodes: Vec<NodeId>,
    /// The version at which its nodes changed last. Never the same again for an image that went and came back.
    version: u64,
}

impl Images {
    /// Sets the images of a node.
    pub(super) fn set(&mut self, node: NodeId, images: &[NodeImage]) {
        let mut numbers: Vec<u32> = images.iter().map(|image| self.number(image)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if self.on_nodes.len() <= node.index() {
            self.on_nodes.resize_with(node.index().saturating_add(1), Vec::new);
        }
        let Some(slot) = self.on_nodes.get_mut(node.index()) else { return };
        if *slot == numbers {
            return;
        }
        let before = std::mem::replace(slot, numbers.clone());
        for number in numbers.iter().filter(|number| before.binary_search(number).is_err()) {
            self.change(*number, |nodes| {
                if let Err(at) = nodes.binary_search(&node) {
                    nodes.insert(at, node);
                }
            });
        }
        for number in before.iter().filter(|number| numbers.binary_search(number).is_err()) {
            self.change(*number, |nodes| nodes.retain(|other| *other != node));
        }
    }

    /// Returns the number of the image, a new one where no node has it.
    fn number(&mut self, image: &NodeImage) -> u32 {
        if let Some(number) = self.numbers.get(&image.name) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.images.push(None);
            u32::try_from(self.images.len().saturating_sub(1)).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.images.get_mut(number as usize) {
            *slot = Some(Image { name: Arc::clone(&image.name), size: image.size, nodes: Vec::new(), version: 0 });
        }
        self.numbers.insert(Arc::clone(&image.name), number);
        number
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Vec<NodeId>)) {
        self.version = self.version.saturating_add(1);
        let Some(slot) = self.images.get_mut(number as usize) else { return };
        let Some(image) = slot else { return };
        change(&mut image.nodes);
        image.version = self.version;
        if image.nodes.is_empty() {
            self.numbers.remove(&image.name);
            *slot = None;
            self.free.push(number);
        }
    }

    fn get(&self, name: &str) -> Option<&Image> {
        self.images.get(*self.numbers.get(name)? as usize)?.as_ref()
    }

    /// Returns the number of different names of images.
    #[cfg(test)]
    pub(in crate::cycle) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// What each node lacks of all points for the images of a pod.
#[derive(Debug, PartialEq, Eq)]
pub struct ImagePoints(Vec<u32>);

impl ImagePoints {
    /// Works out the points of all nodes for the images of a pod with so many containers.
    fn of(found: &[Counted<'_>], containers: u32, nodes: &Nodes) -> Self {
        let mut sums = vec![0_u64; nodes.ids().count()];
        for Counted { image, size } in found {
            for node in &image.nodes {
                if let Some(sum) = sums.get_mut(node.index()) {
                    *sum = sum.saturating_add(*size);
                }
            }
        }
        let most = MOST.saturating_mul(u64::from(containers.max(1)));
        let lacks = |sum: u64| {
            let above = sum.clamp(LEAST, most).saturating_sub(LEAST);
            let points = above.saturating_mul(u64::from(WHOLE)).checked_div(most.saturating_sub(LEAST)).unwrap_or(0);
            WHOLE.saturating_sub(u32::try_from(points).unwrap_or(WHOLE))
        };
        Self(sums.into_iter().map(lacks).collect())
    }

    /// Returns how many of all points ([`WHOLE`]) the node lacks.
    pub(super) fn lacking(&self, node: NodeId) -> u32 {
        self.0.get(node.index()).copied().unwrap_or(WHOLE)
    }
}

/// An image that some node has, with its size scaled by the part of the nodes that have it.
struct Counted<'a> {
    image: &'a Image,
    size: u64,
}

/// Returns those of the images that nodes have; none where all nodes have the same points.
fn differing<'a>(pod: &PodImages, nodes: &'a Nodes) -> Option<Vec<Counted<'a>>> {
    let all = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
    let counted = |image: &'a Image| {
        let on = u64::try_from(image.nodes.len()).unwrap_or(u64::MAX);
        Counted { image, size: image.size.saturating_mul(on).checked_div(all).unwrap_or(0) }
    };
    let found: Vec<Counted<'_>> = pod.names.iter().filter_map(|name| nodes.images().get(name)).map(counted).collect();
    let sum = found.iter().fold(0_u64, |sum, counted| sum.saturating_add(counted.size));
    (sum > LEAST && found.iter().any(|counted| counted.image.nodes.len() < nodes.len())).then_some(found)
}

/// The points for the sets of images that were asked for, as long as they are right.
#[derive(Debug, Default)]
pub(super) struct KnownPoints(BTreeMap<Arc<PodImages>, Known>);

#[derive(Debug)]
struct Known {
    /// The version of each image that nodes have, and the number of nodes.
    stamp: Vec<u64>,
    points: Arc<ImagePoints>,
}

impl KnownPoints {
    /// Returns the points of the nodes for these images; none where all nodes have the same.
    pub(super) fn of(&mut self, pod: &Arc<PodImages>, nodes: &Nodes) -> Option<Arc<ImagePoints>> {
        let found = differing(pod, nodes)?;
        let all = u64::try_from(nodes.len()).unwrap_or(u64::MAX);
        let stamp = || found.iter().map(|counted| counted.image.version).chain([all]);
        if let Some(known) = self.0.get(pod).filter(|known| known.stamp.iter().copied().eq(stamp())) {
            return Some(Arc::clone(&known.points));
        }
        if self.0.len() >= MOST_SETS {
            self.0.clear();
        }
        let points = Arc::new(ImagePoints::of(&found, pod.containers, nodes));
        self.0.insert(Arc::clone(pod), Known { stamp: stamp().collect(), points: Arc::clone(&points) });
        Some(points)
    }
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
