//! Does this process lead, and are its lists complete? As metrics, asked at the moment in which somebody looks.

use std::sync::{Arc, OnceLock};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts, Registry};

use super::leader::Leadership;
use super::metrics::registered;
use super::readiness::Readiness;

/// The standing of one program. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Standing {
    program: &'static str,
    leadership: Arc<OnceLock<Leadership>>,
    readiness: Readiness,
    leading: IntGaugeVec,
    ready: IntGaugeVec,
}

impl Standing {
    /// Registers `podgroup_leading{program}` and `podgroup_ready{program}`. Until [`elected`](Self::elected) is called nobody leads.
    ///
    /// # Errors
    /// When the names are taken.
    pub fn new(registry: &Registry, program: &'static str, readiness: Readiness) -> Result<Self, prometheus::Error> {
        let leading = "1 while this process holds the lease of its program (or was told not to elect), else 0.";
        let ready = "1 while every list is complete and every watch works, as /readyz says it, else 0.";
        let standing = Self {
            program,
            leadership: Arc::default(),
            readiness,
            leading: IntGaugeVec::new(Opts::new("leading", leading), &["program"])?,
            ready: IntGaugeVec::new(Opts::new("ready", ready), &["program"])?,
        };
        registered(registry, standing)
    }

    /// Whom to ask from now on whether we lead.
    pub fn elected(&self, leadership: Leadership) {
        // There is one election in the life of a program.
        let _first = self.leadership.set(leadership);
    }
}

impl Collector for Standing {
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
    fn both_are_as_they_are_at_the_look_and_not_as_they_were_before() {
        let registry = metrics::registry().unwrap();
        let readiness = Readiness::new();
        let listed = readiness.expect("pods");
        let standing = Standing::new(&registry, "p", readiness).unwrap();
        let says = |leading, ready| {
            let text = metrics::text(&registry).unwrap();
            let lines = [format!("podgroup_leading{{program=\"p\"}} {leading}\n"), format!("podgroup_ready{{program=\"p\"}} {ready}\n")];
            assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        };
        says(0, 0);
        listed.complete();
        says(0, 1);
        standing.elected(Leadership::always());
        says(1, 1);
        listed.trouble(Some("cut off".to_owned()));
        says(1, 0);
    }
}
