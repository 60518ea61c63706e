//! The metrics of leadership and readiness, computed when they are read.

use std::sync::{Arc, OnceLock};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

use super::Leadership;
use crate::runtime::metrics::registered;
use crate::runtime::readiness::Readiness;

/// Whether one program leads and is ready. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LeaderMetrics {
    program: &'static str,
    leadership: Arc<OnceLock<Leadership>>,
    readiness: Readiness,
    leading: IntGaugeVec,
    ready: IntGaugeVec,
}

impl LeaderMetrics {
    /// Registers `podgroup_leading{program}` and `podgroup_ready{program}`. The first is 0 until [`elected`](Self::elected) is called.
    ///
    /// # Errors
    /// When the names are already registered.
    pub fn new(registry: &Registry, program: &'static str, readiness: Readiness) -> Result<Self, prometheus::Error> {
        let leading = "1 while this process holds the lease of its program (or runs without election), else 0.";
        let ready = "1 while every list is complete and every watch works, as /readyz says it, else 0.";
        let metrics = Self {
            program,
            leadership: Arc::default(),
            readiness,
            leading: IntGaugeVec::new(Opts::new("leading", leading), &["program"])?,
            ready: IntGaugeVec::new(Opts::new("ready", ready), &["program"])?,
        };
        registered(registry, metrics)
    }

    /// Sets the leadership that is read from now on.
    pub fn elected(&self, leadership: Leadership) {
        // A program has one election in its life.
        let _first = self.leadership.set(leadership);
    }
}

impl Collector for LeaderMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.leading.desc().into_iter().chain(self.ready.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let leads = self.leadership.get().is_some_and(Leadership::is_leading);
        self.leading.with_label_values(&[self.program]).set(i64::from(leads));
        self.ready.with_label_values(&[self.program]).set(i64::from(self.readiness.is_ready()));
        self.leading.collect().into_iter().chain(self.ready.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::metrics;

    #[test]
    fn both_values_are_computed_when_they_are_read() {
        let registry = metrics::registry().unwrap();
        let readiness = Readiness::new();
        let listed = readiness.expect("pods");
        let metrics = LeaderMetrics::new(&registry, "p", readiness).unwrap();
        let expect_values = |leading, ready| {
            let text = metrics::text(&registry).unwrap();
            let lines = [format!("podgroup_leading{{program=\"p\"}} {leading}\n"), format!("podgroup_ready{{program=\"p\"}} {ready}\n")];
            assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        };
        expect_values(0, 0);
        listed.complete();
        expect_values(0, 1);
        metrics.elected(Leadership::always());
        expect_values(1, 1);
        listed.trouble(Some("cut off".to_owned()));
        expect_values(1, 0);
    }
}
