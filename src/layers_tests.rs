//! Do imports point only downward? This test reads them.
//!
//! Two orders are held: that of the modules of `src/`, and that of the rooms of `src/cycle/`, as far as they are cut. What stands in a file that is compiled for tests
//! alone is left out.

use std::collections::BTreeMap;
use std::path::Path;

use crate::documents_tests::sources;

/// The modules of `src/`, the lowest first. A module imports only modules that stand before it.
const MODULES: [&str; 13] = [
    "by_key",
    "left_out",
    "backoff",
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

/// The rooms of `src/cycle/` that are cut already. Each imports nothing of `cycle` but what is named here.
const ROOMS: [(&str, &[&str]); 2] = [("placement", &["explain"]), ("requeue", &["placement", "order"])];

/// Whether the file, or a folder that it is in, is compiled for tests alone.
fn is_for_tests(path: &str) -> bool {
    let names = ["tests", "testing", "duel", "differential", "reference", "histories", "simulation", "metrics_page", "promises", "vectors"];
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

#[test]
fn every_module_of_src_imports_only_modules_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let place: BTreeMap<&str, usize> = MODULES.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let (mut upward, mut arrows) = (Vec::new(), 0);
    for path in sources(&root) {
        let inside = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        let module = inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        if is_for_tests(&inside) || module == "bin" {
            continue;
        }
        let at = *place.get(module.as_str()).unwrap_or_else(|| panic!("{module} has no place in the order"));
        for other in named(&code(&path), "crate::") {
            let Some(there) = place.get(other).filter(|_| other != module) else { continue };
            arrows += 1;
            if *there > at {
                upward.push(format!("{inside} imports {other}"));
            }
        }
    }
    assert_eq!(upward, Vec::<String>::new());
    assert!(arrows > 300, "{arrows} imports: the test reads too few");
}

#[test]
fn the_rooms_of_the_cycle_import_only_what_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cycle");
    let (mut wrong, mut arrows) = (Vec::new(), 0);
    for (room, allowed) in ROOMS {
        for path in sources(&root.join(room)) {
            let inside = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            if is_for_tests(&inside) {
                continue;
            }
            for other in named(&code(&path), "crate::cycle::") {
                arrows += 1;
                if other != room && !allowed.contains(&other) {
                    wrong.push(format!("{inside} imports cycle::{other}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(arrows > 10, "{arrows} imports: the test reads too few");
}
