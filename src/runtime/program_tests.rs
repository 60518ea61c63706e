//! The order in which the stages end, and the exit status.

use super::*;
use std::sync::{Arc, Mutex};
use tokio::time::sleep;

type Log = Arc<Mutex<Vec<&'static str>>>;

fn spawn(program: &mut Program, log: &Log, stage: Stage, name: &'static str, takes: u64) {
    let log = Arc::clone(log);
    program.spawn(stage, name, |stop| async move {
        stop.triggered().await;
        sleep(Duration::from_millis(takes)).await;
        log.lock().unwrap().push(name);
        Ok::<_, String>(())
    });
}

fn early(program: &mut Program, result: Result<(), String>) {
    program.spawn(Stage::Work, "early", |_| async move {
        sleep(Duration::from_secs(60)).await;
        result
    });
}

/// `ExitCode` cannot be compared.
fn shown(code: ExitCode) -> String {
    format!("{code:?}")
}

#[tokio::test(start_paused = true)]
async fn the_stages_end_in_order_however_they_were_started() {
    let (log, mut program) = (Log::default(), Program::new().unwrap());
    spawn(&mut program, &log, Stage::Serve, "http", 1);
    spawn(&mut program, &log, Stage::Lease, "lease", 50);
    spawn(&mut program, &log, Stage::Work, "watch", 10);
    spawn(&mut program, &log, Stage::Work, "worker", 500);
    early(&mut program, Ok(()));
    let code = program.run().await;
    assert_eq!(*log.lock().unwrap(), ["watch", "worker", "lease", "http"]);
    assert_eq!(shown(code), shown(ExitCode::FAILURE));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_end_is_aborted_and_the_rest_still_ends_within_four_seconds() {
    let (log, mut program) = (Log::default(), Program::new().unwrap());
    for (stage, name) in [(Stage::Work, "a"), (Stage::Lease, "b"), (Stage::Serve, "c")] {
        spawn(&mut program, &log, stage, name, 3_600_000);
    }
    spawn(&mut program, &log, Stage::Serve, "http", 10);
    early(&mut program, Err("no".to_owned()));
    let began = super::super::clock::monotonic();
    program.run().await;
    let took = super::super::clock::monotonic() - began - Duration::from_secs(60);
    assert_eq!(*log.lock().unwrap(), ["http"]);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_api_server_has_time_to_release_the_lease() {
    let (log, mut program) = (Log::default(), Program::new().unwrap());
    spawn(&mut program, &log, Stage::Lease, "lease", 1500);
    early(&mut program, Ok(()));
    program.run().await;
    assert_eq!(*log.lock().unwrap(), ["lease"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_ends_the_program_as_a_failure() {
    let (log, mut program) = (Log::default(), Program::new().unwrap());
    spawn(&mut program, &log, Stage::Serve, "http", 1);
    program.spawn(Stage::Work, "panics", |_| async {
        assert!(std::env::args().count() == 0, "on purpose");
        Ok::<_, String>(())
    });
    let code = program.run().await;
    assert_eq!(*log.lock().unwrap(), ["http"]);
    assert_eq!(shown(code), shown(ExitCode::FAILURE));
}

#[tokio::test(start_paused = true)]
async fn work_that_needs_longer_gets_it_and_the_lease_waits_for_it() {
    let (log, mut program) = (Log::default(), Program::new().unwrap());
    program.allow_work(Duration::from_secs(20));
    spawn(&mut program, &log, Stage::Lease, "lease", 50);
    spawn(&mut program, &log, Stage::Work, "drains", 20_500);
    early(&mut program, Ok(()));
    program.run().await;
    assert_eq!(*log.lock().unwrap(), ["drains", "lease"]);
}
