//! The folder and the processes of a run, and their cleanup.
//!
//! A run's folder contains everything that the run creates: the cluster's state, kubeconfigs, logs, and `bin/` with links to the programs
//! that it starts. **Invariant:** every process of a run is started with a path in its folder, so its argv[0] identifies it. The reaper is
//! a small shell script in its own process group that holds the other end of a pipe. It ends all processes when the starter is gone for any
//! reason: done, failed, panicked, Ctrl-C, kill -9.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// The reaper's script. It is part of the binary, so no program of this crate needs the source tree to start it.
const REAPER: &str = include_str!("reaper.sh");

/// The longest life of a run in seconds: the longest soak plus reserve.
const LIMIT_SECONDS: u32 = 4 * 3600;

/// A run's folder and its reaper. Dropping it ends every process of the run, removes the folder, and returns when that is done.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    reaper: Option<Child>,
}

impl Scratch {
    /// Creates a new folder with a random name in the system's temporary folder.
    pub fn new(name: &str) -> Result<Self> {
        // The canonical path, because argv[0] is compared as text and a temporary folder may be behind a link.
        let parent = std::env::temp_dir().canonicalize().context("the temporary folder")?;
        Self::at(parent.join(format!("podgroup-e2e-{name}-{:016x}", random())))
    }

    /// Creates a folder at a fixed place (demo, cluster-up). A former run there is ended and removed first.
    pub fn at(folder: PathBuf) -> Result<Self> {
        remove(&folder)?;
        std::fs::create_dir_all(folder.join("bin"))?;
        std::fs::create_dir_all(folder.join("logs"))?;
        let reaper = reaper(&folder, Stdio::piped())?;
        Ok(Self { folder, reaper: Some(reaper) })
    }

    /// Returns the folder as an absolute path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.folder.join(Path::new(name.as_ref()))
    }

    /// Makes `program` part of the run. The returned path is the one to start it with.
    pub fn link(&self, program: &Path) -> Result<PathBuf> {
        let name = program.file_name().context("a program has a name")?;
        let link = self.folder.join("bin").join(name);
        if !link.exists() {
            symlink(program, &link).with_context(|| format!("linking {}", program.display()))?;
        }
        Ok(link)
    }

    /// Lets everything go on after the drop; [`remove`] ends it later.
    pub fn keep(mut self) -> Result<PathBuf> {
        if let Some(mut reaper) = self.reaper.take() {
            if let Some(mut pipe) = reaper.stdin.take() {
                pipe.write_all(b"keep\n").context("telling the reaper")?;
            }
            reaper.wait()?;
        }
        Ok(self.folder.clone())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(mut reaper) = self.reaper.take() {
            drop(reaper.stdin.take());
            // Nothing can be done about an error here, and the reaper works without the wait, too.
            let _ = reaper.wait();
        }
    }
}

/// Ends every process that was started with a path in `folder`, and removes the folder. A missing folder is no error.
pub fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        reaper(folder, Stdio::null())?.wait()?;
    }
    Ok(())
}

/// Returns the processes of a run: those with an argv[0] in its folder. Only on Linux (empty elsewhere); for tests.
pub fn processes_of(folder: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let prefix = format!("{}/", folder.display());
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(prefix.as_bytes())))
        .collect()
}

fn reaper(folder: &Path, input: Stdio) -> Result<Child> {
    Command::new("bash")
        .arg("-c")
        .arg(REAPER)
        .arg("reaper")
        .arg(folder)
        .arg(LIMIT_SECONDS.to_string())
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A process group of its own: Ctrl-C goes to the whole foreground group, and the reaper must outlive it.
        .process_group(0)
        .spawn()
        .context("starting the reaper needs bash")
}

/// Returns a random number for names and seeds. The hash keys of the standard library are the only random source without another crate.
pub fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(scratch: &Scratch) -> Child {
        let sleep = ["/bin/sleep", "/usr/bin/sleep"].iter().map(Path::new).find(|path| path.exists()).unwrap();
        Command::new(scratch.link(sleep).unwrap()).arg("600").spawn().unwrap()
    }

    #[test]
    fn a_dropped_run_leaves_neither_process_nor_folder() {
        let scratch = Scratch::new("unit").unwrap();
        let folder = scratch.folder().to_owned();
        let mut child = sleeper(&scratch);
        assert!(child.try_wait().unwrap().is_none());
        drop(scratch);
        assert!(!child.wait().unwrap().success());
        assert!(!folder.exists());
    }

    #[test]
    fn a_kept_run_goes_on_until_it_is_removed() {
        let scratch = Scratch::new("unit").unwrap();
        let mut child = sleeper(&scratch);
        let folder = scratch.keep().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        remove(&folder).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!folder.exists());
    }
}
