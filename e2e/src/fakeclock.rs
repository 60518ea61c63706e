//! How does the wall clock of one process jump? libfaketime, which the dynamic loader puts before the C library's clocks; the monotonic clock stays true.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;

/// A clock that is wrong by as much as a file says. The process that got [`Self::environment`] looks into it at every call.
pub struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    /// A clock that is right until it is set. Its file is made in `folder` under `name`.
    ///
    /// # Errors
    /// Where libfaketime is not installed: what needs it cannot run.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        let library = library().context(
            "this case cannot run: libfaketime is not installed on this machine (the package libfaketime; e2e/tools/prerequisites.sh installs it where it may)",
        )?;
        let clock = Self { library, file: folder.join(name) };
        clock.set(0)?;
        Ok(clock)
    }

    /// From now on it is wrong by this many seconds.
    pub fn set(&self, seconds: i64) -> Result<()> {
        // A whole file appears at once: one that is half written would be another time.
        let fresh = self.file.with_extension("new");
        std::fs::write(&fresh, format!("{seconds:+}\n"))?;
        std::fs::rename(&fresh, &self.file).context("setting the clock")
    }

    /// What makes a process live by it.
    pub fn environment(&self) -> Vec<(String, String)> {
        let variable = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
        vec![
            variable("LD_PRELOAD", &self.library),
            variable("FAKETIME_TIMESTAMP_FILE", &self.file),
            variable("FAKETIME_NO_CACHE", Path::new("1")),
            variable("DONT_FAKE_MONOTONIC", Path::new("1")),
            // No shared memory that would be left behind by kill -9.
            variable("FAKETIME_DISABLE_SHM", Path::new("1")),
        ]
    }
}

/// By how many seconds a time that somebody wrote just now differs from the true one.
#[expect(clippy::disallowed_methods, reason = "a clock can only be compared with another one")]
pub fn off_by(written: Timestamp) -> i64 {
    written.as_second().saturating_sub(Timestamp::now().as_second())
}

/// Where the library is, in the places of the common systems.
fn library() -> Option<PathBuf> {
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [machine.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    folders.iter().map(|folder| Path::new(folder).join("faketime/libfaketimeMT.so.1")).find(|path| path.exists())
}
