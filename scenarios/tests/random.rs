//! Random scenarios: small clusters, every action of the language, faults, ends of the programs.
//!
//! A case is drawn as numbers and written as text, so a failure is a scenario that can be kept as a file. Beside what the observer and the
//! audit find after each line, one promise is checked at the end: when the faults are over and time has passed, nothing is bound or evicted
//! any more, and a scheduler that starts from nothing finds nothing to bind or evict either. So no PodGroup is forgotten, and no decision
//! depends on history.
//!
//! The seed is `PODGROUP_TEST_SEED`, as for the other random tests; it is printed.

use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

/// How many cases a run has, times `PODGROUP_TEST_TIMES`.
const CASES: u32 = 40;

/// One action: which, and three numbers that say with what.
type Step = (u8, u8, u8, u8);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What the text so far has created.
#[derive(Default)]
struct Made {
    groups: Vec<(String, u8)>,
    deployments: Vec<String>,
    scheduler_runs: bool,
}

/// Writes a case as a scenario.
fn write(steps: &[Step], with_faults: bool) -> String {
    let mut text = String::new();
    let mut made = Made { scheduler_runs: true, ..Made::default() };
    let mut line = |words: String| _ = writeln!(text, "{words}");
    line("start controller".to_owned());
    line("start scheduler".to_owned());
    for (which, a, b, c) in steps {
        if let Some(words) = step(&mut made, with_faults, *which, *a, *b, *c) {
            line(words);
        }
    }
    if !made.scheduler_runs {
        line("start scheduler".to_owned());
    }
    line("answer as usual; later 200s; mark".to_owned());
    line("for 60s requests 0 bind".to_owned());
    line("requests 0 evict".to_owned());
    line("restart scheduler".to_owned());
    line("later 60s".to_owned());
    line("requests 0 bind".to_owned());
    line("requests 0 evict".to_owned());
    text
}

fn step(made: &mut Made, with_faults: bool, which: u8, a: u8, b: u8, c: u8) -> Option<String> {
    let queue = |number: u8| ["default", "a", "b", "c"][usize::from(number % 4)];
    let group = |made: &Made| made.groups.get(usize::from(a) % made.groups.len().max(1)).cloned();
    Some(match which % 16 {
        0 | 1 => {
            let zone = if b.is_multiple_of(2) { "x" } else { "y" };
            let cordoned = if c.is_multiple_of(5) { " cordoned" } else { "" };
            format!("node n{} cpu:{} label=zone:{zone}{cordoned}", a % 4, 2 + b % 5)
        }
        2 => {
            let below = if a % 3 == 2 { " below a" } else { "" };
            let capability = if b.is_multiple_of(3) { String::new() } else { format!(" capability=cpu:{}", 1 + b % 8) };
            let deserved = if c.is_multiple_of(2) { String::new() } else { format!(" deserved=cpu:{}", 1 + c % 4) };
            let guarantee = if c % 5 == 1 { " guarantee=cpu:1" } else { "" };
            let fifo = if b % 7 == 1 { " fifo" } else { "" };
            format!("queue {}{below}{capability}{deserved}{guarantee}{fifo}", ["a", "b", "c"][usize::from(a % 3)])
        }
        3..=5 => {
            let (name, size) = (format!("g{}", made.groups.len()), 1 + b % 4);
            made.groups.push((name.clone(), size));
            let least = if c.is_multiple_of(4) { format!(" min={}", 1 + size / 2) } else { String::new() };
            let priority = if c.is_multiple_of(3) { format!(" priority={}", c % 7) } else { String::new() };
            let zone = if c % 6 == 1 { " select=zone:x" } else { "" };
            format!("gang {name} {size} in {} cpu:{}{least}{priority}{zone}", queue(a), 1 + c % 3)
        }
        6 => {
            let name = format!("d{}", made.deployments.len());
            made.deployments.push(name.clone());
            format!("deployment {name} {} in {} cpu:1 min={}", 1 + b % 3, queue(a), 1 + b % 3)
        }
        7 => format!("try scale {} {}", made.deployments.get(usize::from(a) % made.deployments.len().max(1))?, b % 4),
        8 => {
            let (name, size) = group(made)?;
            format!("try delete pod {name}-{}", b % size)
        }
        9 => {
            let (name, size) = group(made)?;
            format!("try finish {name}-{}{}", b % size, if c.is_multiple_of(3) { " failed" } else { "" })
        }
        10 => {
            let (name, size) = group(made)?;
            let pods: Vec<String> = (0..size).map(|number| format!("{name}-{number}")).collect();
            format!("try delete pod {}; try delete group {name}", pods.join(" "))
        }
        11 => format!("try delete node n{}", a % 4),
        12 => format!("later {}s", 1 + u32::from(a) % 60),
        13 if with_faults => {
            let answer = ["409", "404", "429", "503", "late 3s", "slow 4s", "lost", "unreachable"][usize::from(a % 8)];
            let to = ["bind", "evict", "patch podgroups", "create podgroups", "delete podgroups", "patch pods/status"][usize::from(b % 6)];
            format!("answer {answer} to {to} times={}", 1 + c % 3)
        }
        14 if with_faults && made.scheduler_runs => {
            made.scheduler_runs = false;
            if a.is_multiple_of(2) { "kill scheduler".to_owned() } else { "stop scheduler".to_owned() }
        }
        14 | 15 if !made.scheduler_runs => {
            made.scheduler_runs = true;
            "start scheduler".to_owned()
        }
        15 if with_faults && a.is_multiple_of(4) => "kill controller; start controller".to_owned(),
        _ => return None,
    })
}

fn check(with_faults: bool) {
    let seed = number("PODGROUP_TEST_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("PODGROUP_TEST_SEED={seed}");
    let cases = CASES * u32::try_from(number("PODGROUP_TEST_TIMES").unwrap_or(1)).expect("a small number");
    let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let steps = prop::collection::vec(any::<Step>(), 4..28);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        podgroup_scenarios::play::play(&write(&steps, with_faults)).map_err(|error| TestCaseError::fail(error.to_string()))
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => panic!("PODGROUP_TEST_SEED={seed}: {why}\nthe scenario:\n{}", write(&steps, with_faults)),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

#[test]
fn without_faults_no_gang_is_partial_and_none_is_forgotten() {
    check(false);
}

#[test]
fn with_faults_and_ends_of_programs_the_accounting_is_right_and_no_gang_is_forgotten() {
    check(true);
}
