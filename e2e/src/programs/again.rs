//! Decides whether a program that ended by itself is started again: only if it says that it lost its lease, and only a few times. Also
//! finds in a log why it ended.
//!
//! A leader that cannot renew its lease must end with status 1 (`docs/operations.md`), and its kubelet starts it again. Every other end is
//! a failure: another status, a signal, a panic, a log without that message.

/// The largest number of restarts in one case. A program that loses its lease more often does not renew it.
pub(super) const AT_MOST: u32 = 3;

/// How many last lines of a log are searched: other tasks may still log between the loss of the lease and the end of the process.
const LAST: usize = 100;

/// Returns whether a process that ended with `code` (`None`: by a signal) is started again. `log` is the end of its log since its start,
/// `lease` is the `namespace/name` of its lease, and `before` is the number of restarts so far.
pub(super) fn starts_again(code: Option<i32>, log: &str, lease: &str, before: u32) -> bool {
    let lost = format!("error=\"the lease {lease} is lost: ");
    let last: Vec<&str> = log.lines().rev().take(LAST).collect();
    // The reason of the end is logged once.
    let mut reasons = last.iter().filter(|line| line.contains("the program ends"));
    let only_the_lease = reasons.next().is_some_and(|line| line.contains(&lost)) && reasons.next().is_none();
    let panicked = last.iter().any(|line| line.contains("panicked"));
    code == Some(1) && only_the_lease && !panicked && before < AT_MOST
}

/// Returns the last line of a log that says why the program ended: a task that ended, or a panic. `None` when no line does.
pub(super) fn reason(log: &str) -> Option<&str> {
    log.lines().rev().find(|line| line.contains("the program ends") || line.contains("panicked at"))
}

/// Returns whether the log of a process since its start says that it leads.
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
    const LEADS: &str = "2026-11-21T15:33:39.0Z  INFO podgroup::runtime::leader::elector: leading \
                         lease=\"podgroup-system/podgroup-controller\" identity=\"vm_1\"\n";

    #[test]
    fn a_program_that_lost_its_lease_is_started_again_three_times() {
        let log = [BEFORE, LOST, BEFORE, ENDED].concat();
        let again: Vec<bool> = (0..5).map(|before| starts_again(Some(1), &log, LEASE, before)).collect();
        assert_eq!(again, [true, true, true, false, false]);
    }

    #[test]
    fn after_any_other_end_a_program_is_not_started_again() {
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
    fn the_reason_of_an_end_is_the_last_task_that_ended_or_a_panic() {
        let panicked = "thread 'tokio' panicked at src/controller/reconciler.rs:1:1:\n";
        assert_eq!(reason(&[BEFORE, LOST, BEFORE, ENDED].concat()), Some(LOST.trim_end()));
        assert_eq!(reason(&[LOST, panicked, ENDED].concat()), Some(panicked.trim_end()));
        assert_eq!(reason(&[BEFORE, ENDED].concat()), None);
    }

    #[test]
    fn a_leader_says_in_its_log_that_it_leads() {
        assert!(leads(&[BEFORE, LEADS, BEFORE].concat(), LEASE));
        assert!(!leads(&[BEFORE, LOST].concat(), LEASE));
        assert!(!leads(LEADS, "podgroup-system/podgroup-scheduler"));
    }
}
