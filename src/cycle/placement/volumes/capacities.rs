//! Is there enough storage for a new volume on a node?
//!
//! The rule of kube-scheduler 1.36 (`plugins/volumebinding`, `hasEnoughCapacity`). Only drivers are asked that publish their capacity. One
//! object of the class must cover the node with enough for the whole volume; several are not added up. Nothing is reserved: two claims may
//! count on the same storage, and the provisioner refuses the second one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::label_selector::{LabelSelector, Requirement, ValueRequirement};
use crate::api::volumes::{CapacityFacts, CapacityKey, CsiDriverFacts};
use crate::resources::Amount;

use super::{Affected, Volumes};

/// What drivers publish about their storage.
#[derive(Debug, Default)]
pub(super) struct Capacities {
    /// The drivers that publish their capacity.
    drivers: BTreeSet<Arc<str>>,
    all: BTreeMap<CapacityKey, Arc<CapacityFacts>>,
    by_class: BTreeMap<Arc<str>, OfClass>,
}

/// The capacities of one class. Many drivers publish one for each node, so they are found by a label that the node must have.
#[derive(Debug, Default)]
struct OfClass {
    /// By key and value of that label.
    by_label: BTreeMap<String, BTreeMap<String, BTreeMap<CapacityKey, Arc<CapacityFacts>>>>,
    /// The capacities that require no label with one of some values.
    others: BTreeMap<CapacityKey, Arc<CapacityFacts>>,
}

impl Capacities {
    /// Returns whether a volume of this size can be made for a node with these labels by the driver of the class.
    pub(super) fn suffice(&self, driver: &str, class: &str, size: Amount, labels: &BTreeMap<String, String>) -> bool {
        // A claim without a size asks for no storage.
        if size.is_zero() || !self.drivers.contains(driver) {
            return true;
        }
        let Some(of_class) = self.by_class.get(class) else { return false };
        let with_label = of_class.by_label.iter().filter_map(|(key, values)| values.get(labels.get(key)?));
        let mut found = with_label.chain([&of_class.others]).flat_map(BTreeMap::values);
        found.any(|capacity| capacity.largest.is_some_and(|largest| largest >= size) && capacity.nodes.matches(labels))
    }

    fn set(&mut self, key: &CapacityKey, facts: Option<Arc<CapacityFacts>>) {
        if let Some(before) = self.all.remove(key) {
            self.index(&before, false);
        }
        if let Some(facts) = facts {
            self.index(&facts, true);
            self.all.insert(key.clone(), facts);
        }
    }

    fn index(&mut self, facts: &Arc<CapacityFacts>, add: bool) {
        let set = |of: &mut BTreeMap<CapacityKey, Arc<CapacityFacts>>| {
            if add {
                of.insert(facts.key.clone(), Arc::clone(facts));
            } else {
                of.remove(&facts.key);
            }
        };
        let of_class = self.by_class.entry(Arc::clone(&facts.class)).or_default();
        if let Some((key, values)) = required_label(&facts.nodes) {
            let of_key = of_class.by_label.entry(key.clone()).or_default();
            values.iter().for_each(|value| set(of_key.entry(value.clone()).or_default()));
            of_key.retain(|_, of| !of.is_empty());
            if of_key.is_empty() {
                of_class.by_label.remove(key);
            }
        } else {
            set(&mut of_class.others);
        }
        if of_class.by_label.is_empty() && of_class.others.is_empty() {
            self.by_class.remove(&facts.class);
        }
    }
}

/// Returns a label that a node must have, with the values of which it must have one; none where no label is required so.
fn required_label(nodes: &LabelSelector) -> Option<(&String, &BTreeSet<String>)> {
    let LabelSelector::Requirements(requirements) = nodes else { return None };
    requirements
        .iter()
        .find_map(|Requirement { key, value }| if let ValueRequirement::In(values) = value { Some((key, values)) } else { None })
}

impl Volumes {
    /// Returns the names of the drivers that publish their capacity.
    pub fn drivers_with_capacity(&self) -> impl Iterator<Item = &Arc<str>> {
        self.capacities.drivers.iter()
    }

    /// Returns the keys of the known capacities.
    pub fn capacities(&self) -> impl Iterator<Item = &CapacityKey> {
        self.capacities.all.keys()
    }

    /// Records whether a driver publishes its capacity; none where the driver is gone.
    pub fn set_driver(&mut self, name: &Arc<str>, facts: Option<CsiDriverFacts>) -> Affected {
        let publishes = facts.is_some_and(|facts| facts.publishes_capacity);
        let changed = if publishes { self.capacities.drivers.insert(Arc::clone(name)) } else { self.capacities.drivers.remove(name) };
        // Capacity that is not published any more keeps no volume away.
        if !changed || publishes {
            return Affected::default();
        }
        let made_by = self.classes.values().filter(|class| class.provisioner.as_ref() == Some(name));
        Affected { supplied: made_by.flat_map(|class| self.waiting_for(&class.name)).collect(), ..Affected::default() }
    }

    /// Records a capacity; none where it is gone.
    pub fn set_capacity(&mut self, key: &CapacityKey, facts: Option<CapacityFacts>) -> Affected {
        let before = self.capacities.all.get(key);
        if before.map(Arc::as_ref) == facts.as_ref() {
            return Affected::default();
        }
        // Less capacity than before lets no pod in.
        let more = facts.as_ref().filter(|facts| before.is_none_or(|before| facts.may_cover_more_than(before)));
        let supplied = more.map(|facts| self.waiting_for(&facts.class)).unwrap_or_default();
        self.capacities.set(key, facts.map(Arc::new));
        Affected { supplied, ..Affected::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn capacity(name: &str, topology: &Value, size: i64) -> CapacityFacts {
        let object = json!({ "metadata": { "namespace": "csi", "name": name }, "storageClassName": "class", "nodeTopology": topology, "capacity": size });
        CapacityFacts::of(&serde_json::from_value(object).unwrap())
    }

    fn publishing() -> Capacities {
        Capacities { drivers: [Arc::from("d")].into(), ..Capacities::default() }
    }

    fn suffices(of: &Capacities, size: i64, zone: &str) -> bool {
        of.suffice("d", "class", Amount::from_units(size), &[("zone".to_owned(), zone.to_owned())].into())
    }

    #[test]
    fn one_capacity_must_cover_the_node_and_the_size() {
        let mut of = publishing();
        assert!(suffices(&of, 0, "a") && !suffices(&of, 1, "a"));
        let in_zones = |zones: &[&str]| json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": zones }] });
        for facts in [
            capacity("two", &in_zones(&["a", "b"]), 5),
            capacity("one", &in_zones(&["b"]), 7),
            capacity("all", &json!({}), 3),
            capacity("none", &Value::Null, 99),
        ] {
            of.set(&facts.key.clone(), Some(Arc::new(facts)));
        }
        for (zone, most) in [("a", 5), ("b", 7), ("c", 3)] {
            assert!(suffices(&of, most, zone) && !suffices(&of, most + 1, zone), "{zone}");
        }
        assert!(
            of.suffice("d", "other", Amount::ZERO, &BTreeMap::new()) && !of.suffice("d", "other", Amount::from_units(1), &BTreeMap::new())
        );
        assert!(of.suffice("e", "class", Amount::from_units(100), &BTreeMap::new()), "it does not publish its capacity");
    }

    #[test]
    fn a_capacity_that_is_gone_leaves_nothing_behind() {
        let mut of = publishing();
        let topology = json!({ "matchLabels": { "zone": "a" } });
        for (facts, left) in [(capacity("c", &topology, 5), true), (capacity("c", &json!({}), 5), true)] {
            of.set(&facts.key.clone(), Some(Arc::new(facts)));
            assert_eq!(suffices(&of, 5, "a"), left);
        }
        assert!(suffices(&of, 5, "b") && of.by_class["class"].by_label.is_empty());
        of.set(&CapacityKey::new("csi", "c"), None);
        assert!(of.all.is_empty() && of.by_class.is_empty());
    }
}
