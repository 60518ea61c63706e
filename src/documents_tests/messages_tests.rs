//! Does the reference say what to do about every message that a user can cause with a value, a field or a request?

use std::collections::BTreeSet;

use super::{first_cells, names_below, path, read, sources};

/// The chapters of the reference that list these messages.
fn chapters() -> String {
    let reference = read("docs/reference.md");
    let start = reference.find("\n### Values that cannot be used\n").unwrap();
    reference[start..].split("\n## ").next().unwrap().to_owned()
}

/// Returns a file without its tests and comments.
fn code(file: &str) -> String {
    let text = read(file);
    let code = text.split("#[cfg(test)]").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// Returns the text literals in code.
fn literals(code: &str) -> Vec<String> {
    let (mut found, mut open, mut escaped) = (Vec::new(), None::<String>, false);
    for each in code.replace("'\"'", "").chars() {
        match (&mut open, each) {
            (Some(text), _) if escaped => {
                text.push(each);
                escaped = false;
            }
            (Some(_), '\\') => escaped = true,
            (Some(_), '"') => found.extend(open.take()),
            (Some(text), _) => text.push(each),
            (None, '"') => open = Some(String::new()),
            (None, _) => {}
        }
    }
    found
}

/// Returns the code of a function at the left or in an `impl`.
fn function(file: &str, name: &str) -> String {
    let code = code(file);
    let start = code.find(&format!("fn {name}(")).unwrap_or_else(|| panic!("{file} has no function {name}"));
    let line = code[..start].rfind('\n').map_or(0, |end| end + 1);
    let indent = code[line..].chars().take_while(|each| *each == ' ').count();
    code[start..].split(&format!("\n{}}}", " ".repeat(indent))).next().unwrap().to_owned()
}

/// Checks that the reference has the constant parts of each message.
fn assert_listed(messages: impl IntoIterator<Item = String>) {
    let chapters = chapters();
    for text in messages {
        let parts = text.split(['{', '}']).step_by(2).filter(|part| part.len() > 4);
        let missing: Vec<_> = parts.filter(|part| !chapters.contains(part.trim())).collect();
        assert!(missing.is_empty(), "docs/reference.md does not say what to do about {text:?}: {missing:?}");
    }
}

#[test]
fn the_reference_lists_every_message_about_a_value() {
    let name = |file: &std::path::PathBuf| file.strip_prefix(path("")).unwrap().to_str().unwrap().to_owned();
    let makers: BTreeSet<String> = sources(&path("src"))
        .iter()
        .map(name)
        .filter(|file| ["Fault::new(", "Gang::One("].iter().any(|maker| code(file).contains(maker)))
        .collect();
    for known in ["src/api/node.rs", "src/api/node_choice.rs", "src/api/quantities.rs", "src/api/queue.rs", "src/lifecycle/sources.rs"] {
        assert!(makers.contains(known), "{known} makes no fault any more: {makers:?}");
    }
    // Every sentence in these files is a message. A claim that cannot be used has a code, which says what to do.
    let has_code = |text: &String| text.contains("persistentvolume") && !text.contains("spec.selector");
    let sentences = makers.iter().flat_map(|file| literals(&code(file))).filter(|text| text.contains(' ') && text != ", ");
    let of_values: Vec<String> = sentences.filter(|text| !has_code(text)).collect();
    assert!(of_values.len() >= 35, "{of_values:?}");
    assert_listed(of_values);
    let of_quantities = code("src/resources/quantity/read.rs").replace("#[error(\"", "\0");
    let of_quantities: Vec<_> = of_quantities.split('\0').skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect();
    assert_eq!(of_quantities.len(), 4, "{of_quantities:?}");
    assert_listed(of_quantities);
    let of_queues = literals(&function("src/cycle/explain/words.rs", "queue_fault"));
    assert_eq!(of_queues.len(), 7, "{of_queues:?}");
    assert_listed(of_queues);
}

#[test]
fn the_reference_lists_every_end_of_a_message() {
    // What adds nothing to the refusal is not said (`NotPreempted::says_something`).
    let unsaid = ["preemption would not help: {refusal}", "no queue is over its share"];
    let all = literals(&code("src/cycle/explain/not_preempted.rs"));
    assert!(unsaid.iter().all(|text| all.iter().any(|each| each == text)), "{all:?}");
    let of_preemption: Vec<_> = all.into_iter().filter(|text| text.contains(' ') && !unsaid.contains(&&**text)).collect();
    assert!(of_preemption.len() >= 14, "{of_preemption:?}");
    assert_listed(of_preemption);
    let words = code("src/cycle/explain/words.rs");
    let of_volumes = literals(words.split("Display for KeptVolumes").nth(1).unwrap().split("\n}\n").next().unwrap());
    assert_eq!(of_volumes.len(), 5, "{of_volumes:?}");
    assert_listed(of_volumes);
    let nodes = function("src/cycle/explain/words.rs", "fmt")
        .split("Self::Nodes")
        .nth(1)
        .unwrap()
        .split("Self::")
        .next()
        .map(literals)
        .unwrap_or_default();
    let of_gangs: Vec<_> = nodes.into_iter().filter_map(|text| text.strip_prefix("; ").map(str::to_owned)).collect();
    assert_eq!(of_gangs.len(), 1, "{of_gangs:?}");
    let of_amounts: Vec<_> =
        literals(&code("src/cycle/explain/words_of_nodes.rs")).into_iter().filter(|text| text.contains(", most free ")).collect();
    assert_eq!(of_amounts.len(), 1, "{of_amounts:?}");
    assert_listed([of_gangs, of_amounts].concat());
}

#[test]
fn the_reference_lists_every_field_that_is_not_supported_and_no_other() {
    let mut fields: BTreeSet<String> = literals(&function("src/api/unsupported.rs", "field")).into_iter().collect();
    assert!(fields.len() >= 8 && fields.contains("spec.resourceClaims"), "{fields:?}");
    let words = literals(&code("src/cycle/explain/words.rs"));
    let more: Vec<_> = words.iter().filter_map(|text| text.strip_prefix("this scheduler cannot honour yet: ")).collect();
    assert!(more.len() >= 3, "{more:?}");
    fields.extend(more.into_iter().filter(|text| *text != "{}").map(|text| text.replace("{field}", "FIELD").replace("{queue}", "X")));
    let reference = read("docs/reference.md");
    let listed = first_cells(&reference, "\n| message after `this scheduler cannot honour yet:` |");
    assert_eq!(listed, fields.iter().map(String::as_str).collect());
}

#[test]
fn the_reference_lists_every_value_that_the_chart_refuses() {
    let text: String = names_below("charts/podgroup/templates", "").iter().map(|file| read(file)).collect();
    let message = |call: &str| literals(&call.lines().next().unwrap().replace("\\n", " ")).into_iter().next().unwrap();
    let all: Vec<_> = text.split("{{- fail ").skip(1).map(message).collect();
    assert!(all.len() >= 19, "{all:?}");
    // What the message begins with; the rest says what to do.
    let begin = |text: String| {
        let text = text.replace("%s", "{}").replace("%d", "{}");
        [": ", ". ", " ("].iter().fold(text.as_str(), |begin, end| begin.split(end).next().unwrap()).to_owned()
    };
    assert_listed(all.into_iter().map(begin));
}

#[test]
fn the_reference_lists_every_refusal_of_a_policy() {
    // A policy makes a message of constants, or of expressions with constants.
    let policies = read("charts/podgroup/templates/tenancy.yaml");
    let fixed = policies.lines().filter_map(|line| line.trim().strip_prefix("message: \"")?.strip_suffix('"'));
    let made = policies.split("messageExpression: >-\n").skip(1).filter_map(|rest| rest.lines().next());
    let all: Vec<&str> = fixed.chain(made.flat_map(|line| line.split('"').skip(1).step_by(2))).collect();
    assert!(all.len() >= 12, "{all:?}");
    assert_listed(all.into_iter().map(|text| text.replace("{{", "{").replace("}}", "}")));
}
