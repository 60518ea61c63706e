//! Compares the versions of the plugin, the controller and the scheduler, and says what to do about a difference. Pure.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::names::{CONTROLLER, SCHEDULER, VERSION};
use crate::runtime::version_skew;

use super::gap::{self, Gap};
use super::page::{Line, Page, Tone};

/// What is known of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    name: &'static str,
    /// `None` where the version is unknown.
    version: Option<String>,
    /// The holder of its Lease.
    holder: Option<String>,
    /// For how many seconds the holder has not renewed the Lease, where that means that it is gone.
    not_renewed_for: Option<i64>,
}

impl Program {
    const fn unknown(name: &'static str) -> Self {
        Self { name, version: None, holder: None, not_renewed_for: None }
    }
}

/// The versions of the programs that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    controller: Program,
    scheduler: Program,
    gaps: Vec<Gap>,
}

impl Report {
    /// Makes the report at this moment from the Leases of the two programs, or from the errors in reading them.
    #[must_use]
    pub fn of(controller: Result<Value, String>, scheduler: Result<Value, String>, now: Timestamp) -> Self {
        let mut gaps = Vec::new();
        let controller = program(CONTROLLER, controller, now, &mut gaps);
        let scheduler = program(SCHEDULER, scheduler, now, &mut gaps);
        Self { controller, scheduler, gaps }
    }

    /// Returns the differences, with what to do about them.
    fn differences(&self) -> Vec<String> {
        let (controller, scheduler) = (self.controller.version.as_deref(), self.scheduler.version.as_deref());
        let apart = |a: Option<&str>, b: Option<&str>| a.zip(b).is_some_and(|(a, b)| a != b);
        let mut all = Vec::new();
        if apart(controller, scheduler) {
            all.push(format!(
                "{CONTROLLER} and {SCHEDULER} differ: any two versions work together, but a feature works only as far as both programs know it. \
                 helm upgrade brings both to one version"
            ));
        }
        if apart(Some(version_skew::VERSION), scheduler) {
            all.push(format!(
                "this plugin and {SCHEDULER} differ: what the plugin computes itself (why, nodes) follows its own rules. Install the plugin of the scheduler's version"
            ));
        }
        // If the scheduler has a version, it is compared instead.
        if scheduler.is_none() && apart(Some(version_skew::VERSION), controller) {
            all.push(format!("this plugin and {CONTROLLER} differ, and no {SCHEDULER} is known to be there. Install the plugin of the controller's version"));
        }
        all
    }

    /// Returns the answer for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let of = |program: &Program| json!({ "version": program.version, "holder": program.holder, "notRenewedForSeconds": program.not_renewed_for });
        json!({
            "plugin": version_skew::VERSION,
            "controller": of(&self.controller),
            "scheduler": of(&self.scheduler),
            "differences": self.differences(),
            "unknown": gap::json(&self.gaps),
        })
    }

    /// Returns the page for people.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let mut rows = vec![vec![Line::new("kubectl-podgroup"), Line::new(version_skew::VERSION), Line::default()]];
        for Program { name, version, holder, not_renewed_for } in [&self.controller, &self.scheduler] {
            let mut holder = Line::default().and(Tone::Faint, holder.as_deref().unwrap_or_default());
            if let Some(seconds) = not_renewed_for {
                holder = holder.and(Tone::Bad, format!("  not renewed for {seconds}s"));
            }
            rows.push(vec![Line::new(name), Line::new(version.as_deref().unwrap_or("?")), holder]);
        }
        page.table(0, rows);
        for difference in self.differences() {
            page.line(Line::default().and(Tone::Warn, difference));
        }
        gap::show(&mut page, &self.gaps);
        page
    }
}

/// Returns why a program does not work at this moment, from its Lease; `None` if a process holds the Lease and renews it.
#[must_use]
pub fn not_working(name: &'static str, lease: Value, now: Timestamp) -> Option<String> {
    let mut gaps = Vec::new();
    let program = program(name, Ok(lease), now, &mut gaps);
    let works = program.holder.is_some() && program.not_renewed_for.is_none();
    gaps.pop().filter(|_| !works).map(|gap| format!("{name} does not work: {}", gap.why))
}

fn program(name: &'static str, lease: Result<Value, String>, now: Timestamp, gaps: &mut Vec<Gap>) -> Program {
    let mut unknown = |why: String| gaps.push(Gap::new(format!("the version of {name}"), why));
    let lease = match lease.and_then(|lease| Lease::deserialize(lease).map_err(|error| format!("its Lease cannot be read: {error}"))) {
        Ok(lease) => lease,
        Err(why) => {
            unknown(why);
            return Program::unknown(name);
        }
    };
    let Some(holder) = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).filter(|holder| !holder.is_empty()) else {
        // The annotation on a Lease without a holder is that of a process that has ended.
        unknown("no process holds its Lease".to_owned());
        return Program::unknown(name);
    };
    let written = lease.metadata.annotations.as_ref().and_then(|all| all.get(VERSION)).cloned();
    let not_renewed_for = version_skew::not_renewed_for(&lease, now).map(|since| since.as_secs());
    let why = match (not_renewed_for, &written) {
        (Some(seconds), written) => {
            let was = written.as_deref().map(|version| format!("; it was {version}")).unwrap_or_default();
            Some(format!(
                "{holder} holds its Lease and has not renewed it for {seconds}s: it is gone or cannot reach the API server, and no other process has taken its place{was}. \
                 See whether its pods run (kubectl get pods -A -l app.kubernetes.io/name=podgroup)"
            ))
        }
        (None, None) => Some("its Lease does not say: it is older than this plugin".to_owned()),
        (None, Some(_)) => None,
    };
    let version = written.filter(|_| why.is_none());
    if let Some(why) = why {
        unknown(why);
    }
    Program { name, version, holder: Some(holder), not_renewed_for }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn lease(version: &str, holder: &str) -> Result<Value, String> {
        Ok(json!({"metadata": {"annotations": {"podgroup.dev/version": version}}, "spec": {"holderIdentity": holder}}))
    }

    /// Returns a Lease with a duration of 15 s that was renewed at this time.
    fn renewed(at: &str) -> Result<Value, String> {
        let mut lease = lease(version_skew::VERSION, "s_2")?;
        lease["spec"]["leaseDurationSeconds"] = json!(15);
        lease["spec"]["renewTime"] = json!(at);
        Ok(lease)
    }

    fn report(controller: Result<Value, String>, scheduler: Result<Value, String>) -> Report {
        Report::of(controller, scheduler, NOW.parse().unwrap())
    }

    #[test]
    fn a_program_with_an_expired_lease_has_no_version() {
        let alive = report(lease(version_skew::VERSION, "c_1"), renewed("2026-01-01T00:08:46.000000Z"));
        assert_eq!((alive.json()["unknown"].clone(), alive.json()["scheduler"]["notRenewedForSeconds"].clone()), (json!([]), Value::Null));
        let gone = report(lease("0.0.1", "c_1"), renewed("2026-01-01T00:08:00.000000Z"));
        let page = gone.page().render(false);
        for part in [
            "podgroup-scheduler   ?",
            "s_2  not renewed for 120s",
            "s_2 holds its Lease and has not renewed it for 120s",
            version_skew::VERSION,
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert_eq!(gone.json()["scheduler"], json!({"version": null, "holder": "s_2", "notRenewedForSeconds": 120}));
        let [difference] = &gone.differences()[..] else { panic!("what is gone differs from nothing: {page}") };
        assert!(difference.contains("Install the plugin of the controller's version"), "{difference}");
    }

    #[test]
    fn a_program_works_if_a_process_holds_and_renews_its_lease() {
        let of = |lease: Result<Value, String>| not_working(CONTROLLER, lease.unwrap(), NOW.parse().unwrap());
        assert_eq!(of(lease("0.0.1", "c_1")), None);
        assert_eq!(of(lease("0.0.1", "")).unwrap(), "podgroup-controller does not work: no process holds its Lease");
        assert!(of(renewed("2026-01-01T00:08:00.000000Z")).unwrap().contains("does not work: s_2 holds its Lease and has not renewed it"));
    }

    #[test]
    fn programs_of_one_version_are_listed_without_remarks() {
        let report = report(lease(version_skew::VERSION, "c_1"), lease(version_skew::VERSION, "s_2"));
        let rows = report.page().render(false);
        assert_eq!(rows.lines().count(), 3, "{rows}");
        assert!(rows.lines().all(|line| line.contains(version_skew::VERSION)) && rows.contains("c_1") && rows.contains("s_2"), "{rows}");
        assert_eq!((report.json()["differences"].clone(), report.json()["unknown"].clone()), (json!([]), json!([])));
    }

    #[test]
    fn a_difference_comes_with_what_to_do() {
        let older = report(lease(version_skew::VERSION, "c"), lease("0.0.1", "s"));
        let page = older.page().render(false);
        for part in ["podgroup-scheduler   0.0.1", "helm upgrade", "Install the plugin of the scheduler's version"] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert_eq!(older.json()["scheduler"], json!({"version": "0.0.1", "holder": "s", "notRenewedForSeconds": null}));
        let both = report(lease("0.0.1", "c"), lease("0.0.1", "s"));
        assert!(!both.page().render(false).contains("helm upgrade") && both.differences().len() == 1, "only the plugin differs");
    }

    #[test]
    fn an_unknown_version_is_a_gap_and_no_difference() {
        let without_version = Ok(json!({"metadata": {}, "spec": {"holderIdentity": "c"}}));
        for (controller, why) in [
            (without_version, "older than this plugin"),
            (lease("0.0.1", ""), "no process holds"),
            (Err("forbidden: no".to_owned()), "forbidden: no"),
        ] {
            let report = report(controller, lease(version_skew::VERSION, "s"));
            let page = report.page().render(false);
            assert!(report.differences().is_empty() && page.contains("Not known") && page.contains(why), "{page}");
        }
    }
}
