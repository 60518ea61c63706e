//! Checks that `docs/metrics.md` lists every metric of both programs, with its type and labels, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use prometheus::Registry;

use crate::controller::metrics::ControllerMetrics;
use crate::cycle::explain::Code;
use crate::resources::{Amount, Resources};
use crate::runtime::clock;
use crate::runtime::leader::LeaderMetrics;
use crate::runtime::metrics::{RequestMetrics, WatchMetrics, registry};
use crate::runtime::readiness::Readiness;
use crate::scheduler::metrics::Metrics;
use crate::scheduler::metrics::queue_snapshot::{Of, QueueSnapshot};

const PAGE: &str = include_str!("../docs/metrics.md");

/// The sources that register metrics.
const SOURCES: [&str; 8] = [
    include_str!("runtime/metrics.rs"),
    include_str!("runtime/watch/age.rs"),
    include_str!("runtime/leader/metrics.rs"),
    include_str!("controller/metrics.rs"),
    include_str!("scheduler/metrics/mod.rs"),
    include_str!("scheduler/metrics/overcommit.rs"),
    include_str!("scheduler/metrics/queues.rs"),
    include_str!("scheduler/metrics/waiting_time.rs"),
];

/// The type and the labels of each metric, by name.
type Shown = BTreeMap<String, (String, BTreeSet<String>)>;

/// Returns the metrics of both programs, each with one series.
fn shown() -> Shown {
    let registry = registry().unwrap();
    RequestMetrics::new(&registry).unwrap().count("get", "pods", "ok", Duration::ZERO);
    let watches = WatchMetrics::new(&registry).unwrap();
    watches.list("pods", "ok");
    watches.event("pods", "apply");
    watches.end("pods", "closed");
    watches.bad("pods", 1);
    watches.watch("pods").is_known_up_to(clock::through_suspension());
    LeaderMetrics::new(&registry, "p", Readiness::new()).unwrap();
    ControllerMetrics::new(&registry).unwrap();
    let scheduler = Metrics::new(&registry).unwrap();
    scheduler.waiting_times.bound(None, Duration::ZERO);
    let all =
        [Of::Allocated, Of::AllocatedItself, Of::Reserved, Of::Capability, Of::Deserved, Of::Guarantee, Of::Floor, Of::Kept, Of::Share];
    scheduler.overcommitted.show(&[("n".into(), Resources::new())].into());
    scheduler.show(Some(QueueSnapshot {
        amounts: all.into_iter().map(|of| ((of, "q".to_owned(), "cpu".to_owned()), Amount::ZERO)).collect(),
        states: [(("q".to_owned(), "open"), 1)].into(),
        waiting: [(("q".to_owned(), "QueueQuotaExceeded", "q".to_owned(), "cpu".to_owned()), 1)].into(),
        oldest: [("q".to_owned(), 0)].into(),
        oldest_position: [("q".to_owned(), 1)].into(),
    }));
    families(&registry)
}

fn families(registry: &Registry) -> Shown {
    let family = |family: prometheus::proto::MetricFamily| {
        let labels = family.get_metric().iter().flat_map(|metric| metric.get_label()).map(|label| label.name().to_owned()).collect();
        (family.name().to_owned(), (format!("{:?}", family.get_field_type()).to_lowercase(), labels))
    };
    registry.gather().into_iter().map(family).collect()
}

/// Returns the metrics in the tables of the page.
fn documented() -> Shown {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `podgroup_")?.split_once("` | "));
    let row = |(name, rest): (&str, &str)| {
        let mut cells = rest.split('|').map(str::trim);
        let (kind, labels) = (cells.next()?, cells.next()?);
        let labels = labels.split(", ").map(|label| label.trim_matches('`')).filter(|label| !label.is_empty());
        matches!(kind, "gauge" | "counter" | "histogram")
            .then(|| (format!("podgroup_{name}"), (kind.to_owned(), labels.map(str::to_owned).collect())))
    };
    rows.filter_map(row).collect()
}

/// Returns the metric names in the sources, with the prefix.
fn written() -> BTreeSet<String> {
    let code = SOURCES.iter().map(|source| source.split("#[cfg(test)]\nmod").next().unwrap());
    let literals = code.flat_map(|code| code.split('"').skip(1).step_by(2));
    let begins = ["api_", "watch_", "build_", "controller_", "scheduler_"];
    let is_name = |text: &&str| {
        let plain = text.chars().all(|each| each.is_ascii_lowercase() || each == '_');
        plain && (begins.iter().any(|begin| text.starts_with(begin)) || ["leading", "ready"].contains(text))
    };
    literals.filter(is_name).map(|name| format!("podgroup_{name}")).collect()
}

#[test]
fn the_page_lists_every_metric_with_its_type_and_labels_and_no_other() {
    assert_eq!(documented(), shown());
}

#[test]
fn this_test_covers_every_metric_in_the_code() {
    assert_eq!(written(), shown().into_keys().collect());
}

#[test]
fn the_page_lists_every_reason() {
    for code in Code::ALL {
        assert!(PAGE.contains(&format!("`{}`", code.as_str())), "{code:?}");
    }
}
