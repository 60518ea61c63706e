//! What belongs to a run, and who takes it away?
//!
//! A run's folder holds everything that the run makes: the cluster's state, kubeconfigs, logs, and `bin/` with links to the programs that it starts.
//! **Invariant:** every process of a run is started by a path in its folder, so a process can be told from all others by its argv[0], and
//! the reaper (a small shell script in a process group of its own, which holds the other end of a pipe) can end it all when the
//! starter is gone, however it went: done, failed, panicked, Ctrl-C, kill -9.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// The script, so that every program of this crate can start it without knowing where the clone lies.
const REAPER: &str = include_str!("reaper.sh");

/// No run lives longer than this, in seconds: the longest soak plus room.
const LIMIT_SECONDS: u32 = 4 * 3600;

/// A run's folder and its reaper. Dropping it ends every process of the run and removes the folder, and returns when that is done.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    reaper: Option<Child>,
}

impl Scratch {
    /// A new folder with a random name under the system's temporary folder.
    pub fn new(name: &str) -> Result<Self> {
        // The canonical path: argv[0] is compared as text, and a temporary folder may lie behind a link.
        let parent = std::env::temp_dir().canonicalize().context("the temporary folder")?;
        Self::at(parent.join(format!("podgroup-e2e-{name}-{:016x}", random())))
    }

    /// A folder of a fixed place (demo, cluster-up). What an earlier run left there is ended and removed first.
    pub fn at(folder: PathBuf) -> Result<Self> {
        remove(&folder)?;
        std::fs::create_dir_all(folder.join("bin"))?;
        std::fs::create_dir_all(folder.join("logs"))?;
        let reaper = reaper(&folder, Stdio::piped())?;
        Ok(Self { folder, reaper: Some(reaper) })
    }

    /// The folder; absolute.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path in the folder.
    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.folder.join(Path::new(name.as_ref()))
    }

    /// Makes `program` part of the run: the path that is returned is the one to start it by.
    pub fn link(&self, program: &Path) -> Result<PathBuf> {
        let name = program.file_name().context("a program has a name")?;
        let link = self.folder.join("bin").join(name);
        if !link.exists() {
            symlink(program, &link).with_context(|| format!("linking {}", program.display()))?;
        }
        Ok(link)
    }

    /// Lets everything live on when this is dropped; [`remove`] ends it later.
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
            // Nothing to be done about an error here, and the reaper works whether or not it is waited for.
            let _ = reaper.wait();
        }
    }
}

/// Ends every process that was started by a path in `folder`, and removes it. Nothing there is no error.
pub fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        reaper(folder, Stdio::null())?.wait()?;
    }
    Ok(())
}

/// The processes of a run: those whose argv[0] lies in its folder. Linux only (empty elsewhere); for tests.
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
        // A group of its own: Ctrl-C goes to the whole foreground group, and the reaper has to outlive it.
        .process_group(0)
        .spawn()
        .context("starting the reaper needs bash")
}

/// A random number for names and seeds; the standard library's hash keys are the only source of it that needs no crate.
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
    fn a_kept_run_lives_on_until_it_is_removed() {
        let scratch = Scratch::new("unit").unwrap();
        let mut child = sleeper(&scratch);
        let folder = scratch.keep().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        remove(&folder).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!folder.exists());
    }
}
