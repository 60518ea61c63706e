//! Which numbers does the story of M1 make? A row for each panel and alert, in the words of the query's answer.

use crate::prometheus::Sample;

/// What stands for the dashboard's own range. Longer than the story, so that a rate times this is what was counted.
pub(super) const RANGE: &str = "10m";

const SECONDS: f64 = 600.0;

/// What a query must give.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Just these series with just these values.
    Exactly(Vec<(&'static str, f64)>),
    /// Rates: these series were counted so often, as far as an extrapolation can tell, and every other not at all.
    Counted(Vec<(&'static str, f64)>),
    /// At least these series, each between the two.
    Within(Vec<&'static str>, f64, f64),
    /// Any series, which together were counted at least so often.
    AtLeast(f64),
}

use Wanted::{AtLeast, Counted, Exactly, Within};

/// The extrapolation of a rate to the edges of the story.
const EXTRAPOLATED: f64 = 0.2;

impl Wanted {
    /// Whether the answer is that.
    pub(super) fn is(&self, seen: &[Sample]) -> bool {
        let value = |labels: &str| seen.iter().find(|(have, _)| have == labels).map(|(_, value)| *value);
        match self {
            Exactly(all) => seen.len() == all.len() && all.iter().all(|(labels, wanted)| value(labels) == Some(*wanted)),
            Counted(all) => {
                let near = |(labels, count): &(&str, f64)| {
                    value(labels).is_some_and(|rate| (rate * SECONDS - count).abs() <= EXTRAPOLATED * count)
                };
                let silent = |(labels, rate): &Sample| *rate == 0.0 || all.iter().any(|(known, _)| known == labels);
                all.iter().all(near) && seen.iter().all(silent)
            }
            Within(labels, least, most) => labels.iter().all(|labels| value(labels).is_some_and(|value| (*least..=*most).contains(&value))),
            AtLeast(count) => seen.iter().map(|(_, rate)| rate * SECONDS).sum::<f64>() >= *count,
        }
    }
}

/// The numbers of one panel, for one choice of its variables.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) panel: &'static str,
    pub(super) queue: &'static str,
    pub(super) resource: &'static str,
    /// One for each query of the panel.
    pub(super) wanted: Vec<Wanted>,
}

fn row(panel: &'static str, wanted: Vec<Wanted>) -> Row {
    Row { panel, queue: "", resource: "cpu", wanted }
}

fn of(panel: &'static str, queue: &'static str, resource: &'static str, wanted: Vec<Wanted>) -> Row {
    Row { panel, queue, resource, wanted }
}

fn nothing() -> Wanted {
    Exactly(Vec::new())
}

fn one(value: f64) -> Wanted {
    Exactly(vec![("", value)])
}

/// A time that passed, and no long one.
fn times(labels: &[&'static str]) -> Wanted {
    Within(labels.to_vec(), 0.000_01, 30.0)
}

/// All of them.
pub(super) fn rows() -> Vec<Row> {
    let both = || Exactly(vec![("program=podgroup-controller", 1.0), ("program=podgroup-scheduler", 1.0)]);
    vec![
        row("Who leads", vec![both()]),
        row("Ready replicas", vec![both()]),
        row("Scheduler answers", vec![one(1.0)]),
        row("Books that differ", vec![one(0.0)]),
        row("Overcommitted nodes", vec![one(1.0)]),
        row("Builds", vec![Exactly(vec![(concat!("version=", env!("CARGO_PKG_VERSION")), 2.0)])]),
        // Of `borrows` 2, of `gang` 3, `gpu` and `late`.
        row("Pods that wait", vec![one(7.0)]),
        row("PodGroups that wait", vec![one(4.0)]),
        row("Cycle time", vec![times(&[""]), times(&[""])]),
        row("From decision to bound", vec![times(&[""]), times(&[""])]),
        // `goes` 1, `fits` 2, `borrows` 10, `owed` 6.
        row("Binds per second", vec![Counted(vec![("outcome=bound", 19.0)])]),
        // Two, and where an answer got lost one of them again; what was refused before has an outcome of its own.
        row("Evictions per second", vec![Within(vec!["outcome=evicted"], 1.6 / SECONDS, 3.6 / SECONDS)]),
        row(
            "Refusals per second",
            vec![Within(vec!["reason=capability", "reason=evicting", "reason=node_resources", "reason=queue_closed"], 1e-9, 100.0)],
        ),
        row("API requests per second", vec![Within(vec!["outcome=ok"], 0.03, 100.0)]),
        row("API requests, p99", vec![times(&["verb=create", "verb=patch"])]),
        row("Watch events per second", vec![Within(vec!["resource=pods", "resource=podgroups", "resource=queues"], 0.01, 100.0)]),
        // The scheduler's six.
        row("Watches that ended per second", vec![AtLeast(5.0)]),
        row("Complete lists", vec![Within(vec!["outcome=ok,resource=nodes", "outcome=ok,resource=replicasets"], 1.0, 2.0)]),
        row("Unreadable objects per second", vec![one(0.0)]),
        of("Used, share and ceiling", "a", "cpu", vec![one(8.0), one(6.0), one(6.0), nothing()]),
        of("Used, share and ceiling", "team", "cpu", vec![one(2.0), one(4.0), nothing(), one(4.0)]),
        of("Admitted and not placed yet", "b", "example.com/gpu", vec![one(1.0)]),
        of("Guaranteed", "spare", "cpu", vec![one(1.0), one(1.0), one(1.0)]),
        row("Who borrows", vec![Exactly(vec![("queue=a", 2.0)])]),
        row("Used by queue", vec![Exactly(vec![("queue=a", 8.0), ("queue=b", 6.0), ("queue=ml", 2.0)])]),
        of("How long the oldest pod waits", "b", "", vec![Within(vec!["queue=b"], 0.0, 200.0)]),
        of("What waits, and why", "a", "", vec![Exactly(vec![("queue=a,reason=node_resources,resource=cpu", 1.0)])]),
        of("What waits, and why", "b", "", vec![Exactly(vec![("queue=b,reason=node_resources,resource=example.com/gpu", 1.0)])]),
        of("What waits, and why", "ml", "", vec![Exactly(vec![("at=team,queue=ml,reason=capability,resource=cpu", 1.0)])]),
        of("What waits, and why", "shut", "", vec![Exactly(vec![("at=shut,queue=shut,reason=queue_closed", 1.0)])]),
        row(
            "States of all queues",
            vec![Exactly(vec![
                ("queue=a,state=open", 1.0),
                ("queue=b,state=open", 1.0),
                ("queue=default,state=open", 1.0),
                ("queue=ml,state=open", 1.0),
                ("queue=orphan,state=broken", 1.0),
                ("queue=root,state=open", 1.0),
                ("queue=shut,state=closed", 1.0),
                ("queue=spare,state=open", 1.0),
                ("queue=team,state=open", 1.0),
            ])],
        ),
        // Of `goes`, `fits`, `borrows` and `owed`.
        row("Created per second", vec![Counted(vec![("", 4.0)])]),
        row("Deleted per second", vec![Counted(vec![("", 1.0)])]),
        row("Refused preconditions per second", vec![AtLeast(0.8)]),
        row(
            "Steps per second",
            vec![Within(vec!["outcome=is,step=create", "outcome=is,step=mark", "outcome=gone,step=delete"], 1e-9, 10.0)],
        ),
        row("Time to a PodGroup", vec![times(&[""]), times(&[""])]),
        row("Groups that wait for their turn", vec![one(0.0)]),
    ]
}

/// What the query of each alert gives.
pub(super) fn alerts() -> Vec<(&'static str, Wanted)> {
    vec![
        ("PodgroupControllerAbsent", nothing()),
        ("PodgroupSchedulerAbsent", nothing()),
        ("PodgroupNotReady", nothing()),
        ("PodgroupSchedulerUnresponsive", nothing()),
        ("PodgroupBooksDiffer", nothing()),
        ("PodgroupNodesOvercommitted", one(1.0)),
        ("PodgroupQueueBroken", Exactly(vec![("queue=orphan", 1.0)])),
        ("PodgroupBindsFail", nothing()),
        // It uses 2 of the 4 that it deserves, and waits for more.
        ("PodgroupQueueOwed", Exactly(vec![("queue=ml,resource=cpu", 2.0)])),
    ]
}

/// The same for one of them.
pub(super) fn of_alert(name: &str) -> Option<Wanted> {
    alerts().into_iter().find(|(known, _)| *known == name).map(|(_, wanted)| wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_told_from_what_is_merely_there() {
        let seen = |all: &[(&str, f64)]| all.iter().map(|(labels, value)| ((*labels).to_owned(), *value)).collect::<Vec<_>>();
        let exactly = Exactly(vec![("a", 1.0)]);
        assert!(exactly.is(&seen(&[("a", 1.0)])));
        assert!(!exactly.is(&seen(&[("a", 2.0)])) && !exactly.is(&seen(&[("a", 1.0), ("b", 0.0)])) && !exactly.is(&[]));
        let counted = Counted(vec![("a", 6.0)]);
        assert!(counted.is(&seen(&[("a", 0.0101), ("b", 0.0)])));
        assert!(!counted.is(&seen(&[("a", 0.02)])) && !counted.is(&seen(&[("a", 0.01), ("b", 0.01)])) && !counted.is(&[]));
        assert!(Within(vec!["a"], 1.0, 2.0).is(&seen(&[("a", 1.5), ("b", 9.0)])));
        assert!(!Within(vec!["a"], 1.0, 2.0).is(&seen(&[("a", 2.5)])) && !Within(vec!["a"], 1.0, 2.0).is(&seen(&[("a", f64::NAN)])));
        assert!(AtLeast(6.0).is(&seen(&[("a", 0.005), ("b", 0.005)])) && !AtLeast(7.0).is(&seen(&[("a", 0.01)])));
    }
}
