//! Starts a program again that lost its lease, in a task beside the case. Only for cases under the mix of faults.
//!
//! On a busy machine the mix can stop a leader from renewing its lease until the renew deadline. The leader then ends, as it must, and its
//! kubelet starts it again; see `again`. Until it leads again, one lease duration later, no program acts. So the waits of the case do not
//! count that time, and the observer waits, too, until the program leads again.

use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Program;
use super::again::AT_MOST;
use super::process::Shared;
use crate::faults::PATIENCE;
use crate::observer::Absences;
use crate::wait::{Patience, Seen, millis, secs, wait_until};

/// The lease duration of a program under the mix.
pub const LEASE: Duration = secs(60);

/// The longest time from the end of a program until it leads again. It must see its own old lease unchanged for one lease duration. The
/// rest (start, first read of the lease, requests that a fault ended) once took 50 s on a slow machine.
const AWAY: Duration = LEASE.saturating_mul(2);

/// Restarts programs that lost their lease. Dropping it ends that.
pub struct Restarts {
    kept: Vec<(&'static str, Shared)>,
    absences: Option<Absences>,
    _beats: JoinSet<()>,
}

impl Restarts {
    /// Starts to manage these programs, and tells `absences` and `patience` when one is absent.
    pub fn start<'a>(programs: impl Iterator<Item = &'a mut Program>, absences: Option<Absences>, patience: Patience) -> Self {
        let kept: Vec<_> = programs.map(|program| (program.name, program.process.clone())).collect();
        kept.iter().for_each(|(_, process)| process.lock().kept = true);
        let mut round = Round::new(kept.iter().map(|(_, process)| process.clone()).collect(), Instant::now());
        let mut beats = JoinSet::new();
        let told = absences.clone();
        beats.spawn(async move {
            loop {
                round.beat(Instant::now(), told.as_ref(), &patience);
                sleep(millis(100)).await;
            }
        });
        Self { kept, absences, _beats: beats }
    }

    /// Does the same for programs with two replicas each. Nothing waits for one of them, because the other leads.
    pub fn of_two<'a>(programs: impl Iterator<Item = &'a mut Program>, patience: Patience) -> Self {
        let programs: Vec<_> = programs.collect();
        programs.iter().for_each(|program| program.process.lock().of_two = true);
        Self::start(programs.into_iter(), None, patience)
    }

    /// Waits until every program that lost its lease leads again. From then on the observer excuses nothing. It is called after the end of the mix.
    pub async fn all_back(&self) -> Result<()> {
        wait_until(AWAY, "every program that lost its lease leads again", || async {
            let away: Vec<_> = self.kept.iter().filter(|(_, process)| process.lock().is_missed()).map(|(name, _)| *name).collect();
            Ok(Seen::when(away.is_empty(), || format!("not yet: {}", away.join(", "))))
        })
        .await?;
        self.absences.iter().for_each(Absences::end);
        Ok(())
    }
}

/// The state from one check to the next.
struct Round {
    kept: Vec<Shared>,
    /// When the last check was.
    last: Instant,
    /// The number of lost leases so far.
    losses: u32,
    /// How long waits do not count the time: a program that never leads again is not waited for for ever.
    waited_until: Instant,
    excused_until: Option<Instant>,
}

impl Round {
    fn new(kept: Vec<Shared>, now: Instant) -> Self {
        Self { kept, last: now, losses: 0, waited_until: now, excused_until: None }
    }

    fn beat(&mut self, now: Instant, absences: Option<&Absences>, patience: &Patience) {
        let (mut losses, mut missed) = (0_u32, false);
        for process in &self.kept {
            let mut process = process.lock();
            // It may lead again in the same check that starts it, and was missed until then.
            missed |= process.is_missed();
            // A failed start or check is tried again. If a program never comes back, `all_back` reports it.
            drop(process.step(now));
            losses = losses.saturating_add(if process.of_two { 0 } else { process.losses() });
            missed |= process.is_missed();
        }
        if losses > self.losses {
            self.waited_until = now + AWAY;
        }
        self.losses = losses;
        if missed && now <= self.waited_until {
            patience.was_idle(self.last, now);
        }
        self.last = now;
        if missed {
            absences.iter().for_each(|absences| absences.begin(AWAY.saturating_mul(AT_MOST).saturating_add(PATIENCE)));
            self.excused_until = Some(now + PATIENCE);
        } else if self.excused_until.is_some_and(|until| until <= now) {
            absences.iter().for_each(|absences| absences.end());
            self.excused_until = None;
        }
    }
}

#[cfg(test)]
#[path = "restarts_tests.rs"]
mod tests;
