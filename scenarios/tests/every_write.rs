//! Is a gang whole again, at whichever write its scheduler is killed? One scenario for every number of writes.
//!
//! The scheduler is cut off after so many writes and then killed, so the API server is in exactly the state that a SIGKILL at that write
//! leaves. Without an election the next start follows at once, and makes the gang whole. Where a node is cordoned between the two and the
//! rest of the gang does not fit, the bound part is evicted after `--release-after`, and the gang waits as a whole.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use podgroup_scenarios::play::{play, writes};

/// The flags of every start of the scheduler.
const FLAGS: &str = "--leader-elect=false --release-after=30s";

/// The members of a small gang and of one with more members than are bound at the same time; every so many writes are tried.
const SIZES: [(usize, usize); 2] = [(12, 1), (40, 16)];

/// A gang that fills four nodes, and no scheduler.
fn waiting(members: usize) -> String {
    let nodes: String = (1..=4).map(|number| format!("node n{number} cpu:{}\n", members / 4)).collect();
    format!("start controller\n{nodes}deployment gang {members} cpu:1 min={members}\npods gang {members}\n")
}

/// The whole gang runs, and its PodGroup says so.
fn whole(members: usize) -> String {
    format!("within 60s bound gang {members}\nphase gang Running\nwhy gang nothing\n")
}

/// No pod of the gang has a node, and its PodGroup says why.
fn waits(members: usize) -> String {
    format!("within 60s bound gang none\npods gang {members}\nwhy gang \"unschedulable\"\nfor 10s bound gang none\n")
}

/// Kills the scheduler after so many writes, and starts it again after what happens `between`.
fn killed(members: usize, writes: usize, between: &str, then: &str) -> String {
    let before = waiting(members);
    format!("{before}cut scheduler after={writes}\nstart scheduler {FLAGS}\nkill scheduler\n{between}start scheduler {FLAGS}\n{then}")
}

/// Returns how many writes a scheduler makes for the gang.
fn all_writes(members: usize) -> usize {
    let all = writes(&format!("{}start scheduler {FLAGS}\n{}", waiting(members), whole(members)), "scheduler").expect("the gang is bound");
    assert!(all >= members, "{all} writes bind no gang of {members}");
    all
}

/// Runs a check for each number on all cores, and returns the failures.
fn each(numbers: impl Iterator<Item = usize>, check: impl Fn(usize) -> Result<(), String> + Sync) -> Vec<String> {
    let numbers: Vec<usize> = numbers.collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = check(*number) {
                        failures.lock().expect("no panic").push(format!("killed after {number} writes: {error}"));
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no panic")
}

#[test]
fn a_gang_is_whole_at_whichever_write_its_scheduler_is_killed() {
    for (members, step) in SIZES {
        let numbers = (0..=all_writes(members)).step_by(step);
        let failures = each(numbers, |number| play(&killed(members, number, "", &whole(members))).map_err(|error| error.to_string()));
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

#[test]
fn a_gang_that_fits_no_more_waits_as_a_whole_at_whichever_write_its_scheduler_is_killed() {
    for (members, step) in SIZES {
        let outcomes = Mutex::new(BTreeMap::new());
        let again = format!("node n4 cpu:{}\n{}", members / 4, whole(members));
        let failures = each((0..=all_writes(members)).step_by(3 * step), |number| {
            let played =
                |then: &str| play(&killed(members, number, &format!("node n4 cpu:{} cordoned\n", members / 4), &format!("{then}{again}")));
            let waited = played(&waits(members)).is_ok();
            if !waited {
                // Enough members are on the cordoned node.
                played(&whole(members)).map_err(|error| error.to_string())?;
            }
            outcomes.lock().expect("no panic").insert(number, waited);
            Ok(())
        });
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        let outcomes = outcomes.into_inner().expect("no panic");
        // The members are bound one after the other, so from one number of writes on there are enough.
        let (waited, whole): (Vec<usize>, Vec<usize>) = outcomes.keys().partition(|number| outcomes[number]);
        let in_order = waited.iter().max() < whole.iter().min() || whole.is_empty();
        assert!(in_order && !waited.is_empty(), "a gang of {members} waited after {waited:?} writes and was whole after {whole:?}");
    }
}
