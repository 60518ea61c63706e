//! Shows whether the scheduler's accounting agrees with its own recount.

use serde_json::{Value, json};

use super::gap::{self, Gap};
use super::page::{Line, Page, Tone};

/// The answer of `/debug/audit`.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    differences: Vec<Value>,
    checked: Value,
    unknown: Vec<Gap>,
}

impl Report {
    /// Reads the report from an answer; `None` where it is no audit.
    #[must_use]
    pub fn of(answer: &Value) -> Option<Self> {
        let differences = answer.get("differences")?.as_array()?.clone();
        let checked = answer.get("checked").cloned().unwrap_or_default();
        let silent =
            checked.is_null().then(|| Gap::new("how much was recounted", "the scheduler's answer does not say; is it of another version?"));
        Some(Self { differences, checked, unknown: silent.into_iter().collect() })
    }

    /// Whether all sums are right.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }

    /// Returns the answer of `audit -o json`.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({ "differences": self.differences, "checked": self.checked, "unknown": gap::json(&self.unknown) })
    }

    /// Returns the page for people.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        let count = |key: &str| self.checked.get(key).and_then(Value::as_u64).map_or_else(|| "?".to_owned(), |count| count.to_string());
        let checked = format!("recounted from {} pods: {} nodes, {} queues", count("pods"), count("nodes"), count("queues"));
        if self.is_clean() {
            page.line(Line::default().and(Tone::Good, "no differences").and(Tone::Plain, format!("; {checked}")));
            gap::show(&mut page, &self.unknown);
            return page;
        }
        page.line(
            Line::default().and(Tone::Bad, format!("differences: {}", self.differences.len())).and(Tone::Plain, format!("; {checked}")),
        );
        for difference in &self.differences {
            let text = |key: &str| {
                difference.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default()
            };
            page.text(format!(
                "  {} {}: the accounting has {}, a recount {}",
                text("place"),
                text("name"),
                text("kept"),
                text("recounted")
            ));
        }
        page.text("This is a defect of the scheduler: please report it with this text. A restart of the scheduler recounts everything.");
        gap::show(&mut page, &self.unknown);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_shown_and_an_answer_without_an_audit_gives_no_report() {
        let answer = json!({"differences": [{"place": "node", "name": "n1", "kept": {"cpu": "2"}, "recounted": {}}], "checked": {"pods": 3, "nodes": 1}});
        let report = Report::of(&answer).unwrap();
        let want = "\
differences: 1; recounted from 3 pods: 1 nodes, ? queues
  node n1: the accounting has {\"cpu\":\"2\"}, a recount {}
This is a defect of the scheduler: please report it with this text. A restart of the scheduler recounts everything.
";
        assert_eq!(report.page().render(false), want);
        assert!(!report.is_clean());
        assert_eq!(report.json()["differences"], answer["differences"]);
        assert_eq!(report.json()["unknown"], json!([]), "as each answer has it");
        let clean = Report::of(&json!({"differences": []})).unwrap();
        assert!(clean.is_clean());
        let text = clean.page().render(false);
        assert!(text.starts_with("no differences; recounted from ? pods: ? nodes, ? queues\n\nNot known\n  how much"), "{text}");
        assert_eq!((report.json()["unknown"].clone(), clean.json()["unknown"].as_array().map(Vec::len)), (json!([]), Some(1)));
        assert_eq!(Report::of(&json!({"difference": []})), None);
    }
}
