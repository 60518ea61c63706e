//! What does a case need of its world? The settings, and what they mean for the chart and the programs.

use crate::chart;
use crate::faults::Faults;
use crate::objects::SCHEDULER_NAME;

/// The settings of a world. The default is the chart's defaults with both programs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether the chart is installed and the programs run. False for the cases of the harness itself.
    pub programs: bool,
    /// Whether the chart's admission policy annotates pods. Without it the controller does.
    pub admission_policy: bool,
    /// See [`crate::cluster::ClusterOptions::disable_qps_limits`].
    pub disable_qps_limits: bool,
    /// Whether the stock scheduler runs beside ours.
    pub kube_scheduler: bool,
    /// Whether the stock scheduler runs in place of ours, with our scheduler name. It shows which program makes a case fail. It supports
    /// neither gangs nor queues.
    pub stock_places: bool,
    /// Whether the programs connect to the API server without proxies, for programs that outlive this process.
    pub no_proxies: bool,
    /// Whether the release programs run, where there are any: see [`crate::programs::shipped`].
    pub shipped: bool,
    /// Whether each program has a second replica, with its own token and proxies. Both elect their leader with a short lease.
    pub replicas: bool,
    /// The faults of the programs' requests, from the moment when they are ready.
    pub faults: Faults,
    /// A scheduler name that the programs serve besides [`SCHEDULER_NAME`].
    pub also_serves: Option<&'static str>,
    /// See [`crate::cluster::ClusterOptions::jobs_run_on`].
    pub jobs_run_on: bool,
    /// Whether the observer judges bindings without asking the oracle about constraints. Then kube-scheduler's code need not be built.
    pub no_oracle: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            programs: true,
            admission_policy: true,
            disable_qps_limits: false,
            kube_scheduler: false,
            stock_places: false,
            no_proxies: false,
            shipped: false,
            replicas: false,
            faults: Faults::None,
            also_serves: None,
            jobs_run_on: false,
            no_oracle: false,
        }
    }
}

impl Setup {
    /// Returns the scheduler names that the programs serve.
    pub fn schedulers(&self) -> Vec<&'static str> {
        [SCHEDULER_NAME].into_iter().chain(self.also_serves).collect()
    }

    /// Returns the values of the chart that differ from its defaults.
    pub(crate) fn values(&self) -> Vec<String> {
        let mut values = Vec::new();
        if !self.admission_policy {
            values.extend(["admissionPolicy.enabled=false", "controller.annotatePods=true"].map(str::to_owned));
        }
        if self.also_serves.is_some() {
            values.push(format!("schedulerNames={{{}}}", self.schedulers().join(",")));
        }
        values
    }

    /// Returns the flags of a program that the chart renders from these values.
    pub(crate) fn flags(&self, account: &str) -> Vec<String> {
        let mut flags = Vec::new();
        if !self.admission_policy && account == chart::CONTROLLER {
            flags.push("--annotate-pods".to_owned());
        }
        if self.also_serves.is_some() {
            flags.extend(self.schedulers().iter().map(|name| format!("--scheduler-name={name}")));
        }
        flags
    }
}
