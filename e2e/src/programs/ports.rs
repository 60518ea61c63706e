//! Chooses free local ports for the programs.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

use crate::proxy::SeededRandom;
use crate::scratch;

/// The ports that this process has given out. A program opens its port some time later, and again after a restart, so no port is given out twice.
static GIVEN_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Returns a port that is free and has not been given out. It is outside the range for outgoing connections (32768 and up) and outside the
/// ports of kwokctl (32767 downwards), so that it stays free for a while.
pub(crate) fn free_port() -> Result<u16> {
    let mut random = SeededRandom(scratch::random());
    let mut given = GIVEN_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    // In a long soak the ports of cases that have ended are used again.
    if given.len() >= 4_000 {
        given.clear();
    }
    for _ in 0..100 {
        let port = 20_000 + u16::try_from(random.draw_number() % 8_000)?;
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("there is no free port between 20000 and 28000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_out_twice() {
        let ports: BTreeSet<u16> = (0..1_000).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 1_000);
    }
}
