//! What may come next on a command line that begins `kubectl podgroup`?
//!
//! kubectl asks a program called `kubectl_complete-podgroup` for that, with the words so far; a link of that name to this program is enough. The answer is
//! one candidate on each line and then `:4`, which says that no names of files are meant. A shell that completes `kubectl-podgroup` itself has
//! `kubectl podgroup completion`.

use clap::{Arg, Command, CommandFactory};

use super::flags::Arguments;

/// The name under which kubectl asks.
pub const ASKED_AS: &str = "kubectl_complete-podgroup";

/// The candidates for the last of the words, which may be empty or begun.
#[must_use]
pub fn candidates(words: &[String]) -> Vec<String> {
    let mut command = Arguments::command();
    command.build();
    let Some((begun, before)) = words.split_last() else { return Vec::new() };
    let mut at = &command;
    let mut value_of: Option<&Arg> = None;
    for word in before {
        if value_of.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            value_of = flag(at, word).filter(|_| !word.contains('='));
        } else if let Some(below) = at.find_subcommand(word) {
            at = below;
        }
    }
    let mut found: Vec<String> = match value_of {
        Some(arg) => values(arg),
        None if begun.starts_with('-') => at.get_arguments().filter_map(Arg::get_long).map(|long| format!("--{long}")).collect(),
        None => {
            let verbs = at.get_subcommands().map(|below| below.get_name().to_owned()).filter(|name| name != "help");
            verbs.chain(at.get_positionals().flat_map(values)).collect()
        }
    };
    found.retain(|candidate| candidate.starts_with(begun.as_str()));
    found
}

/// The argument of a flag that wants a value.
fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.trim_start_matches('-');
    let same = |arg: &&Arg| arg.get_long() == Some(name) || arg.get_short().is_some_and(|short| name.chars().eq([short]));
    command.get_arguments().find(same).filter(|arg| arg.get_action().takes_values())
}

fn values(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// The answer as kubectl reads it.
#[must_use]
pub fn answer(words: &[String]) -> String {
    candidates(words).into_iter().map(|candidate| format!("{candidate}\n")).collect::<String>() + ":4\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_flags_and_their_values_are_completed() {
        let of = |line: &str| candidates(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).join(" ");
        let table = [
            ("", "why tree nodes queue audit version completion"),
            ("t", "tree"),
            ("queue ", "open close"),
            ("-n team queue c", "close"),
            ("completion ", "bash zsh fish"),
            ("tree -o ", "text wide json"),
            ("tree --output j", "json"),
            ("tree --g", "--groups"),
            ("why ", ""),
            ("nodes --without", "--without-scheduler"),
        ];
        for (line, want) in table {
            assert_eq!(of(line), want, "{line:?}");
        }
        assert_eq!(answer(&[]), ":4\n");
    }
}
