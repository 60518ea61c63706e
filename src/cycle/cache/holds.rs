//! Charges of places before a binding: nominated for members that wait for victims (R7), or kept for a lost member (A8).

use std::sync::Arc;

use crate::accounting::{Placement, Shares, Trial};
use crate::api::Uid;
use crate::cycle::explain::Refusal;
use crate::resources::Resources;

use super::{Assumed, Cache};

impl Cache {
    /// Opens a trial of charges, which ends with everything as it was before.
    pub(in crate::cycle) fn trial(&mut self) -> Trial<'_> {
        self.accounting.trial()
    }

    /// Does the same, with the shares of this cycle; none where they were not worked out.
    pub(in crate::cycle) fn trial_and_shares(&mut self) -> (Trial<'_>, Option<&Shares>) {
        (self.accounting.trial(), self.sharing.shares.as_ref())
    }

    /// Charges a nominated place; `refusal` is why its member waits.
    pub(in crate::cycle) fn nominate(&mut self, place: &Placement, refusal: &Arc<Refusal>) {
        self.accounting.nominate(&place.uid, &place.node, &place.queue, &place.resources);
        self.count_nominated(&place.uid, Some(&place.node));
        if let Some(mut member) = self.detach(&place.uid) {
            member.nominated = Some(Assumed::of(place));
            member.refusal = Some(Arc::clone(refusal));
            self.attach(member);
        }
        self.charge_changed(Some(&place.node), Some(&place.queue), false);
    }

    /// Gives a nominated place back.
    pub(in crate::cycle) fn withdraw_nominated(&mut self, place: &Placement) {
        if self.accounting.withdraw(&place.uid) {
            self.charge_changed(Some(&place.node), Some(&place.queue), true);
        }
        if let Some(mut member) = self.detach(&place.uid) {
            member.nominated = None;
            member.refusal = None;
            self.attach(member);
            self.count_nominated(&place.uid, None);
        }
    }

    /// Charges the place of a lost member on its node. What is reserved for it in its queue is the reservation of its gang.
    pub(in crate::cycle) fn keep(&mut self, uid: &Uid, node: &str, resources: &Resources) {
        self.accounting.keep(uid, node, resources);
        self.charge_changed(Some(node), None, false);
    }

    /// Gives the place of a lost member back.
    pub(in crate::cycle) fn drop_kept(&mut self, uid: &Uid, node: &str) {
        self.accounting.withdraw(uid);
        self.charge_changed(Some(node), None, true);
    }
}
