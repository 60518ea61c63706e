//! A trial of placements for one PodGroup: what it holds itself is not in its way.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{GroupKey, PriorityClassFacts, Uid};
use crate::by_key::ByKey;
use crate::cycle::placement::Strategy;
use crate::cycle::placement::placer::{Placer, State};

use super::demands::Sharing;
use super::{Cache, Group, Member};

/// What may be read beside an open trial.
pub(in crate::cycle) struct Beside<'c> {
    pub(in crate::cycle) pods: &'c ByKey<Uid, Member>,
    pub(in crate::cycle) groups: &'c ByKey<GroupKey, Group>,
    pub(in crate::cycle) priority_classes: &'c BTreeMap<String, PriorityClassFacts>,
    pub(in crate::cycle) sharing: &'c Sharing,
}

impl Cache {
    /// Opens a trial of placements for the PodGroup in this queue. Its reservation (A4) and the places that are kept for its lost members (A8)
    /// are set aside. Nodes on which its last bindings were refused are used only where no other fits.
    pub(in crate::cycle) fn placer(&mut self, key: &GroupKey, queue: &str, strategy: Strategy) -> (Placer<'_>, Beside<'_>) {
        let (mut placer, beside) = self.placer_beside_holds(key, queue, strategy);
        if let Some(Group { admission, .. }) = beside.groups.get(key) {
            admission.reservation.iter().for_each(|name| placer.trial().release_reservation(name));
            admission.kept.iter().for_each(|uid| placer.trial().set_aside(uid));
        }
        (placer, beside)
    }

    /// Does the same, and nothing is set aside: what is placed, is placed beside what the PodGroup has reserved, which stays.
    pub(in crate::cycle) fn placer_beside_holds(&mut self, key: &GroupKey, queue: &str, strategy: Strategy) -> (Placer<'_>, Beside<'_>) {
        let barred = self.barred_groups(queue);
        let Self { accounting, nodes, on_nodes, classes, finder, nominated_by_others, pods, groups, priority_classes, sharing, .. } = self;
        let state = State { accounting, nodes, placed: on_nodes, classes, finder, barred, nominated: nominated_by_others };
        let nowhere = BTreeSet::new();
        let placer = Placer::new(state, strategy, groups.get(key).map_or(&nowhere, |group| &group.retry.last));
        (placer, Beside { pods, groups, priority_classes, sharing })
    }
}
