//! Do the dashboards and alerts of the chart match the metrics, and can Grafana and Prometheus read them?

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;

/// Returns the names of our metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let part_of_name = |each: char| each.is_ascii_lowercase() || each == '_';
    text.split(|each: char| !part_of_name(each)).filter(|word| word.starts_with("podgroup_")).map(str::to_owned).collect()
}

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
    // `$1` is a part of a match.
    let chosen = |name: &String| !name.starts_with("__") && !name.starts_with(|each: char| each.is_ascii_digit());
    query.split('$').skip(1).map(name).filter(chosen).collect()
}

#[test]
fn the_variables_of_a_dashboard_are_the_variables_in_its_panels() {
    let mut seen = 0;
    for dashboard in dashboards().unwrap() {
        let named: BTreeSet<_> = dashboard.panels.iter().flat_map(|panel| &panel.queries).flat_map(|query| variables_in(query)).collect();
        let there: BTreeSet<_> = dashboard.variables.iter().map(|variable| variable.name.clone()).collect();
        assert_eq!(named, there, "variables in the panels, and variables of the dashboard");
        assert!(dashboard.variables.iter().all(|variable| variable.asks().is_some()), "{:?}", dashboard.variables);
        seen += there.len();
    }
    assert_eq!(seen, 8, "cluster and namespace in each of three dashboards, queue and resource in one");
    assert_eq!(variables_in("f(a{b=\"$queue\"}[$__rate_interval] / $c, \"$1\")"), ["c".to_owned(), "queue".to_owned()].into());
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
    for panel in panels_in(&board) {
        let targets = panel["targets"].as_array().unwrap();
        let of_amounts = |target: &Value| metrics_in(target["expr"].as_str().unwrap()).iter().any(|name| amounts.contains(name));
        if !targets.iter().any(of_amounts) {
            continue;
        }
        seen += 1;
        for target in targets {
            let (query, name) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
            let inner = query.trim_start_matches("label_replace(").trim_start_matches("clamp_min(");
            assert!(inner.starts_with("max by (unit) ") || inner.starts_with("max by (queue, unit) "), "{query}");
            // Of a bar by what it is of, which the query names.
            assert!(name.ends_with(" ({{unit}})") || query.contains(" ($1)\", \"unit\", \"(.+)\")"), "{name}: {query}");
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
    assert_eq!(seen, 6);
}

#[test]
fn the_line_of_the_oldest_wait_is_where_its_alert_fires() {
    let board: Value = serde_json::from_str(&file("charts/podgroup/dashboards/podgroup-queue.json")).unwrap();
    let panel = panels_in(&board).into_iter().find(|panel| panel["title"] == "Waiting time of the oldest pod").unwrap();
    assert_eq!(panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"], 3600);
    let rules = std::fs::read_to_string(alerts()).unwrap();
    let rule = rules.split("- alert: ").find(|rule| rule.starts_with("PodgroupQueueBelowDeserved\n")).unwrap();
    assert!(rule.contains("\n        for: 1h\n"), "{rule}");
}

#[test]
fn names_are_found_in_a_query() {
    let found = metrics_in("sum by (le) (rate(podgroup_a_bucket{x=\"podgroup-b\"}[5m])) > podgroup_c");
    assert_eq!(found, ["podgroup_a_bucket".to_owned(), "podgroup_c".to_owned()].into());
}

/// `promtool` checks that each alert fires and stays silent where it should. This test checks that no alert is missing in the test file or
/// in the runbooks.
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
    let helm = kit::Kit::locate().unwrap().program("helm");
    let output = std::process::Command::new(helm)
        .args("template podgroup -n ns -s templates/alerts.yaml --set alerts.enabled=true --set".split(' '))
        .arg(crate::chart::IMAGE)
        .arg(kit::repository().join("charts/podgroup"))
        .output()
        .unwrap();
    assert!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
    let rules = rules_of(&String::from_utf8(output.stdout).unwrap()).unwrap();
    promtool(
        "alerts",
        &[("alerts.yaml", &rules), ("test.yaml", &test)],
        &[["check", "rules", "alerts.yaml"], ["test", "rules", "test.yaml"]],
    )
    .unwrap();
}

/// Runs `promtool` in a folder with these files.
fn promtool(name: &str, files: &[(&str, &str)], calls: &[[&str; 3]]) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("podgroup-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(file, text)| std::fs::write(folder.join(file), text).unwrap());
    let promtool = crate::prometheus::tool("promtool").unwrap();
    let run = |call: &[&str; 3]| {
        let output = std::process::Command::new(&promtool).args(call).current_dir(&folder).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        output.status.success().then_some(()).ok_or_else(|| format!("promtool {call:?}: {text}"))
    };
    let outcome = calls.iter().try_for_each(run);
    std::fs::remove_dir_all(&folder).unwrap();
    outcome
}

/// `promtool` parses queries only as those of rules.
#[test]
fn promtool_can_read_every_query() {
    let check = |queries: &[String]| {
        let rule = |(number, query): (usize, &String)| json!({"record": format!("panel:{number}"), "expr": query.replace("$__rate_interval", "5m")});
        let rules: Vec<Value> = queries.iter().enumerate().map(rule).collect();
        // JSON is valid YAML.
        let file = json!({"groups": [{"name": "panels", "rules": rules}]}).to_string();
        promtool("queries", &[("queries.yaml", &file)], &[["check", "rules", "queries.yaml"]])
    };
    let queries: Vec<String> = panels().unwrap().into_iter().flat_map(|panel| panel.queries).collect();
    assert!(queries.len() > 40, "{}", queries.len());
    check(&queries).unwrap();
    assert!(check(&["sum(rate(podgroup_a[$__rate_interval])".to_owned()]).is_err(), "a parenthesis is missing");
}

/// Returns the faults of a dashboard that Grafana would show or hide without a word.
fn faults(board: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let text = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let chosen = |of: &Value| text(of, "/datasource/uid") == "${datasource}";
    let variables = board["templating"]["list"].as_array().cloned().unwrap_or_default();
    if !variables.iter().any(|variable| text(variable, "/name") == "datasource" && text(variable, "/type") == "datasource") {
        faults.push("it has no variable for the data source".to_owned());
    }
    let mut taken = BTreeMap::new();
    let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for row in listed(board, "panels").iter().filter(|panel| is_row(panel)) {
        let inside = listed(row, "panels");
        for (wrong, why) in [
            (text(row, "/title").is_empty(), "has no title"),
            (!ids.insert(row["id"].to_string()), "has the id of another panel"),
            (
                (row["gridPos"]["x"].as_u64(), row["gridPos"]["w"].as_u64(), row["gridPos"]["h"].as_u64()) != (Some(0), Some(24), Some(1)),
                "is no line",
            ),
            (row["collapsed"].as_bool() == Some(inside.is_empty()), "is collapsed and empty, or open and full"),
            // The rows after it begin where it ends.
            (!inside.is_empty() && listed(board, "panels").last() != Some(row), "is collapsed and not the last"),
        ] {
            if wrong {
                faults.push(format!("row {} {why}", row["title"]));
            }
        }
    }
    if !listed(board, "panels").first().is_some_and(is_row) {
        faults.push("it begins without a row".to_owned());
    }
    for panel in panels_in(board) {
        let (title, kind) = (text(panel, "/title"), text(panel, "/type"));
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap_or(99));
        let cells = || (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        let overlapped: BTreeSet<String> = cells().filter_map(|cell| taken.insert(cell, title.clone())).collect();
        let targets = listed(panel, "targets");
        let refs: BTreeSet<_> = targets.iter().map(|target| text(target, "/refId")).collect();
        let named = |target: &Value| ["table", "barchart"].contains(&kind.as_str()) || !text(target, "/legendFormat").is_empty();
        let of_release =
            |target: &Value| ["cluster=~\"$cluster\"", "namespace=~\"$namespace\""].iter().all(|part| text(target, "/expr").contains(part));
        for (wrong, why) in [
            (title.is_empty() || !titles.insert(title.clone()), "has no title of its own".to_owned()),
            (text(panel, "/description").is_empty(), "has no description".to_owned()),
            (!["timeseries", "stat", "table", "barchart"].contains(&kind.as_str()), format!("is of the type {kind:?}")),
            (text(panel, "/fieldConfig/defaults/unit").is_empty(), "has no unit".to_owned()),
            (!ids.insert(panel["id"].to_string()), "has the id of another panel".to_owned()),
            (x + w > 24 || w * h == 0, "does not fit into 24 columns".to_owned()),
            (!overlapped.is_empty(), format!("covers {overlapped:?}")),
            (targets.is_empty() || refs.len() < targets.len(), "has no queries with names of their own".to_owned()),
            (!chosen(panel) || !targets.iter().all(chosen), "does not use the chosen data source".to_owned()),
            (!targets.iter().all(named), "has a query without a legend".to_owned()),
            (!targets.iter().all(of_release), "has a query of all clusters or namespaces".to_owned()),
        ] {
            if wrong {
                faults.push(format!("panel {title:?} {why}"));
            }
        }
    }
    faults
}

fn boards() -> Vec<Value> {
    ["lifecycle", "operator", "queue"]
        .map(|name| serde_json::from_str(&file(&format!("charts/podgroup/dashboards/podgroup-{name}.json"))).unwrap())
        .into()
}

#[test]
fn dashboards_have_no_faults_and_each_kind_of_fault_would_be_found() {
    let titles: Vec<_> = panels().unwrap().into_iter().map(|panel| panel.title).collect();
    assert_eq!(titles.iter().collect::<BTreeSet<_>>().len(), titles.len(), "titles of all dashboards");
    assert_eq!((boards().len(), titles.len() > 30), (dashboards().unwrap().len(), true));
    for board in boards() {
        assert_eq!(faults(&board), Vec::<String>::new(), "{}", board["title"]);
        let first = board["panels"][1].clone();
        // Tables and bars have no legend.
        let lines = board["panels"].as_array().unwrap().iter().position(|panel| panel["type"] == "timeseries").unwrap();
        for (path, value) in [
            ("/templating/list/0/name", json!("source")),
            ("/panels/0/title", json!("")),
            ("/panels/0/id", first["id"].clone()),
            ("/panels/0/gridPos/w", json!(12)),
            ("/panels/0/collapsed", json!(true)),
            ("/panels/0", first.clone()),
            ("/panels/0/panels", json!([first])),
            ("/panels/2/title", first["title"].clone()),
            ("/panels/2/description", json!("")),
            ("/panels/2/type", json!("graph")),
            ("/panels/2/fieldConfig/defaults/unit", Value::Null),
            ("/panels/2/id", first["id"].clone()),
            ("/panels/2/gridPos/w", json!(25)),
            ("/panels/2/gridPos", first["gridPos"].clone()),
            ("/panels/2/targets", json!([])),
            ("/panels/2/datasource/uid", json!("mine")),
            ("/panels/2/targets/0/datasource/uid", json!("mine")),
            ("/panels/LINES/targets/0/legendFormat", Value::Null),
            ("/panels/2/targets/0/expr", json!("podgroup_build_info")),
        ] {
            let mut broken = board.clone();
            *broken.pointer_mut(&path.replace("LINES", &lines.to_string())).unwrap() = value;
            assert!(!faults(&broken).is_empty(), "{path} of {}", board["title"]);
        }
    }
}
