//! Plays every file of `scenarios/`: one test for each, with the name of its path. `cargo test -p podgroup-scenarios --test scenarios --
//! queues/` plays one folder.

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder of scenarios") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !["src", "tests"].iter().any(|own| path.ends_with(own)) {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            found.push(path);
        }
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    files(root, &mut found);
    found.sort();
    let trial = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap_or(&path).with_extension("").to_string_lossy().into_owned();
        Trial::test(name, move || {
            let text = std::fs::read_to_string(&path)?;
            podgroup_scenarios::play::play(&text).map_err(|error| Failed::from(format!("{}\n{error}", path.display())))
        })
    };
    libtest_mimic::run(&Arguments::from_args(), found.into_iter().map(trial).collect()).exit();
}
