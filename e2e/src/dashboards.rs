//! What do the chart's dashboards and alerts ask for, and is there anything that nobody asks for?

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::kit;

/// One panel of a dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Its title; no two have the same.
    pub title: String,
    /// Its queries.
    pub queries: Vec<String>,
}

/// Every panel of every dashboard of the chart.
pub fn panels() -> Result<Vec<Panel>> {
    let folder = kit::repository().join("charts/podgroup/dashboards");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let dashboard: Value = serde_json::from_slice(&std::fs::read(&file)?).with_context(|| file.display().to_string())?;
        for panel in dashboard.get("panels").and_then(Value::as_array).context("no panels")? {
            let title = panel.get("title").and_then(Value::as_str).context("no title")?.to_owned();
            let targets = panel.get("targets").and_then(Value::as_array).context("no targets")?;
            let query = |target: &Value| target.get("expr").and_then(Value::as_str).map(str::to_owned).context("no expr");
            all.push(Panel { title, queries: targets.iter().map(query).collect::<Result<_>>()? });
        }
    }
    Ok(all)
}

/// The file of the alerts.
pub fn alerts() -> PathBuf {
    kit::repository().join("charts/podgroup/files/alerts.yaml")
}

/// The names of metrics of ours in a text.
pub fn metrics_in(text: &str) -> BTreeSet<String> {
    let part_of_name = |each: char| each.is_ascii_lowercase() || each == '_';
    text.split(|each: char| !part_of_name(each)).filter(|word| word.starts_with("podgroup_")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name under which it stands in the page: a histogram's parts are of one.
    fn plain(name: &str, known: &BTreeSet<String>) -> String {
        let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        whole.filter(|whole| known.contains(*whole)).unwrap_or(name).to_owned()
    }

    fn file(path: &str) -> String {
        std::fs::read_to_string(kit::repository().join(path)).unwrap()
    }

    /// Names that begin a row of a table, in a part of a page.
    fn rows(text: &str) -> BTreeSet<String> {
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn every_metric_that_is_asked_for_is_there_and_every_other_is_kept_for_a_reason() {
        let page = file("docs/metrics.md");
        let (reference, kept) = page.split_once("## Shown where").unwrap();
        let known: BTreeSet<_> = rows(reference).into_iter().filter(|name| name.starts_with("podgroup_")).collect();
        let queries: String = panels().unwrap().into_iter().flat_map(|panel| panel.queries).map(|query| query + "\n").collect();
        let alerts = std::fs::read_to_string(alerts()).unwrap();
        let asked: BTreeSet<_> = metrics_in(&(queries + &alerts)).iter().map(|name| plain(name, &known)).collect();
        assert_eq!(asked.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "nobody exports these");
        let unused: BTreeSet<_> = known.difference(&asked).cloned().collect();
        assert_eq!(unused, rows(kept), "what nobody asks for, and what the page keeps for a reason");
    }

    #[test]
    fn no_two_panels_have_one_title() {
        let titles: Vec<_> = panels().unwrap().into_iter().map(|panel| panel.title).collect();
        assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len());
        assert!(titles.len() > 30);
    }

    #[test]
    fn names_are_found_in_a_query() {
        let found = metrics_in("sum by (le) (rate(podgroup_a_bucket{x=\"podgroup-b\"}[5m])) > podgroup_c");
        assert_eq!(found, ["podgroup_a_bucket".to_owned(), "podgroup_c".to_owned()].into());
    }

    /// `promtool` itself says whether each alert fires and does not where it should; this says that no alert is left out, of the test or of the runbooks.
    #[test]
    fn every_alert_fires_and_does_not_in_its_test_and_has_a_page() {
        let rules = std::fs::read_to_string(alerts()).unwrap();
        let names: BTreeSet<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        let pages = std::fs::read_dir(kit::repository().join("docs/runbooks")).unwrap();
        let pages: BTreeSet<_> = pages.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let wanted = names.iter().map(|name| format!("{name}.md")).chain(["README.md".to_owned()]).collect();
        assert_eq!(pages, wanted, "pages of runbooks");
        let index = file("docs/runbooks/README.md");
        let test = file("charts/podgroup-alerts-test.yaml");
        for name in names {
            assert!(index.contains(&format!("[{name}]({name}.md)")), "{name} is not in the list of runbooks");
            assert!(test.contains(&format!("alertname: {name}, exp_alerts: []}}")), "{name} never stays silent");
            assert!(test.contains(&format!("alertname: {name}\n        exp_alerts:\n")), "{name} never fires");
        }
        let promtool = crate::prometheus::tool("promtool").unwrap();
        let folder = kit::repository().join("charts");
        for arguments in [["check", "rules", "podgroup/files/alerts.yaml"], ["test", "rules", "podgroup-alerts-test.yaml"]] {
            let output = std::process::Command::new(&promtool).args(arguments).current_dir(&folder).output().unwrap();
            let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
            assert!(output.status.success(), "promtool {arguments:?}: {text}");
        }
    }
}
