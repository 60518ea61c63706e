//! The program that asks kube-scheduler's filters.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::Objects;

/// The running oracle.
#[derive(Debug)]
pub(super) struct Oracle {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    pub(super) fn start(program: &Path) -> std::io::Result<Self> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (questions, answers) = pipes.ok_or_else(|| std::io::Error::other("it has no pipes"))?;
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// Returns why the node refuses the pod beside these pods; none where it takes the pod.
    pub(super) fn refuses(&mut self, state: &Objects, pods: &[&Arc<Value>], asked: &Value, node: &str) -> Result<Option<String>, String> {
        let all = |objects: &'_ BTreeMap<String, Arc<Value>>| objects.values().cloned().collect::<Vec<_>>();
        let question = json!({
            "nodes": all(&state.nodes), "pods": pods, "namespaces": all(&state.namespaces), "pending": [asked],
            "claims": all(&state.claims), "volumes": all(&state.volumes), "csiNodes": all(&state.csi_nodes),
        });
        let text = |error: std::io::Error| error.to_string();
        // In one write: otherwise each token of the JSON would be a system call.
        self.questions.write_all(format!("{question}\n").as_bytes()).map_err(text)?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(text)?;
        let reply: Value = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
        let refused: Option<BTreeMap<String, Vec<String>>> =
            reply.pointer("/answers/0").and_then(|answer| serde_json::from_value(answer.clone()).ok());
        let refused = refused.ok_or_else(|| format!("{reply} to {question}"))?;
        Ok(refused.get(node).map(|words| words.join(": ")))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
