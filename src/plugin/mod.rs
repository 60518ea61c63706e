//! `kubectl podgroup`: why does a PodGroup wait, how full are the queues and the nodes, and do the books agree?
//!
//! ```text
//!  flags ──▶ connect ──▶ fetch, scheduler ──▶ facts ──▶ a report (pure) ──▶ page (text) or JSON
//! ```
//!
//! The shell ([`connect`], [`fetch`], [`scheduler`], [`find`], [`verbs`]) reads objects of the API, and asks the scheduler's debug endpoint where it can be
//! reached. Each report is a value that follows from that ([`why`], [`tree`], [`nodes`], [`audit`], [`version`], [`desired`]): no I/O, no clock. What could not be read is
//! a [`gap::Gap`] in the report and never ends it. All text leaves through [`page`], which makes what tenants wrote harmless.
//!
//! **Architecture invariant:** nothing here decides anything about pods. What would fit is asked of [`crate::accounting`] and [`crate::cycle`], so that the
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
mod nearest;
pub mod nodes;
pub mod page;
pub mod queues;
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

/// Runs the program: what its name and the words after it ask for.
pub async fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let name = words.first().and_then(|name| Path::new(name).file_name());
    if name.is_some_and(|name| name == complete::ASKED_AS) {
        let words: Vec<String> = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        return written(complete::answer(&words).await.as_bytes(), ExitCode::SUCCESS);
    }
    run(Arguments::parse_from(words)).await
}

/// Answers, and says with the exit status how: 0 fine, 1 not found, refused, or differences in the audit; 2 is wrong usage.
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
            // Nobody is left to be told where stderr is closed too.
            let _ = writeln!(io::stderr(), "error: {}", clean(&message));
            ExitCode::FAILURE
        }
    }
}

/// Colours only for a person at a terminal that has them, and not for one who does not want them: a `NO_COLOR` that says nothing refuses nothing.
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

/// Why an answer is not where it was to go. Who reads only the beginning (`| head`) closes the pipe, which is no failure.
fn unwritten(result: io::Result<()>) -> Option<String> {
    let error = result.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
    Some(format!("the answer could not be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_nobody_gets_is_an_error_that_is_told_but_for_one_who_stops_reading() {
        assert_eq!(unwritten(Ok(())), None);
        assert_eq!(unwritten(Err(io::ErrorKind::BrokenPipe.into())), None);
        let full = unwritten(Err(io::ErrorKind::StorageFull.into())).unwrap_or_default();
        assert!(full.starts_with("the answer could not be written: "), "{full}");
    }

    #[test]
    fn colours_are_for_a_terminal_that_has_them_and_for_who_did_not_refuse_them() {
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
