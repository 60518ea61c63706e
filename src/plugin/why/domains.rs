//! Why do the nodes of each topology domain refuse the next member?
//!
//! For the topology keys that matter to the member: those of its spread constraints, its affinity and its anti-affinity, and those by which
//! pods that exist keep it away.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{NodeFacts, PodFacts};
use crate::cycle::explain::{Count, Reason, Tally};
use crate::cycle::placement::first_refused::FirstRefused;
use crate::plugin::page::{Line, Page, Tone};

/// The most topology keys that are shown, and the most domains of each.
const KEYS: usize = 3;
const DOMAINS: usize = 10;

/// The domains of one topology key.
#[derive(Clone, Debug, PartialEq)]
pub struct ByDomain {
    /// The topology key.
    pub topology_key: String,
    /// Those in which members find places first, then those of most nodes, then by value.
    pub domains: Vec<Domain>,
    /// How many further domains there are.
    pub more: usize,
}

/// One domain: the nodes with one value of the label, or without it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Domain {
    /// The value of the label; none for the nodes without it.
    pub value: Option<String>,
    /// How many members before this one find a place here.
    pub placed: u32,
    /// Its nodes, with the reasons why they refuse the member.
    pub tally: Tally,
}

/// Returns the domains of each topology key that matters to the member.
pub(super) fn domains(member: &PodFacts, refused: &FirstRefused, nodes: &[NodeFacts]) -> Vec<ByDomain> {
    let nodes: BTreeMap<&str, &NodeFacts> = nodes.iter().map(|node| (&*node.name, node)).collect();
    keys(member, refused).into_iter().take(KEYS).map(|key| of_key(key, refused, &nodes)).collect()
}

fn keys(member: &PodFacts, refused: &FirstRefused) -> Vec<String> {
    let terms = &member.terms;
    let spread = terms.spread.iter().map(|constraint| &constraint.topology_key);
    let own = spread.chain(terms.affinity.iter().chain(&terms.anti_affinity).map(|term| &term.topology_key)).map(|key| key.to_string());
    let of_others =
        refused.nodes.iter().flat_map(|(_, reasons)| reasons).filter_map(|reason| {
            if let Reason::ExistingAntiAffinity { topology_key } = reason { Some(topology_key.clone()) } else { None }
        });
    let mut known = BTreeSet::new();
    own.chain(of_others).filter(|key| known.insert(key.clone())).collect()
}

fn of_key(topology_key: String, refused: &FirstRefused, nodes: &BTreeMap<&str, &NodeFacts>) -> ByDomain {
    let mut domains: BTreeMap<Option<&str>, Domain> = BTreeMap::new();
    let value = |node: &Arc<str>| nodes.get(&**node).and_then(|facts| facts.labels.get(&topology_key)).map(String::as_str);
    for (node, reasons) in &refused.nodes {
        let tally = &mut domains.entry(value(node)).or_default().tally;
        tally.nodes = tally.nodes.saturating_add(1);
        for reason in reasons {
            let count = tally.reasons.entry(reason.clone()).or_default();
            count.nodes = count.nodes.saturating_add(1);
        }
    }
    for node in &refused.placed {
        let placed = &mut domains.entry(value(node)).or_default().placed;
        *placed = placed.saturating_add(1);
    }
    let mut domains: Vec<Domain> =
        domains.into_iter().map(|(value, domain)| Domain { value: value.map(str::to_owned), ..domain }).collect();
    domains.sort_by_key(|domain| (Reverse(domain.placed), domain.value.is_none(), Reverse(domain.tally.nodes)));
    let more = domains.len().saturating_sub(DOMAINS);
    domains.truncate(DOMAINS);
    ByDomain { topology_key, domains, more }
}

impl ByDomain {
    /// Adds the domains to the page.
    pub(super) fn show(&self, page: &mut Page) {
        page.text(format!("  By {}:", self.topology_key));
        let mut rows = vec![["DOMAIN", "NODES", "PLACED", "REFUSED BY"].map(|title| Line::default().and(Tone::Strong, title)).to_vec()];
        rows.extend(self.domains.iter().map(|domain| {
            let value = domain.value.as_deref().unwrap_or("(without the label)");
            let counts = [domain.tally.nodes, domain.placed].map(|count| Line::new(count.to_string()));
            let [nodes, placed] = counts;
            vec![Line::new(value), nodes, placed, Line::default().and(Tone::Bad, domain.tally.counts())]
        }));
        page.table(4, rows);
        if self.more > 0 {
            page.text(format!("    and {} more", self.more));
        }
    }

    /// Returns the JSON for `why`.
    pub(super) fn json(&self) -> Value {
        let reason =
            |(reason, count): (&Reason, &Count)| json!({ "nodes": count.nodes, "reason": reason.to_string(), "code": reason.code() });
        let domain = |domain: &Domain| {
            json!({
                "value": domain.value,
                "nodes": domain.tally.nodes,
                "placed": domain.placed,
                "reasons": domain.tally.reasons.iter().map(reason).collect::<Vec<_>>(),
            })
        };
        json!({ "topologyKey": self.topology_key, "domains": self.domains.iter().map(domain).collect::<Vec<_>>(), "more": self.more })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::pod_terms::PodTerms;
    use crate::cycle::testing::{group, keeps_away, node, pod, running};
    use crate::plugin::why::places::{Places, places};

    fn zoned(name: &str, zone: Option<&str>, cpu: i64) -> NodeFacts {
        let mut node = node(name, &[("cpu", cpu)]);
        node.labels.extend(zone.map(|zone| ("zone".to_owned(), zone.to_owned())));
        node
    }

    /// A member of the PodGroup `g` that must be in one zone with the others.
    fn together(name: &str, cpu: i64) -> PodFacts {
        let mut member = pod("ns", name, "g", &[("cpu", cpu)]);
        member.labels.insert("app".into(), "g".into());
        let affinity = keeps_away("ns", ("app", "g"), "zone").anti_affinity.clone();
        member.terms = Arc::new(PodTerms { namespace: Arc::from("ns"), affinity, ..PodTerms::default() });
        member
    }

    fn verdict(minimum: u32, pods: &[PodFacts], nodes: &[NodeFacts]) -> (Arc<Tally>, Vec<ByDomain>) {
        match places(&group("ns", "g", minimum, "default"), pods, nodes, &[], BTreeSet::new()) {
            Some(Places::TooFew { tally, next: Some(next), .. }) => (tally, next.domains),
            other => panic!("{other:?}"),
        }
    }

    fn shown(domains: &[ByDomain]) -> String {
        let mut page = Page::default();
        domains.iter().for_each(|one| one.show(&mut page));
        page.render(false)
    }

    #[test]
    fn a_gang_in_one_zone_shows_where_its_members_are_and_why_no_zone_takes_the_next() {
        let nodes = [
            zoned("a1", Some("a"), 1),
            zoned("a2", Some("a"), 8),
            zoned("b1", Some("b"), 9),
            zoned("b2", Some("b"), 0),
            zoned("c1", Some("c"), 6),
            zoned("n1", None, 9),
        ];
        let pods: Vec<_> = (0..3).map(|at| together(&format!("g-{at}"), 4)).collect();
        let (tally, domains) = verdict(3, &pods, &nodes);
        let wanted = "  By zone:
    DOMAIN               NODES  PLACED  REFUSED BY
    b                    2      2       2 Insufficient cpu
    a                    2      0       1 Insufficient cpu, 1 node(s) didn't match pod affinity rules
    c                    1      0       1 node(s) didn't match pod affinity rules
    (without the label)  1      0       1 node(s) didn't match pod affinity rules
";
        assert_eq!(shown(&domains), wanted);
        let reasons = json!([{ "nodes": 2, "reason": "Insufficient cpu", "code": "InsufficientResources" }]);
        let of_b = json!({ "value": "b", "nodes": 2, "placed": 2, "reasons": reasons });
        assert_eq!((&domains[0].json()["topologyKey"], &domains[0].json()["domains"][0]), (&json!("zone"), &of_b));
        // The domains together are the counts of the scheduler.
        let mut sum: BTreeMap<Reason, u32> = BTreeMap::new();
        for (reason, count) in domains.iter().flat_map(|one| &one.domains).flat_map(|domain| &domain.tally.reasons) {
            *sum.entry(reason.clone()).or_default() += count.nodes;
        }
        assert_eq!(sum, tally.reasons.iter().map(|(reason, count)| (reason.clone(), count.nodes)).collect());
    }

    #[test]
    fn of_many_domains_ten_are_shown_and_pods_that_matter_to_no_domain_show_none() {
        let nodes: Vec<_> = (0..14).map(|at| zoned(&format!("n{at:02}"), Some(&format!("z{at:02}")), 2)).collect();
        let (_, domains) = verdict(1, &[together("g-0", 4)], &nodes);
        assert_eq!((domains.len(), domains[0].domains.len(), domains[0].more), (1, 10, 4));
        assert!(shown(&domains).ends_with("    z09     1      0       1 Insufficient cpu\n    and 4 more\n"), "{}", shown(&domains));
        let (_, domains) = verdict(1, &[pod("ns", "g-0", "g", &[("cpu", 4)])], &nodes);
        assert_eq!(domains, []);
    }

    #[test]
    fn pods_that_keep_the_member_away_show_their_domains_though_the_member_says_nothing() {
        let mut keeper = running(pod("ns", "keeper", "other", &[]), "n1");
        keeper.terms = keeps_away("ns", ("app", "g"), "zone");
        let mut member = pod("ns", "g-0", "g", &[("cpu", 4)]);
        member.labels.insert("app".into(), "g".into());
        let nodes = [zoned("n1", Some("a"), 8), zoned("n2", Some("b"), 1)];
        let (_, domains) = verdict(1, &[keeper, member], &nodes);
        let text = shown(&domains);
        assert!(text.contains("a       1      0       1 node(s) didn't satisfy existing pods anti-affinity rules"), "{text}");
        assert!(text.contains("b       1      0       1 Insufficient cpu"), "{text}");
    }
}
