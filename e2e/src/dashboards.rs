//! Reads the queries of the chart's dashboards and alerts, and tests that they match the exported metrics.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::kit;

/// One panel of a dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Its title, which is unique.
    pub title: String,
    /// Its queries.
    pub queries: Vec<String>,
}

/// A variable that a viewer chooses at the top of a dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name; queries use `$name`.
    pub name: String,
    /// Its query: `label_values(SELECTOR, LABEL)`.
    pub query: String,
}

impl Variable {
    /// Returns the selector and the label of the offered values; `None` when the query has another form.
    pub fn asks(&self) -> Option<(&str, &str)> {
        let (selector, label) = self.query.strip_prefix("label_values(")?.strip_suffix(')')?.rsplit_once(',')?;
        Some((selector.trim(), label.trim()))
    }
}

/// A dashboard of the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dashboard {
    /// Its panels.
    pub panels: Vec<Panel>,
    /// Its variables with values from Prometheus.
    pub variables: Vec<Variable>,
}

/// Returns every dashboard of the chart.
pub fn dashboards() -> Result<Vec<Dashboard>> {
    let folder = kit::repository().join("charts/podgroup/dashboards");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    files
        .iter()
        .map(|file| dashboard(&serde_json::from_slice(&std::fs::read(file)?)?).with_context(|| file.display().to_string()))
        .collect()
}

fn dashboard(all: &Value) -> Result<Dashboard> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned).with_context(|| format!("no {key}"));
    let mut panels = Vec::new();
    for panel in panels_in(all) {
        let targets = panel.get("targets").and_then(Value::as_array).context("no targets")?;
        let queries = targets.iter().map(|target| text(target, "expr")).collect::<Result<_>>()?;
        panels.push(Panel { title: text(panel, "title")?, queries });
    }
    let mut variables = Vec::new();
    for variable in all.pointer("/templating/list").and_then(Value::as_array).context("no variables")? {
        // The other type of variable chooses a data source of Grafana.
        if text(variable, "type")? == "query" {
            variables.push(Variable { name: text(variable, "name")?, query: text(variable, "query")? });
        }
    }
    Ok(Dashboard { panels, variables })
}

/// Returns the panels of a dashboard in the order of the page, without the rows themselves. A collapsed row has its panels inside it.
fn panels_in(board: &Value) -> Vec<&Value> {
    let inside = |each| if is_row(each) { listed(each, "panels") } else { std::slice::from_ref(each) };
    listed(board, "panels").iter().flat_map(inside).collect()
}

/// Returns the list under the key; empty where there is none.
fn listed<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_row(panel: &Value) -> bool {
    panel.get("type").and_then(Value::as_str) == Some("row")
}

/// Returns every panel of every dashboard of the chart.
pub fn panels() -> Result<Vec<Panel>> {
    Ok(dashboards()?.into_iter().flat_map(|dashboard| dashboard.panels).collect())
}

/// Returns the text of a rules file: the `spec` of the PrometheusRule in the output of `helm template`.
pub fn rules_of(rendered: &str) -> Result<String> {
    let (_, spec) = rendered.split_once("\nspec:\n").context("the PrometheusRule has no spec")?;
    // The text below `spec` is a rules file, indented by two columns.
    Ok(spec.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect())
}

/// Returns the file of the alerts.
pub fn alerts() -> PathBuf {
    kit::repository().join("charts/podgroup/files/alerts.yaml")
}

#[cfg(test)]
#[path = "dashboards_tests.rs"]
mod tests;
