//! Opens or closes a queue, and reports the consequences (rule O1 of docs/design/accounting.md).

use serde_json::{Value, json};

use crate::api::names::{CLOSED, OPEN, QUEUE_DESIRED_STATE};

use super::gap::{self, Gap};
use super::page::{Line, Page, Tone, first_of};
use super::queues::Queues;

/// How many queues are named.
const NAMED: usize = 10;

/// Why a status may not follow: two possible reasons, and what to do about the second.
const NOT_FOLLOWED: &str = "its status has not followed: is the scheduler running? With --queue-status=obey this annotation is not read, and the program that writes \
    status.state (Volcano's controller, by vcctl) opens and closes the queues";

/// The requested state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Desired {
    /// The queue takes PodGroups, unless one above it is closed.
    Open,
    /// Neither the queue nor any queue below it takes PodGroups.
    Closed,
}

impl Desired {
    /// Returns the value of the annotation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => OPEN,
            Self::Closed => CLOSED,
        }
    }

    /// Returns the merge patch for the queue.
    #[must_use]
    pub fn patch(self) -> Value {
        json!({ "metadata": { "annotations": { QUEUE_DESIRED_STATE: self.as_str() } } })
    }
}

/// What was done, and the consequences.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    queue: String,
    desired: Desired,
    /// Whether the queue had this state before: then nothing was written.
    already: bool,
    /// Whether this is a dry run.
    dry_run: bool,
    /// All queues below it.
    below: Vec<String>,
    /// The queues below it that stay closed when it is opened, because they or a queue in between were closed themselves.
    stay_closed: Vec<String>,
    /// A queue above it that keeps it closed.
    closed_above: Option<String>,
    /// The state in the status; `None` while it does not follow the request.
    state: Option<String>,
    unknown: Vec<Gap>,
}

impl Report {
    /// Makes the report from the queues as they are before the change.
    #[must_use]
    pub fn new(queues: &Queues, queue: &str, desired: Desired, dry_run: bool, unknown: Vec<Gap>) -> Self {
        let closed = |name: &str| queues.facts(name).is_some_and(|facts| facts.closed_by_hand);
        let below = queues.below(queue);
        let by_hand_below = |name: &&String| queues.way(name).iter().take_while(|above| **above != *queue).any(|above| closed(above));
        let already = closed(queue) == (desired == Desired::Closed);
        let state = queues.facts(queue).and_then(|facts| facts.status.state.clone()).filter(|_| already);
        let report = Self {
            queue: queue.to_owned(),
            desired,
            already,
            dry_run,
            stay_closed: below.iter().filter(by_hand_below).cloned().collect(),
            below,
            closed_above: queues.way(queue).into_iter().skip(1).find(|above| closed(above)),
            state: None,
            unknown,
        };
        let state = state.filter(|state| report.is_noticed(state));
        report.seen(state)
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.already || self.dry_run
    }

    /// Returns the report with the state that the status has after the change.
    #[must_use]
    pub fn seen(mut self, state: Option<String>) -> Self {
        self.state = state;
        self
    }

    /// Whether this state shows that the request was noticed.
    #[must_use]
    pub fn is_noticed(&self, state: &str) -> bool {
        let closed = self.desired == Desired::Closed || self.closed_above.is_some();
        (state != OPEN) == closed
    }

    /// Returns the answer of `queue open|close -o json`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "queue": self.queue,
            "desiredState": self.desired.as_str(),
            "changed": !self.is_done(),
            "dryRun": self.dry_run,
            "below": self.below,
            "stayClosed": self.stay_closed,
            "closedAbove": self.closed_above,
            "state": self.state,
            "unknown": gap::json(&self.unknown),
        })
    }

    /// Returns the page for people.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let word = if self.desired == Desired::Open { "open" } else { "closed" };
        let done = match (self.already, self.dry_run) {
            (true, _) => format!("is {word} already; nothing was changed"),
            (false, true) => format!("would be {word}; nothing was changed (--dry-run)"),
            (false, false) => if self.desired == Desired::Open { "opened" } else { "closed" }.to_owned(),
        };
        page.line(Line::new("queue ").and(Tone::Strong, &self.queue).and(Tone::Plain, format!(" {done}")));
        let whom = match self.below.len() {
            0 => "it".to_owned(),
            1 => format!("it and the queue below it ({})", first_of(&self.below, NAMED)),
            count => format!("it and the {count} queues below it ({})", first_of(&self.below, NAMED)),
        };
        match self.desired {
            Desired::Closed => {
                page.text(format!(
                    "  {whom}: no PodGroup is admitted and no pod is placed; placed pods keep running, and the state is Closing until they end"
                ));
            }
            Desired::Open => {
                page.text(format!("  {whom}: waiting PodGroups can be admitted again"));
                if !self.stay_closed.is_empty() {
                    page.line(Line::new("  ").and(
                        Tone::Warn,
                        format!("still closed, because they were closed themselves: {}", first_of(&self.stay_closed, NAMED)),
                    ));
                }
            }
        }
        if let Some(above) = &self.closed_above {
            page.line(Line::new("  ").and(Tone::Warn, format!("still closed: queue {above} above it is closed")));
        }
        match (&self.state, self.dry_run) {
            (Some(state), _) => page.text(format!("  its status says {state}")),
            (None, false) => page.line(Line::new("  ").and(Tone::Warn, NOT_FOLLOWED)),
            (None, true) => {}
        }
        gap::show(&mut page, &self.unknown);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::QueueFacts;
    use crate::cycle::testing::queue;

    fn closed(queue: QueueFacts) -> QueueFacts {
        QueueFacts { closed_by_hand: true, ..queue }
    }

    #[test]
    fn the_consequences_name_the_queues_below_and_above() {
        let queues = Queues::new(
            vec![queue("a", None, &[]), closed(queue("b", Some("a"), &[])), queue("c", Some("b"), &[]), queue("d", Some("a"), &[])],
            None,
        );
        let close = Report::new(&queues, "a", Desired::Closed, false, Vec::new()).seen(Some("Closing".into()));
        let want = "\
queue a closed
  it and the 3 queues below it (b, c, d): no PodGroup is admitted and no pod is placed; placed pods keep running, and the state is Closing until they end
  its status says Closing
";
        assert_eq!(close.page().render(false), want);
        let open = Report::new(&queues, "a", Desired::Open, false, Vec::new());
        assert!(open.is_done(), "it is open already");
        assert_eq!(open.stay_closed, ["b", "c"]);
        let above = Report::new(&queues, "c", Desired::Closed, false, Vec::new());
        assert_eq!(above.closed_above.as_deref(), Some("b"));
        let reopened = Report::new(&queues, "b", Desired::Open, false, Vec::new());
        assert!(!reopened.is_done() && reopened.is_noticed("Open") && !reopened.is_noticed("Closing"));
        assert!(reopened.page().render(false).contains("is the scheduler running?"));
        let mut said = closed(queue("b", None, &[]));
        for (state, followed) in [(Some("Open"), false), (None, false), (Some("Closed"), true)] {
            said.status.state = state.map(str::to_owned);
            let again = Report::new(&Queues::new(vec![said.clone()], None), "b", Desired::Closed, false, Vec::new());
            let text = again.page().render(false);
            assert!(again.is_done() && text.contains("is closed already"), "{text}");
            assert_eq!(text.contains("--queue-status=obey"), !followed, "{state:?}: {text}");
            assert_eq!(again.json()["state"], if followed { json!("Closed") } else { Value::Null });
        }
        let dry = Report::new(&queues, "a", Desired::Closed, true, Vec::new());
        assert!(dry.is_done() && dry.page().render(false).starts_with("queue a would be closed; nothing was changed"));
    }
}
