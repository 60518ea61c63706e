//! What is left on one node, and what would not fit?
//!
//! A node may have less than is used on it: a device failed, a static pod came, another scheduler was faster, a pod was
//! resized. Then it takes no pod that asks for that dimension, and still takes one that does not.

use crate::resources::{Amount, ResourceName, Resources};

use super::rules::{Rule, holds};

/// A node that exists, as it is at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeView<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it offers to pods. A dimension that it does not name it does not have.
    pub allocatable: &'a Resources,
    /// The sum of what its pods ask for (B1). May exceed `allocatable`.
    pub used: &'a Resources,
}

/// Why a pod does not go to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeRefusal {
    /// There is no such node (now).
    UnknownNode,
    /// It has too little left.
    Short(Shortage),
}

/// A dimension in which less is left than asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// The dimension.
    pub name: ResourceName,
    /// What was asked; above 0.
    pub asked: Amount,
    /// What is left; 0 where the node is overcommitted.
    pub idle: Amount,
}

impl<'a> NodeView<'a> {
    /// What is left, without the dimensions in which nothing is left.
    #[must_use]
    pub fn idle(&self) -> Resources {
        let mut idle = self.allocatable.clone();
        idle.sub(self.used);
        idle.without_negative()
    }

    /// By how much more is used than there is; empty on a healthy node.
    #[must_use]
    pub fn overcommitted(&self) -> Resources {
        let mut over = self.used.clone();
        over.sub(self.allocatable);
        over.without_negative()
    }

    /// What is left of one dimension; 0 where the node is overcommitted.
    #[must_use]
    pub fn idle_of(&self, name: &str) -> Amount {
        self.allocatable.get(name).minus(self.used.get(name)).max(Amount::ZERO)
    }

    /// The dimensions in which it has too little, by name. Allocates nothing.
    pub fn shortages<'b>(self, asked: &'b Resources) -> impl Iterator<Item = Shortage> + use<'a, 'b> {
        asked.iter().filter_map(move |(name, asked)| {
            let idle = self.idle_of(name);
            // What is not asked for cannot be short, not even on an overcommitted node.
            (asked.is_positive() && asked > idle && holds(Rule::N3)).then(|| Shortage { name: name.clone(), asked, idle })
        })
    }

    /// Whether so much more fits. Allocates nothing.
    ///
    /// # Errors
    ///
    /// The first dimension, by name, in which it does not.
    pub fn fits(&self, asked: &Resources) -> Result<(), Shortage> {
        self.shortages(asked).next().map_or(Ok(()), Err)
    }
}
