//! The types of the API objects, and the *facts* that the programs read from them.
//!
//! Every object from the API server becomes facts here, once. Amounts are integers, and unset is not 0. A value that cannot be used becomes
//! a [`Fault`] of its object; it never makes the object or its list fail. No other folder parses API objects.
//!
//! Reading order:
//!
//! 1. [`names`]: the keys and words of the API.
//! 2. [`membership`]: which PodGroup a pod belongs to; [`jobset`] and [`lws`]: the PodGroups of a whole JobSet and of a group of a
//!    LeaderWorkerSet.
//! 3. [`podgroup`] and [`queue`]: the API of Volcano that the programs serve.
//! 4. [`pod`], [`node`], [`priority_class`] and [`budget`]: the objects of Kubernetes.
//! 5. [`images`], [`pod_facts`], [`group_facts`] and [`sub_groups`]: what pods and PodGroups mean to the scheduler.
//! 6. [`volumes`]: claims, volumes and what nodes take of them.
//! 7. [`workload`]: the owners of pods.
//! 8. [`crd`]: the CustomResourceDefinitions. [`event`]: how long the message of an Event may be.

pub mod budget;
pub mod crd;
pub mod dns;
pub mod event;
pub mod fault;
#[cfg(test)]
mod fields;
pub mod group_facts;
pub mod images;
pub mod jobset;
pub mod label_selector;
pub mod lws;
pub mod membership;
pub mod misspelt;
pub mod names;
pub mod node;
mod node_choice;
pub mod pod;
pub mod pod_facts;
pub mod pod_terms;
pub mod podgroup;
pub mod priority_class;
pub mod quantities;
pub mod queue;
pub mod sub_groups;
pub mod uid;
mod unknown_fields;
pub mod unsupported;
pub mod volumes;
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
pub use sub_groups::{SubGroup, SubGroupPolicyFacts};
pub use uid::Uid;
