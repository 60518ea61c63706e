//! On which port of this machine does a program answer? On one that nobody has, and that nobody else here was given.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

use crate::proxy::Dice;
use crate::scratch;

/// The ports that this process has given away, so that none is given to two: a program takes its own a moment later, and again after a restart.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that nobody has now, and that nobody else here is given. Outside of what the system gives to outgoing connections (32768 and up) and of what kwokctl takes (32767 downwards), so
/// that it is still free a moment later.
pub(crate) fn free_port() -> Result<u16> {
    let mut dice = Dice(scratch::random());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    // A long soak comes round to those of cases that are long over.
    if given.len() >= 4_000 {
        given.clear();
    }
    for _ in 0..100 {
        let port = 20_000 + u16::try_from(dice.roll() % 8_000)?;
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port between 20000 and 28000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_to_two() {
        let ports: BTreeSet<u16> = (0..1_000).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 1_000);
    }
}
