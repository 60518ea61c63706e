//! How much room did the disk of the clusters always have? etcd stops on a full one, and what fails then looks like a fault of the programs.
//!
//! A thread looks four times a second at the temporary folder, in which every cluster has its folder.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::statvfs;

/// How often the thread looks.
const BEAT: Duration = Duration::from_millis(250);

/// The fewest bytes that were free so far.
static LEAST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Begins to look, if nothing looks yet.
pub fn watch() {
    static THREAD: OnceLock<bool> = OnceLock::new();
    // Without the thread nothing is said about the disk.
    THREAD.get_or_init(|| thread::Builder::new().name("disk".to_owned()).spawn(look).is_ok());
}

/// Returns the fewest bytes that were free since [`watch`]; `None` if nobody has looked yet.
pub fn least_free() -> Option<u64> {
    Some(LEAST.load(Ordering::Relaxed)).filter(|least| *least < u64::MAX)
}

fn look() {
    let folder = std::env::temp_dir();
    // A file system that does not say it is not looked at again.
    while let Some(free) = free(&folder) {
        LEAST.fetch_min(free, Ordering::Relaxed);
        thread::sleep(BEAT);
    }
}

/// Returns the bytes that programs without special rights may still write to the file system of `folder`.
fn free(folder: &Path) -> Option<u64> {
    statvfs(folder).ok().map(|of| of.f_bavail.saturating_mul(of.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_space_is_that_of_the_disk_of_the_folder() {
        let there = free(&std::env::temp_dir()).unwrap();
        assert!(there > 0 && there < 1 << 60, "{there}");
        assert_eq!(free(Path::new("/there/is/no/such/folder")), None);
    }

    #[test]
    fn the_thread_looks() {
        watch();
        while least_free().is_none() {
            thread::sleep(BEAT);
        }
        assert!(least_free().unwrap() > 0);
    }
}
