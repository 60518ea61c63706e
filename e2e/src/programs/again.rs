//! Is a program that ended by itself started again? Only one that says that it lost its lease, and not without an end.
//!
//! A leader that cannot renew its lease has to end with status 1 (`docs/operations.md`), and its kubelet starts it again. Every other end is a failure: another
//! status, a signal, a panic, a log that does not say so.

/// So often in one case: a lease is lost in a rare outage, and who loses it all the time does not renew it.
pub(super) const AT_MOST: u32 = 3;

/// The end of a log is its last lines, so many: between the loss of the lease and the end of the process others may still say something.
const LAST: usize = 100;

/// Whether the process that ended with `code` (none: by a signal) is started again. `log` is the end of what it wrote since its start, `lease` the
/// `namespace/name` of its lease, and `before` says how often it was started again so far.
pub(super) fn starts_again(code: Option<i32>, log: &str, lease: &str, before: u32) -> bool {
    let lost = format!("error=\"the lease {lease} is lost: ");
    let last: Vec<&str> = log.lines().rev().take(LAST).collect();
    // What ended it is said once.
    let mut reasons = last.iter().filter(|line| line.contains("the program ends"));
    let only_the_lease = reasons.next().is_some_and(|line| line.contains(&lost)) && reasons.next().is_none();
    let panicked = last.iter().any(|line| line.contains("panicked"));
    code == Some(1) && only_the_lease && !panicked && before < AT_MOST
}

/// Whether what a process wrote since its start says that it leads.
pub(super) fn leads(log: &str, lease: &str) -> bool {
    let leading = format!(": leading lease=\"{lease}\"");
    log.lines().any(|line| line.contains(&leading))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: &str = "podgroup-system/podgroup-controller";
    const BEFORE: &str =
        "2026-11-21T15:32:36.7Z  INFO podgroup::controller::group_state: PodGroup written group=default/g step=\"unmark\"\n";
    const LOST: &str = "2026-11-21T15:32:37.8Z ERROR podgroup::runtime::program: failed; the program ends task=\"leader election\" \
                        error=\"the lease podgroup-system/podgroup-controller is lost: it could not be renewed in time\"\n";
    const FAILED: &str =
        "2026-11-21T15:32:37.8Z ERROR podgroup::runtime::program: failed; the program ends task=\"reconciler\" error=\"no more events\"\n";
    const ENDED: &str = "2026-11-21T15:32:37.9Z  INFO podgroup::runtime::program: ended\n";
    const LEADS: &str = "2026-11-21T15:33:39.0Z  INFO podgroup::runtime::leader_elector: leading \
                         lease=\"podgroup-system/podgroup-controller\" identity=\"vm_1\"\n";

    #[test]
    fn who_lost_its_lease_is_started_again_three_times() {
        let log = [BEFORE, LOST, BEFORE, ENDED].concat();
        let again: Vec<bool> = (0..5).map(|before| starts_again(Some(1), &log, LEASE, before)).collect();
        assert_eq!(again, [true, true, true, false, false]);
    }

    #[test]
    fn no_other_end_is_started_again() {
        let log = [BEFORE, LOST, ENDED].concat();
        for code in [None, Some(0), Some(2), Some(101), Some(137)] {
            assert!(!starts_again(code, &log, LEASE, 0), "{code:?}");
        }
        let panicked = "thread 'tokio' panicked at src/controller/reconciler.rs:1:1:\n";
        let long_ago = [LOST, &BEFORE.repeat(LAST), ENDED].concat();
        for log in ["", ENDED, FAILED, &[LOST, FAILED].concat(), &[FAILED, LOST].concat(), &[panicked, LOST, ENDED].concat(), &long_ago] {
            assert!(!starts_again(Some(1), log, LEASE, 0), "{log}");
        }
        assert!(!starts_again(Some(1), &log, "podgroup-system/podgroup-scheduler", 0));
    }

    #[test]
    fn who_leads_has_said_so() {
        assert!(leads(&[BEFORE, LEADS, BEFORE].concat(), LEASE));
        assert!(!leads(&[BEFORE, LOST].concat(), LEASE));
        assert!(!leads(LEADS, "podgroup-system/podgroup-scheduler"));
    }
}
