//! The storage objects of Kubernetes, and what the scheduler reads from them.
//!
//! A pod names claims; a claim names a volume and a class; a volume says which nodes may mount it. Of each object only what a placement
//! depends on is kept.
//!
//! Reading order: [`claim`], [`volume`], [`request`] (claims that have no volume yet), [`migrated`], [`storage_class`], [`csi_node`],
//! [`attachment`], [`storage_capacity`], and [`of_pod`]: what they mean to one pod.

pub mod attachment;
pub mod claim;
pub mod csi_node;
pub mod migrated;
pub mod of_pod;
pub mod request;
pub mod storage_capacity;
pub mod storage_class;
pub mod volume;

pub use attachment::{AttachmentFacts, VolumeAttachment};
pub use claim::{ClaimFacts, ClaimKey, PersistentVolumeClaim};
pub use csi_node::{CsiNode, CsiNodeFacts};
pub use of_pod::{PodClaim, PodVolumes, UnusableClaim, WhyUnusable};
pub use request::{ClaimRequest, LARGEST_SELECTOR, VolumeOffer};
pub use storage_capacity::{CapacityFacts, CapacityKey, CsiDriver, CsiDriverFacts, CsiStorageCapacity};
pub use storage_class::StorageClassFacts;
pub use volume::{PersistentVolume, ReservedFor, VolumeAffinity, VolumeFacts, VolumeId, VolumeZone};
