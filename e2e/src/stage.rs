//! What if the simulator is late? The stage of a case (a node, say) is taken away and set again, a few times, and the run says so.
//!
//! A stage is what a case needs before its first step. On a busy machine the simulator may miss a node that has just been created; the node
//! then stays without a kubelet, and every pod on it waits for ever. That says nothing about our programs.
//!
//! **Only the stage is set again.** An assertion of a case is never repeated here.

use std::future::Future;

use anyhow::{Error, Result};

use crate::say;

/// How often a stage is set, at most.
pub const ATTEMPTS: u32 = 3;

/// What became of a stage that was set.
pub enum Set {
    /// It is ready.
    Ready,
    /// It was created, and was not ready in time.
    Late(Error),
}

/// What became of a stage that was late.
pub enum Cleared {
    /// It is gone, and may be set again.
    Yes,
    /// The case has begun to use it, so it stays; the text says by what.
    InUse(String),
}

/// Calls `set` until the stage is ready, and `clear` before each further attempt. Returns the number of attempts.
///
/// An error of `set` or `clear` is returned at once. What was late is returned after [`ATTEMPTS`], and at once where the stage is in use.
pub async fn set_stage<S, Setting, C, Clearing>(what: &str, mut set: S, mut clear: C) -> Result<u32>
where
    S: FnMut() -> Setting,
    Setting: Future<Output = Result<Set>>,
    C: FnMut() -> Clearing,
    Clearing: Future<Output = Result<Cleared>>,
{
    let mut attempt = 1;
    loop {
        let Set::Late(error) = set().await? else { return Ok(attempt) };
        if attempt == ATTEMPTS {
            return Err(error.context(format!("the stage was set {ATTEMPTS} times: {what}")));
        }
        if let Cleared::InUse(by) = clear().await? {
            return Err(error.context(format!("the stage is late and cannot be set again, because {by}: {what}")));
        }
        attempt += 1;
        say::line(format!("        the stage is late, setting it again (attempt {attempt} of {ATTEMPTS}): {what}: {}", say::brief(&error)));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::{anyhow, bail};

    use super::*;

    /// What happens to a stage that is ready at the `ready_at`-th attempt; whether it is in use meanwhile.
    async fn played(ready_at: u32, in_use: bool) -> (Result<u32>, Vec<&'static str>) {
        let (events, sets) = (RefCell::new(Vec::new()), RefCell::new(0));
        let set = || async {
            events.borrow_mut().push("set");
            *sets.borrow_mut() += 1;
            Ok(if *sets.borrow() < ready_at { Set::Late(anyhow!("it is not Ready")) } else { Set::Ready })
        };
        let clear = || async {
            events.borrow_mut().push("clear");
            Ok(if in_use { Cleared::InUse("a pod is on it".to_owned()) } else { Cleared::Yes })
        };
        let outcome = set_stage("node n1", set, clear).await;
        (outcome, events.into_inner())
    }

    #[tokio::test]
    async fn a_stage_that_is_ready_is_set_once() {
        let (outcome, events) = played(1, false).await;
        assert_eq!((outcome.unwrap(), events), (1, vec!["set"]));
    }

    #[tokio::test]
    async fn a_stage_that_is_late_is_cleared_before_it_is_set_again() {
        let (outcome, events) = played(3, false).await;
        assert_eq!((outcome.unwrap(), events), (3, vec!["set", "clear", "set", "clear", "set"]));
    }

    #[tokio::test]
    async fn a_stage_that_is_always_late_is_an_error() {
        let (outcome, events) = played(4, false).await;
        let text = say::brief(&outcome.unwrap_err());
        assert_eq!(text, "the stage was set 3 times: node n1: it is not Ready");
        assert_eq!(events, vec!["set", "clear", "set", "clear", "set"], "the last one is left as it is, for the artifacts");
    }

    #[tokio::test]
    async fn a_stage_in_use_is_never_set_again() {
        let (outcome, events) = played(2, true).await;
        let text = say::brief(&outcome.unwrap_err());
        assert_eq!(text, "the stage is late and cannot be set again, because a pod is on it: node n1: it is not Ready");
        assert_eq!(events, vec!["set", "clear"]);
    }

    #[tokio::test]
    async fn a_stage_that_cannot_be_created_is_an_error_and_nothing_is_cleared() {
        let set = || async { bail!("nodes \"n1\" already exists") };
        let clear = || async { panic!("this node is not the case's own") };
        let outcome = set_stage("node n1", set, clear).await;
        assert_eq!(say::brief(&outcome.unwrap_err()), "nodes \"n1\" already exists");
    }
}
