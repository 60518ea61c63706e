//! What the loop remembers of one PodGroup: during an attempt ([`Attempt`]) and between attempts ([`GroupState`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{GroupKey, Uid};
use crate::backoff::Backoff;
use crate::lifecycle::{Answer, CacheChange, Existing, Intent, Memory, Step, Version, Warning};
use crate::runtime::workqueue::Work;

use super::observed::PodRef;
use super::recreations::Recreations;

/// How long the cache has to show a member that a list has shown, before the list is ignored. The time grows with each wait, because the cache never
/// shows some members: a pod that cannot be decoded, or a pod of another scheduler.
const CACHE_LAG: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_secs(300));

/// How long an owner must want no pods before its PodGroup is retired. An owner that is scaled to 0 and back within this time causes no write. The
/// protocol is also correct with a delay of 0.
const RETIREMENT_DELAY: Duration = Duration::from_secs(1);

/// The same delay for an owner that wants pods and has a template with another scheduler, after its last pod with a served scheduler is
/// deleted. A Job creates its next pod a second later, or ten seconds later after a failure, and a webhook may set the scheduler of that
/// pod.
const WEBHOOK_RETIREMENT_DELAY: Duration = Duration::from_secs(30);

/// How long the API server must have refused the same write before an Event reports it.
const REFUSAL_GRACE: Duration = Duration::from_secs(3);

/// How long an owner with nearly the name of a served scheduler must be without a PodGroup before an Event says so. Another release may
/// serve that name, and its controller creates the PodGroup at once.
const MISNAMED_GRACE: Duration = Duration::from_secs(3);

/// The back-off after the API server refused a write. It is longer than the back-off after a failure, because the cause is usually a quota
/// or a policy. A tenant with a thousand pods that may have no PodGroup must not delay other tenants.
const REFUSAL_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// The most pods that are annotated in one attempt.
pub(super) const STAMPS: usize = 16;

/// A write that the API server refused.
pub(super) struct Refusal {
    intent: Option<Intent>,
    /// The message of the first refusal.
    why: String,
    since: Instant,
    times: u32,
    /// The same write is not sent again before this time.
    not_before: Instant,
}

/// An attempt to reconcile one key. While it exists, no other attempt works on the key.
pub(super) struct Attempt {
    /// `None` after the attempt has ended.
    work: Option<Work<GroupKey>>,
    pub(super) key: GroupKey,
    /// The number of steps so far.
    pub(super) steps: u8,
    /// Whether something failed and the key must be retried after its back-off.
    pub(super) failing: bool,
    /// When the key must be requeued although nothing failed; `None` if only an event requeues it.
    pub(super) again: Option<Duration>,
}

impl Attempt {
    pub(super) fn new(work: Work<GroupKey>) -> Self {
        Self { key: work.key().clone(), work: Some(work), steps: 0, failing: false, again: None }
    }

    /// Ends the attempt. A failing key is retried after its back-off.
    pub(super) fn finish(mut self) {
        match (self.work.take(), self.again) {
            (Some(work), _) if self.failing => drop(work.failed()),
            (Some(work), Some(delay)) => work.again_after(delay),
            (Some(work), None) => work.succeeded(),
            (None, _) => {}
        }
    }

    /// Ends the attempt and requeues the key after `delay`. A failing key is retried after its back-off instead.
    pub(super) fn requeue_after(mut self, delay: Duration) {
        self.again = Some(self.again.map_or(delay, |again| again.min(delay)));
        self.finish();
    }
}

impl Drop for Attempt {
    /// An attempt that is dropped by a panic counts as a failure: the key is retried after its back-off.
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let _again = work.failed();
        }
    }
}

/// The wait for the cache to show a member that a list has shown.
#[derive(Clone, Copy, Default)]
pub(super) struct MemberWait {
    /// The number of waits so far.
    pub(super) count: u32,
    /// The end of the current wait; `None` if there is none.
    pub(super) until: Option<Instant>,
}

/// What is remembered of one PodGroup between attempts.
#[derive(Default)]
pub(super) struct GroupState {
    pub(super) memory: Memory,
    /// The last refused write. Only the first message is stored, because some servers write a number or a time into it. Each new text
    /// would be a new Event.
    pub(super) refusal: Option<Refusal>,
    pub(super) member_wait: MemberWait,
    /// How often other clients deleted the PodGroup.
    pub(super) recreations: Recreations,
    /// Since when the PodGroup is missing; `None` if it exists or is not needed.
    pub(super) missing_since: Option<Instant>,
    /// The version of a DELETE that a precondition refused, until a read has shown the current object.
    pub(super) refused_delete: Option<Version>,
    /// Since when the PodGroup is not needed.
    pub(super) unneeded_since: Option<Instant>,
    /// Since when its owner names nearly a served scheduler, and there is no PodGroup.
    pub(super) misnamed_since: Option<Instant>,
    /// The warnings that already have an Event.
    pub(super) reported: BTreeSet<Warning>,
    /// The pods that were annotated, until the cache shows the annotation.
    pub(super) stamped: BTreeSet<Uid>,
    /// The number of failed writes of each pod's annotation. Pods with fewer failures go first, so a pod that cannot be patched delays no other pod.
    pub(super) stamp_failures: BTreeMap<Uid, u32>,
}

impl GroupState {
    /// Returns the pods to annotate next, at most [`STAMPS`]. `unstamped` are the pods of the cache without the annotation.
    pub(super) fn pods_to_stamp(&mut self, unstamped: &[PodRef]) -> Vec<PodRef> {
        let here = |uid: &Uid| unstamped.iter().any(|pod| pod.uid == *uid);
        self.stamped.retain(here);
        self.stamp_failures.retain(|uid, _| here(uid));
        let mut next: Vec<&PodRef> = unstamped.iter().filter(|pod| !self.stamped.contains(&pod.uid)).collect();
        next.sort_by_key(|pod| (self.stamp_failures.get(&pod.uid).copied().unwrap_or(0), &pod.uid));
        next.into_iter().take(STAMPS).cloned().collect()
    }

    /// Records which of the pods `tried` were annotated, and counts a failure for each other one.
    pub(super) fn record_stamps(&mut self, tried: &[PodRef], stamped: Vec<Uid>) {
        for pod in tried.iter().filter(|pod| !stamped.contains(&pod.uid)) {
            let times = self.stamp_failures.entry(pod.uid.clone()).or_default();
            *times = times.saturating_add(1);
        }
        self.stamped.extend(stamped);
    }

    /// Returns how long a mark still waits, so that an owner that is scaled to 0 and back keeps its PodGroup. `None` for a step that is due.
    pub(super) fn retirement_delay(&mut self, step: &Step, awaits_webhook_pods: bool, now: Instant) -> Option<Duration> {
        if !matches!(step, Step::Mark(_)) {
            self.unneeded_since = None;
            return None;
        }
        let delay = if awaits_webhook_pods { WEBHOOK_RETIREMENT_DELAY } else { RETIREMENT_DELAY };
        let due = *self.unneeded_since.get_or_insert(now) + delay;
        Some(due.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Returns how long the warning about the scheduler's name still waits for a PodGroup of another release; zero where it is due. `None`
    /// where there is nothing to warn of.
    pub(super) fn misnamed_delay(&mut self, is_misnamed: bool, now: Instant) -> Option<Duration> {
        if !is_misnamed {
            self.misnamed_since = None;
            return None;
        }
        let due = *self.misnamed_since.get_or_insert(now) + MISNAMED_GRACE;
        Some(due.saturating_duration_since(now))
    }

    /// Returns how long to wait for the cache to show a member that a list has shown. `None` if there is nothing to wait for. Zero ends the
    /// wait: from then on the list is ignored.
    pub(super) fn member_delay(&mut self, now: Instant) -> Option<Duration> {
        if !self.memory.waits_for_cache() {
            self.member_wait.until = None;
            return None;
        }
        let until = self.member_wait.until.unwrap_or_else(|| {
            self.member_wait.count = self.member_wait.count.saturating_add(1);
            now + CACHE_LAG.delay(self.member_wait.count)
        });
        self.member_wait.until = Some(until).filter(|until| *until > now);
        if self.member_wait.until.is_none() {
            self.memory.observe(CacheChange::WaitOver);
        }
        Some(until.saturating_duration_since(now))
    }

    /// Logs one line for a DELETE that a precondition refused: the version that was decided on and the version that was met. The refusal names only
    /// the precondition that failed, so the line is written after the next read.
    pub(super) fn log_refused_delete(&mut self, key: &GroupKey, step: &Step, answer: &Answer) {
        match (step, answer) {
            (Step::Delete(version), Answer::Stale) => self.refused_delete = Some(version.clone()),
            (Step::Read, Answer::Exists(_) | Answer::Absent) => {
                let Some(decided) = self.refused_delete.take() else { return };
                let met = if let Answer::Exists(existing) = answer { Some(existing.version()) } else { None };
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

    /// Returns how long a creation still waits, because other clients deleted the PodGroup again and again. `None` for a step that is due.
    /// `existing` is the latest state of the PodGroup. Logs one line where the wait begins.
    pub(super) fn recreation_delay(&mut self, key: &GroupKey, step: &Step, existing: Option<&Existing>, now: Instant) -> Option<Duration> {
        let Step::Create(intent) = step else {
            self.recreations.seen(existing);
            return None;
        };
        let wait = self.recreations.wait(&intent.owner.uid, now)?;
        if let Some(deletions) = wait.begins_after {
            tracing::warn!(group = %key, deletions, wait = ?wait.left, "other clients delete the PodGroup again and again; it is created again after a wait");
        }
        Some(wait.left)
    }

    /// Records that the API server refused this step, with its message.
    pub(super) fn record_refusal(&mut self, step: &Step, why: String, now: Instant) {
        let intent = step.intent().cloned();
        match &mut self.refusal {
            Some(refusal) if refusal.intent == intent => {
                refusal.times = refusal.times.saturating_add(1);
                refusal.not_before = now + REFUSAL_BACKOFF.delay(refusal.times);
            }
            _ => self.refusal = Some(Refusal { intent, why, since: now, times: 1, not_before: now + REFUSAL_BACKOFF.delay(1) }),
        }
    }

    /// Returns how long this step still waits, because the API server refused the same write before. Events do not shorten the wait. `None`
    /// for a step that is due.
    pub(super) fn refusal_delay(&self, step: &Step, now: Instant) -> Option<Duration> {
        let refusal = self.refusal.as_ref().filter(|refusal| step.intent().is_some() && refusal.intent.as_ref() == step.intent())?;
        Some(refusal.not_before.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Returns the message of a refusal that has lasted for [`REFUSAL_GRACE`]. An API server that has just started answers 403 for a moment.
    pub(super) fn refusal_to_report(&self, now: Instant) -> Option<&str> {
        let refusal = self.refusal.as_ref().filter(|refusal| now.saturating_duration_since(refusal.since) >= REFUSAL_GRACE)?;
        Some(&refusal.why)
    }
}

/// Logs the answer to a step: one line for each write, and a debug line for each read.
pub(super) fn log_answer(key: &GroupKey, step: &Step, answer: &Answer) {
    match (step, answer) {
        (Step::Read | Step::ListMembers(_) | Step::Wait, _) => {
            tracing::debug!(group = %key, step = step.name(), ?answer, "read from the API server")
        }
        (_, Answer::Exists(existing)) => {
            let version = existing.version();
            tracing::info!(group = %key, step = step.name(), uid = %version.uid, resource_version = version.resource_version, "PodGroup written");
        }
        (_, Answer::Gone(uid)) => tracing::info!(group = %key, step = step.name(), %uid, "PodGroup deleted"),
        (_, Answer::Refused(why)) => tracing::warn!(group = %key, step = step.name(), why, "the API server refused the write"),
        (_, Answer::Unknown) => {
            tracing::warn!(group = %key, step = step.name(), "the result of the write is unknown; reading the PodGroup again")
        }
        (_, Answer::Later(wait)) => tracing::debug!(group = %key, step = step.name(), ?wait, "the API server asked for a retry later"),
        (_, Answer::Stale | Answer::Absent | Answer::MembersListed { .. }) => {
            tracing::debug!(group = %key, step = step.name(), ?answer, "the cached PodGroup is out of date; deciding again")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::NotOurs;

    #[tokio::test(start_paused = true)]
    async fn a_podgroup_is_retired_only_after_it_was_not_needed_for_a_second() {
        let mark = Step::Mark(Version { uid: Uid::from("u"), resource_version: "1".to_owned() });
        let (mut state, start) = (GroupState::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(state.retirement_delay(&mark, false, start), Some(RETIREMENT_DELAY));
        assert_eq!(state.retirement_delay(&mark, false, after(600)), Some(Duration::from_millis(400)));
        assert_eq!(state.retirement_delay(&Step::Wait, false, after(700)), None, "it is needed again");
        assert_eq!(state.retirement_delay(&mark, false, after(1100)), Some(RETIREMENT_DELAY), "the delay starts again");
        assert_eq!(state.retirement_delay(&mark, false, after(2100)), None, "now it is due");
        assert_eq!(state.retirement_delay(&mark, true, after(2100)), Some(Duration::from_secs(29)), "a webhook may send the next pod");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_reported_after_three_seconds() {
        let read = Step::Read;
        let (mut state, start) = (GroupState::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(state.refusal_to_report(start), None);
        state.record_refusal(&read, "not yet".to_owned(), start);
        state.record_refusal(&read, "still not".to_owned(), after(2900));
        assert_eq!(state.refusal_to_report(after(2900)), None);
        assert_eq!(state.refusal_to_report(after(3000)), Some("not yet"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scheduler_of_nearly_that_name_is_reported_after_three_seconds_without_a_podgroup() {
        let (mut state, start) = (GroupState::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(state.misnamed_delay(true, start), Some(MISNAMED_GRACE));
        assert_eq!(state.misnamed_delay(true, after(2900)), Some(Duration::from_millis(100)));
        assert_eq!(state.misnamed_delay(false, after(2950)), None, "another release has made the PodGroup");
        assert_eq!(state.misnamed_delay(true, after(4000)), Some(MISNAMED_GRACE));
        assert_eq!(state.misnamed_delay(true, after(7000)), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_write_is_not_sent_again_before_its_back_off_has_passed() {
        let create = |queue: &str| {
            let fields = crate::lifecycle::Applied { queue: queue.to_owned(), ..Default::default() };
            let (api_version, kind, namespace, name) = ("v1".to_owned(), "Pod".to_owned(), "ns".to_owned(), "p".to_owned());
            let owner = crate::api::workload::ObjectRef { kind, api_version, namespace, name, uid: Uid::from("u") };
            Step::Create(Intent { group: GroupKey::new("ns", "g"), owner, fields })
        };
        let (mut state, start) = (GroupState::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(state.refusal_delay(&create("a"), start), None);
        state.record_refusal(&create("a"), "a quota".to_owned(), start);
        assert_eq!(state.refusal_delay(&create("a"), start), Some(Duration::from_secs(1)));
        assert_eq!(state.refusal_delay(&create("a"), after(1)), None, "now it is due");
        assert_eq!(state.refusal_delay(&create("b"), start), None, "another write is due");
        assert_eq!(state.refusal_delay(&Step::Read, start), None);
        for time in [1, 3, 7] {
            state.record_refusal(&create("a"), "a quota".to_owned(), after(time));
        }
        assert_eq!(state.refusal_delay(&create("a"), after(7)), Some(Duration::from_secs(8)), "longer each time");
    }

    #[test]
    fn pods_that_cannot_be_annotated_do_not_delay_other_pods() {
        let pods: Vec<PodRef> = (0..40).map(|number| PodRef { name: "p".into(), uid: Uid::from(format!("{number:02}")) }).collect();
        let mut state = GroupState::default();
        let mut tried = BTreeSet::new();
        for _ in 0..3 {
            // Every patch fails. Without the count of failures the same pods would be first each time.
            let now = state.pods_to_stamp(&pods);
            assert_eq!(now.len(), STAMPS);
            state.record_stamps(&now, Vec::new());
            tried.extend(now);
        }
        assert_eq!(tried.len(), 40);
        let new = PodRef { name: "p".into(), uid: Uid::from("99") };
        let with_new: Vec<PodRef> = pods.iter().cloned().chain([new.clone()]).collect();
        assert_eq!(state.pods_to_stamp(&with_new).first(), Some(&new), "a pod without failures goes first");
        state.stamped = pods.iter().map(|pod| pod.uid.clone()).collect();
        assert_eq!(state.pods_to_stamp(&pods), vec![]);
        assert_eq!(state.pods_to_stamp(&pods[..1]), vec![]);
        assert_eq!(state.stamped.len(), 1, "a pod is forgotten when the cache shows its annotation");
    }

    #[test]
    fn a_refused_delete_is_logged_once_after_the_next_read() {
        let decided = Version { uid: Uid::from("u"), resource_version: "1".to_owned() };
        let met = Answer::Exists(Existing::Foreign(Version { uid: Uid::from("v"), resource_version: "7".to_owned() }, NotOurs::Unlabelled));
        let key = GroupKey::new("ns", "g");
        for (answer, logged) in [(Answer::Unknown, false), (Answer::Stale, false), (met, true), (Answer::Absent, true)] {
            let mut state = GroupState::default();
            state.log_refused_delete(&key, &Step::Delete(decided.clone()), &Answer::Gone(decided.uid.clone()));
            assert_eq!(state.refused_delete, None, "it was not refused");
            state.log_refused_delete(&key, &Step::Delete(decided.clone()), &Answer::Stale);
            state.log_refused_delete(&key, &Step::Read, &answer);
            assert_eq!(state.refused_delete.is_none(), logged, "{answer:?}");
        }
    }
}
