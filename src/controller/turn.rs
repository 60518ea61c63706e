//! What does the loop keep of one group: while its key is worked on, and between two turns?

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{GroupKey, Uid};
use crate::lifecycle::{Answer, Complaint, Intent, Memory, Sight, Step, Version};
use crate::runtime::backoff::Backoff;
use crate::runtime::workqueue::Work;

use super::observed::PodRef;

/// How long a look that saw a member waits for the cache to show it before it is doubted; longer each time, since some members are never shown
/// (a pod that cannot be read, or that another scheduler places).
const CACHE_LAG: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(300));

/// How long an owner must have wanted no pods before its group is retired. Who flaps keeps the group, which costs no write; who does not waits
/// a moment longer for nothing to happen. No promise rests on it: the protocol is right with 0.
const LINGER: Duration = Duration::from_secs(1);

/// The same where the owner wants pods, its template names another scheduler, and the last pod that a webhook gave to us is gone: a Job makes the next
/// one a second later, or ten if the last has failed.
const LINGER_FOR_THE_NEXT: Duration = Duration::from_secs(30);

/// How long the API server must have refused the same before people are told.
const REFUSAL_STAYS: Duration = Duration::from_secs(3);

/// How patiently what the API server refused is tried again. Longer than after a failure, since it is somebody's quota or policy: a tenant with a thousand
/// pods that may have no PodGroup must not keep everybody else waiting.
const REFUSED: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// Pods that are stamped in one turn.
pub(super) const STAMPS: usize = 16;

/// What the API server would not have.
pub(super) struct Refused {
    intent: Option<Intent>,
    /// Its first words.
    why: String,
    since: Instant,
    times: u32,
    /// The same is not tried again before this.
    not_before: Instant,
}

/// A key's turn: while it lives, nobody else works on the key.
pub(super) struct Turn {
    /// None once it has ended.
    work: Option<Work<GroupKey>>,
    pub(super) key: GroupKey,
    pub(super) steps: u8,
    /// Something failed that will be tried again after this key's back-off.
    pub(super) failing: bool,
}

impl Turn {
    pub(super) fn new(work: Work<GroupKey>) -> Self {
        Self { key: work.key().clone(), work: Some(work), steps: 0, failing: false }
    }

    /// It is done, or failed and comes back after the back-off.
    pub(super) fn end(mut self) {
        match self.work.take() {
            Some(work) if self.failing => drop(work.failed()),
            Some(work) => work.succeeded(),
            None => {}
        }
    }

    /// It is done, and wants to be looked at again after this time at the latest.
    pub(super) fn end_until(mut self, delay: Duration) {
        if self.failing {
            self.end();
        } else if let Some(work) = self.work.take() {
            work.again_after(delay);
        }
    }
}

impl Drop for Turn {
    /// A turn that was lost, by a panic, is a failure of its key: it comes back after the back-off.
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let _again = work.failed();
        }
    }
}

/// How often a look has been doubted, and until when the last one is believed.
#[derive(Clone, Copy, Default)]
pub(super) struct Doubts {
    pub(super) number: u32,
    pub(super) until: Option<Instant>,
}

/// What is kept of one group between turns.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) memory: Memory,
    /// What the server said of which intent. The first words stay: some servers put a number or a time in them, and each text is an Event.
    pub(super) refused: Option<Refused>,
    pub(super) doubts: Doubts,
    /// Since when the group is missing, as far as it is known to be needed.
    pub(super) missing_since: Option<Instant>,
    /// The version whose DELETE a precondition refused, until a read has shown what is there instead.
    pub(super) refused_delete: Option<Version>,
    /// Since when nobody needs the group.
    pub(super) idle_since: Option<Instant>,
    pub(super) told: BTreeSet<Complaint>,
    pub(super) stamped: BTreeSet<Uid>,
    /// How often a pod's stamp was tried in vain: those that failed less go first, so that pods which cannot be patched hold up no others.
    pub(super) not_stamped: BTreeMap<Uid, u32>,
}

impl Kept {
    /// The pods to stamp next, of those that do not name their group.
    pub(super) fn next_to_stamp(&mut self, unstamped: &[PodRef]) -> Vec<PodRef> {
        let here = |uid: &Uid| unstamped.iter().any(|pod| pod.uid == *uid);
        self.stamped.retain(here);
        self.not_stamped.retain(|uid, _| here(uid));
        let mut next: Vec<&PodRef> = unstamped.iter().filter(|pod| !self.stamped.contains(&pod.uid)).collect();
        next.sort_by_key(|pod| (self.not_stamped.get(&pod.uid).copied().unwrap_or(0), &pod.uid));
        next.into_iter().take(STAMPS).cloned().collect()
    }

    /// What became of the pods that were to be stamped.
    pub(super) fn have_stamped(&mut self, tried: &[PodRef], stamped: Vec<Uid>) {
        for pod in tried.iter().filter(|pod| !stamped.contains(&pod.uid)) {
            let times = self.not_stamped.entry(pod.uid.clone()).or_default();
            *times = times.saturating_add(1);
        }
        self.stamped.extend(stamped);
    }

    /// How long this step still waits, so that an owner that flaps keeps its group; none for a step that is due.
    pub(super) fn linger(&mut self, step: &Step, may_be_ours: bool, now: Instant) -> Option<Duration> {
        if !matches!(step, Step::Mark(_)) {
            self.idle_since = None;
            return None;
        }
        let due = *self.idle_since.get_or_insert(now) + if may_be_ours { LINGER_FOR_THE_NEXT } else { LINGER };
        Some(due.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Where a look saw a member that the cache has not shown: how long to wait for it still. Nothing left is the end of the wait: the look is doubted.
    pub(super) fn wait_for_pods(&mut self, now: Instant) -> Option<Duration> {
        if !self.memory.waits_for_pods() {
            self.doubts.until = None;
            return None;
        }
        let until = self.doubts.until.unwrap_or_else(|| {
            self.doubts.number = self.doubts.number.saturating_add(1);
            now + CACHE_LAG.delay(self.doubts.number)
        });
        self.doubts.until = Some(until).filter(|until| *until > now);
        if self.doubts.until.is_none() {
            self.memory.saw(Sight::Waited);
        }
        Some(until.saturating_duration_since(now))
    }

    /// One line for a DELETE that a precondition refused: what was decided on, and what was met. The refusal itself names only the half that differed, so
    /// it is said when the read that follows has shown the whole.
    pub(super) fn report_refused_delete(&mut self, key: &GroupKey, step: &Step, answer: &Answer) {
        match (step, answer) {
            (Step::Delete(version), Answer::Old) => self.refused_delete = Some(version.clone()),
            (Step::Read, Answer::Is(_) | Answer::Absent) => {
                let Some(decided) = self.refused_delete.take() else { return };
                let met = if let Answer::Is(existing) = answer { Some(existing.version()) } else { None };
                tracing::info!(
                    group = %key,
                    decided_uid = %decided.uid,
                    decided_resource_version = decided.resource_version,
                    met_uid = met.map_or("none", |version| version.uid.as_str()),
                    met_resource_version = met.map_or("none", |version| version.resource_version.as_str()),
                    "a precondition refused the delete"
                );
            }
            _ => {}
        }
    }

    /// The server will not have this step.
    pub(super) fn refuse(&mut self, step: &Step, why: String, now: Instant) {
        let intent = step.intent().cloned();
        match &mut self.refused {
            Some(refused) if refused.intent == intent => {
                refused.times = refused.times.saturating_add(1);
                refused.not_before = now + REFUSED.delay(refused.times);
            }
            _ => self.refused = Some(Refused { intent, why, since: now, times: 1, not_before: now + REFUSED.delay(1) }),
        }
    }

    /// How long this step still waits, since the API server has refused the same before, whatever has happened since; none for a step that is due.
    pub(super) fn wait_for_refused(&self, step: &Step, now: Instant) -> Option<Duration> {
        let refused = self.refused.as_ref().filter(|refused| step.intent().is_some() && refused.intent.as_ref() == step.intent())?;
        Some(refused.not_before.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// What people must be told of a refusal: only one that stays. An API server that has just been started answers everybody with 403 for a moment.
    pub(super) fn refusal_to_tell(&self, now: Instant) -> Option<&str> {
        let refused = self.refused.as_ref().filter(|refused| now.saturating_duration_since(refused.since) >= REFUSAL_STAYS)?;
        Some(&refused.why)
    }
}

/// One line for each change of a group; nothing for what only asks.
pub(super) fn report(key: &GroupKey, step: &Step, answer: &Answer) {
    match (step, answer) {
        (Step::Read | Step::Look(_) | Step::Rest, _) => tracing::debug!(group = %key, step = step.name(), ?answer, "asked"),
        (_, Answer::Is(existing)) => {
            let version = existing.version();
            tracing::info!(group = %key, step = step.name(), uid = %version.uid, resource_version = version.resource_version, "written");
        }
        (_, Answer::Gone(uid)) => tracing::info!(group = %key, step = step.name(), %uid, "gone"),
        (_, Answer::Refused(why)) => tracing::warn!(group = %key, step = step.name(), why, "refused"),
        (_, Answer::Unknown) => tracing::warn!(group = %key, step = step.name(), "the outcome is not known; it is read again"),
        (_, Answer::Later(wait)) => tracing::debug!(group = %key, step = step.name(), ?wait, "the API server wants it later"),
        (_, Answer::Old | Answer::Absent | Answer::Looked { .. }) => {
            tracing::debug!(group = %key, step = step.name(), ?answer, "what was known is old")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::{Existing, NotOurs};

    #[tokio::test(start_paused = true)]
    async fn a_group_is_retired_only_after_nobody_has_needed_it_for_a_second() {
        let mark = Step::Mark(Version { uid: Uid::from("u"), resource_version: "1".to_owned() });
        let (mut kept, start) = (Kept::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(kept.linger(&mark, false, start), Some(LINGER));
        assert_eq!(kept.linger(&mark, false, after(600)), Some(Duration::from_millis(400)));
        assert_eq!(kept.linger(&Step::Rest, false, after(700)), None, "it is needed again, and keeps its place");
        assert_eq!(kept.linger(&mark, false, after(1100)), Some(LINGER), "the second begins anew");
        assert_eq!(kept.linger(&mark, false, after(2100)), None, "now it is due");
        assert_eq!(kept.linger(&mark, true, after(2100)), Some(Duration::from_secs(29)), "unless the next pod may come at any moment");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_told_when_it_stays() {
        let read = Step::Read;
        let (mut kept, start) = (Kept::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(kept.refusal_to_tell(start), None);
        kept.refuse(&read, "not yet".to_owned(), start);
        kept.refuse(&read, "still not".to_owned(), after(2900));
        assert_eq!(kept.refusal_to_tell(after(2900)), None);
        assert_eq!(kept.refusal_to_tell(after(3000)), Some("not yet"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_is_not_sent_again_before_its_time_whatever_happens() {
        let create = |queue: &str| {
            let fields = crate::lifecycle::Applied { queue: queue.to_owned(), ..Default::default() };
            let (api_version, kind, namespace, name) = ("v1".to_owned(), "Pod".to_owned(), "ns".to_owned(), "p".to_owned());
            let owner = crate::api::workload::ObjectRef { kind, api_version, namespace, name, uid: Uid::from("u") };
            Step::Create(Intent { group: GroupKey::new("ns", "g"), owner, fields })
        };
        let (mut kept, start) = (Kept::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(kept.wait_for_refused(&create("a"), start), None);
        kept.refuse(&create("a"), "a quota".to_owned(), start);
        assert_eq!(kept.wait_for_refused(&create("a"), start), Some(Duration::from_secs(1)));
        assert_eq!(kept.wait_for_refused(&create("a"), after(1)), None, "now it is due");
        assert_eq!(kept.wait_for_refused(&create("b"), start), None, "something else may be had");
        assert_eq!(kept.wait_for_refused(&Step::Read, start), None);
        for time in [1, 3, 7] {
            kept.refuse(&create("a"), "a quota".to_owned(), after(time));
        }
        assert_eq!(kept.wait_for_refused(&create("a"), after(7)), Some(Duration::from_secs(8)), "longer each time");
    }

    #[test]
    fn pods_that_cannot_be_stamped_hold_up_no_others() {
        let pods: Vec<PodRef> = (0..40).map(|number| PodRef { name: "p".into(), uid: Uid::from(format!("{number:02}")) }).collect();
        let mut kept = Kept::default();
        let mut tried = BTreeSet::new();
        for _ in 0..3 {
            // None can be patched: the same ones would be first each time.
            let now = kept.next_to_stamp(&pods);
            assert_eq!(now.len(), STAMPS);
            kept.have_stamped(&now, Vec::new());
            tried.extend(now);
        }
        assert_eq!(tried.len(), 40);
        let new = PodRef { name: "p".into(), uid: Uid::from("99") };
        let with_new: Vec<PodRef> = pods.iter().cloned().chain([new.clone()]).collect();
        assert_eq!(kept.next_to_stamp(&with_new).first(), Some(&new), "one that never failed does not wait for them");
        kept.stamped = pods.iter().map(|pod| pod.uid.clone()).collect();
        assert_eq!(kept.next_to_stamp(&pods), vec![]);
        assert_eq!(kept.next_to_stamp(&pods[..1]), vec![]);
        assert_eq!(kept.stamped.len(), 1, "what is shown as stamped is forgotten");
    }

    #[test]
    fn a_refused_delete_is_told_once_when_a_read_has_shown_what_is_there() {
        let decided = Version { uid: Uid::from("u"), resource_version: "1".to_owned() };
        let met = Answer::Is(Existing::Foreign(Version { uid: Uid::from("v"), resource_version: "7".to_owned() }, NotOurs::Unlabelled));
        let key = GroupKey::new("ns", "g");
        for (answer, told) in [(Answer::Unknown, false), (Answer::Old, false), (met, true), (Answer::Absent, true)] {
            let mut kept = Kept::default();
            kept.report_refused_delete(&key, &Step::Delete(decided.clone()), &Answer::Gone(decided.uid.clone()));
            assert_eq!(kept.refused_delete, None, "it was not refused");
            kept.report_refused_delete(&key, &Step::Delete(decided.clone()), &Answer::Old);
            kept.report_refused_delete(&key, &Step::Read, &answer);
            assert_eq!(kept.refused_delete.is_none(), told, "{answer:?}");
        }
    }
}
