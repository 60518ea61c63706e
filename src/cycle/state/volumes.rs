//! Takes in changes of claims, volumes and CSI drivers: the pods that they concern are read again.

use std::sync::Arc;

use crate::api::volumes::{
    AttachmentFacts, CapacityFacts, CapacityKey, ClaimFacts, ClaimKey, CsiDriverFacts, CsiNodeFacts, StorageClassFacts, VolumeFacts,
};
use crate::api::{PodFacts, Uid};
use crate::cycle::holds::Kind;

use super::SchedulingState;

impl SchedulingState {
    /// Sets that the storage objects are not known: claims require nothing of nodes. For a state that is made to answer one question.
    pub const fn ignore_volumes(&mut self) {
        self.cache.ignore_volumes();
    }

    /// Adds or updates a claim.
    pub fn apply_claim(&mut self, facts: ClaimFacts) {
        self.holds.claim_changed(&facts.key);
        let pods = self.cache.set_claim(&facts.key.clone(), Some(facts));
        self.read_again(pods);
    }

    /// Removes a claim.
    pub fn delete_claim(&mut self, key: &ClaimKey) {
        self.holds.claim_changed(key);
        let pods = self.cache.set_claim(key, None);
        self.read_again(pods);
    }

    /// Adds or updates a volume.
    pub fn apply_volume(&mut self, facts: VolumeFacts) {
        self.reserved_volume_changed(&facts.name);
        let pods = self.cache.set_volume(&Arc::clone(&facts.name), Some(facts));
        self.read_again(pods);
    }

    /// Removes a volume.
    pub fn delete_volume(&mut self, name: &Arc<str>) {
        self.reserved_volume_changed(name);
        let pods = self.cache.set_volume(name, None);
        self.read_again(pods);
    }

    /// Adds or updates a StorageClass.
    pub fn apply_storage_class(&mut self, facts: StorageClassFacts) {
        let pods = self.cache.set_storage_class(&Arc::clone(&facts.name), Some(facts));
        self.read_again(pods);
    }

    /// Removes a StorageClass.
    pub fn delete_storage_class(&mut self, name: &Arc<str>) {
        let pods = self.cache.set_storage_class(name, None);
        self.read_again(pods);
    }

    /// Adds or updates a CSINode.
    pub fn apply_csi_node(&mut self, facts: CsiNodeFacts) {
        let pods = self.cache.set_csi_node(&Arc::clone(&facts.node), Some(facts));
        self.read_again(pods);
    }

    /// Removes a CSINode.
    pub fn delete_csi_node(&mut self, name: &Arc<str>) {
        let pods = self.cache.set_csi_node(name, None);
        self.read_again(pods);
    }

    /// Adds or updates a VolumeAttachment.
    pub fn apply_attachment(&mut self, facts: AttachmentFacts) {
        let pods = self.cache.set_attachment(&Arc::clone(&facts.name), Some(facts));
        self.read_again(pods);
    }

    /// Removes a VolumeAttachment.
    pub fn delete_attachment(&mut self, name: &Arc<str>) {
        let pods = self.cache.set_attachment(name, None);
        self.read_again(pods);
    }

    /// Adds or updates a CSIDriver.
    pub fn apply_csi_driver(&mut self, facts: CsiDriverFacts) {
        let pods = self.cache.set_csi_driver(&Arc::clone(&facts.name), Some(facts));
        self.read_again(pods);
    }

    /// Removes a CSIDriver.
    pub fn delete_csi_driver(&mut self, name: &Arc<str>) {
        let pods = self.cache.set_csi_driver(name, None);
        self.read_again(pods);
    }

    /// Adds or updates a CSIStorageCapacity.
    pub fn apply_capacity(&mut self, facts: CapacityFacts) {
        let pods = self.cache.set_capacity(&facts.key.clone(), Some(facts));
        self.read_again(pods);
    }

    /// Removes a CSIStorageCapacity.
    pub fn delete_capacity(&mut self, key: &CapacityKey) {
        let pods = self.cache.set_capacity(key, None);
        self.read_again(pods);
    }

    /// A volume that is reserved for a claim changed or is gone.
    fn reserved_volume_changed(&mut self, name: &str) {
        if self.cache.volumes().is_reserved(name) {
            self.holds.all_changed(Kind::Claims);
        }
    }

    /// Finds again what the claims of these pods mean. A pod for which that is the same is not changed.
    fn read_again(&mut self, pods: Vec<Uid>) {
        for uid in pods {
            let Some(facts) = self.cache.pods().get(&uid).map(|member| PodFacts::clone(&member.facts)) else { continue };
            self.apply_pod(facts);
        }
        self.follow();
    }
}
