//! What is the status of a PodGroup, and does the object have it already?
//!
//! A pure function of the report and of what the object says now: the phase, the counts, and three conditions. `Unschedulable`, with the
//! reasons that Volcano has, and [`WAITING`], with the code of the cause, are there only if the PodGroup has waited once, and are False as soon
//! as that is over. Completed stays until the PodGroup has a new member.

use k8s_openapi::jiff::Timestamp;

use crate::api::names::{COMPLETED, SCHEDULED, WAITING};
use crate::api::podgroup::{PodGroupCondition, PodGroupStatus};
use crate::cycle::cache::{Cache, Phase};
use crate::cycle::explain::{Code, Refusal};
use crate::cycle::status::{Report, Standing};

/// The PodGroup waits for nodes: the condition, and the reason of the Event, as in Volcano.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// Fewer members exist than the minimum, as in Volcano.
const NOT_ENOUGH_TASKS: &str = "NotEnoughTasks";
/// Fewer members of a task exist than its minimum, or fewer whole subgroups, as in Volcano.
const NOT_ENOUGH_PODS_OF_TASK: &str = "NotEnoughPodsOfTask";
/// It waits for anything else, as in Volcano.
const NOT_ENOUGH_RESOURCES: &str = "NotEnoughResources";

/// Returns the name of the phase.
#[must_use]
pub const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Inqueue => "Inqueue",
        Phase::Running => "Running",
        Phase::Unknown => "Unknown",
        Phase::Completed => COMPLETED,
    }
}

/// Returns the reason of the condition of a PodGroup that waits for this.
#[must_use]
pub const fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NotEnoughTasks { .. } => NOT_ENOUGH_TASKS,
        Refusal::NotEnoughPodsOfTask { .. } | Refusal::NotEnoughSubGroups { .. } | Refusal::IncompleteSubGroup { .. } => {
            NOT_ENOUGH_PODS_OF_TASK
        }
        Refusal::NoGroup { .. }
        | Refusal::Unsupported(_)
        | Refusal::Faulty(_)
        | Refusal::Claim(_)
        | Refusal::NetworkTopology
        | Refusal::NodeGroups { .. }
        | Refusal::Queue(_)
        | Refusal::Closed { .. }
        | Refusal::Ceiling(_)
        | Refusal::AfterOthers { .. }
        | Refusal::Nodes { .. }
        | Refusal::Behind { .. }
        | Refusal::WithoutPreemption { .. }
        | Refusal::Nominated { .. }
        | Refusal::Backoff { .. }
        | Refusal::Volumes { .. }
        | Refusal::Unanswered { .. } => NOT_ENOUGH_RESOURCES,
    }
}

/// Returns the whole status of the PodGroup, of which the object says `former`. Foreign fields and conditions are kept; a condition with an
/// unchanged status keeps its time. `message` says why the PodGroup waits.
#[must_use]
pub fn status(report: &Report<'_>, former: &PodGroupStatus, message: impl FnOnce() -> String, now: Timestamp) -> PodGroupStatus {
    let number = |count: u32| i32::try_from(count).ok().filter(|count| *count > 0);
    let mut conditions = former.conditions.clone().unwrap_or_default();
    match &report.standing {
        Standing::Waits(refusal) => {
            set(&mut conditions, UNSCHEDULABLE, "True", reason(refusal), message(), now);
            set(&mut conditions, WAITING, "True", refusal.code().as_str(), String::new(), now);
            if has(&conditions, SCHEDULED) {
                set(&mut conditions, SCHEDULED, "False", reason(refusal), "fewer members than the minimum have nodes".to_owned(), now);
            }
        }
        Standing::Satisfied { minimum, further } => {
            no_longer_waits(&mut conditions, SCHEDULED, now);
            let mut text = format!("at least {minimum} members have nodes");
            if *further > 0 {
                text = format!("{text}; {further} further members wait: {}", message());
            }
            set(&mut conditions, SCHEDULED, "True", SCHEDULED, text, now);
        }
        Standing::Ended => {
            no_longer_waits(&mut conditions, COMPLETED, now);
            let text = format!("all pods have ended: {} succeeded, {} failed", report.succeeded, report.failed);
            set(&mut conditions, SCHEDULED, "False", COMPLETED, text, now);
        }
        Standing::Idle { waits } => {
            if is_true(&conditions, UNSCHEDULABLE) {
                set(&mut conditions, UNSCHEDULABLE, "True", reason(waits), waits.message(), now);
                set(&mut conditions, WAITING, "True", waits.code().as_str(), String::new(), now);
            }
            if has(&conditions, SCHEDULED) {
                set(&mut conditions, SCHEDULED, "False", NOT_ENOUGH_TASKS, "the PodGroup has no pods that wait or run".to_owned(), now);
            }
        }
        Standing::BecamePlaceable => {}
    }
    PodGroupStatus {
        conditions: (!conditions.is_empty()).then_some(conditions),
        failed: number(report.failed),
        phase: Some(phase_name(report.phase).to_owned()),
        running: number(report.running),
        succeeded: number(report.succeeded),
    }
}

/// What it said of its waiting is false now. Without a message, so that the column WHY is empty.
fn no_longer_waits(conditions: &mut Vec<PodGroupCondition>, reason: &str, now: Timestamp) {
    for kind in [UNSCHEDULABLE, WAITING] {
        if has(conditions, kind) {
            set(conditions, kind, "False", reason, String::new(), now);
        }
    }
}

/// Whether the two name the same cause, with other numbers. Where all members exist, it does not matter whether the PodGroup is admitted:
/// one that finds no nodes is admitted and revoked in turn (A5). Where members are missing, their owner may wait for the admission. Codes
/// are compared; messages are not read.
#[must_use]
pub fn says_the_same(one: &PodGroupStatus, other: &PodGroupStatus) -> bool {
    let is_whole = |status: &PodGroupStatus| {
        let unschedulable = status.conditions.iter().flatten().find(|condition| condition.kind.as_deref() == Some(UNSCHEDULABLE));
        unschedulable.is_some_and(|condition| condition.reason.as_deref() == Some(NOT_ENOUGH_RESOURCES))
    };
    let waits = |status: &PodGroupStatus| {
        is_whole(status) && [Phase::Pending, Phase::Inqueue].iter().any(|phase| status.phase.as_deref() == Some(phase_name(*phase)))
    };
    let same_condition = |(one, other): (&PodGroupCondition, &PodGroupCondition)| {
        let reason = if is_like(one, other) { one.reason.clone() } else { other.reason.clone() };
        *one == PodGroupCondition { message: one.message.clone(), reason, ..other.clone() }
    };
    let [ones, others] = [one, other].map(|status| status.conditions.as_deref().unwrap_or_default());
    let counts = |PodGroupStatus { running, succeeded, failed, conditions: _, phase: _ }: &PodGroupStatus| (*running, *succeeded, *failed);
    counts(one) == counts(other)
        && (one.phase == other.phase || waits(one) && waits(other))
        && ones.len() == others.len()
        && ones.iter().zip(others).all(same_condition)
}

/// Whether a status has no news for the reader of the former one: only messages differ, and those have no news.
#[must_use]
pub fn is_no_news(cache: &Cache, former: &PodGroupStatus, status: &PodGroupStatus) -> bool {
    let [ones, others] = [former, status].map(|status| status.conditions.as_deref().unwrap_or_default());
    let message = |condition: &'_ PodGroupCondition| condition.message.clone().unwrap_or_default();
    let alike = |(one, other): (&PodGroupCondition, &PodGroupCondition)| {
        *one == PodGroupCondition { message: one.message.clone(), ..other.clone() } && cache.is_no_news(&message(one), &message(other))
    };
    let without = |status: &PodGroupStatus| PodGroupStatus { conditions: None, ..status.clone() };
    without(former) == without(status) && ones.len() == others.len() && ones.iter().zip(others).all(alike)
}

/// Whether both are [`WAITING`] with the same cause, but for what most nodes say.
fn is_like(one: &PodGroupCondition, other: &PodGroupCondition) -> bool {
    let code = |condition: &PodGroupCondition| {
        Code::from_name(condition.reason.as_deref().filter(|_| condition.kind.as_deref() == Some(WAITING))?)
    };
    code(one).zip(code(other)).is_some_and(|(one, other)| one.is_like(other))
}

fn has(conditions: &[PodGroupCondition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.kind.as_deref() == Some(kind))
}

fn is_true(conditions: &[PodGroupCondition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.kind.as_deref() == Some(kind) && condition.status.as_deref() == Some("True"))
}

fn set(conditions: &mut Vec<PodGroupCondition>, kind: &str, status: &str, reason: &str, message: String, now: Timestamp) {
    let since = |old: &PodGroupCondition| old.last_transition_time.clone().filter(|_| old.status.as_deref() == Some(status));
    let stands = conditions.iter_mut().find(|condition| condition.kind.as_deref() == Some(kind));
    let time = stands.as_deref().and_then(since).unwrap_or_else(|| seconds(now));
    let condition = PodGroupCondition {
        last_transition_time: Some(time),
        message: Some(message).filter(|message| !message.is_empty()),
        reason: Some(reason.to_owned()),
        status: Some(status.to_owned()),
        transition_id: stands.as_deref().and_then(|old| old.transition_id.clone()),
        kind: Some(kind.to_owned()),
    };
    match stands {
        Some(old) => *old = condition,
        None => conditions.push(condition),
    }
}

/// A time as Kubernetes writes it: whole seconds.
#[must_use]
pub fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
