//! One node: what is left on it, and what does not fit.
//!
//! More can be used on a node than it has: a device failed, a static pod started, another scheduler was faster, or a pod was
//! resized. Then it takes no pod that requests that dimension, and still takes others.

use crate::resources::{Amount, ResourceName, Resources};

/// An existing node in its present state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeView<'a> {
    /// The name.
    pub name: &'a str,
    /// The amounts that the node offers to pods. A dimension that is not in it is 0.
    pub allocatable: &'a Resources,
    /// The sum of its pods' requests (B1). May exceed `allocatable`.
    pub used: &'a Resources,
}

/// Why a pod does not go to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeRefusal {
    /// The node does not exist (any more).
    UnknownNode,
    /// The node has too little left.
    Short(Shortage),
}

/// A dimension in which less is left than requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// The resource that is short.
    pub name: ResourceName,
    /// What the pod requests of it; above 0.
    pub asked: Amount,
    /// The amount left; 0 where the node is overcommitted.
    pub idle: Amount,
}

impl<'a> NodeView<'a> {
    /// Returns what is left, without the dimensions in which nothing is left.
    #[must_use]
    pub fn idle(&self) -> Resources {
        let mut idle = self.allocatable.clone();
        idle.sub(self.used);
        idle.without_negative()
    }

    /// Returns by how much the use exceeds `allocatable`; empty on a healthy node.
    #[must_use]
    pub fn overcommitted(&self) -> Resources {
        let mut over = self.used.clone();
        over.sub(self.allocatable);
        over.without_negative()
    }

    /// Returns what is left in one dimension; 0 where the node is overcommitted.
    #[must_use]
    pub fn idle_of(&self, name: &str) -> Amount {
        self.allocatable.get(name).minus(self.used.get(name)).max(Amount::ZERO)
    }

    /// Returns the dimensions in which too little is left, by name. Allocates nothing.
    pub fn shortages<'b>(self, asked: &'b Resources) -> impl Iterator<Item = Shortage> + use<'a, 'b> {
        asked.iter().filter_map(move |(name, asked)| {
            let idle = self.idle_of(name);
            // A dimension that is not requested is never short, not even on an overcommitted node.
            (asked.is_positive() && asked > idle).then(|| Shortage { name: name.clone(), asked, idle })
        })
    }

    /// Checks whether an amount more fits. Allocates nothing.
    ///
    /// # Errors
    ///
    /// The first dimension, by name, in which it does not fit.
    pub fn fits(&self, asked: &Resources) -> Result<(), Shortage> {
        self.shortages(asked).next().map_or(Ok(()), Err)
    }
}
