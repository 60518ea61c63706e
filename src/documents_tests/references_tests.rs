//! Do code and documents name only documents and source files that are in the tree?

use std::path::Path;

use super::{names_below, path, read};

/// The folders with text that people read.
const FOLDERS: [&str; 8] = ["src", "e2e/src", "model", "benches", "examples", "charts", "release", "docs"];

/// What a reference to a chapter, or to a table, of a document that is elsewhere looks like.
const ELSEWHERE: [&str; 2] = ["\u{a7}", concat!("scenario", " table")];

/// The folders that the path of a source file begins with. In the documents `src/` may be left out.
const PLACES: [&str; 9] = ["src/", "e2e/src/", "model/src/", "benches/", "examples/", "cycle/", "runtime/", "scheduler/", "controller/"];

/// Returns whether there is such a file in the tree: from its root, from the folder of the file that names it, or without `src/`.
fn exists(name: &str, named_in: &str) -> bool {
    let beside = Path::new(named_in).parent().unwrap().join(name);
    [Path::new(name), &beside, &Path::new("src").join(name)].into_iter().any(|file| path(file.to_str().unwrap()).exists())
}

/// Returns the names of files in a text: its words with this ending, without links and patterns.
fn names<'a>(text: &'a str, ending: &str) -> impl Iterator<Item = &'a str> {
    let in_a_word = |c: char| c.is_ascii_alphanumeric() || "_./-*{}<>%:…".contains(c);
    let words = text.split(move |c| !in_a_word(c)).map(|word| word.trim_end_matches(['.', ':']));
    words.filter(move |word| {
        word.ends_with(ending) && word.len() > ending.len() && !word.starts_with('/') && !word.contains(['*', '{', '<', '%', ':', '…'])
    })
}

/// Returns the names in this text that lead nowhere, and how many names there are.
fn lost(file: &str, text: &str, documents: &[String]) -> (Vec<String>, usize) {
    let (mut lost, mut found) = (Vec::new(), 0);
    lost.extend(ELSEWHERE.iter().filter(|words| text.contains(**words)).map(|words| (*words).to_owned()));
    let is_document = file.ends_with(".md");
    for name in names(text, ".md") {
        found += 1;
        // A document may call another one by its name alone; where a link leads is tested elsewhere.
        let by_name = is_document && documents.iter().any(|document| document.ends_with(&format!("/{name}")));
        if !by_name && !exists(name, file) {
            lost.push(name.to_owned());
        }
    }
    // A decision is history: it may name a source file that is gone.
    for name in names(text, ".rs").filter(|_| !file.starts_with("docs/decisions/")) {
        if PLACES.iter().any(|place| name.starts_with(place)) {
            found += 1;
            if !exists(name, file) {
                lost.push(name.to_owned());
            }
        }
    }
    (lost, found)
}

#[test]
fn code_and_documents_name_only_files_that_are_in_the_tree() {
    let documents: Vec<_> = ["docs", "charts", "release"].iter().flat_map(|folder| names_below(folder, ".md")).collect();
    let root = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "Makefile", "clippy.toml"];
    let mut files: Vec<_> = root.map(str::to_owned).into();
    for ending in [".rs", ".md", ".yaml", ".sh", ".toml", ".txt"] {
        files.extend(FOLDERS.iter().flat_map(|folder| names_below(folder, ending)));
    }
    // This file has such names as examples.
    files.retain(|file| file != file!());
    let mut names = 0;
    for file in files {
        let (lost, found) = lost(&file, &read(&file), &documents);
        assert!(lost.is_empty(), "{file} refers to {lost:?}, which is not in the tree: say what it says, or name a document that is there");
        names += found;
    }
    assert!(names > 450, "only {names} names were found");
}

#[test]
fn a_name_that_leads_nowhere_is_found_in_every_form() {
    let of = |text: &str| lost("src/api/wire.rs", text, &[]).0;
    assert_eq!(of("(design.md \u{a7}3) and `src/gone.rs`, cycle/gone.rs."), ["\u{a7}", "design.md", "src/gone.rs", "cycle/gone.rs"]);
    assert_eq!(of(concat!("a row of the scenario", " table")), [ELSEWHERE[1]]);
    assert_eq!(of("docs/design/accounting.md, `cycle/mod.rs`, watch*.rs, https://example.org/x.md and [`pod.rs`]"), Vec::<String>::new());
}
