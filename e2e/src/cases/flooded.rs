//! Row O11: 20,000 connections a second to the HTTP server of a program do not end its liveness probe.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpSocket;
use tokio::process::Command;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::load::process;
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;
use crate::{chart, http, say};

/// How long each flood lasts.
const SECONDS: u64 = 8;

/// How many connections the flood keeps open, unless its limit of files is lower. One address has some 28,000 ports for them, of which the
/// kernel gives away one half first: with 20,000 kept open the flood stood still after the first second.
const OPEN: usize = 4_000;

/// What is asked for. A machine that is busy with other cases may not reach it; the reached rate is printed.
const AIM: u64 = 20_000;

/// The fewest connections of the best second with which the case proves anything: four times as many as the server keeps.
const LEAST: u64 = 4 * 64;

/// How many files the server may have open beside those from before: its 64 connections, and those that are being accepted or closed.
const FILES: usize = 64 + 64;

/// The kubelet's settings in the chart: the timeout of a probe, and after how many failures in a row the program is killed.
const PROBE: Duration = secs(1);
const KILLED_AFTER: usize = 3;

/// O11. Each program gets a flood from one address, and the node's kubelet probes both every second from another. Not three probes in a row
/// fail, and at most one in five; the number of open files stays bounded, and memory is what it was before.
pub(super) async fn probes_are_answered(w: &mut World) -> Result<()> {
    let ports = [w.controller()?.port(), w.scheduler()?.port()];
    for (name, port) in [chart::CONTROLLER, chart::SCHEDULER].into_iter().zip(ports) {
        let pid = process::find(w.cluster().scratch().folder(), name)?;
        flooded(name, port, pid, &ports).await?;
    }
    Ok(())
}

async fn flooded(name: &str, port: u16, pid: u32, probed: &[u16]) -> Result<()> {
    let (memory, files, accepted) = (process::memory(pid)?, process::open_files(pid)?, process::handshakes()?);
    process::forget_peak(pid)?;
    let mut flood = Command::new("bash")
        // As many files as this machine allows. The lowest priority: whoever floods is on another machine, and takes no processor from the program.
        .args(["-c", "ulimit -n $(ulimit -Hn); exec nice -n 19 \"$0\" \"$@\""])
        .arg(std::env::current_exe()?)
        .args(["flood", "--port", &port.to_string(), "--seconds", &SECONDS.to_string(), "--open", &OPEN.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(flood.stdout.take().context("its output")?).lines();
    ensure!(lines.next_line().await?.as_deref() == Some("begun"), "the flood did not begin");
    let mut probes = Probes::default();
    let probing = probes.probe(probed, pid);
    let said = tokio::select! {
        said = lines.next_line() => said?.context("the flood printed no numbers")?,
        wrong = probing => return wrong.map(|never| match never {}),
    };
    ensure!(flood.wait().await?.success(), "the flood failed");
    let said: Value = serde_json::from_str(&said)?;
    let seconds: Vec<u64> = said.get("seconds").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_u64).collect();
    let (best, sum) = (seconds.iter().max().copied().unwrap_or(0), seconds.iter().sum::<u64>());
    let (peak, accepted) = (process::memory(pid)?.peak, process::handshakes()?.saturating_sub(accepted));
    say::line(format!(
        "        O11: {name}: {sum} connections in {} s, {best} in the best second (aim {AIM}), {accepted} with a handshake, {} failed; {} probes, {} failed, \
         the slowest took {:.0?}; at most {} files (before: {files}); {:.1} MiB, at most {peak:.1}",
        seconds.len(),
        said.get("failed").and_then(Value::as_u64).unwrap_or(0),
        probes.probes,
        probes.failed,
        probes.slowest,
        probes.most_files,
        memory.now,
    ));
    ensure!(best >= LEAST, "only {best} connections in the best second");
    // The kernel drops a connection where many come at once, and the client asks again after a second, which is the timeout. A machine that
    // stands still fails one probe of each port, however long. One failed probe restarts no program.
    ensure!(probes.failed * 5 <= probes.probes, "{} of {} probes failed: {:?}", probes.failed, probes.probes, probes.why);
    ensure!(probes.most_files <= files + FILES, "the program had {} files open, {files} before", probes.most_files);
    wait_until(secs(30), "files and memory are back", || async {
        let (now, open) = (process::memory(pid)?.now, process::open_files(pid)?);
        let back = open <= files + 4 && now <= memory.now * 1.1 + 8.0;
        Ok(Seen::when(back, || format!("{open} files, before {files}; {now:.1} MiB, before {:.1}", memory.now)))
    })
    .await
}

/// The probes of a kubelet, and what it saw.
#[derive(Default)]
struct Probes {
    probes: usize,
    failed: usize,
    /// By port.
    in_a_row: BTreeMap<u16, usize>,
    slowest: Duration,
    most_files: usize,
    why: Vec<String>,
}

enum Never {}

impl Probes {
    /// Probes each port every second, until it would kill a program.
    async fn probe(&mut self, ports: &[u16], pid: u32) -> Result<Never> {
        let mut ticks = interval(secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for port in ports {
                self.one(*port).await?;
                self.most_files = self.most_files.max(process::open_files(pid)?);
            }
        }
    }

    async fn one(&mut self, port: u16) -> Result<()> {
        let start = Instant::now();
        let outcome = timeout(PROBE, healthz(port)).await;
        let took = start.elapsed();
        self.probes += 1;
        self.slowest = self.slowest.max(took);
        let why = match outcome {
            Ok(Ok(200)) => {
                self.in_a_row.remove(&port);
                return Ok(());
            }
            Ok(Ok(status)) => format!("status {status}"),
            Ok(Err(error)) => say::brief(&error),
            Err(_) => "no answer within a second".to_owned(),
        };
        self.why.push(format!("{why} after {took:.0?}"));
        self.failed += 1;
        let in_a_row = self.in_a_row.entry(port).or_default();
        *in_a_row += 1;
        ensure!(*in_a_row < KILLED_AFTER, "the kubelet kills the program: {:?}", self.why);
        Ok(())
    }
}

/// Asks as a kubelet does: a new connection, from the address of the node.
async fn healthz(port: u16) -> Result<u16> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into())?;
    let stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    Ok(http::exchange(stream, "/healthz", "Host: probe\r\n").await?.0)
}
