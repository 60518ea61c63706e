//! Parts of row U6: colours of `kubectl podgroup` on a terminal, and kubectl's own completion.

use anyhow::{Result, ensure};
use tokio::process::Command;

use super::plugin::{bin, kubectl, said};
use crate::say;
use crate::world::World;

/// The output has colours on a terminal, which `script` simulates, and none if `NO_COLOR` is set.
pub(super) async fn coloured(w: &World) -> Result<()> {
    if std::process::Command::new("script").arg("--version").output().is_err() {
        say::line("        there is no `script` on this machine, so colours on a terminal were not tested");
        return Ok(());
    }
    let path = format!("{}:{}", bin(w)?.display(), std::env::var("PATH").unwrap_or_default());
    let at_a_terminal = |no_color: &str| {
        let mut command = Command::new("script");
        command.args(["-qec", "kubectl podgroup tree", "/dev/null"]).env("PATH", &path).env("TERM", "xterm").env("NO_COLOR", no_color);
        command.env("KUBECONFIG", w.cluster().kubeconfig()).env("HOME", w.cluster().scratch().folder());
        command
    };
    let seen = said(&mut at_a_terminal("")).await?;
    ensure!(seen.status == 0 && seen.out.contains("\u{1b}[1m"), "no colours on a terminal: {:?} {}", seen.out, seen.err);
    let plain = said(&mut at_a_terminal("1")).await?;
    ensure!(plain.status == 0 && plain.out.contains("test-root") && !plain.out.contains('\u{1b}'), "{:?} {}", plain.out, plain.err);
    Ok(())
}

/// kubectl completes `kubectl podgroup …` with the link from docs/plugin.md.
pub(super) async fn completed(w: &World) -> Result<()> {
    let link = bin(w)?.join("kubectl_complete-podgroup");
    if !link.exists() {
        std::os::unix::fs::symlink("kubectl-podgroup", link)?;
    }
    for (words, wanted) in [
        (&["__complete", "podgroup", ""][..], "why\ntree\nnodes\nqueue\naudit\nversion\ncompletion\n:4\n"),
        (&["__complete", "podgroup", "queue", ""], "open\nclose\n:4\n"),
        (&["__complete", "podgroup", "tree", "-o", "j"], "json\n:4\n"),
    ] {
        let answer = said(&mut kubectl(w, words)?).await?;
        ensure!(answer.status == 0 && answer.out == wanted, "kubectl {words:?}: {:?} {}", answer.out, answer.err);
    }
    Ok(())
}
