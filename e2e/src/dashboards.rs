//! Reads the queries of the chart's dashboards and alerts, and tests that they match the exported metrics.

use std::collections::BTreeSet;
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
    for panel in all.get("panels").and_then(Value::as_array).context("no panels")? {
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

/// Returns the names of our metrics in a text.
pub fn metrics_in(text: &str) -> BTreeSet<String> {
    let part_of_name = |each: char| each.is_ascii_lowercase() || each == '_';
    text.split(|each: char| !part_of_name(each)).filter(|word| word.starts_with("podgroup_")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of a metric in the page of metrics. The parts of a histogram have one name.
    fn plain(name: &str, known: &BTreeSet<String>) -> String {
        let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        whole.filter(|whole| known.contains(*whole)).unwrap_or(name).to_owned()
    }

    fn file(path: &str) -> String {
        std::fs::read_to_string(kit::repository().join(path)).unwrap()
    }

    /// Returns the names at the start of the rows of a table in a part of a page.
    fn rows(text: &str) -> BTreeSet<String> {
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn every_queried_metric_is_exported_and_every_other_is_kept_for_a_reason() {
        let page = file("docs/metrics.md");
        let (reference, kept) = page.split_once("## Shown where").unwrap();
        let known: BTreeSet<_> = rows(reference).into_iter().filter(|name| name.starts_with("podgroup_")).collect();
        let queries: String = dashboards()
            .unwrap()
            .into_iter()
            .flat_map(|dashboard| {
                let of_panels = dashboard.panels.into_iter().flat_map(|panel| panel.queries);
                of_panels.chain(dashboard.variables.into_iter().map(|variable| variable.query)).collect::<Vec<_>>()
            })
            .map(|query| query + "\n")
            .collect();
        let alerts = std::fs::read_to_string(alerts()).unwrap();
        let asked: BTreeSet<_> = metrics_in(&(queries + &alerts)).iter().map(|name| plain(name, &known)).collect();
        assert_eq!(asked.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "no program exports these metrics");
        let unused: BTreeSet<_> = known.difference(&asked).cloned().collect();
        assert_eq!(unused, rows(kept), "metrics without a query, and metrics that the page keeps for a reason");
    }

    /// Returns the variables `$name` of a query, without the variables that Grafana defines.
    fn variables_in(query: &str) -> BTreeSet<String> {
        let name = |rest: &str| rest.chars().take_while(|each| each.is_ascii_alphanumeric() || *each == '_').collect::<String>();
        query.split('$').skip(1).map(name).filter(|name| !name.starts_with("__")).collect()
    }

    #[test]
    fn the_variables_of_a_dashboard_are_the_variables_in_its_panels() {
        let mut seen = 0;
        for dashboard in dashboards().unwrap() {
            let named: BTreeSet<_> =
                dashboard.panels.iter().flat_map(|panel| &panel.queries).flat_map(|query| variables_in(query)).collect();
            let there: BTreeSet<_> = dashboard.variables.iter().map(|variable| variable.name.clone()).collect();
            assert_eq!(named, there, "variables in the panels, and variables of the dashboard");
            assert!(dashboard.variables.iter().all(|variable| variable.asks().is_some()), "{:?}", dashboard.variables);
            seen += there.len();
        }
        assert_eq!(seen, 8, "cluster and namespace in each of three dashboards, queue and resource in one");
        assert_eq!(variables_in("a{b=\"$queue\"}[$__rate_interval] / $c"), ["c".to_owned(), "queue".to_owned()].into());
    }

    #[test]
    fn a_variable_offers_what_the_chosen_cluster_and_namespace_have() {
        for dashboard in dashboards().unwrap() {
            let mut above = BTreeSet::new();
            for variable in dashboard.variables {
                assert_eq!(variables_in(&variable.query), above, "{variable:?}");
                if matches!(variable.name.as_str(), "cluster" | "namespace") {
                    above.insert(variable.name);
                }
            }
        }
    }

    /// Grafana knows the unit of a series only by its name.
    #[test]
    fn a_panel_of_amounts_names_the_unit_and_shows_it() {
        let board: Value = serde_json::from_str(&file("charts/podgroup/dashboards/podgroup-queue.json")).unwrap();
        let amounts = ["allocated", "allocated_itself", "reserved", "capability", "deserved", "guarantee", "floor", "kept", "share"];
        let amounts = amounts.map(|name| format!("podgroup_scheduler_queue_{name}"));
        let mut seen = 0;
        for panel in board["panels"].as_array().unwrap() {
            let targets = panel["targets"].as_array().unwrap();
            let of_amounts = |target: &Value| metrics_in(target["expr"].as_str().unwrap()).iter().any(|name| amounts.contains(name));
            if !targets.iter().any(of_amounts) {
                continue;
            }
            seen += 1;
            for target in targets {
                let (query, name) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
                assert!(query.starts_with("max by (unit) ") || query.starts_with("max by (queue, unit) "), "{query}");
                assert!(name.ends_with(" ({{unit}})"), "{name}");
            }
            let settings = &panel["fieldConfig"];
            let of = |word: &str| {
                let matcher = serde_json::json!({"id": "byRegexp", "options": format!("/\\({word}\\)$/")});
                let found = settings["overrides"].as_array().unwrap().iter().find(|each| each["matcher"] == matcher).unwrap();
                found["properties"][0].clone()
            };
            assert_eq!(settings["defaults"]["unit"], "short", "{}", panel["title"]);
            assert_eq!(of("byte"), serde_json::json!({"id": "unit", "value": "bytes"}), "{}", panel["title"]);
            assert_eq!(of("core"), serde_json::json!({"id": "custom.axisLabel", "value": "cores"}), "{}", panel["title"]);
        }
        assert_eq!(seen, 5);
    }

    #[test]
    fn the_line_of_the_oldest_wait_is_where_its_alert_fires() {
        let board: Value = serde_json::from_str(&file("charts/podgroup/dashboards/podgroup-queue.json")).unwrap();
        let panel = board["panels"].as_array().unwrap().iter().find(|panel| panel["title"] == "Waiting time of the oldest pod").unwrap();
        assert_eq!(panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"], 3600);
        let rules = std::fs::read_to_string(alerts()).unwrap();
        let rule = rules.split("- alert: ").find(|rule| rule.starts_with("PodgroupQueueBelowDeserved\n")).unwrap();
        assert!(rule.contains("\n        for: 1h\n"), "{rule}");
    }

    #[test]
    fn panel_titles_are_unique() {
        let titles: Vec<_> = panels().unwrap().into_iter().map(|panel| panel.title).collect();
        assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len());
        assert!(titles.len() > 30);
    }

    #[test]
    fn names_are_found_in_a_query() {
        let found = metrics_in("sum by (le) (rate(podgroup_a_bucket{x=\"podgroup-b\"}[5m])) > podgroup_c");
        assert_eq!(found, ["podgroup_a_bucket".to_owned(), "podgroup_c".to_owned()].into());
    }

    /// `promtool` checks that each alert fires and stays silent where it should. This test checks that no alert is missing in the test file or in the runbooks.
    #[test]
    fn every_alert_fires_and_stays_silent_in_its_test_and_has_a_runbook() {
        let rules = std::fs::read_to_string(alerts()).unwrap();
        let names: BTreeSet<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        let pages = std::fs::read_dir(kit::repository().join("docs/runbooks")).unwrap();
        let pages: BTreeSet<_> = pages.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let wanted = names.iter().map(|name| format!("{name}.md")).chain(["README.md".to_owned()]).collect();
        assert_eq!(pages, wanted, "pages of runbooks");
        let index = file("docs/runbooks/README.md");
        let test = file("charts/podgroup-alerts-test.yaml");
        for name in names {
            assert!(index.contains(&format!("[{name}]({name}.md)")), "the list of runbooks does not contain {name}");
            assert!(test.contains(&format!("alertname: {name}, exp_alerts: []}}")), "no test where {name} stays silent");
            assert!(test.contains(&format!("alertname: {name}\n        exp_alerts:\n")), "no test where {name} fires");
        }
        let promtool = crate::prometheus::tool("promtool").unwrap();
        let helm = kit::Kit::locate().unwrap().program("helm");
        let chart = kit::repository().join("charts/podgroup");
        let output = std::process::Command::new(helm)
            .args("template podgroup -n ns -s templates/alerts.yaml --set alerts.enabled=true --set".split(' '))
            .arg(crate::chart::IMAGE)
            .arg(chart)
            .output()
            .unwrap();
        assert!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
        let folder = std::env::temp_dir().join(format!("podgroup-alerts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("alerts.yaml"), rules_of(&String::from_utf8(output.stdout).unwrap()).unwrap()).unwrap();
        std::fs::write(folder.join("test.yaml"), &test).unwrap();
        for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "test.yaml"]] {
            let output = std::process::Command::new(&promtool).args(arguments).current_dir(&folder).output().unwrap();
            let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            assert!(output.status.success(), "promtool {arguments:?}: {text}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
