//! Is there room on the disk of the clusters? A full one stops etcd and with it everything in a cluster, which says nothing about the programs.
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

/// The disk counts as full below this. etcd reserves 64 MiB at a time for its log, and several clusters may do so at once.
const FULL: u64 = 256 << 20;

/// How many looks so far found a full disk.
static FULL_LOOKS: AtomicU64 = AtomicU64::new(0);

/// The fewest bytes that were free so far.
static LEAST: AtomicU64 = AtomicU64::new(u64::MAX);

/// Returns how many looks since the first call found a full disk. It was full between two calls if the second one says more.
pub fn full_looks() -> u64 {
    static THREAD: OnceLock<bool> = OnceLock::new();
    // Without the thread no disk is full, and a failed case is not run again.
    THREAD.get_or_init(|| thread::Builder::new().name("disk".to_owned()).spawn(watch).is_ok());
    FULL_LOOKS.load(Ordering::Relaxed)
}

/// Returns the fewest bytes that were free since the first call of [`full_looks`]; `None` if nobody has looked yet.
pub fn least_free() -> Option<u64> {
    Some(LEAST.load(Ordering::Relaxed)).filter(|least| *least < u64::MAX)
}

fn watch() {
    let folder = std::env::temp_dir();
    // A file system that does not say it is never full.
    while let Some(free) = free(&folder) {
        LEAST.fetch_min(free, Ordering::Relaxed);
        if free < FULL {
            FULL_LOOKS.fetch_add(1, Ordering::Relaxed);
        }
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
        full_looks();
        while least_free().is_none() {
            thread::sleep(BEAT);
        }
        assert!(least_free().unwrap() > 0);
    }
}
