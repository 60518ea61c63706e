//! Runs a real Prometheus that scrapes the programs every two seconds, evaluates rules, and answers queries.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::scratch::Scratch;
use crate::wait::{Seen, secs, wait_until};
use crate::{chart, http, kit, programs};

/// Returns the path of `prometheus` or `promtool`.
///
/// # Errors
/// When it is not installed. Cases that need it cannot run.
pub fn tool(name: &str) -> Result<PathBuf> {
    let script = kit::crate_folder().join("tools/prometheus.sh");
    let output = std::process::Command::new("bash").arg(script).output().context("bash is needed")?;
    if !output.status.success() {
        bail!(
            "this cannot run: there is no {name} on this machine (the package prometheus; e2e/tools/prerequisites.sh gets it where it may)"
        );
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()).join(name))
}

/// One element of a result: its labels as `name=value`, sorted and joined by commas, without `__name__`; and its value.
pub type Sample = (String, f64);

/// A running Prometheus. It ends when it is dropped, or with the run.
pub struct Prometheus {
    port: u16,
    _process: Child,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes these programs (name and port) every two seconds and evaluates `rules` every second. A scrape may take two
    /// seconds. Returns when every program has been scraped once.
    pub async fn start(scratch: &Scratch, programs: &[(&str, u16)], rules: &Path) -> Result<Self> {
        let program = scratch.link(&tool("prometheus")?)?;
        let port = programs::free_port()?;
        let jobs: Vec<Value> = programs
            .iter()
            .map(|(name, port)| {
                // The label that the Prometheus Operator adds to the series of a pod.
                let labels = serde_json::json!({"namespace": chart::NAMESPACE});
                serde_json::json!({"job_name": name, "static_configs": [{"targets": [format!("127.0.0.1:{port}")], "labels": labels}]})
            })
            .collect();
        let config = serde_json::json!({
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
            "rule_files": [rules],
            "scrape_configs": jobs,
        });
        // JSON is valid YAML.
        let file = scratch.path("prometheus.json");
        std::fs::write(&file, serde_json::to_vec_pretty(&config)?)?;
        let log = std::fs::File::create(scratch.folder().join("logs/prometheus.log"))?;
        let process = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", scratch.path("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("starting prometheus")?;
        let prometheus = Self { port, _process: process };
        let all = f64::from(u32::try_from(programs.len())?);
        wait_until(secs(30), "Prometheus has scraped every program", || async {
            let up = prometheus.query("sum(up)").await?;
            Ok(Seen::when(up.first().is_some_and(|(_, up)| (*up - all).abs() < 0.5), || format!("{up:?}")))
        })
        .await?;
        Ok(prometheus)
    }

    /// Returns the result of a query at this moment.
    pub async fn query(&self, query: &str) -> Result<Vec<Sample>> {
        let data = self.get(&format!("/api/v1/query?query={}", encoded(query))).await?;
        let result = data.get("result").and_then(Value::as_array).with_context(|| format!("the result is not a vector: {data}"))?;
        result.iter().map(sample).collect()
    }

    /// Returns the values of a label, sorted: the query of Grafana for a variable `label_values(SELECTOR, LABEL)`.
    pub async fn label_values(&self, selector: &str, label: &str) -> Result<Vec<String>> {
        let data = self.get(&format!("/api/v1/label/{}/values?match%5B%5D={}", encoded(label), encoded(selector))).await?;
        let mut values: Vec<String> = serde_json::from_value(data).context("the result is not a list of values")?;
        values.sort();
        Ok(values)
    }

    /// Returns every alerting rule: name, query, annotations.
    pub async fn alerting_rules(&self) -> Result<Vec<(String, String, Value)>> {
        let data = self.get("/api/v1/rules?type=alert").await?;
        let groups = data.get("groups").and_then(Value::as_array).context("no groups")?;
        let rules = groups.iter().filter_map(|group| group.get("rules")?.as_array()).flatten();
        let text = |rule: &Value, key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(rules.map(|rule| (text(rule, "name"), text(rule, "query"), rule.get("annotations").cloned().unwrap_or_default())).collect())
    }

    /// Returns the names of the firing alerts, sorted.
    pub async fn firing(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.firing_labels().await?.iter().map(|labels| label(labels, "alertname")).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the values of these labels of each firing alert of this name. The series `ALERTS` gets its sample a moment after the alert fires; this
    /// is the state of the alert itself.
    pub async fn firing_of(&self, alert: &str, labels: &[&str]) -> Result<Vec<Vec<String>>> {
        let all = self.firing_labels().await?;
        let of = all.iter().filter(|one| label(one, "alertname") == alert);
        Ok(of.map(|one| labels.iter().map(|name| label(one, name)).collect()).collect())
    }

    /// Returns the labels of each firing alert.
    async fn firing_labels(&self) -> Result<Vec<Value>> {
        let data = self.get("/api/v1/alerts").await?;
        let alerts = data.get("alerts").and_then(Value::as_array).context("no alerts")?;
        let firing = alerts.iter().filter(|alert| alert.get("state").and_then(Value::as_str) == Some("firing"));
        Ok(firing.map(|alert| alert.get("labels").cloned().unwrap_or_default()).collect())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = http::get(self.port, path).await?;
        ensure!(status == 200, "GET {path} answered {status}: {body}");
        let answer: Value = serde_json::from_str(&body).context("no JSON")?;
        answer.get("data").cloned().context("no data")
    }
}

/// Returns the value of a label; empty if there is none.
fn label(labels: &Value, name: &str) -> String {
    labels.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn sample(one: &Value) -> Result<Sample> {
    let metric = one.get("metric").and_then(Value::as_object).context("no labels")?;
    let mut labels: Vec<String> = metric
        .iter()
        .filter(|(name, _)| *name != "__name__")
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    labels.sort();
    let value = one.pointer("/value/1").and_then(Value::as_str).context("no value")?;
    Ok((labels.join(","), value.parse()?))
}

/// Encodes a text for the query of a URL: every byte that is not a letter or a digit is percent-encoded.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_except_letters_and_digits_are_percent_encoded() {
        assert_eq!(encoded("a{b=\"ä\"}"), "a%7Bb%3D%22%C3%A4%22%7D");
    }

    #[test]
    fn a_sample_is_its_labels_in_order_and_its_value() {
        let one = serde_json::json!({"metric": {"__name__": "m", "b": "2", "a": "1"}, "value": [1.5, "NaN"]});
        let (labels, value) = sample(&one).unwrap();
        assert_eq!(labels, "a=1,b=2");
        assert!(value.is_nan());
    }
}
