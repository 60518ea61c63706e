//! The modelled API server, and the other writers of pods.

use super::mutant::Mutant;
use super::real::guards;
use super::values::{Back, Broken, Late, Life, Place, Pod, Req, State};

impl State {
    /// Applies a request to a pod and returns the answer.
    pub(crate) fn apply(&mut self, slot: usize, req: Req, mutant: Mutant) -> Back {
        let pod = self.pods[slot];
        if !pod.life.exists() {
            return Back::NotFound;
        }
        match req {
            Req::Bind { uid, at } => {
                let guards = guards();
                let versioned = guards.version && mutant != Mutant::NoVersion;
                if pod.life != Life::Waits || guards.uid && pod.uid != uid || versioned && pod.at != at {
                    return Back::Conflict;
                }
                self.write(slot, |pod| pod.life = Life::Bound);
                Back::Done
            }
            Req::Evict { uid } => {
                let guarded = guards().evicted_uid && mutant != Mutant::EvictByName;
                if guarded && pod.uid != uid {
                    return Back::Conflict;
                }
                if pod.uid != uid {
                    self.broken = Some(Broken::Evicted);
                }
                self.end(slot);
                Back::Done
            }
            Req::Fence { uid, by } => {
                if pod.uid != uid {
                    return Back::Conflict;
                }
                let text = if mutant == Mutant::FenceWithoutIdentity { 1 } else { by };
                // A patch that changes nothing creates no new version.
                if pod.fenced_by != text {
                    self.write(slot, |pod| pod.fenced_by = text);
                }
                if pod.life.uses() { Back::Landed } else { Back::Done }
            }
        }
    }

    /// Reads a pod.
    pub(crate) fn read(&self, slot: usize, uid: u8) -> Place {
        match self.pods[slot] {
            pod if !pod.life.exists() || pod.uid != uid => Place::Gone,
            Pod { life: Life::Waits, at, .. } => Place::Waits { at },
            _ => Place::Bound,
        }
    }

    /// Deletes a pod: a bound pod is leaving first.
    pub(crate) fn end(&mut self, slot: usize) {
        match self.pods[slot].life {
            Life::Waits => self.write(slot, |pod| pod.life = Life::Gone),
            Life::Bound => self.write(slot, |pod| pod.life = Life::Leaving),
            Life::Never | Life::Leaving | Life::Gone => {}
        }
    }

    /// Changes a pod, with the next version and its event.
    pub(crate) fn write(&mut self, slot: usize, change: impl FnOnce(&mut Pod)) {
        self.last_at += 1;
        let pod = &mut self.pods[slot];
        change(pod);
        pod.at = self.last_at;
        if pod.life == Life::Gone {
            (pod.at, pod.fenced_by) = (0, 0);
        }
        // A watch shows the condition, and no process reads it.
        self.seen.push(self.pods.map(|pod| Pod { fenced_by: 0, ..pod }));
    }

    /// Leaves a request to the API server: no client waits for it any more.
    pub(crate) fn leave(&mut self, by: u8, slot: usize, req: Req) {
        self.late.push(Late { by, pod: u8::try_from(slot).expect("few"), req });
    }

    /// Returns how much the bound pods use.
    pub(crate) fn used(&self) -> u8 {
        u8::try_from(self.pods.iter().filter(|pod| pod.life.uses()).count()).expect("few")
    }
}
