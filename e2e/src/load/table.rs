//! Prints results as the tables of `docs/performance.md`, so that a run can be compared with it.

use std::collections::BTreeMap;

use crate::say;

/// A table with a row for each measurement.
#[derive(Debug)]
pub struct Table {
    title: String,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

/// The tables of a run, in the order in which they began.
#[derive(Debug, Default)]
pub struct Tables(Vec<Table>);

impl Tables {
    /// Adds a row to the table with this title.
    pub fn add(&mut self, title: &str, columns: &'static [&'static str], row: Vec<String>) {
        match self.0.iter_mut().find(|table| table.title == title) {
            Some(table) => table.rows.push(row),
            None => self.0.push(Table { title: title.to_owned(), columns, rows: vec![row] }),
        }
    }

    /// Prints all tables.
    pub fn say(&self) {
        for Table { title, columns, rows } in &self.0 {
            say::headline(title);
            say::line(format!("| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len())));
            rows.iter().for_each(|row| say::line(format!("| {} |", row.join(" | "))));
        }
    }
}

/// Returns counts as `3 create pods, 4 patch pods`.
pub fn counts(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// Returns the median, the 99th percentile and the largest value; `None` without values.
pub fn percentiles(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let at = |percent: usize| values.get((values.len() * percent / 100).min(values.len().saturating_sub(1))).copied();
    Some([at(50)?, at(99)?, at(100)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_of_a_hundred_values_is_found() {
        assert_eq!(percentiles((0..100).rev().map(f64::from).collect()), Some([50.0, 99.0, 99.0]));
        assert_eq!(percentiles((0..1000).map(f64::from).collect()), Some([500.0, 990.0, 999.0]));
        assert!(percentiles(Vec::new()).is_none());
    }
}
