//! Reads the new lines of the audit log: a file that grows and is rotated. The open file is read to its end before the next file is opened.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Reader of one growing file.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line that is not complete yet.
    rest: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None, rest: Vec::new() }
    }

    /// Returns the new complete lines. A file that does not exist yet has none.
    pub(crate) fn lines(&mut self) -> std::io::Result<Vec<String>> {
        let current = match std::fs::metadata(&self.path) {
            Ok(current) => Some((current.dev(), current.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut fresh = Vec::new();
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut fresh)?;
            let open = file.metadata()?;
            if current.is_some_and(|current| current != (open.dev(), open.ino())) {
                self.file = None;
            }
        }
        if self.file.is_none() && current.is_some() {
            let mut file = File::open(&self.path)?;
            file.read_to_end(&mut fresh)?;
            self.file = Some(file);
        }
        self.rest.append(&mut fresh);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        Ok(String::from_utf8_lossy(&whole).lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_are_read_once_whole_and_across_a_rotation() {
        let folder = std::env::temp_dir().join(format!("observer-tail-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("audit.log");
        let mut tail = Tail::new(path.clone());
        assert!(tail.lines().unwrap().is_empty());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"a\nb").unwrap();
        assert_eq!(tail.lines().unwrap(), ["a"]);
        file.write_all(b"b\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["bb"]);
        file.write_all(b"c\n").unwrap();
        std::fs::rename(&path, folder.join("audit-1.log")).unwrap();
        std::fs::write(&path, b"d\n").unwrap();
        assert_eq!(tail.lines().unwrap(), ["c", "d"]);
        assert!(tail.lines().unwrap().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
