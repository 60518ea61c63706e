//! Reads the number of requests from the API server's own metrics. `apiserver_request_total` has verb and resource but no user. It checks the audit
//! log for requests that only the controller makes.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::cluster::Cluster;

/// Requests by verb and resource (`POST podgroups`, `PATCH pods/status`) since the API server's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads the present values.
    pub async fn read(cluster: &Cluster) -> Result<Self> {
        Ok(Self::parse(&cluster.run("kubectl", &["get", "--raw", "/metrics"]).await?))
    }

    /// Returns the growth since `before`, without values that did not grow.
    pub fn since(&self, before: &Self) -> BTreeMap<String, u64> {
        let grown = |(kind, count): (&String, &u64)| (kind.clone(), count.saturating_sub(before.0.get(kind).copied().unwrap_or_default()));
        self.0.iter().map(grown).filter(|(_, count)| *count > 0).collect()
    }

    fn parse(text: &str) -> Self {
        let mut counters = BTreeMap::new();
        for line in text.lines() {
            let Some((labels, value)) = line.strip_prefix("apiserver_request_total{").and_then(|rest| rest.rsplit_once("} ")) else {
                continue;
            };
            // The values of these labels contain no comma and no quote.
            let label = |name: &str| {
                let found = labels.split(',').find_map(|each| each.strip_prefix(name)?.strip_prefix("=\""));
                found.and_then(|value| value.strip_suffix('"')).unwrap_or_default()
            };
            let Ok(value) = value.trim().parse::<f64>() else { continue };
            let (verb, resource, subresource) = (label("verb"), label("resource"), label("subresource"));
            let kind = if subresource.is_empty() { format!("{verb} {resource}") } else { format!("{verb} {resource}/{subresource}") };
            *counters.entry(kind).or_default() += value as u64;
        }
        Self(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_any_response_are_added_without_earlier_ones() {
        let line = |code: u16, count: u32| {
            format!(
                "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",group=\"\",resource=\"pods\",subresource=\"status\",verb=\"PATCH\"}} {count}\n"
            )
        };
        let before = Counters::parse(&line(200, 3));
        let after = Counters::parse(&format!("{}{}other{{}} 9\n", line(200, 5), line(409, 1)));
        assert_eq!(after.since(&before), BTreeMap::from([("PATCH pods/status".to_owned(), 3)]));
    }
}
