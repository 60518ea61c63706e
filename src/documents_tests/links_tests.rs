//! Checks that the links between the documents lead to an existing file and heading.

use std::collections::BTreeSet;

use super::{between, names_below, path, read};

/// Returns the targets of a document's links within this repository.
fn links(text: &str) -> BTreeSet<&str> {
    between(text, "](", ')').into_iter().filter(|link| !link.contains("://")).collect()
}

#[test]
fn both_readmes_link_to_the_same_documents() {
    let (english, chinese) = (read("README.md"), read("README.zh-CN.md"));
    let of = |text| links(text).into_iter().filter(|link| !link.starts_with("README")).map(str::to_owned).collect::<BTreeSet<_>>();
    assert!(of(&english).len() >= 15 && links(&english).contains("README.zh-CN.md") && links(&chinese).contains("README.md"));
    assert_eq!(of(&english), of(&chinese), "README.md, and README.zh-CN.md");
}

/// Returns every document below a folder.
fn documents(folder: &str) -> Vec<String> {
    names_below(folder, ".md")
}

/// Returns every document outside the code.
fn pages() -> Vec<String> {
    let outside_docs = [
        "README.md",
        "README.zh-CN.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "charts/podgroup/README.md",
        "release/README.md",
    ];
    outside_docs.map(str::to_owned).into_iter().chain(documents("docs")).collect()
}

/// Returns the anchors of a document: its headings, in the form of GitHub.
fn anchors(text: &str) -> BTreeSet<String> {
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    let headings = outside.filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_a_heading() {
    let all = pages();
    assert!(all.iter().any(|document| document.starts_with("docs/runbooks/")), "{all:?}");
    let (mut found, mut of_headings) = (0, 0);
    for document in all {
        let text = read(&document);
        for link in links(&text) {
            let (name, heading) = link.split_once('#').map_or((link, None), |(name, heading)| (name, Some(heading)));
            let file = if name.is_empty() { path(&document) } else { path(&document).parent().unwrap().join(name) };
            assert!(file.exists(), "{document} leads to {link}, which is not there");
            if let Some(heading) = heading {
                let there = anchors(&std::fs::read_to_string(&file).unwrap());
                assert!(there.contains(heading), "{document} leads to {link}, and the headings there are {there:?}");
                of_headings += 1;
            }
            found += 1;
        }
    }
    assert!(found >= 60 && of_headings >= 10, "only {found} links were found, {of_headings} of them to a heading");
}

/// Returns whether the word is the number of a rule or of a case: one capital letter and one or two digits, as R7.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    word.len() - digits.len() == 1 && (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
}

#[test]
fn no_page_but_those_of_the_design_has_numbers_of_rules_and_cases() {
    let pages: Vec<_> = pages().into_iter().filter(|page| !page.starts_with("docs/design/")).collect();
    assert!(pages.len() >= 80, "{pages:?}");
    for page in pages {
        let text = read(&page);
        let numbers: BTreeSet<_> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| is_number(word)).collect();
        assert!(numbers.is_empty(), "{page} has the numbers {numbers:?}: rules and cases stand in docs/design");
    }
    assert!(documents("docs/design").iter().any(|page| read(page).contains("R7")), "the rules have no numbers any more");
}
