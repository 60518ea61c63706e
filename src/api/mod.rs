//! What stands on the wire, and what does it mean?
//!
//! Everything that comes from the API server becomes *facts* here, once, at the border: amounts are integers, unset is not 0, and what could
//! not be read is a [`Fault`] beside the rest, never an error that costs the object or the list it came in. Nothing behind this door parses.
//!
//! Reading order: [`names`] (the words), [`membership`] (which group a pod belongs to), [`podgroup`] and [`queue`] (the API that we serve),
//! [`pod`], [`node`], [`priority_class`] and [`budget`] (what others write), [`pod_facts`] and [`group_facts`] (what it means), [`workload`] (the owners of pods), [`crd`].

pub mod budget;
pub mod crd;
pub mod fault;
#[cfg(test)]
mod fields;
pub mod group_facts;
pub mod membership;
pub mod names;
pub mod node;
pub mod pod;
pub mod pod_facts;
pub mod podgroup;
pub mod priority_class;
pub mod quantities;
pub mod queue;
pub mod uid;
mod wire;
pub mod workload;

pub use budget::{BudgetFacts, BudgetKey, PodDisruptionBudget};
pub use fault::Fault;
pub use group_facts::GroupFacts;
pub use membership::GroupKey;
pub use node::{Node, NodeFacts};
pub use pod::Pod;
pub use pod_facts::PodFacts;
pub use podgroup::PodGroup;
pub use priority_class::PriorityClassFacts;
pub use queue::{Queue, QueueFacts};
pub use uid::Uid;
