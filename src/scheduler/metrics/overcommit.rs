//! The metrics of overcommitted nodes: how many there are, and which.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, IntGaugeVec, Opts};
use tokio::sync::watch;

use crate::resources::Resources;

/// The limit of nodes with a series of their own. [`NUMBER`] counts the others, too.
const NODES: usize = 100;

const NUMBER: (&str, &str) = ("scheduler_overcommitted_nodes", "Nodes on which the pods request more than is allocatable.");

/// Not `node`: many configurations of Prometheus set that label to the node that the scheduler runs on.
const LABEL: &str = "node_name";

const NODE: (&str, &str) =
    ("scheduler_node_overcommitted", "1 for a node on which the pods request more than is allocatable; absent for other nodes.");

/// The overcommitted nodes: how many, and those with a series. A node keeps its series as long as it is overcommitted, so that its alert
/// does not end before.
#[derive(Debug, Default)]
struct Shown {
    number: usize,
    named: BTreeSet<Arc<str>>,
}

/// Shows the last known overcommitted nodes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OvercommitMetrics {
    nodes: Arc<watch::Sender<Shown>>,
    descriptions: Arc<Vec<Desc>>,
}

impl OvercommitMetrics {
    /// Creates the metrics with no node.
    ///
    /// # Errors
    /// None in practice: the names are constants and differ.
    pub fn new() -> Result<Self, prometheus::Error> {
        let descriptions = number()?.desc().into_iter().chain(named()?.desc()).cloned().collect();
        Ok(Self { nodes: Arc::default(), descriptions: Arc::new(descriptions) })
    }

    /// Replaces the nodes. Where there are too many, those that had a series keep it, and the first of the others get the rest.
    pub fn show(&self, nodes: &BTreeMap<Arc<str>, Resources>) {
        self.nodes.send_modify(|shown| {
            shown.number = nodes.len();
            shown.named.retain(|name| nodes.contains_key(name));
            for name in nodes.keys() {
                if shown.named.len() >= NODES {
                    break;
                }
                shown.named.insert(Arc::clone(name));
            }
        });
    }

    /// Returns the number of nodes.
    #[cfg(test)]
    pub(in crate::scheduler) fn number(&self) -> usize {
        self.nodes.borrow().number
    }
}

impl Collector for OvercommitMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let nodes = self.nodes.borrow();
        let (Ok(number), Ok(named)) = (number(), named()) else { return Vec::new() };
        number.set(i64::try_from(nodes.number).unwrap_or(i64::MAX));
        nodes.named.iter().for_each(|name| named.with_label_values(&[name]).set(1));
        number.collect().into_iter().chain(named.collect()).collect()
    }
}

fn number() -> Result<IntGauge, prometheus::Error> {
    IntGauge::new(NUMBER.0, NUMBER.1)
}

fn named() -> Result<IntGaugeVec, prometheus::Error> {
    IntGaugeVec::new(Opts::new(NODE.0, NODE.1), &[LABEL])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_a_series_while_it_is_overcommitted_and_their_number_is_bounded() {
        let metrics = OvercommitMetrics::new().unwrap();
        let shown = |nodes: &[Arc<str>]| {
            metrics.show(&nodes.iter().map(|name| (Arc::clone(name), Resources::new())).collect());
            let families = metrics.collect();
            let [number, named] = families.as_slice() else { panic!("{families:?}") };
            let name = |metric: &prometheus::proto::Metric| metric.get_label()[0].value().to_owned();
            let mut named: Vec<_> = named.get_metric().iter().map(|metric| (name(metric), metric.get_gauge().get_value())).collect();
            named.sort_by(|(one, _), (other, _)| one.cmp(other));
            (number.get_metric()[0].get_gauge().get_value(), named)
        };
        assert_eq!(shown(&[]), (0.0, Vec::new()));
        assert_eq!(shown(&["a".into(), "b".into()]), (2.0, vec![("a".to_owned(), 1.0), ("b".to_owned(), 1.0)]));
        assert_eq!(shown(&["n0995".into()]), (1.0, vec![("n0995".to_owned(), 1.0)]));
        // A node that is overcommitted already keeps its series.
        let many: Vec<Arc<str>> = (0..NODES).map(|number| format!("n{number:03}")).chain(["n0995".to_owned()]).map(Arc::from).collect();
        let (number, named) = shown(&many);
        let last: Vec<_> = named.iter().rev().take(2).map(|(name, _)| name.as_str()).collect();
        assert_eq!((number, named.len(), last), (101.0, 100, vec!["n0995", "n098"]));
    }
}
