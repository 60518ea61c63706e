//! The modelled API server and the other writers of the cluster. S1 and S2 are checked when a DELETE is applied, because only a DELETE can
//! break them.

use crate::mutant::Mutant;
use crate::protocol::{Guards, protocol, slot_of};
use crate::values::{At, Back, Broken, Group, Labels, Life, Listing, ORPHAN, Pod, Req, SLOTS, Seen, Sent, State, UNREADABLE};

impl State {
    /// Returns the length of the history of a kind: 0 owners, 1 pods, 2 PodGroups.
    pub(crate) fn length(&self, kind: usize) -> usize {
        [self.owners_seen.len(), self.pods_seen.len(), self.groups_seen.len()][kind]
    }

    /// Applies a request and returns the reply. `cache` is the position of the sender's watch of pods, for a mutant.
    pub(crate) fn apply(&mut self, sent: &Sent, mutant: Mutant, cache: usize) -> (Back, Option<Listing>) {
        let slot = usize::from(sent.slot);
        let back = match sent.req {
            Req::Read => self.groups[slot].map_or(Back::NotFound, |group| Back::Object(group.seen())),
            Req::ListMembers(_) => return self.list_members(slot, sent, mutant, cache),
            Req::Create(_) if self.groups[slot].is_some() => Back::Conflict,
            Req::Create(to) => {
                self.last_uid += 1;
                let spec = protocol().created[usize::from(to)];
                let group =
                    Group { uid: self.last_uid, at: 0, marked: false, owned: true, applied: to, spec, ending: false, foreign: false };
                self.put(slot, Some(group))
            }
            Req::Amend { on, from, to, adopt } => {
                let guards = without(protocol().amend, mutant == Mutant::AmendWithoutVersion);
                self.patch(slot, on, guards, |group| {
                    let from = if from == UNREADABLE { 4 } else { usize::from(from) };
                    let (size, queue) = protocol().amended[from][usize::from(to)];
                    group.spec = size.unwrap_or(group.spec & 1) | queue.unwrap_or(group.spec >> 1) << 1;
                    group.applied = to;
                    group.owned |= adopt && mutant != Mutant::NeverAdopt;
                })
            }
            Req::Mark(on) => {
                let guards = without(protocol().mark, mutant == Mutant::MarkWithoutVersion);
                self.patch(slot, on, guards, |group| group.marked = true)
            }
            Req::Unmark(on) => {
                let guards = without(protocol().unmark, mutant == Mutant::UnmarkWithoutVersion);
                self.patch(slot, on, guards, |group| group.marked = false)
            }
            Req::Delete(on) => self.delete(slot, on, sent.listing, mutant),
        };
        (back, None)
    }

    /// Lists the members with the label selectors of the real code, from a quorum.
    fn list_members(&mut self, slot: usize, sent: &Sent, mutant: Mutant, cache: usize) -> (Back, Option<Listing>) {
        let member = |pod: &Pod| slot_of(*pod) == Some(slot);
        let truth = self.pods.iter().any(|pod| member(&pod));
        let listed = |pod: &Pod| protocol().listed[pod.labels as usize];
        let shown = match mutant {
            Mutant::ListBySelector => self.pods.iter().any(|pod| member(&pod) && pod.labels == Labels::Selected),
            Mutant::ListByLabel => self.pods.iter().any(|pod| pod.stamp == sent.slot + 1),
            Mutant::ListFromCache => self.pods_seen[cache].iter().any(|pod| member(&pod)),
            _ => self.pods.iter().any(|pod| member(&pod) && listed(&pod)),
        };
        (Back::Members(shown), sent.listing.map(|listing| Listing { member: truth, ..listing }))
    }

    fn patch(&mut self, slot: usize, on: At, guards: Guards, change: impl FnOnce(&mut Group)) -> Back {
        let Some(group) = self.groups[slot] else { return Back::NotFound };
        if refuses(&group, on, guards) {
            return Back::Conflict;
        }
        let mut changed = group;
        change(&mut changed);
        // A patch that changes nothing creates no new version.
        if changed == group { Back::Object(group.seen()) } else { self.put(slot, Some(changed)) }
    }

    fn delete(&mut self, slot: usize, on: At, listing: Option<Listing>, mutant: Mutant) -> Back {
        let Some(group) = self.groups[slot] else { return Back::NotFound };
        let by_name = mutant == Mutant::DeleteByName;
        let guards = Guards {
            uid: protocol().delete.uid && !by_name && mutant != Mutant::DeleteWithoutUid,
            at: protocol().delete.at && !by_name && mutant != Mutant::DeleteWithoutVersion,
        };
        if refuses(&group, on, guards) {
            return Back::Conflict;
        }
        if group.uid != on.0 {
            self.broken = Some(Broken::S1);
        } else if !group.marked || listing != Some(Listing { under_mark: true, member: false }) {
            self.broken = Some(Broken::S2);
        }
        self.begin_end(slot)
    }

    /// Deletes a PodGroup. One with a finalizer is ending first.
    fn begin_end(&mut self, slot: usize) -> Back {
        match self.groups[slot].filter(|_| self.finalizers) {
            Some(group) if group.ending => Back::Object(group.seen()),
            Some(group) => self.put(slot, Some(Group { ending: true, ..group })),
            None => self.put(slot, None),
        }
    }

    /// The last finalizer of the PodGroup is removed.
    pub(crate) fn finish_end(&mut self, slot: usize) {
        self.put(slot, None);
    }

    /// Another client makes a PodGroup with the generated name.
    pub(crate) fn create_foreign(&mut self, slot: usize) {
        self.last_uid += 1;
        let (uid, applied) = (self.last_uid, UNREADABLE);
        self.put(slot, Some(Group { uid, at: 0, marked: false, owned: false, applied, spec: 0, ending: false, foreign: true }));
    }

    /// Writes or removes the PodGroup, with the next version and its event. When a mark is removed, earlier lists of members no longer count.
    fn put(&mut self, slot: usize, group: Option<Group>) -> Back {
        self.last_at += 1;
        let at = self.last_at;
        self.groups[slot] = group.map(|group| Group { at, ..group });
        let seen = self.groups[slot].map(|group| group.seen());
        let mut groups = *self.groups_seen.last().expect("a history has an end");
        groups[slot] = seen;
        self.groups_seen.push(groups);
        if seen.is_none_or(|seen| !seen.retiring) {
            self.end_looks(slot);
        }
        seen.map_or(Back::Deleted, Back::Object)
    }

    fn end_looks(&mut self, slot: usize) {
        let end = |listing: &mut Option<Listing>| listing.iter_mut().for_each(|listing| listing.under_mark = false);
        for ctrl in &mut self.ctrls {
            end(&mut ctrl.local[slot].listing);
            ctrl.local[slot].flight.iter_mut().for_each(|flight| end(&mut flight.sent.listing));
            ctrl.late.iter_mut().filter(|sent| usize::from(sent.slot) == slot).for_each(|sent| end(&mut sent.listing));
        }
    }

    /// Writes a status. There is no subresource, so the resourceVersion grows.
    pub(crate) fn status(&mut self, slot: usize) {
        let group = self.groups[slot];
        self.put(slot, group);
    }

    /// A person or the garbage collector deletes the PodGroup.
    pub(crate) fn remove(&mut self, slot: usize) {
        self.begin_end(slot);
    }

    /// Removes the owner reference of the PodGroup.
    pub(crate) fn strip(&mut self, slot: usize) {
        let group = self.groups[slot].map(|group| Group { owned: false, ..group });
        self.put(slot, group);
    }

    /// Makes the fields that were written last unreadable.
    pub(crate) fn garble(&mut self, slot: usize) {
        let group = self.groups[slot].map(|group| Group { applied: UNREADABLE, ..group });
        self.put(slot, group);
    }

    /// Changes the pods, and adds an event if they differ.
    pub(crate) fn change_pods(&mut self, change: impl FnOnce(&mut [Option<Pod>])) {
        let before = self.pods;
        change(&mut self.pods.0);
        self.pods.sort();
        if self.pods != before {
            self.pods_seen.push(self.pods);
        }
    }

    /// Changes an owner, and adds an event if a watch shows the change.
    pub(crate) fn change_owner(&mut self, slot: usize, change: impl FnOnce(&mut crate::values::Owner)) {
        change(&mut self.owners[slot]);
        let mut owners = *self.owners_seen.last().expect("a history has an end");
        owners[slot] = self.owners[slot].shown(self.set);
        if self.owners_seen.last() != Some(&owners) {
            self.owners_seen.push(owners);
        }
        for slot in 0..SLOTS {
            // The owners of a set exist until they are collected.
            if self.owners[slot].life != Life::Alive && !self.set {
                self.owners[slot] = crate::values::Owner { life: self.owners[slot].life, ..Default::default() };
            }
        }
    }

    /// Returns whether any object still has an owner reference to this owner.
    pub(crate) fn has_dependents(&self, slot: usize) -> bool {
        self.pods.iter().any(|pod| usize::from(pod.of) == slot) || self.groups[slot].is_some_and(|group| group.owned)
    }

    /// Orphans the pods of an owner that is deleted without them.
    pub(crate) fn leave_pods(&mut self, slot: usize) {
        self.change_pods(|pods| {
            pods.iter_mut().flatten().filter(|pod| usize::from(pod.of) == slot).for_each(|pod| pod.of = ORPHAN);
        });
    }
}

fn without(guards: Guards, version: bool) -> Guards {
    Guards { at: guards.at && !version, ..guards }
}

fn refuses(group: &Group, on: At, guards: Guards) -> bool {
    (guards.uid && group.uid != on.0) || (guards.at && group.at != on.1)
}

/// Returns the UID of a PodGroup that disappeared between two states of a cache.
pub(crate) fn disappeared(before: Option<Seen>, after: Option<Seen>) -> Option<u8> {
    before.filter(|_| after.is_none()).map(|seen| seen.uid)
}
