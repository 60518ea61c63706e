//! Who starts a program again that lost its lease? A task beside the case, only where the case is run under the mix of faults.
//!
//! The mix on a busy machine can keep a leader from its lease for longer than the renew deadline. It ends then, as it must, and its kubelet starts it again; see
//! `again` for which ends are such. Until it leads again, a lease later, nobody acts: the waits of the case are so much longer until all is calm, and the
//! observer waits too, and as patiently as always under the mix from the moment that it leads.

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

/// The lease of a program under the mix.
pub const LEASE: Duration = secs(60);

/// The longest from the end of a program to the moment that it leads again. It has to see its own old lease unchanged for a lease; on a machine that is slow
/// enough for losing it, the rest (the start, the first look at the lease, tries that are cut off) took 50 s once.
const AWAY: Duration = LEASE.saturating_mul(2);

/// Keeps programs. Dropping it ends that.
pub struct Kubelet {
    kept: Vec<(&'static str, Shared)>,
    absences: Option<Absences>,
    _beats: JoinSet<()>,
}

impl Kubelet {
    /// From now on these programs are started again when they lose their lease; `absences` and `patience` hear of it.
    pub fn start<'a>(programs: impl Iterator<Item = &'a mut Program>, absences: Option<Absences>, patience: Patience) -> Self {
        let kept: Vec<_> = programs.map(|program| (program.name, program.process.clone())).collect();
        kept.iter().for_each(|(_, process)| process.lock().kept = true);
        let mut round = Round { kept: kept.iter().map(|(_, process)| process.clone()).collect(), seen: 0, excused_until: None };
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

    /// Waits until everybody who lost its lease leads again; from now on the observer excuses nobody. For when the mix is over.
    pub async fn all_back(&self) -> Result<()> {
        wait_until(AWAY, "who lost its lease leads again", || async {
            let away: Vec<_> = self.kept.iter().filter(|(_, process)| process.lock().away()).map(|(name, _)| *name).collect();
            Ok(Seen::when(away.is_empty(), || format!("not yet: {}", away.join(", "))))
        })
        .await?;
        self.absences.iter().for_each(Absences::end);
        Ok(())
    }
}

/// What one look after the other finds.
struct Round {
    kept: Vec<Shared>,
    /// Losses that the waits know of.
    seen: u32,
    excused_until: Option<Instant>,
}

impl Round {
    fn beat(&mut self, now: Instant, absences: Option<&Absences>, patience: &Patience) {
        let (mut losses, mut away) = (0_u32, false);
        for process in &self.kept {
            let mut process = process.lock();
            // What cannot be started, or asked, is tried again; whoever waits for all to be back says so in the end.
            drop(process.tend(now));
            losses = losses.saturating_add(process.losses());
            away |= process.away();
        }
        patience.add(AWAY.saturating_mul(losses.saturating_sub(self.seen)));
        self.seen = losses;
        if away {
            absences.iter().for_each(|absences| absences.begin(AWAY.saturating_mul(AT_MOST).saturating_add(PATIENCE)));
            self.excused_until = Some(now + PATIENCE);
        } else if self.excused_until.is_some_and(|until| until <= now) {
            absences.iter().for_each(|absences| absences.end());
            self.excused_until = None;
        }
    }
}

#[cfg(test)]
#[path = "kubelet_tests.rs"]
mod tests;
