//! Are the plugin, the controller and the scheduler of one version, and what to do where not? Pure.

use serde_json::{Value, json};

use crate::api::names::{CONTROLLER, SCHEDULER, VERSION};
use crate::runtime::beside;

use super::gap::{self, Gap};
use super::page::{Line, Page, Tone};

/// What is known of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    name: &'static str,
    /// None where nobody says it.
    version: Option<String>,
    /// Who holds its Lease.
    holder: Option<String>,
}

/// The versions of what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    controller: Program,
    scheduler: Program,
    gaps: Vec<Gap>,
}

impl Report {
    /// From the Leases of the two programs, or why there is none.
    #[must_use]
    pub fn of(controller: Result<Value, String>, scheduler: Result<Value, String>) -> Self {
        let mut gaps = Vec::new();
        let controller = program(CONTROLLER, controller, &mut gaps);
        let scheduler = program(SCHEDULER, scheduler, &mut gaps);
        Self { controller, scheduler, gaps }
    }

    /// What differs, and what to do about it.
    fn differences(&self) -> Vec<String> {
        let (controller, scheduler) = (self.controller.version.as_deref(), self.scheduler.version.as_deref());
        let apart = |a: Option<&str>, b: Option<&str>| a.zip(b).is_some_and(|(a, b)| a != b);
        let mut all = Vec::new();
        if apart(controller, scheduler) {
            all.push(format!(
                "{CONTROLLER} and {SCHEDULER} differ: any two go together, and what is new in one is in force only as far as the other knows it. \
                 helm upgrade brings both to one version"
            ));
        }
        if apart(Some(beside::VERSION), scheduler) {
            all.push(format!(
                "this plugin and {SCHEDULER} differ: what the plugin computes itself (why, nodes) follows its own rules. Install the plugin of the scheduler's version"
            ));
        }
        all
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let of = |program: &Program| json!({ "version": program.version, "holder": program.holder });
        json!({
            "plugin": beside::VERSION,
            "controller": of(&self.controller),
            "scheduler": of(&self.scheduler),
            "differences": self.differences(),
            "unknown": gap::json(&self.gaps),
        })
    }

    /// The same for people.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let mut rows = vec![vec![Line::new("kubectl-podgroup"), Line::new(beside::VERSION), Line::default()]];
        for Program { name, version, holder } in [&self.controller, &self.scheduler] {
            let holder = Line::default().and(Tone::Faint, holder.as_deref().unwrap_or_default());
            rows.push(vec![Line::new(name), Line::new(version.as_deref().unwrap_or("?")), holder]);
        }
        Line::aligned(0, rows).into_iter().for_each(|line| page.line(line));
        for difference in self.differences() {
            page.line(Line::default().and(Tone::Warn, difference));
        }
        gap::show(&mut page, &self.gaps);
        page
    }
}

fn program(name: &'static str, lease: Result<Value, String>, gaps: &mut Vec<Gap>) -> Program {
    let what = || format!("the version of {name}");
    let lease = match lease {
        Ok(lease) => lease,
        Err(why) => {
            gaps.push(Gap::new(what(), why));
            return Program { name, version: None, holder: None };
        }
    };
    let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).filter(|holder| !holder.is_empty()).map(str::to_owned);
    let said = lease.pointer("/metadata/annotations").and_then(|all| all.get(VERSION)?.as_str()).map(str::to_owned);
    // What stands in a Lease that nobody holds was said by one who is gone.
    let version = said.filter(|_| holder.is_some());
    if version.is_none() {
        let why = if holder.is_some() { "its Lease does not say: it is older than this plugin" } else { "nobody holds its Lease" };
        gaps.push(Gap::new(what(), why));
    }
    Program { name, version, holder }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(version: &str, holder: &str) -> Result<Value, String> {
        Ok(json!({"metadata": {"annotations": {"podgroup.dev/version": version}}, "spec": {"holderIdentity": holder}}))
    }

    #[test]
    fn programs_of_one_version_are_told_and_nothing_else() {
        let report = Report::of(lease(beside::VERSION, "c_1"), lease(beside::VERSION, "s_2"));
        let rows = report.page().render(false);
        assert_eq!(rows.lines().count(), 3, "{rows}");
        assert!(rows.lines().all(|line| line.contains(beside::VERSION)) && rows.contains("c_1") && rows.contains("s_2"), "{rows}");
        assert_eq!((report.json()["differences"].clone(), report.json()["unknown"].clone()), (json!([]), json!([])));
    }

    #[test]
    fn what_differs_is_said_with_what_to_do() {
        let older = Report::of(lease(beside::VERSION, "c"), lease("0.0.1", "s"));
        let page = older.page().render(false);
        for part in ["podgroup-scheduler   0.0.1", "helm upgrade", "Install the plugin of the scheduler's version"] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert_eq!(older.json()["scheduler"], json!({"version": "0.0.1", "holder": "s"}));
        let both = Report::of(lease("0.0.1", "c"), lease("0.0.1", "s"));
        assert!(!both.page().render(false).contains("helm upgrade") && both.differences().len() == 1, "only the plugin differs");
    }

    #[test]
    fn what_nobody_says_is_a_gap_and_no_difference() {
        let silent = Ok(json!({"metadata": {}, "spec": {"holderIdentity": "c"}}));
        for (controller, why) in
            [(silent, "older than this plugin"), (lease("0.0.1", ""), "nobody holds"), (Err("forbidden: no".to_owned()), "forbidden: no")]
        {
            let report = Report::of(controller, lease(beside::VERSION, "s"));
            let page = report.page().render(false);
            assert!(report.differences().is_empty() && page.contains("Not known") && page.contains(why), "{page}");
        }
    }
}
