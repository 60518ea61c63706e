//! What are volumes of plugins that Kubernetes had before CSI to the CSI drivers that replace them?
//!
//! The rules of `csi-translation-lib` 0.36, as far as a placement depends on them: the handle by which attach limits count a volume, and
//! the node affinity with the topology key of the driver. vSphere and Azure File are translated there, too, but neither attach limits nor
//! node affinity of kube-scheduler use it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::pod::{NodeRequirement, NodeSelectorTerm};

use super::volume::{REGION, REGION_BEFORE, Terms, VolumeId, VolumeSpec, ZONE, ZONE_BEFORE, ZONES};

/// The plugins with their drivers; without a driver a plugin is translated, but counted by no limit.
const DRIVERS: [(&str, Option<&str>); 7] = [
    (GCE.0, Some(GCE.1)),
    (AWS.0, Some(AWS.1)),
    (AZURE.0, Some(AZURE.1)),
    (CINDER.0, Some(CINDER.1)),
    (PORTWORX.0, Some(PORTWORX.1)),
    ("kubernetes.io/azure-file", None),
    ("kubernetes.io/vsphere-volume", None),
];

const GCE: (&str, &str) = ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io");
const AWS: (&str, &str) = ("kubernetes.io/aws-ebs", "ebs.csi.aws.com");
const AZURE: (&str, &str) = ("kubernetes.io/azure-disk", "disk.csi.azure.com");
const CINDER: (&str, &str) = ("kubernetes.io/cinder", "cinder.csi.openstack.org");
const PORTWORX: (&str, &str) = ("kubernetes.io/portworx-volume", "pxd.portworx.com");

/// A volume of a plugin that is migrated to a CSI driver.
#[derive(Debug)]
pub(super) struct Migrated {
    pub(super) plugin: &'static str,
    /// What attach limits count; none where the volume cannot be translated.
    pub(super) id: Option<VolumeId>,
    /// The topology key of the driver; none where the driver keeps the node affinity as it is.
    key: Option<&'static str>,
}

/// Returns the driver of a provisioner, by which volumes of a class are counted; none where it is a plugin that no limit counts.
pub(super) fn driver_of_plugin(provisioner: &str) -> Option<&str> {
    DRIVERS.iter().find(|(plugin, _)| *plugin == provisioner).map_or(Some(provisioner), |(_, driver)| *driver)
}

/// Returns what the volume is to the CSI driver that replaces its plugin; none where there is none.
pub(super) fn of(spec: &VolumeSpec, labels: &BTreeMap<String, String>) -> Option<Migrated> {
    let migrated = |(plugin, driver): (&'static str, &str), handle: Option<String>, key| {
        Some(Migrated { plugin, id: handle.and_then(|handle| VolumeId::new(driver, &handle)), key })
    };
    if let Some(disk) = &spec.gce_persistent_disk {
        return migrated(GCE, gce_handle(&disk.pd_name, labels), Some("topology.gke.io/zone"));
    }
    if let Some(volume) = &spec.aws_elastic_block_store {
        return migrated(AWS, aws_handle(&volume.volume_id), Some("topology.ebs.csi.aws.com/zone"));
    }
    if let Some(disk) = &spec.azure_disk {
        let managed = disk.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case("Managed"));
        return migrated(AZURE, managed.then(|| disk.disk_uri.clone()), None);
    }
    if let Some(volume) = &spec.cinder {
        return migrated(CINDER, Some(volume.volume_id.clone()), Some("topology.cinder.csi.openstack.org/zone"));
    }
    let volume = spec.portworx_volume.as_ref()?;
    migrated(PORTWORX, Some(volume.volume_id.clone()), None)
}

/// A disk in one zone, or in a region of several zones.
fn gce_handle(name: &str, labels: &BTreeMap<String, String>) -> Option<String> {
    let label = |key: &str| labels.get(key).filter(|value| !value.is_empty());
    let zones: Vec<&str> = label(ZONE_BEFORE).or_else(|| label(ZONE)).map_or_else(|| vec![""], |value| value.split(ZONES).collect());
    match zones.as_slice() {
        [""] => Some(format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}")),
        [zone] => Some(format!("projects/UNSPECIFIED/zones/{zone}/disks/{name}")),
        _ => {
            // `us-east1-b` is in the region `us-east1`; all must be in one region.
            let region = |zone: &&str| match zone.split('-').collect::<Vec<_>>().as_slice() {
                [locale, region, _] => Some(format!("{locale}-{region}")),
                _ => None,
            };
            let regions: Option<BTreeSet<String>> = zones.iter().map(region).collect();
            let region = regions.filter(|regions| regions.len() == 1)?.pop_first()?;
            Some(format!("projects/UNSPECIFIED/regions/{region}/disks/{name}"))
        }
    }
}

/// A volume is named `vol-1`, or by a URL `aws://zone/vol-1` or `aws:///vol-1`.
fn aws_handle(id: &str) -> Option<String> {
    let name = match id.strip_prefix("aws://") {
        // A plain name is not looked into.
        None => return Some(id.to_owned()),
        Some(rest) => rest.split_once('/')?.1.trim_matches('/'),
    };
    (name.starts_with("vol-") && !name.contains('/')).then(|| name.to_owned())
}

impl Migrated {
    /// Returns the node affinity of the volume in terms of the driver. A volume that cannot be translated fits no node that has migrated its plugin.
    pub(super) fn terms(&self, terms: Option<&[NodeSelectorTerm]>, labels: &BTreeMap<String, String>) -> Terms {
        if self.id.is_none() {
            return Some(Arc::from([]));
        }
        let Some(key) = self.key else { return terms.map(Arc::from) };
        let mut terms = terms.map(<[NodeSelectorTerm]>::to_vec);
        let names = |terms: &Option<Vec<NodeSelectorTerm>>, label: &str| {
            terms.iter().flatten().flat_map(|term| &term.match_expressions).any(|requirement| requirement.key == label)
        };
        let before =
            !names(&terms, ZONE) && (names(&terms, ZONE_BEFORE) || (!labels.contains_key(ZONE) && labels.contains_key(ZONE_BEFORE)));
        let (zone, region) = if before { (ZONE_BEFORE, REGION_BEFORE) } else { (ZONE, REGION) };
        if has_values(&terms, zone) {
            rename(&mut terms, zone, key);
        } else if let Some(value) = labels.get(zone) {
            let values: BTreeSet<String> = value.split(ZONES).map(|zone| zone.trim().to_owned()).filter(|zone| !zone.is_empty()).collect();
            if !values.is_empty() {
                let in_zones = NodeRequirement { key: key.to_owned(), operator: "In".to_owned(), values: values.into_iter().collect() };
                let terms = terms.get_or_insert_default();
                if terms.is_empty() {
                    terms.push(NodeSelectorTerm::default());
                }
                terms.iter_mut().for_each(|term| term.match_expressions.push(in_zones.clone()));
            }
        }
        if before && has_values(&terms, region) {
            rename(&mut terms, region, REGION);
        }
        terms.map(Arc::from)
    }
}

fn has_values(terms: &Option<Vec<NodeSelectorTerm>>, label: &str) -> bool {
    let all = terms.iter().flatten().flat_map(|term| &term.match_expressions);
    all.filter(|requirement| requirement.key == label).any(|requirement| !requirement.values.is_empty())
}

fn rename(terms: &mut Option<Vec<NodeSelectorTerm>>, from: &str, to: &str) {
    for requirement in terms.iter_mut().flatten().flat_map(|term| &mut term.match_expressions) {
        if requirement.key == from {
            to.clone_into(&mut requirement.key);
        }
    }
}
