//! Do imports point only downward? This test reads them.
//!
//! Two orders are held: that of the modules of `src/`, and that of the rooms of `src/cycle/`. What stands in a file that is compiled for tests
//! alone is left out.

use std::collections::BTreeMap;
use std::path::Path;

use crate::documents_tests::sources;

/// The modules of `src/`, the lowest first. A module imports only modules that stand before it.
const MODULES: [&str; 13] = [
    "by_key",
    "backoff",
    "nearest",
    "resources",
    "api",
    "lifecycle",
    "accounting",
    "cycle",
    "runtime",
    "controller",
    "scheduler",
    "plugin",
    "lib",
];

/// The rooms of `src/cycle/`, the lowest first; `mod` is the cycle itself. A room imports only rooms that stand before it.
const ROOMS: [&str; 20] = [
    "explain",
    "plan",
    "share",
    "eviction_backoff",
    "placement",
    "policy",
    "cache",
    "status",
    "order",
    "requeue",
    "admission",
    "holds",
    "asks_nodes",
    "state",
    "queue_faults",
    "queue_status",
    "preemption",
    "turn",
    "next_member",
    "mod",
];

/// Whether the file, or a folder that it is in, is compiled for tests alone.
fn is_for_tests(path: &str) -> bool {
    let names = ["tests", "testing", "differential", "reference", "metrics_page", "vectors"];
    path.split('/').any(|part| {
        let part = part.trim_end_matches(".rs");
        names.contains(&part) || part.ends_with("_tests") || part.ends_with("_promises")
    })
}

/// The text of a file without comments, without the module `tests` at its end, and without what follows `#[cfg(test)]` on the next line.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("\nmod tests {").next().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    let mut for_tests = false;
    for line in text.lines() {
        if !for_tests {
            lines.push(line.split("//").next().unwrap_or_default());
        }
        for_tests = line.trim() == "#[cfg(test)]";
    }
    lines.join("\n")
}

/// The names that follow `prefix` in the text.
fn named<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let word = |rest: &'a str| rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next().unwrap_or_default();
    text.split(prefix).skip(1).map(word).filter(|word| !word.is_empty()).collect()
}

/// Returns the imports that point upward, and how many there are at all. `prefix` is what the imports of the folder begin with.
fn upward(root: &Path, order: &[&str], prefix: &str) -> (Vec<String>, usize) {
    let place: BTreeMap<&str, usize> = order.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let (mut upward, mut arrows) = (Vec::new(), 0);
    for path in sources(root) {
        let inside = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let room = inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        if is_for_tests(&inside) || room == "bin" {
            continue;
        }
        let at = *place.get(room.as_str()).unwrap_or_else(|| panic!("{room} has no place in the order"));
        let code = code(&path);
        assert!(
            !code.contains(&format!("use {prefix}{{")),
            "{inside}: one line for each import of {prefix}, so that this test can read it"
        );
        let mut others = named(&code, prefix);
        // In a file of the folder itself, and in the first file of a room, `super` is the folder.
        if inside == format!("{room}.rs") || inside == format!("{room}/mod.rs") {
            others.extend(named(&code, "super::"));
        }
        // In any other file of a room that has no folders in between, `super::super` is.
        if inside.matches('/').count() == 1 && !inside.ends_with("/mod.rs") {
            others.extend(named(&code, "super::super::"));
        }
        for other in others {
            let Some(there) = place.get(other).filter(|_| other != room) else { continue };
            arrows += 1;
            if *there > at {
                upward.push(format!("{inside} imports {other}"));
            }
        }
    }
    (upward, arrows)
}

#[test]
fn every_module_of_src_imports_only_modules_below_it() {
    let (upward, arrows) = upward(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &MODULES, "crate::");
    assert_eq!(upward, Vec::<String>::new());
    assert!(arrows > 300, "{arrows} imports: the test reads too few");
}

#[test]
fn every_room_of_the_cycle_imports_only_rooms_below_it() {
    let (upward, arrows) = upward(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cycle"), &ROOMS, "crate::cycle::");
    assert_eq!(upward, Vec::<String>::new());
    assert!(arrows > 90, "{arrows} imports: the test reads too few");
}
