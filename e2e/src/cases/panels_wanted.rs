//! The expected numbers of M1: a row for each panel and alert, in the form of the query's result.

use crate::prometheus::Sample;

/// The value for the dashboard's range. It is longer than the case, so that a rate times this range is the count.
pub(super) const RANGE: &str = "10m";

const SECONDS: f64 = 600.0;

const GIB: f64 = 1_073_741_824.0;

/// The expected result of a query.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Exactly these series with these values.
    Exactly(Vec<(&'static str, f64)>),
    /// Of so many series exactly these are not 0.
    NotZero(Vec<(&'static str, f64)>, usize),
    /// Rates: these series were counted this often, within the precision of the extrapolation, and all others were not counted.
    Counted(Vec<(&'static str, f64)>),
    /// At least these series, each between the two values.
    Within(Vec<&'static str>, f64, f64),
    /// Rates: each of these series was counted at least and at most this often.
    Times(Vec<&'static str>, f64, f64),
    /// Rates: all series together were counted at least and at most this often.
    Together(f64, f64),
}

use Wanted::{Counted, Exactly, NotZero, Times, Together, Within};

/// The precision of a rate that is extrapolated to the edges of its range.
const EXTRAPOLATED: f64 = 0.2;

impl Wanted {
    /// Returns whether the result is as expected.
    pub(super) fn is(&self, seen: &[Sample]) -> bool {
        let value = |labels: &str| seen.iter().find(|(have, _)| have == labels).map(|(_, value)| *value);
        let near = |(labels, count): &(&str, f64)| value(labels).is_some_and(|rate| (rate * SECONDS - count).abs() <= EXTRAPOLATED * count);
        match self {
            Exactly(all) => seen.len() == all.len() && all.iter().all(|(labels, wanted)| value(labels) == Some(*wanted)),
            NotZero(all, of) => {
                let others = seen.iter().filter(|(labels, _)| all.iter().all(|(known, _)| known != labels));
                let mut others = others.map(|(_, value)| *value);
                seen.len() == *of && all.iter().all(|(labels, wanted)| value(labels) == Some(*wanted)) && others.all(|value| value == 0.0)
            }
            Counted(all) => {
                let silent = |(labels, rate): &Sample| *rate == 0.0 || all.iter().any(|(known, _)| known == labels);
                all.iter().all(near) && seen.iter().all(silent)
            }
            Within(labels, least, most) => labels.iter().all(|labels| value(labels).is_some_and(|value| (*least..=*most).contains(&value))),
            Times(labels, least, most) => Within(labels.clone(), least / SECONDS, most / SECONDS).is(seen),
            Together(least, most) => (*least..=*most).contains(&seen.iter().map(|(_, rate)| rate * SECONDS).sum::<f64>()),
        }
    }
}

/// The expected numbers of one panel, for one choice of its variables.
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

/// The value of the only release. Its series have no label `cluster`.
fn of_release(value: f64) -> Wanted {
    Exactly(vec![("namespace=podgroup-system", value)])
}

/// One amount of a resource with this unit.
fn amount(value: f64, unit: &'static str) -> Wanted {
    Exactly(vec![(unit, value)])
}

fn cores(value: f64) -> Wanted {
    amount(value, "unit=core")
}

fn pieces(value: f64) -> Wanted {
    amount(value, "unit=integer")
}

fn bytes(value: f64) -> Wanted {
    amount(value, "unit=byte")
}

/// A measured duration that is not long.
fn times(labels: &[&'static str]) -> Wanted {
    Within(labels.to_vec(), 0.000_01, 30.0)
}

/// The queues of the case, with those that are always there.
const QUEUES: [&str; 12] = ["a", "b", "default", "dept", "foreign", "lab", "ml", "orphan", "root", "shut", "spare", "team"];

/// How many bars there are for GPUs, which no node offers.
const GPUS: usize = 4;

/// The waiting PodGroups, each in its own queue and in all queues above it; `root` has them all.
fn waiting() -> Wanted {
    let waiting = [("queue=a", 2.0), ("queue=root", 6.0)];
    let one = ["queue=b", "queue=dept", "queue=lab", "queue=ml", "queue=shut", "queue=team"].map(|queue| (queue, 1.0));
    NotZero(waiting.into_iter().chain(one).collect(), QUEUES.len())
}

/// Returns all rows.
pub(super) fn rows() -> Vec<Row> {
    let both = || {
        Exactly(vec![
            ("namespace=podgroup-system,program=podgroup-controller", 1.0),
            ("namespace=podgroup-system,program=podgroup-scheduler", 1.0),
        ])
    };
    vec![
        row("Leaders", vec![both()]),
        row("Ready replicas", vec![both()]),
        row("Scheduler responsive", vec![one(1.0)]),
        // No action of a user makes them differ; a difference would be a defect. The unit tests of the audit and `charts/podgroup-alerts-test.yaml`
        // have other values.
        row("Accounting differences", vec![one(0.0)]),
        row("Overcommitted nodes", vec![one(1.0)]),
        row("Builds", vec![Exactly(vec![(concat!("version=", env!("CARGO_PKG_VERSION")), 2.0)])]),
        // Of `borrows` 2, of `gang` 3, `gpu`, `capped`, `late` and `passes`.
        row("Pending pods", vec![of_release(9.0)]),
        row("Pending PodGroups", vec![of_release(6.0)]),
        row("Cycle time", vec![times(&[""]), times(&[""])]),
        row("From decision to bound", vec![times(&[""]), times(&[""])]),
        // `goes` 1, `fits` 2, `borrows` 10, `owed` 6.
        row("Binds per second", vec![Counted(vec![("outcome=bound", 19.0)])]),
        // Two evictions, and one more if a response was lost. A refused eviction has another outcome.
        row("Evictions per second", vec![Times(vec!["outcome=evicted"], 1.6, 3.6)]),
        // Two preemptions that end, by one of which `owed` gets its nodes.
        row("Preemption time", vec![Within(vec![""], 0.0, 300.0), Within(vec![""], 0.0, 300.0)]),
        // Each reason at least once; the number of cycles depends on the machine.
        row(
            "Refusals per second",
            vec![Times(
                vec!["reason=QueueQuotaExceeded", "reason=WaitingForPreemption", "reason=InsufficientResources", "reason=QueueClosed"],
                0.8,
                200.0,
            )],
        ),
        row("API requests per second", vec![Times(vec!["outcome=ok"], 20.0, 6_000.0)]),
        row("API requests, p99", vec![times(&["verb=create", "verb=patch"])]),
        row("Watch events per second", vec![Times(vec!["resource=pods", "resource=podgroups", "resource=queues"], 10.0, 3_000.0)]),
        // The scheduler's six, and those of queues once more because of the changed schema.
        row("Ended watches per second", vec![Together(5.0, 60.0)]),
        row("Complete lists", vec![Within(vec!["outcome=ok,resource=nodes", "outcome=ok,resource=replicasets"], 1.0, 6.0)]),
        // `foreign`, which is written until the scheduler has read it.
        row("Unreadable objects per second", vec![Together(0.8, 200.0)]),
        of("Used, share and capability", "a", "cpu", vec![cores(8.0), cores(6.0), cores(6.0), nothing()]),
        of("Used, share and capability", "team", "cpu", vec![cores(2.0), cores(4.0), cores(4.0), cores(4.0)]),
        // A deserved resource that no node has is shown as zero, not as unknown.
        of("Used, share and capability", "dept", "example.com/gpu", vec![pieces(0.0), pieces(0.0), pieces(2.0), nothing()]),
        of("Reserved", "b", "example.com/gpu", vec![pieces(1.0)]),
        // Nothing is reserved: 0 and not absent.
        of("Reserved", "b", "memory", vec![bytes(0.0)]),
        of("Guaranteed", "spare", "cpu", vec![cores(1.0), cores(1.0), cores(1.0)]),
        of("Guaranteed", "spare", "memory", vec![bytes(GIB), bytes(GIB), bytes(GIB)]),
        row("Borrowed by queue", vec![NotZero(vec![("queue=a,unit=core", 2.0)], QUEUES.len())]),
        row(
            "Used by queue",
            vec![NotZero(vec![("queue=a,unit=core", 8.0), ("queue=b,unit=core", 6.0), ("queue=ml,unit=core", 2.0)], QUEUES.len())],
        ),
        of(
            "Used, deserved and capability of each queue",
            "",
            "example.com/gpu",
            vec![NotZero(
                vec![("of=capability (integer),queue=b,unit=integer", 4.0), ("of=deserved (integer),queue=dept,unit=integer", 2.0)],
                GPUS,
            )],
        ),
        of("Waiting time of the oldest pod", "b", "", vec![Within(vec!["queue=b"], 0.0, 200.0)]),
        of("Waiting time of the oldest pod", "team", "", vec![Within(vec!["queue=team"], 0.0, 200.0)]),
        // No pod waits there: 0 and not absent.
        of("Waiting time of the oldest pod", "spare", "", vec![Exactly(vec![("queue=spare", 0.0)])]),
        // Of `borrows` 10.
        of("Waiting time until a pod was bound", "a", "", vec![Within(vec![""], 0.0, 300.0), Within(vec![""], 0.0, 300.0)]),
        row("Waiting PodGroups by queue", vec![waiting()]),
        // `borrows`: `passes` lacks its minimum.
        of("Position of the PodGroup that waits longest", "a", "", vec![Exactly(vec![("queue=a", 2.0)])]),
        of("Position of the PodGroup that waits longest", "ml", "", vec![Exactly(vec![("queue=ml", 1.0)])]),
        // Nothing waits in the queue itself.
        of("Position of the PodGroup that waits longest", "team", "", vec![nothing()]),
        of(
            "Waiting PodGroups by reason",
            "a",
            "",
            vec![Exactly(vec![
                ("at=root,queue=a,reason=GuaranteeReserved,resource=cpu", 1.0),
                ("queue=a,reason=InsufficientResources,resource=example.com/gpu", 1.0),
            ])],
        ),
        of(
            "Waiting PodGroups by reason",
            "b",
            "",
            vec![Exactly(vec![("queue=b,reason=InsufficientResources,resource=example.com/gpu", 1.0)])],
        ),
        of("Waiting PodGroups by reason", "ml", "", vec![Exactly(vec![("at=team,queue=ml,reason=QueueQuotaExceeded,resource=cpu", 1.0)])]),
        of(
            "Waiting PodGroups by reason",
            "team",
            "",
            vec![Exactly(vec![("at=team,queue=team,reason=QueueQuotaExceeded,resource=cpu", 1.0)])],
        ),
        of(
            "Waiting PodGroups by reason",
            "dept",
            "",
            vec![Exactly(vec![("at=(below),queue=dept,reason=QueueQuotaExceeded,resource=example.com/gpu", 1.0)])],
        ),
        of(
            "Waiting PodGroups by reason",
            "root",
            "",
            vec![Exactly(vec![
                ("at=(below),queue=root,reason=QueueQuotaExceeded,resource=cpu", 1.0),
                ("at=(below),queue=root,reason=QueueQuotaExceeded,resource=example.com/gpu", 1.0),
                ("at=(below),queue=root,reason=QueueClosed", 1.0),
                ("at=root,queue=root,reason=GuaranteeReserved,resource=cpu", 1.0),
                ("queue=root,reason=InsufficientResources,resource=example.com/gpu", 2.0),
            ])],
        ),
        of("Waiting PodGroups by reason", "shut", "", vec![Exactly(vec![("at=shut,queue=shut,reason=QueueClosed", 1.0)])]),
        row(
            "State and waiting PodGroups of each queue",
            vec![
                Exactly(vec![
                    ("queue=a,state=open", 1.0),
                    ("queue=b,state=open", 1.0),
                    ("queue=default,state=open", 1.0),
                    ("queue=dept,state=open", 1.0),
                    // The last known state.
                    ("queue=foreign,state=open", 1.0),
                    ("queue=lab,state=open", 1.0),
                    ("queue=ml,state=open", 1.0),
                    ("queue=orphan,state=broken", 1.0),
                    ("queue=root,state=open", 1.0),
                    ("queue=shut,state=closed", 1.0),
                    ("queue=spare,state=open", 1.0),
                    ("queue=team,state=open", 1.0),
                ]),
                waiting(),
                // The oldest pod of each queue in which one waits, and 0 for every other.
                Within(vec!["queue=a", "queue=b", "queue=root", "queue=spare"], 0.0, 200.0),
            ],
        ),
        // Of `goes`, `fits`, `borrows` and `owed`.
        row("PodGroups created and deleted", vec![Counted(vec![("", 4.0)]), Counted(vec![("", 1.0)])]),
        row("Decided again because the PodGroup had changed", vec![Together(0.8, 60.0)]),
        // Patches until one is refused; `goes` is marked, and its members are listed.
        row(
            "What the controller did",
            vec![Counted(vec![("", 4.0)]), Together(0.8, 100.0), Together(1.6, 3.0), Counted(vec![("", 1.0)]), Together(0.8, 60.0)],
        ),
        row("Time until a PodGroup exists", vec![times(&[""]), times(&[""])]),
        row("PodGroups that wait for the controller", vec![of_release(0.0)]),
    ]
}

/// Returns the numbers of a panel in the middle of the case, while the only worker handles one of three PodGroups.
pub(super) fn in_between() -> Row {
    row("PodGroups that wait for the controller", vec![of_release(2.0)])
}

/// Returns the values of the dashboard variables: the queues of the case, and the resources that its pods use or its queues name.
pub(super) fn variables() -> Vec<(&'static str, Vec<&'static str>)> {
    // Prometheus adds no label "cluster" here. Every dashboard has the first two variables.
    vec![
        ("cluster", vec![]),
        ("namespace", vec![crate::chart::NAMESPACE]),
        ("queue", QUEUES.to_vec()),
        ("resource", vec!["cpu", "example.com/gpu", "memory", "pods"]),
    ]
}

/// Returns the expected result of the query of each alert.
pub(super) fn alerts() -> Vec<(&'static str, Wanted)> {
    vec![
        ("PodgroupControllerAbsent", nothing()),
        ("PodgroupSchedulerAbsent", nothing()),
        ("PodgroupNotReady", nothing()),
        ("PodgroupSchedulerUnresponsive", nothing()),
        ("PodgroupAccountingDiffers", nothing()),
        ("PodgroupNodeOvercommitted", Exactly(vec![("node_name=n2", 1.0)])),
        ("PodgroupQueueBroken", Exactly(vec![("queue=orphan", 1.0)])),
        ("PodgroupBindsFail", nothing()),
        // The two use 2 of the 4 that they deserve, and queues below `team` wait for more. No other queue uses what `dept` deserves.
        ("PodgroupQueueBelowDeserved", Exactly(vec![("queue=ml,resource=cpu", 2.0), ("queue=team,resource=cpu", 2.0)])),
    ]
}

/// Returns the expected result for one alert.
pub(super) fn of_alert(name: &str) -> Option<Wanted> {
    alerts().into_iter().find(|(known, _)| *known == name).map(|(_, wanted)| wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboards::panels;

    #[test]
    fn what_is_wanted_is_told_from_what_is_merely_there() {
        let seen = |all: &[(&str, f64)]| all.iter().map(|(labels, value)| ((*labels).to_owned(), *value)).collect::<Vec<_>>();
        let exactly = Exactly(vec![("a", 1.0)]);
        assert!(exactly.is(&seen(&[("a", 1.0)])));
        assert!(!exactly.is(&seen(&[("a", 2.0)])) && !exactly.is(&seen(&[("a", 1.0), ("b", 0.0)])) && !exactly.is(&[]));
        let nonzero = NotZero(vec![("a", 1.0)], 2);
        assert!(nonzero.is(&seen(&[("a", 1.0), ("b", 0.0)])));
        assert!(
            !nonzero.is(&seen(&[("a", 1.0), ("b", 1.0)]))
                && !nonzero.is(&seen(&[("a", 1.0)]))
                && !nonzero.is(&seen(&[("b", 0.0), ("c", 0.0)]))
        );
        let counted = Counted(vec![("a", 6.0)]);
        assert!(counted.is(&seen(&[("a", 0.0101), ("b", 0.0)])));
        assert!(!counted.is(&seen(&[("a", 0.02)])) && !counted.is(&seen(&[("a", 0.01), ("b", 0.01)])) && !counted.is(&[]));
        assert!(Within(vec!["a"], 1.0, 2.0).is(&seen(&[("a", 1.5), ("b", 9.0)])));
        assert!(!Within(vec!["a"], 1.0, 2.0).is(&seen(&[("a", 2.5)])) && !Within(vec!["a"], 1.0, 2.0).is(&seen(&[("a", f64::NAN)])));
        assert!(Times(vec!["a"], 6.0, 12.0).is(&seen(&[("a", 0.015)])) && !Times(vec!["a"], 6.0, 12.0).is(&seen(&[("a", 0.03)])));
        let together = |most| Together(6.0, most).is(&seen(&[("a", 0.005), ("b", 0.006)]));
        assert!(together(7.0) && !together(6.1) && !Together(7.0, 9.0).is(&seen(&[("a", 0.01)])));
    }

    /// Returns whether the values of a whole range, which are [`SECONDS`] times as large as those of a second, do not match, too.
    fn knows_its_unit(wanted: &Wanted) -> bool {
        match wanted {
            Exactly(all) | NotZero(all, _) => !all.is_empty() && all.iter().all(|(_, value)| *value != 0.0),
            Counted(all) => !all.is_empty() && all.iter().all(|(_, count)| *count > 0.0),
            Within(_, least, most) | Times(_, least, most) | Together(least, most) => *least > 0.0 && *most < least * SECONDS,
        }
    }

    #[test]
    fn no_panel_of_a_rate_would_pass_with_an_increase() {
        // A quantile is the same for both.
        let is_rate = |query: &str| query.contains("rate(") && !query.contains("histogram_quantile(");
        let (panels, rows) = (panels().unwrap(), rows());
        let mut rates = 0;
        for row in &rows {
            let panel = panels.iter().find(|panel| panel.title == row.panel).unwrap();
            for (query, wanted) in panel.queries.iter().zip(&row.wanted).filter(|(query, _)| is_rate(query)) {
                assert!(knows_its_unit(wanted), "{}: {query} as an increase would be taken for {wanted:?}", row.panel);
                rates += 1;
            }
        }
        assert!(rates >= 10, "{rates}");
    }

    #[test]
    fn every_panel_shows_something_in_the_story_but_for_those_that_say_why_not() {
        let shows =
            |row: &Row| row.wanted.iter().any(|wanted| !matches!(wanted, Exactly(all) if all.iter().all(|(_, value)| *value == 0.0)));
        let rows: Vec<_> = rows().into_iter().chain([in_between()]).collect();
        let shown: Vec<_> = rows.iter().filter(|row| shows(row)).map(|row| row.panel).collect();
        let mut never: Vec<_> = rows.iter().map(|row| row.panel).filter(|panel| !shown.contains(panel)).collect();
        never.dedup();
        assert_eq!(never, ["Accounting differences"]);
    }
}
