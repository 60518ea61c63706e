//! How many connections a second does a port take? Opens them as fast as this machine can, from one address, and keeps the newest open.
//!
//! It runs as a process of its own (`e2e flood`), because it needs thousands of files, and other cases run beside the case that starts it.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::time::Instant;

use crate::say;

/// How many threads connect. One is enough for most of the rate; several keep it up while one waits for the kernel.
const THREADS: usize = 4;

/// EINPROGRESS of Linux: the handshake has begun.
const IN_PROGRESS: i32 = 115;

/// Opens connections to this local port for this time, and keeps the newest `open` of them. Prints a line at the start, and at the end how
/// many were made in each second.
pub fn run(port: u16, time: Duration, open: usize) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let (made, failed, ends) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    say::line("begun");
    let seconds: Vec<u64> = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| connect(address, open.div_ceil(THREADS), &made, &failed, &ends));
        }
        let (start, mut seconds, mut before) = (Instant::now(), Vec::new(), 0);
        while start.elapsed() < time {
            thread::sleep(Duration::from_secs(1));
            let now = made.load(Ordering::Relaxed);
            seconds.push(now.saturating_sub(before));
            before = now;
        }
        ends.store(true, Ordering::Relaxed);
        seconds
    });
    say::line(serde_json::json!({"seconds": seconds, "failed": failed.load(Ordering::Relaxed)}).to_string());
    Ok(())
}

/// Opens connections and does not wait for any: the kernel does the handshake, if the server's queue has room for it.
fn connect(to: SocketAddr, open: usize, made: &AtomicU64, failed: &AtomicU64, ends: &AtomicBool) {
    let (to, mut connections) = (SockAddr::from(to), VecDeque::with_capacity(open));
    while !ends.load(Ordering::Relaxed) {
        match begin(&to) {
            Ok(connection) => {
                made.fetch_add(1, Ordering::Relaxed);
                connections.push_back(connection);
            }
            Err(_) => {
                failed.fetch_add(1, Ordering::Relaxed);
                // Where the files or the ports are used up, the oldest connection goes.
                connections.pop_front();
            }
        }
        if connections.len() > open {
            connections.pop_front();
        }
    }
}

fn begin(to: &SockAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    match socket.connect(to) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
        _ => Ok(socket),
    }
}
