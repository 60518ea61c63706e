//! Checks that the documents agree with the code: names, flags, reasons and the version, in both directions where possible.
//!
//! The tables of flags and codes in `docs/reference.md` and `docs/plugin.md` are written by this:
//! `PODGROUP_GENERATE=1 cargo test --lib documents`, which `make generate` calls.

mod comments_tests;
mod links_tests;
mod manifests_tests;
mod messages_tests;
mod references_tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

use crate::cycle::explain::Code;
use crate::plugin::flags::Arguments;
use crate::runtime::flags::{ControllerFlags, SchedulerFlags};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns a flag as in a table: `--output text\|wide\|json`.
fn form(flag: &clap::Arg) -> String {
    let names: Vec<_> = flag.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let words: Vec<_> = flag.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    let value = match (flag.get_action().takes_values(), words.is_empty()) {
        (false, _) => String::new(),
        (true, true) => names.join(" "),
        (true, false) => words.join("\\|"),
    };
    let short = flag.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    format!("{short}--{} {value}", flag.get_long().unwrap()).trim_end().to_owned()
}

/// Returns the flags of a program without `--help` and `--version`.
fn flags(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    command.get_arguments().filter(|each| !matches!(each.get_id().as_str(), "help" | "version"))
}

/// Returns a table with a row for each flag, from `--help`.
fn table(command: &clap::Command) -> String {
    let mut rows = "| flag | default | meaning |\n|---|---|---|\n".to_owned();
    for flag in flags(command) {
        let defaults: Vec<_> = flag.get_default_values().iter().map(|each| format!("`{}`", each.to_string_lossy())).collect();
        let help = flag.get_help().unwrap().to_string().replace('|', "\\|").replace('\n', " ");
        rows.push_str(&format!("| `{}` | {} | {help} |\n", form(flag), defaults.join(" ")));
    }
    rows
}

/// Checks the generated part of a document; `PODGROUP_GENERATE=1` writes it.
fn generated(document: &str, mark: &str, wanted: &str) {
    let (begin, end) = (format!("<!-- generated: {mark} -->\n"), "<!-- end -->");
    let text = read(document);
    let start = text.find(&begin).unwrap_or_else(|| panic!("{document} has no {begin}")) + begin.len();
    let stop = start + text[start..].find(end).unwrap();
    if std::env::var_os("PODGROUP_GENERATE").is_some() {
        std::fs::write(path(document), format!("{}{wanted}{}", &text[..start], &text[stop..])).unwrap();
        return;
    }
    assert!(text[start..stop] == *wanted, "{document} is out of step with the code ({mark}): run `make generate`");
}

#[test]
fn every_flag_is_in_the_reference_with_its_default() {
    generated("docs/reference.md", "podgroup-controller", &table(&ControllerFlags::command()));
    generated("docs/reference.md", "podgroup-scheduler", &table(&SchedulerFlags::command()));
}

#[test]
fn every_code_is_in_the_reference_with_its_meaning_and_remedy() {
    let mut rows = "| code | meaning | what to do |\n|---|---|---|\n".to_owned();
    for code in Code::ALL {
        rows.push_str(&format!("| `{}` | {} | {} |\n", code.as_str(), code.meaning(), code.remedy()));
    }
    generated("docs/reference.md", "codes", &rows);
}

#[test]
fn every_flag_of_the_plugin_is_in_its_document_with_its_default() {
    generated("docs/plugin.md", "kubectl-podgroup", &table(&Arguments::command()));
}

/// Returns the usage of each verb: `queue open QUEUE [--dry-run]`.
fn usages(command: &clap::Command, before: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for verb in command.get_subcommands() {
        let mut usage = format!("{before}{}", verb.get_name());
        if verb.has_subcommands() {
            all.extend(usages(verb, &format!("{usage} ")));
            continue;
        }
        for argument in verb.get_positionals() {
            let words: Vec<_> = argument.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
            let name = || argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect::<String>();
            usage += &format!(" {}", if words.is_empty() { name() } else { words.join("\\|") });
        }
        for flag in verb.get_arguments().filter(|flag| !flag.is_positional()) {
            usage += &format!(" [{}]", form(flag));
        }
        all.insert(usage);
    }
    all
}

/// Returns the codes in the first column of the table that begins with `head`.
fn first_cells<'a>(text: &'a str, head: &str) -> BTreeSet<&'a str> {
    let table = text.split(head).nth(1).unwrap_or_else(|| panic!("no table {head:?}"));
    // The rest of the head, and the line below it.
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_verb_of_the_plugin_is_in_its_document_with_its_usage() {
    let (document, command) = (read("docs/plugin.md"), Arguments::command());
    let wanted = usages(&command, "");
    assert!(wanted.len() >= 8 && wanted.contains("tree [--groups]"), "{wanted:?}");
    assert_eq!(first_cells(&document, "\n| verb | answers |"), wanted.iter().map(String::as_str).collect());
    // The document has the JSON fields of each verb with an output.
    let verbs = command.get_subcommands().map(clap::Command::get_name).filter(|verb| *verb != "completion");
    assert_eq!(first_cells(&document, "\n| verb | fields |"), verbs.collect());
}

#[test]
fn the_reference_lists_every_code_and_no_other() {
    let codes = Code::ALL.iter().map(|code| code.as_str()).collect::<BTreeSet<_>>();
    assert_eq!(first_cells(&read("docs/reference.md"), "\n| code | meaning |"), codes);
    let metrics = read("docs/metrics.md");
    assert_eq!(first_cells(&metrics, "\n| reason | `at` and `resource` |"), codes);
    // The alert names existing codes.
    let alerts = read("charts/podgroup/files/alerts.yaml");
    let named = alerts.split("reason=~\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(named.split('|').all(|code| codes.contains(code)), "{named}");
    // The alert counts what nodes refuse. Where no node is left, other alerts fire.
    let refused = Code::ALL.iter().filter(|code| code.lacks_nodes() && **code != Code::NoNodes).map(|code| code.as_str());
    let missing: Vec<_> = refused.filter(|code| !named.split('|').any(|each| each == *code)).collect();
    assert!(missing.is_empty(), "the alert PodgroupQueueBelowDeserved does not count {missing:?}");
}

#[test]
fn the_page_on_autoscalers_says_for_each_code_whether_nodes_are_added() {
    let page = read("docs/autoscalers.md");
    let listed = |heading: &str| -> BTreeSet<String> {
        let section = page.split(heading).nth(1).unwrap().split("\n## ").next().unwrap();
        let cells = section.lines().filter(|line| line.starts_with("| ")).filter_map(|row| row.rsplit(" | ").next());
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
    };
    let codes = |helped: bool| Code::ALL.iter().filter(|code| code.lacks_nodes() == helped).map(|code| code.as_str().to_owned()).collect();
    let (added, not_added): (BTreeSet<String>, BTreeSet<String>) = (codes(true), codes(false));
    assert_eq!(listed("\n## Nodes are added\n"), added);
    assert_eq!(listed("\n## No nodes are added\n"), not_added);
}

#[test]
fn operations_md_lists_the_flags_of_the_programs() {
    let document = read("docs/operations.md");
    let of = |command: clap::Command| flags(&command).map(form).collect::<BTreeSet<_>>();
    let (controller, scheduler) = (of(ControllerFlags::command()), of(SchedulerFlags::command()));
    for flag in controller.union(&scheduler) {
        let name = flag.split(' ').next().unwrap();
        let documented = document
            .match_indices(name)
            .any(|(at, _)| !document[at + name.len()..].starts_with(|next: char| next.is_ascii_lowercase() || next == '-'));
        assert!(documented, "docs/operations.md does not mention {name}");
    }
    let section = document.split("## Flags").nth(1).unwrap().split("\n## ").next().unwrap();
    let (mut both, mut of_one) = (0, 0);
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        let programs: &[_] = match row.split(" | ").next().unwrap() {
            "| controller" => &[&controller],
            "| scheduler" => &[&scheduler],
            _ => &[&controller, &scheduler],
        };
        // The cell with the flags; the next cell may name other flags.
        let cell = row.split(" | ").find(|cell| cell.contains("`--")).unwrap_or_default();
        for flag in cell.split('`').skip(1).step_by(2) {
            for program in programs {
                assert!(program.contains(flag), "docs/operations.md lists `{flag}`, and there is {program:?}");
            }
            if programs.len() == 1 { of_one += 1 } else { both += 1 }
        }
    }
    assert_eq!((both, of_one), (9, controller.symmetric_difference(&scheduler).count()));
}

/// Returns every text between `before` and `after`.
fn between<'a>(text: &'a str, before: &str, after: char) -> BTreeSet<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split(after).next()).collect()
}

#[test]
fn the_reference_lists_every_annotation_and_label_and_no_other() {
    let reference = read("docs/reference.md");
    let names = read("src/api/names.rs");
    let keys: BTreeSet<_> = between(&names, "= \"", '"').into_iter().filter(|name| name.contains('/')).collect();
    assert!(keys.len() >= 12, "{keys:?}");
    for key in &keys {
        assert!(reference.contains(&format!("`{key}")), "docs/reference.md does not say what {key} is");
    }
    let section = reference.split("## Annotations and labels").nth(1).unwrap().split("\n## ").next().unwrap();
    let documented = between(section, "\n| `", '`');
    assert!(documented.len() >= 12, "{documented:?}");
    assert!(documented.iter().all(|key| keys.contains(key)), "docs/reference.md lists keys that no code reads: {documented:?}");
}

/// Returns whether the text is a word in CamelCase, as reasons are.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Returns every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Returns every Rust file below a folder, without tests.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let is_source =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "rs") && !path.file_stem().unwrap().to_str().unwrap().ends_with("tests");
    files(folder).into_iter().filter(is_source).collect()
}

/// Returns the names of the files below a folder of the repository that end in this.
fn names_below(folder: &str, ending: &str) -> Vec<String> {
    let name = |file: PathBuf| file.strip_prefix(path("")).unwrap().to_str().unwrap().to_owned();
    files(&path(folder)).into_iter().map(name).filter(|name| name.ends_with(ending)).collect()
}

/// Returns the words in the constants of a file, without its tests.
fn constants(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    between(code, ": &str = \"", '"').into_iter().filter(|word| is_word(word)).map(str::to_owned).collect()
}

#[test]
fn the_reference_lists_every_reason_and_no_other() {
    let reference = read("docs/reference.md");
    let section = reference.split("## Conditions and Events").nth(1).unwrap().split("\n## ").next().unwrap();
    let documented: BTreeSet<_> = section.split('`').skip(1).step_by(2).filter(|word| is_word(word)).collect();
    // The files with reasons, the text before each reason and the least number of reasons.
    let places = [
        ("src/lifecycle/warning.rs", "warning(\"", 3),
        ("src/scheduler/command.rs", "=> \"", 2),
        ("src/scheduler/command.rs", "reason: Some(\"", 1),
    ];
    let mut reasons: BTreeSet<String> = Code::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    for (file, before, least) in places {
        let text = read(file);
        let found: Vec<_> = between(&text, before, '"').into_iter().filter(|word| is_word(word)).map(str::to_owned).collect();
        assert!(found.len() >= least, "{file} makes no reasons behind {before:?} any more: {found:?}");
        reasons.extend(found);
    }
    // A constant with such a word is a reason, except the states of a queue, the policy of a priority class and the features of a node.
    let others = ["Open", "Closing", "Closed", "Never", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"];
    let constants = sources(&path("src")).iter().flat_map(|file| constants(file)).collect::<BTreeSet<_>>();
    assert!(["EvictedPartialGang", "InvalidQueue", "Scheduled"].iter().all(|known| constants.contains(*known)), "{constants:?}");
    reasons.extend(constants.into_iter().filter(|word| !others.contains(&word.as_str())));
    for reason in &reasons {
        assert!(documented.contains(reason.as_str()), "docs/reference.md does not say what {reason} means");
    }
    let kinds = ["PodGroup", "Queue", "Pod", "Unschedulable", "PodScheduled", "DisruptionTarget", "Scheduled", "True", "False"];
    let foreign: Vec<_> = documented.iter().filter(|word| !reasons.contains(**word) && !kinds.contains(*word)).collect();
    assert!(foreign.is_empty(), "docs/reference.md lists reasons that the code does not have: {foreign:?}");
}

#[test]
fn all_files_have_one_version_and_the_changelog_begins_with_it() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = read("charts/podgroup/Chart.yaml");
    for field in ["version", "appVersion"] {
        let line = format!("{field}: {version}");
        assert!(
            chart.lines().any(|each| each.replace('"', "") == line),
            "Chart.yaml has no line {line:?}: the version is that of Cargo.toml"
        );
    }
    for document in
        ["README.md", "README.zh-CN.md", "docs/install.md", "docs/getting-started.md", "docs/from-volcano.md", "charts/podgroup/README.md"]
    {
        let text = read(document);
        let tags: BTreeSet<_> = text.split("image.tag=").skip(1).map(|rest| rest.split([' ', '`', '\n']).next().unwrap()).collect();
        assert_eq!(tags, [version].into(), "{document} says which image is to be installed");
    }
    let changelog = read("CHANGELOG.md");
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert!(newest.split(' ').next() == Some(version), "CHANGELOG.md begins with {newest:?}, and the version is {version}");
}

/// Returns the commands in the code blocks without comments and diagrams, and the values of `--set`.
fn typed(document: &str) -> (Vec<String>, Vec<String>) {
    let text = read(document);
    let code = |line: &str| line.split("# ").next().unwrap().trim_end().to_owned();
    let lines = text.split("```").skip(1).step_by(2).filter(|block| !block.contains('▶')).flat_map(str::lines).map(code);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && line.is_ascii()).collect();
    let mut values: Vec<_> = text.split("--set ").skip(1).map(|rest| rest.split([' ', '`', '\n']).next().unwrap().to_owned()).collect();
    values.sort();
    (lines, values)
}

#[test]
fn both_readmes_have_the_same_commands_and_values() {
    let (english, chinese) = (typed("README.md"), typed("README.zh-CN.md"));
    assert!(english.0.len() >= 15 && english.1.len() >= 2, "{english:?}");
    assert_eq!(english, chinese, "README.md, and README.zh-CN.md");
}

#[test]
fn the_runbook_of_bindings_lists_every_kind_of_failure() {
    let (page, calls) = (read("docs/runbooks/PodgroupBindsFail.md"), read("src/runtime/call.rs"));
    let kinds = calls.split("pub fn kind(&self)").nth(1).unwrap().split("\n    }").next().unwrap();
    let mut ways = between(kinds, "=> \"", '"');
    assert!(ways.len() >= 14, "{ways:?}");
    // These kinds cannot occur: a binding creates no named object, is not a list and uses no disruption budget.
    for never in ["already_exists", "expired", "disruption_budget"] {
        assert!(ways.remove(never), "{never}");
    }
    ways.extend(["not_leading", "group_changed"]);
    let documented = page.split('`').skip(1).step_by(2).collect::<BTreeSet<_>>();
    let missing: Vec<_> = ways.iter().filter(|way| !documented.contains(*way)).collect();
    assert!(missing.is_empty(), "docs/runbooks/PodgroupBindsFail.md does not mention {missing:?}");
}
