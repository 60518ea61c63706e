//! What did the scheduler say is in the way, where the objects alone do not show it? Read from the words of its condition, as [`Refusal`] writes them.
//!
//! Only the condition outlives the scheduler's cycle, so it is read as text; a test goes through every reason that there is and holds the two together. What
//! is not understood (another version's words, somebody else's) says nothing here: people see it as it stands.
//!
//! [`Refusal`]: crate::cycle::explain::Refusal

use crate::plugin::flags::is_name;

/// What is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    /// A bind or an eviction failed.
    Backoff {
        /// What failed, and how.
        why: &'a str,
    },
    /// The queue is fifo.
    Behind {
        /// Who comes first, as `namespace/name`.
        first: &'a str,
    },
    /// Others are leaving for it.
    Evicting,
    /// One that is not preemptable must stay within the right of its queue.
    Right {
        /// The queue: its own or one above it.
        queue: &'a str,
        /// Resource and amount.
        right: &'a str,
    },
    /// A queue is full.
    Full {
        /// The queue: its own or one above it.
        queue: &'a str,
        /// The resource that is lacking.
        resource: &'a str,
        /// Whether it is the whole cluster that is full.
        cluster: bool,
        /// What is kept there for the guarantees of others.
        kept: Option<&'a str>,
    },
    /// Too few members of a task.
    TooFewOfTask {
        /// The task.
        task: &'a str,
        /// How many must be there.
        wanted: &'a str,
        /// Whether more are there, which scheduling gates hold back.
        gated: bool,
    },
    /// Its queue, or one above it, asks for what nobody honours yet.
    NotHonoured {
        /// The queue.
        queue: &'a str,
        /// The field.
        field: &'a str,
    },
    /// The group does not exist.
    NoGroup {
        /// Its name.
        name: &'a str,
    },
}

impl<'a> Told<'a> {
    /// What this message says. What may follow, why nobody goes for it, is left out.
    pub(super) fn of(message: &'a str) -> Option<Self> {
        if let Some(rest) = message.strip_suffix(" in a row); it is tried again") {
            return Some(Self::Backoff { why: rest.rsplit_once(" (")?.0 });
        }
        if let Some(rest) = message.strip_prefix("its queue is fifo, and ") {
            return Some(Self::Behind { first: rest.split_once(" comes first")?.0 });
        }
        if message.starts_with("waits for ") && message.contains(" to go") {
            return Some(Self::Evicting);
        }
        if let Some(rest) = message.strip_prefix("this scheduler cannot honour yet, what queue ") {
            let (queue, field) = rest.split_once(" says: ")?;
            return Some(Self::NotHonoured { queue, field });
        }
        if let Some(rest) = message.strip_prefix("its PodGroup ") {
            return Some(Self::NoGroup { name: rest.strip_suffix(" does not exist")? });
        }
        if let Some((wanted, rest)) = message.strip_prefix("the gang needs ").and_then(|rest| rest.split_once(" members of task ")) {
            // A task may be called anything, so it ends where the last words of the scheduler begin.
            let held = rest.strip_suffix(" more are held back by scheduling gates").and_then(|rest| rest.rsplit_once(", and "));
            let (rest, gated) = held.map_or((rest, false), |(rest, _)| (rest, true));
            return Some(Self::TooFewOfTask { task: rest.rsplit_once(", ")?.0, wanted, gated });
        }
        Self::of_queue(message.strip_prefix("queue ")?)
    }

    fn of_queue(rest: &'a str) -> Option<Self> {
        if let Some((queue, rest)) = rest.split_once(" has a right to ") {
            return Some(Self::Right { queue, right: rest.split_once(", which ")?.0 });
        }
        let (queue, rest) = rest.split_once(" is full: ")?;
        let full = rest.split_once("; ").map_or(rest, |(full, _)| full);
        let kept = full.strip_suffix(" kept for guarantees").and_then(|full| Some(full.rsplit_once(", ")?.1));
        Some(Self::Full { queue, resource: full.split_once(" asked ")?.0, cluster: full.contains(" of the cluster's "), kept })
    }

    /// Whether it is about what a queue may use.
    pub(super) fn limits(self) -> bool {
        matches!(self, Self::Right { .. } | Self::Full { .. })
    }

    /// What would have to change. `own` is the group's queue.
    pub(super) fn turned_round(self, own: &str) -> String {
        match self {
            Self::Backoff { why } => {
                format!(
                    "what failed ({why}) must succeed: it is tried again by itself within a minute; the scheduler's log has each answer"
                )
            }
            Self::Behind { first } => {
                // Whoever may write a status may write anything there: only names become a command to type.
                let why = match first.split_once('/').filter(|(namespace, name)| is_name(namespace) && is_name(name)) {
                    Some((namespace, name)) => format!(" (kubectl podgroup why {name} -n {namespace})"),
                    None => String::new(),
                };
                format!("PodGroup {first} must find its places or go{why}, or spec.dequeueStrategy of queue {own} be traverse")
            }
            Self::Evicting => "nothing: pods are being evicted for it, and it is bound when the last of them is gone".to_owned(),
            Self::Right { queue, right } => format!(
                "what is not preemptable borrows nothing: it must ask for less, or queue {queue} have a right to more than {right} (spec.deserved, spec.guarantee, spec.capability, or weight), or the annotation volcano.sh/preemptable: \"false\" go"
            ),
            Self::Full { queue, resource, cluster, kept } => {
                let beside = kept.map(|kept| format!(" beside the {kept} that are kept for guarantees")).unwrap_or_default();
                let more = if cluster { "the nodes offer more".to_owned() } else { format!("spec.capability of queue {queue} be raised") };
                let less = kept.map(|_| ", or the guarantees of other queues below it be lowered").unwrap_or_default();
                format!("{resource} must become free in queue {queue} and below it{beside}, or {more}{less}")
            }
            Self::TooFewOfTask { task, wanted, gated: true } => format!(
                "{wanted} members with the annotation volcano.sh/task-spec: {task} must be free of scheduling gates, which whoever set them must lift, or spec.minTaskMember ask for fewer"
            ),
            Self::TooFewOfTask { task, wanted, gated: false } => format!(
                "there must be {wanted} members with the annotation volcano.sh/task-spec: {task}, or spec.minTaskMember ask for fewer: the Events of their owner say what keeps them from being made"
            ),
            Self::NotHonoured { queue, field } => format!("queue {queue} must leave out {field}, or the group name another queue"),
            Self::NoGroup { name } => {
                format!("PodGroup {name} must be made, or its pods not name it (annotation scheduling.k8s.io/group-name)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_and_what_is_not_understood_says_nothing() {
        let message = "queue root is full: cpu asked 1, used 4 of the cluster's 10, 6 kept for guarantees; nobody may go for it (2 not preemptable, 1 being bound)";
        assert_eq!(Told::of(message), Some(Told::Full { queue: "root", resource: "cpu", cluster: true, kept: Some("6") }));
        let message = "queue a has a right to cpu 3, which one that is not preemptable must not exceed: asked 1, used 3";
        assert_eq!(Told::of(message), Some(Told::Right { queue: "a", right: "cpu 3" }));
        let message = "bind of a-1: conflict (it is bound); else (3 in a row); it is tried again";
        assert_eq!(Told::of(message), Some(Told::Backoff { why: "bind of a-1: conflict (it is bound); else" }));
        let message = "this scheduler cannot honour yet, what queue q says: spec.affinity.nodeGroupAffinity";
        assert_eq!(Told::of(message), Some(Told::NotHonoured { queue: "q", field: "spec.affinity.nodeGroupAffinity" }));
        for (message, task, gated) in [
            ("the gang needs 2 members of task a, b, 1 exist", "a, b", false),
            ("the gang needs 2 members of task w, 1 are ready, and 1 more are held back by scheduling gates", "w", true),
        ] {
            assert_eq!(Told::of(message), Some(Told::TooFewOfTask { task, wanted: "2", gated }));
        }
        let behind = |first| Told::Behind { first }.turned_round("q");
        assert!(behind("ns/first").contains("why first -n ns)"), "{}", behind("ns/first"));
        assert!(!behind("ns/$(x)").contains("kubectl"), "{}", behind("ns/$(x)"));
        for other in [
            "",
            "queue q is closed",
            "queue ",
            "its PodGroup x",
            "the gang needs 3 members, 1 exist",
            "waits for Godot",
            "(1 in a row); it is tried again",
        ] {
            assert_eq!(Told::of(other), None, "{other}");
        }
    }
}
