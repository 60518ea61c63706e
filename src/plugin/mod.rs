//! `kubectl podgroup`: shows why a PodGroup waits, how full the queues and the nodes are, and whether the accounting is right.
//!
//! ```text
//!  flags ──▶ connect ──▶ fetch, scheduler ──▶ facts ──▶ a report (pure) ──▶ page (text) or JSON
//! ```
//!
//! The shell ([`connect`], [`fetch`], [`scheduler`], [`find`], [`verbs`]) reads objects of the API, and asks the scheduler's debug endpoint
//! where it can be reached. Each report is a pure value that follows from these facts ([`why`], [`tree`], [`nodes`], [`audit`],
//! [`version`], [`desired`]): no I/O, no clock. What could not be read is a [`gap::Gap`] in the report and never ends it. All text passes
//! through [`page`], which makes text of tenants harmless.
//!
//! **Architecture invariant:** nothing here decides anything about pods. [`crate::accounting`] and [`crate::cycle`] answer what fits, so the
//! answer is the scheduler's own.

#![cfg_attr(not(test), deny(clippy::float_arithmetic, clippy::arithmetic_side_effects))]

pub mod answers;
pub mod audit;
mod bar;
pub mod complete;
pub mod connect;
pub mod desired;
pub mod events;
pub mod fetch;
pub mod find;
pub mod flags;
mod forward;
pub mod gap;
pub mod nodes;
pub mod page;
pub mod queues;
mod rights;
pub mod scheduler;
mod served;
pub mod tree;
pub mod verbs;
pub mod version;
pub mod why;

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use flags::{Arguments, Output, Verb};
use page::clean;
use verbs::Answer;

/// Runs the program by its name and arguments.
pub async fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let name = words.first().and_then(|name| Path::new(name).file_name());
    if name.is_some_and(|name| name == complete::COMPLETION_NAME) {
        let words: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        return written(complete::answer(&words).await.as_bytes(), ExitCode::SUCCESS);
    }
    run(Arguments::parse_from(words)).await
}

/// Prints the answer. The exit status is 0 on success; 1 when something is not found or refused, or when the audit has differences; 2 for
/// wrong usage.
async fn run(arguments: Arguments) -> ExitCode {
    let output = arguments.common.output;
    if let Verb::Completion { shell } = arguments.verb {
        return written(&complete::script(shell), ExitCode::SUCCESS);
    }
    match verbs::answer(arguments).await {
        Ok(Answer { page, json, code }) => {
            let text = match output {
                Output::Json => page::json(&json),
                Output::Text | Output::Wide => {
                    let (refused, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
                    page.render(is_coloured(io::stdout().is_terminal(), refused.as_deref(), term.as_deref()))
                }
            };
            written(text.as_bytes(), code)
        }
        Err(message) => {
            // When stderr is closed too, the error cannot be shown.
            let _ = writeln!(io::stderr(), "error: {}", clean(&message));
            ExitCode::FAILURE
        }
    }
}

/// Returns whether to use colours: only for a terminal that supports them, and not if `NO_COLOR` is set. An empty `NO_COLOR` counts as unset.
fn is_coloured(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

fn written(text: &[u8], code: ExitCode) -> ExitCode {
    let mut out = io::stdout().lock();
    match unwritten(out.write_all(text).and_then(|()| out.flush())) {
        None => code,
        Some(why) => {
            let _ = writeln!(io::stderr(), "error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns why the answer could not be written. A reader that stops early (`| head`) closes the pipe, which is no failure.
fn unwritten(result: io::Result<()>) -> Option<String> {
    let error = result.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
    Some(format!("the answer could not be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritten_answer_is_an_error_unless_the_reader_stopped_early() {
        assert_eq!(unwritten(Ok(())), None);
        assert_eq!(unwritten(Err(io::ErrorKind::BrokenPipe.into())), None);
        let full = unwritten(Err(io::ErrorKind::StorageFull.into())).unwrap_or_default();
        assert!(full.starts_with("the answer could not be written: "), "{full}");
    }

    #[test]
    fn colours_need_a_terminal_that_supports_them_and_no_refusal() {
        let table = [
            (true, None, Some("xterm-256color"), true),
            (true, None, None, true),
            (true, Some(""), Some("xterm"), true),
            (true, Some("1"), Some("xterm"), false),
            (true, Some("0"), Some("xterm"), false),
            (true, None, Some("dumb"), false),
            (false, None, Some("xterm"), false),
            (false, Some(""), None, false),
        ];
        for (terminal, no_color, term, want) in table {
            assert_eq!(is_coloured(terminal, no_color.map(OsStr::new), term.map(OsStr::new)), want, "{terminal} {no_color:?} {term:?}");
        }
    }
}
