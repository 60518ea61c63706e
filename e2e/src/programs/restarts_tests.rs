//! Tests which programs the kubelet starts again, with a shell script as the program.

use std::path::Path;
use std::sync::MutexGuard;

use super::*;
use crate::programs::process::{BACK_OFF, Process, State};
use crate::scratch::{Scratch, processes_of};

const NAME: &str = "podgroup-controller";

/// Returns a script that loses its lease at its first `times` starts, and then leads.
fn loses(times: u32) -> String {
    format!(
        "echo start >>\"$0\"
         echo ' INFO leader_elector: leading lease=\"podgroup-system/{NAME}\" identity=\"x\"'
         if [ $(wc -l <\"$0\") -gt {times} ]; then mkfifo \"$0.fifo\"; read -r <>\"$0.fifo\"; fi
         echo 'ERROR program: failed; the program ends task=\"leader election\" error=\"the lease podgroup-system/{NAME} is lost: x\"'
         echo ' INFO program: ended'
         exit 1"
    )
}

/// Returns the text about a program that ended because it lost its lease.
fn lost() -> String {
    format!(
        "{NAME} ended by itself: exit status: 1; the reason in its log: ERROR program: failed; the program ends task=\"leader election\" \
         error=\"the lease podgroup-system/{NAME} is lost: x\""
    )
}

/// Starts a shell with this script; it writes each start into a file.
fn program(scratch: &Scratch, script: &str) -> Program {
    let path = scratch.link(Path::new("/bin/bash")).unwrap();
    let counted = scratch.path("starts").display().to_string();
    let arguments = vec!["-c".to_owned(), script.to_owned(), counted];
    let mut program = Program::of(NAME, path, arguments, &[], scratch.folder().join("logs/shell.log"), 0);
    program.launch().unwrap();
    program
}

fn starts(scratch: &Scratch) -> usize {
    std::fs::read_to_string(scratch.path("starts")).unwrap_or_default().lines().count()
}

/// Waits until the condition holds.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < secs(30), "{what}");
        sleep(millis(10)).await;
    }
}

fn process(program: &Program) -> MutexGuard<'_, Process> {
    program.process.lock()
}

fn waits(program: &Program) -> bool {
    matches!(process(program).state, State::Waits(..))
}

#[tokio::test]
async fn a_program_that_lost_its_lease_is_started_again_and_the_waits_do_not_count_its_absence() {
    let scratch = Scratch::new("unit").unwrap();
    let start = Instant::now();
    let mut program = program(&scratch, &loses(2));
    let patience = Patience::default();
    let restarts = Restarts::start([&mut program].into_iter(), None, patience.clone());
    until("the program runs for the third time", || {
        assert_eq!(program.unexpected_end(), None);
        starts(&scratch) == 3
    })
    .await;
    restarts.all_back().await.unwrap();
    assert!(program.runs());
    assert_eq!(program.started_again(), 2);
    let idle = async || {
        let (patience, now) = (patience.clone(), Instant::now());
        patience.over(async { (Patience::idle(start, now), Patience::now()) }).await
    };
    let (absent, extra) = idle().await;
    assert!((BACK_OFF * 2..start.elapsed()).contains(&absent), "{absent:?} of {:?}", start.elapsed());
    sleep(millis(500)).await;
    assert_eq!((idle().await, extra), ((absent, Duration::ZERO), Duration::ZERO), "it is back");
}

#[tokio::test]
async fn the_time_before_the_check_that_sees_it_lead_again_is_not_counted_either() {
    let scratch = Scratch::new("unit").unwrap();
    let mut program = program(&scratch, &loses(1));
    process(&program).kept = true;
    until("it lost its lease", || program.unexpected_end().is_none() && waits(&program)).await;
    let (patience, start) = (Patience::default(), Instant::now());
    let mut round = Round::new(vec![program.process.clone()], start);
    process(&program).start().unwrap();
    until("it leads again", || process(&program).leads().unwrap()).await;
    round.beat(start + secs(1), None, &patience);
    assert!(!process(&program).is_missed());
    assert_eq!(patience.over(async { Patience::idle(start, start + secs(9)) }).await, secs(1));
}

#[tokio::test]
async fn a_program_that_never_leads_again_is_not_waited_for_for_ever() {
    let scratch = Scratch::new("unit").unwrap();
    let mut program = program(&scratch, &loses(1).replace(": leading", ": waiting"));
    process(&program).kept = true;
    until("it lost its lease", || program.unexpected_end().is_none() && waits(&program)).await;
    let (patience, start) = (Patience::default(), Instant::now());
    let mut round = Round::new(vec![program.process.clone()], start);
    (1..=300).for_each(|second| round.beat(start + secs(second), None, &patience));
    let idle = patience.over(async { Patience::idle(start, start + secs(300)) }).await;
    // The first check notices it.
    assert_eq!(idle, AWAY + secs(1));
    assert!(process(&program).is_missed());
}

#[tokio::test]
async fn the_fourth_lost_lease_is_an_end_by_itself() {
    let scratch = Scratch::new("unit").unwrap();
    let mut program = program(&scratch, &loses(9));
    let _restarts = Restarts::start([&mut program].into_iter(), None, Patience::default());
    until("the program has ended", || program.unexpected_end().is_some()).await;
    assert_eq!(program.unexpected_end().unwrap(), lost());
    assert_eq!((starts(&scratch), program.started_again()), (4, 3));
}

#[tokio::test]
async fn without_a_kubelet_every_end_is_an_end_by_itself() {
    let scratch = Scratch::new("unit").unwrap();
    let mut program = program(&scratch, &loses(9));
    until("the program has ended", || program.unexpected_end().is_some()).await;
    process(&program).step(Instant::now() + BACK_OFF).unwrap();
    assert_eq!(program.unexpected_end().unwrap(), lost());
    assert!(!program.runs() && program.kill().await.is_err());
}

#[tokio::test]
async fn another_end_is_an_end_by_itself_with_a_kubelet_too() {
    let scratch = Scratch::new("unit").unwrap();
    let mut program = program(&scratch, &loses(9).replace("exit 1", "kill -KILL $$"));
    let _restarts = Restarts::start([&mut program].into_iter(), None, Patience::default());
    until("the program has ended", || program.unexpected_end().is_some()).await;
    assert_eq!((starts(&scratch), program.started_again()), (1, 0));
}

#[tokio::test]
async fn a_program_that_the_case_ends_is_not_started_again() {
    for end in ["kill", "terminate", "wait_end"] {
        let scratch = Scratch::new("unit").unwrap();
        let mut program = program(&scratch, &loses(99));
        process(&program).kept = true;
        until("it waits", || program.unexpected_end().is_none() && waits(&program)).await;
        process(&program).step(Instant::now()).unwrap();
        assert!(!program.runs() && process(&program).away());
        assert_eq!(program.started_again(), 0);
        match end {
            "kill" => program.kill().await.unwrap(),
            "terminate" => program.terminate().await.unwrap(),
            _ => assert_eq!(program.wait_end(secs(1)).await.unwrap().code(), Some(1)),
        }
        let before = starts(&scratch);
        process(&program).step(Instant::now() + BACK_OFF).unwrap();
        assert!(program.is_stopped() && !process(&program).away(), "{end}");
        program.launch().unwrap();
        until("the case starts the program", || starts(&scratch) == before + 1).await;
    }
}

#[tokio::test]
async fn a_dropped_program_is_not_started_again() {
    let scratch = Scratch::new("unit").unwrap();
    let mut program = program(&scratch, &loses(1));
    let process = program.process.clone();
    process.lock().kept = true;
    until("it waits", || program.unexpected_end().is_none() && waits(&program)).await;
    drop(program);
    process.lock().step(Instant::now() + BACK_OFF).unwrap();
    assert!(processes_of(scratch.folder()).is_empty());
    // A kubelet that still managed the program would start it here.
    process.lock().start().unwrap();
    until("it runs", || starts(&scratch) == 2).await;
    assert!(!processes_of(scratch.folder()).is_empty());
}
