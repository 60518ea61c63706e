//! Completes a command line that begins with `kubectl podgroup`.
//!
//! kubectl calls a program named `kubectl_complete-podgroup` with the words so far; a link of that name to this program is enough. The answer is
//! one candidate per line and then `:4`, which means that no file names are wanted. A shell that completes `kubectl-podgroup` itself uses
//! `kubectl podgroup completion`. Names come from the API server; when it does not answer at once there are none.

use std::time::Duration;

use clap::{Arg, Command, CommandFactory, Parser};
use clap_complete::Shell;
use futures::future::join_all;

use super::connect::connect;
use super::fetch::Fetch;
use super::flags::{Arguments, Common, Kind, Named, QueueChange, Target, Verb};
use super::verbs::QUEUES;

/// The name under which kubectl calls this program.
pub const COMPLETION_NAME: &str = "kubectl_complete-podgroup";

/// The time limit of a completion: the user is waiting.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The kind of names that are wanted.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// Objects with PodGroups: of this kind, or of the kinds that users name.
    Groups(Option<Kind>),
    Queues,
    Namespaces,
}

impl Wanted {
    /// Returns the paths of the lists.
    fn paths(&self, namespace: &str) -> Vec<String> {
        let of_kind = |kind: &Kind| kind.path(Some(namespace));
        match self {
            Self::Groups(Some(kind)) => vec![of_kind(kind)],
            Self::Groups(None) => Kind::ALL.iter().filter(|kind| !kind.is_generated()).map(of_kind).collect(),
            Self::Queues => vec![QUEUES.to_owned()],
            Self::Namespaces => vec!["/api/v1/namespaces".to_owned()],
        }
    }
}

/// Returns the kind of names that the last word may be, and the flags before it; `None` where it is no name.
fn wanted(words: &[String]) -> Option<(Wanted, Common)> {
    const ANY: &str = "x-x-x-x-x";
    let (begun, before) = words.split_last().filter(|(begun, _)| !begun.starts_with('-'))?;
    let any = begun.split_once('/').map_or_else(|| ANY.to_owned(), |(kind, _)| format!("{kind}/{ANY}"));
    let parsed = |more: &[&str]| {
        let line = ["kubectl-podgroup"].into_iter().chain(before.iter().map(String::as_str)).chain([any.as_str()]);
        Arguments::try_parse_from(line.chain(more.iter().copied())).ok()
    };
    // The verb may come after the flag that is being typed.
    let Arguments { common, verb } = parsed(&[]).or_else(|| parsed(&["nodes"]))?;
    if common.namespace.as_deref() == Some(ANY) {
        return Some((Wanted::Namespaces, common));
    }
    let wanted = match verb {
        Verb::Why { target: Target { kind, name } } if name == ANY => Wanted::Groups(kind),
        Verb::Queue { change: QueueChange::Open(Named { name, .. }) | QueueChange::Close(Named { name, .. }) } if name == ANY => {
            Wanted::Queues
        }
        Verb::Why { .. } | Verb::Tree { .. } | Verb::Nodes | Verb::Queue { .. } | Verb::Audit | Verb::Version | Verb::Completion { .. } => {
            return None;
        }
    };
    Some((wanted, common))
}

/// Returns the names that begin with the last word.
async fn names(words: &[String]) -> Vec<String> {
    let Some(((wanted, common), begun)) = wanted(words).zip(words.last()) else { return Vec::new() };
    let Ok(connection) = connect(&common).await else { return Vec::new() };
    let fetch = Fetch::new(connection.client, AT_ONCE);
    let paths = wanted.paths(&connection.namespace);
    let lists = join_all(paths.iter().map(|path| fetch.names(path, "")));
    let found = tokio::time::timeout(AT_ONCE, lists).await.unwrap_or_default();
    let kind = begun.split_once('/').map(|(kind, _)| format!("{kind}/")).unwrap_or_default();
    let mut names: Vec<String> =
        found.into_iter().flatten().flatten().filter_map(|meta| Some(format!("{kind}{}", super::page::clean(&meta.name?)))).collect();
    names.retain(|name| name.starts_with(begun.as_str()));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the candidates for the last word, which may be empty or incomplete.
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

/// Returns the argument of a flag that takes a value.
fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.trim_start_matches('-');
    let same = |arg: &&Arg| arg.get_long() == Some(name) || arg.get_short().is_some_and(|short| name.chars().eq([short]));
    command.get_arguments().find(same).filter(|arg| arg.get_action().takes_values())
}

fn values(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// Returns the answer in the form that kubectl reads.
pub async fn answer(words: &[String]) -> String {
    let mut all = candidates(words);
    all.extend(names(words).await);
    all.into_iter().map(|candidate| format!("{candidate}\n")).collect::<String>() + ":4\n"
}

/// Returns the script with which a shell completes `kubectl-podgroup` itself.
#[must_use]
pub fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "kubectl-podgroup", &mut script);
    if shell != Shell::Bash {
        return script;
    }
    // clap_complete 4.6 writes the hyphen of a program's name in two ways here, so nothing after a verb would ever be completed.
    String::from_utf8_lossy(&script).replace("kubectl__subcmd__podgroup", "kubectl__podgroup").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use super::*;

    /// Returns what a shell of this machine prints for a script that reads the generated one as `$SCRIPT`; `None` where the shell is missing.
    fn run(shell: Shell, arguments: &[&str], text: &str) -> Option<String> {
        let file = std::env::temp_dir().join(format!("podgroup-completion-{}-{shell}", std::process::id()));
        std::fs::write(&file, script(shell)).unwrap();
        let output = Program::new(shell.to_string()).args(arguments).args(["-c", text]).env("SCRIPT", &file).output();
        std::fs::remove_file(&file).unwrap();
        let output = output.ok()?;
        let output_text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{shell}: {output_text}{}", String::from_utf8_lossy(&output.stderr));
        Some(output_text)
    }

    #[test]
    fn each_shell_completes_with_its_script() {
        // Bash calls the function of the script with the words so far and the position of the completed word.
        let text = r#"source "$SCRIPT"; complete -p kubectl-podgroup
            COMP_WORDS=(kubectl-podgroup tree --g); COMP_CWORD=2; _kubectl__podgroup kubectl-podgroup --g tree; echo "${COMPREPLY[@]}""#;
        let output_text = run(Shell::Bash, &["--norc"], text).unwrap();
        assert!(output_text.contains("-F _kubectl__podgroup") && output_text.ends_with("--groups\n"), "{output_text}");
        // Zsh completes only in a terminal; the test checks that it accepts the script and registers it for the right command.
        let text = r#"autoload -Uz compinit; compinit -D -u; source "$SCRIPT"; print -r -- $_comps[kubectl-podgroup]"#;
        if let Some(output_text) = run(Shell::Zsh, &["-f"], text) {
            assert_eq!(output_text, "_kubectl-podgroup\n");
        }
        if let Some(output_text) = run(Shell::Fish, &["--no-config"], r#"source "$SCRIPT"; complete -C "kubectl-podgroup tree --g""#) {
            assert!(output_text.starts_with("--groups\t"), "{output_text}");
        }
    }

    /// Checks the scripts without running them, for shells that are not installed.
    #[test]
    fn each_script_names_all_verbs_and_says_for_which_program_it_is() {
        let heads = [
            (Shell::Bash, "complete -F _kubectl__podgroup "),
            (Shell::Zsh, "#compdef kubectl-podgroup\n"),
            (Shell::Fish, "complete -c kubectl-podgroup "),
        ];
        for (shell, head) in heads {
            let text = String::from_utf8(script(shell)).unwrap();
            assert!(text.contains(head), "{shell}: no {head:?} in {text}");
            for verb in candidates(&[String::new()]) {
                assert!(text.contains(&verb), "{shell}: no {verb}");
            }
            assert!(text.contains("without-scheduler"), "{shell}");
        }
    }

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
    }

    #[tokio::test]
    async fn without_words_there_is_nothing() {
        assert_eq!(answer(&[]).await, ":4\n");
    }

    #[test]
    fn names_are_requested_where_a_name_is_typed() {
        let of = |line: &str| wanted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let table = [
            ("why ", Some(Wanted::Groups(None))),
            ("why tr", Some(Wanted::Groups(None))),
            ("why deploy/tr", Some(Wanted::Groups(Some(Kind::Deployment)))),
            ("queue close ", Some(Wanted::Queues)),
            ("-n ", Some(Wanted::Namespaces)),
            ("why train -n te", Some(Wanted::Namespaces)),
            ("queue ", None),
            ("tree -o ", None),
            ("why service/x", None),
            ("why --name", None),
            ("why train ", None),
        ];
        for (line, want) in table {
            assert_eq!(of(line).map(|(wanted, _)| wanted), want, "{line:?}");
        }
        assert_eq!(of("-n team why ").and_then(|(_, flags)| flags.namespace).as_deref(), Some("team"));
        assert_eq!(Wanted::Groups(Some(Kind::Pod)).paths("ns"), ["/api/v1/namespaces/ns/pods"]);
    }
}
