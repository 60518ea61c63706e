//! Reads memory and processor time of the run's programs from `/proc`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::scratch::processes_of;

/// Ticks per second of the processor time in `/proc/PID/stat`, a constant of Linux.
const TICKS: f64 = 100.0;

/// Resident memory of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// The present memory, in MiB.
    pub now: f64,
    /// The largest memory since [`forget_peak`], in MiB.
    pub peak: f64,
}

/// Returns the process of the run in `folder` that was started as `program`.
pub fn find(folder: &Path, program: &str) -> Result<u32> {
    let is = |pid: &u32| name(*pid).is_some_and(|name| name == program);
    processes_of(folder).into_iter().find(is).with_context(|| format!("no {program} runs"))
}

/// Returns the present and the largest resident memory.
pub fn memory(pid: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mebibytes = |key: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.split_whitespace().next()?.parse::<f64>().ok()? / 1024.0)
    };
    Ok(Memory { now: mebibytes("VmRSS:").context("VmRSS")?, peak: mebibytes("VmHWM:").context("VmHWM")? })
}

/// Returns how many files and connections a process has open.
pub fn open_files(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Returns how many TCP handshakes the servers of this machine have completed since its start.
pub fn handshakes() -> Result<u64> {
    let counters = std::fs::read_to_string("/proc/net/snmp")?;
    // A line with the names, and one with the values.
    let mut tcp = counters.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (tcp.next().context("names")?, tcp.next().context("values")?);
    let passive = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "PassiveOpens");
    passive.context("PassiveOpens")?.1.parse().context("PassiveOpens")
}

/// Resets the peak.
pub fn forget_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").context("clear_refs")
}

/// Returns the seconds of processor time since the start of a process, including its threads.
pub fn processor_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain blanks. User and system time are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(") ").context("no name")?;
    let ticks: f64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS)
}

/// The processor time of every program of a run since a moment.
pub struct Meter {
    folder: PathBuf,
    before: BTreeMap<String, f64>,
}

impl Meter {
    /// Starts at the present moment.
    pub fn start(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), before: all(folder) }
    }

    /// Returns the milliseconds for each of `count` objects by program.
    pub fn millis_each(&self, count: usize) -> BTreeMap<String, f64> {
        let spent = |name: &String, seconds: f64| (seconds - self.before.get(name).copied().unwrap_or_default()) * 1000.0 / count as f64;
        all(&self.folder).into_iter().map(|(name, seconds)| (name.clone(), spent(&name, seconds))).collect()
    }
}

/// Returns the seconds of processor time of every program of the run and of this one (`load`), by name.
fn all(folder: &Path) -> BTreeMap<String, f64> {
    let mut seconds: BTreeMap<String, f64> = BTreeMap::new();
    let own = [(std::process::id(), Some("load".to_owned()))];
    for (pid, name) in processes_of(folder).into_iter().map(|pid| (pid, name(pid))).chain(own) {
        // A process that has ended meanwhile is skipped.
        if let (Some(name), Ok(used)) = (name, processor_seconds(pid)) {
            *seconds.entry(name).or_default() += used;
        }
    }
    seconds
}

fn name(pid: u32) -> Option<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let program = line.split('\0').next()?;
    Some(Path::new(program).file_name()?.to_str()?.to_owned())
}
