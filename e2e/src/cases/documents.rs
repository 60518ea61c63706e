//! Is what the documents tell a new user so? Row D1: every command of the first ten minutes is run as it stands there, and what it prints is compared.
//!
//! Only the blocks marked `console` are run: lines that begin with `$ ` are commands, those that follow are what is printed. Compared is loosely: the lines
//! must come in this order, with any others between; `…` in a word stands for some letters, and as the last word for the rest of the line. What only looks at the
//! cluster (`kubectl get`) is repeated until it shows what it should.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::kit;
use crate::wait::{Seen, secs, wait_until};
use crate::world::World;

#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    printed: Vec<String>,
}

/// D1. docs/getting-started.md.
pub(super) async fn first_ten_minutes(w: &mut World) -> Result<()> {
    let text = std::fs::read_to_string(kit::repository().join("docs/getting-started.md"))?;
    let steps = steps(&text);
    ensure!(steps.len() >= 14, "only {} commands were found in it", steps.len());
    let cluster = w.cluster();
    let kubectl = cluster.kit().program("kubectl");
    let tools = kubectl.parent().context("the kit's folder")?;
    for step in &steps {
        let again = if step.command.starts_with("kubectl get ") { 40 } else { 0 };
        wait_until(secs(again), &format!("`{}` prints what the document says", step.command), || async {
            let printed = run(&step.command, tools, cluster.kubeconfig(), cluster.scratch().folder()).await?;
            Ok(Seen::when(fits(&step.printed, &printed), || format!("it printed:\n{printed}")))
        })
        .await?;
    }
    Ok(())
}

async fn run(command: &str, tools: &Path, kubeconfig: &Path, home: &Path) -> Result<String> {
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", command])
        .current_dir(kit::repository())
        .env("PATH", path)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home)
        .stdin(Stdio::null())
        .output()
        .await
        .context("bash")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "`{command}` failed: {}", text(&output.stderr));
    Ok(text(&output.stdout))
}

fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), printed: Vec::new() });
        } else if inside && let Some(step) = steps.last_mut() {
            step.printed.push(line.to_owned());
        }
    }
    steps
}

fn fits(wanted: &[String], printed: &str) -> bool {
    let mut lines = printed.lines();
    wanted.iter().all(|wanted| lines.any(|line| line_fits(wanted, line)))
}

fn line_fits(wanted: &str, line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut wanted = wanted.split_whitespace().peekable();
    while let Some(word) = wanted.next() {
        if word == "…" && wanted.peek().is_none() {
            return true;
        }
        let Some(found) = words.next() else { return false };
        let fits = match word.split_once('…') {
            Some((begin, end)) => found.len() >= begin.len() + end.len() && found.starts_with(begin) && found.ends_with(end),
            None => found == word,
        };
        if !fits {
            return false;
        }
    }
    words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_marked_blocks_with_what_follows_them() {
        let document = "a\n```sh\n$ never\n```\n```console\n$ one\nx y\n\n$ two\n```\n$ not this\n";
        let step = |command: &str, printed: &[&str]| Step {
            command: command.to_owned(),
            printed: printed.iter().map(|each| (*each).to_owned()).collect(),
        };
        assert_eq!(steps(document), [step("one", &["x y", ""]), step("two", &[])]);
    }

    #[test]
    fn lines_are_compared_word_by_word_and_in_order() {
        let fits = |wanted: &[&str], printed: &str| fits(&wanted.iter().map(|each| (*each).to_owned()).collect::<Vec<_>>(), printed);
        let printed = "NAME   AGE\npodgroup-12ab   Running  4s\npodgroup-34cd   Pending  4s";
        assert!(fits(&["NAME AGE", "podgroup-… Running …", "podgroup-… Pending 4s"], printed));
        assert!(fits(&["podgroup-… Pending …"], printed));
        assert!(fits(&[], printed));
        for wrong in [
            &["podgroup-… Pending …", "podgroup-… Running …"][..],
            &["podgroup-… Inqueue …"],
            &["podgroup-… Running"],
            &["podgroup-… Running 4s more"],
            &["other-… Running …"],
            &["podgroup-…b Pending …"],
            &["podgroup-… Running …", "podgroup-… Running …"],
        ] {
            assert!(!fits(wrong, printed), "{wrong:?}");
        }
    }
}
