//! Changes the wall clock of one process with libfaketime. The dynamic loader puts it before the clocks of the C library; the monotonic
//! clock stays right.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;

/// A clock with an offset that a file contains. A process with [`Self::environment`] reads the file at every call.
pub struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    /// Creates a clock without an offset. Its file is created in `folder` under `name`.
    ///
    /// # Errors
    /// When libfaketime is not installed. Cases that need it cannot run.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        let library = library().context(
            "this case cannot run: libfaketime is not installed on this machine (the package libfaketime; e2e/tools/prerequisites.sh installs it where it may)",
        )?;
        let clock = Self { library, file: folder.join(name) };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the offset in seconds.
    pub fn set(&self, seconds: i64) -> Result<()> {
        // The rename replaces the file at once: a partly written file would be another time.
        let fresh = self.file.with_extension("new");
        std::fs::write(&fresh, format!("{seconds:+}\n"))?;
        std::fs::rename(&fresh, &self.file).context("setting the clock")
    }

    /// Returns the variables that make a process use this clock.
    pub fn environment(&self) -> Vec<(String, String)> {
        let variable = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
        vec![
            variable("LD_PRELOAD", &self.library),
            variable("FAKETIME_TIMESTAMP_FILE", &self.file),
            variable("FAKETIME_NO_CACHE", Path::new("1")),
            variable("DONT_FAKE_MONOTONIC", Path::new("1")),
            // No shared memory, which would be left behind after kill -9.
            variable("FAKETIME_DISABLE_SHM", Path::new("1")),
        ]
    }
}

/// Returns by how many seconds a time that a process wrote just now differs from the true time.
#[expect(clippy::disallowed_methods, reason = "a clock can only be compared with another one")]
pub fn clock_offset(written: Timestamp) -> i64 {
    written.as_second().saturating_sub(Timestamp::now().as_second())
}

/// Returns the path of the library on common systems.
fn library() -> Option<PathBuf> {
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [machine.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    folders.iter().map(|folder| Path::new(folder).join("faketime/libfaketimeMT.so.1")).find(|path| path.exists())
}
