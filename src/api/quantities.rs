//! Maps of quantities as they stand in objects, and what they mean.
//!
//! Volcano's objects say int-or-string (`cpu: 2` is stored as a number), Kubernetes' own say strings; both are read here. One bad value costs
//! that value and is told; it never costs the object, let alone the list.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::resources::{Amount, Limits, ResourceName, Resources, quantity};
use crate::rules::{Rule, holds};

use super::fault::{Fault, shorten};

/// A quantity as it stands in an object: a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RawQuantity {
    /// A whole number, as in `cpu: 2`.
    Int(i64),
    /// A text, as in `cpu: 1500m`.
    Text(String),
}

/// A map of resource names to quantities as it stands in an object.
pub type RawResources = BTreeMap<String, RawQuantity>;

impl JsonSchema for RawQuantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}

impl RawQuantity {
    fn parse(&self) -> Result<Amount, quantity::QuantityError> {
        match self {
            Self::Int(value) => Ok(Amount::from_units(*value)),
            Self::Text(text) => quantity::parse(text),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// What stands in for a value that cannot be used, so that the books err on the side of who was there before; none leaves it out.
#[derive(Clone, Copy)]
struct Instead {
    too_large: Option<Amount>,
    unreadable: Option<Amount>,
    /// What stands in for an amount below 0; none where the one who reads the map deals with those.
    negative: Option<Option<Amount>>,
    /// What people are told that comes of it.
    effect: &'static str,
}

/// What is asked for: the largest amount that can be read is still more than anybody has. One that cannot be read is left out, and its fault keeps the
/// pod or group from being placed.
const ASKED: Instead = Instead { too_large: Some(Amount::from_units(i64::MAX)), unreadable: None, negative: None, effect: "" };
/// What is offered: nothing, rather than a node without an end.
const OFFERED: Instead = Instead { too_large: None, unreadable: None, negative: None, effect: "; it counts as 0" };
/// What is a ceiling: a very high one is as good as the largest, and one that cannot be read lets nothing pass.
const CEILING: Instead = Instead {
    too_large: Some(Amount::from_units(i64::MAX)),
    unreadable: Some(Amount::ZERO),
    negative: Some(Some(Amount::ZERO)),
    effect: "; it counts as 0",
};
/// What is promised to a queue: what cannot be used promises nothing, since it would be taken from the others.
const PROMISED: Instead = Instead { too_large: None, unreadable: None, negative: Some(None), effect: "; it counts as unset" };

/// The amounts of a map, by name in order, and a fault for each value that is none. `place` says where the map stands, for the person who has to mend
/// it.
fn amounts(raw: &RawResources, instead: Instead, place: &str, faults: &mut Vec<Fault>) -> Vec<(ResourceName, Amount)> {
    let mut read = Vec::new();
    for (name, value) in raw {
        let (amount, why) = match (value.parse(), instead.negative) {
            (Ok(amount), Some(counts)) if amount.is_negative() => (counts, format!("below 0{}", instead.effect)),
            (Ok(amount), _) => {
                read.push((ResourceName::from(name.as_str()), amount));
                continue;
            }
            (Err(error @ quantity::QuantityError::TooLarge), _) if instead.too_large.is_some() => {
                (instead.too_large, format!("{error}; it counts as the largest amount"))
            }
            (Err(error), _) => (instead.unreadable, format!("{error}{}", instead.effect)),
        };
        faults.push(Fault::new(format!("{place}.{}", shorten(name)), &value.shown(), why));
        read.extend(amount.map(|amount| (ResourceName::from(name.as_str()), amount)));
    }
    read
}

/// What a map asks for: an absent name is 0.
pub fn resources(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Resources {
    raw.map(|raw| amounts(raw, ASKED, place, faults).into_iter().collect()).unwrap_or_default()
}

/// What a map offers: an absent name, or one that cannot be used, is 0.
pub fn offered(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Resources {
    raw.map(|raw| amounts(raw, OFFERED, place, faults).into_iter().collect()).unwrap_or_default()
}

/// What a map promises: an absent name, or one that cannot be used, is unset, which is not 0.
pub fn promised(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Limits {
    raw.map(|raw| amounts(raw, PROMISED, place, faults).into_iter().collect()).unwrap_or_default()
}

/// What a map limits: an absent name is unset, which is not 0; one that cannot be read or is below 0 is 0.
pub fn limits(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Limits {
    raw.map(|raw| amounts(raw, CEILING, place, faults).into_iter().collect()).unwrap_or_default()
}

/// The map as we write it: text in the canonical form of each resource.
#[must_use]
pub fn written(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(name, amount)| (name.to_string(), quantity::format(amount, name.style()))).collect()
}

/// What a `minResources` asks for. Plain names and `requests.NAME` count as NAME, `pods` and `count/pods` as the number of pods, `limits.*` not
/// at all: Volcano's controller writes all of them (design.md §5). Of two that mean the same, the larger counts.
pub fn minimum(raw: &RawResources, place: &str, faults: &mut Vec<Fault>) -> Resources {
    let mut total = Resources::new();
    for (name, amount) in amounts(raw, ASKED, place, faults) {
        let counted = match &*name {
            "count/pods" if holds(Rule::A1Names) => "pods",
            limit if limit.starts_with("limits.") && holds(Rule::A1Limits) => continue,
            limit if limit.starts_with("limits.") => limit.trim_start_matches("limits."),
            other if holds(Rule::A1Names) => other.strip_prefix("requests.").unwrap_or(other),
            other => other,
        };
        let known = if holds(Rule::A1Largest) { total.get(counted) } else { Amount::ZERO };
        total.set(counted, known.max(amount));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_zero_or_unreadable_is_no_ceiling_above_zero_and_no_promise() {
        let raw: RawResources = [("huge", "1e30"), ("less", "-1"), ("long", &*"0".repeat(70)), ("none", "0")]
            .map(|(name, text)| (name.to_owned(), RawQuantity::Text(text.to_owned())))
            .into();
        let (mut of_ceiling, mut of_promise) = (Vec::new(), Vec::new());
        let (ceiling, promise) = (limits(Some(&raw), "c", &mut of_ceiling), promised(Some(&raw), "p", &mut of_promise));
        let (zero, largest) = (Some(Amount::ZERO), Some(Amount::from_units(i64::MAX)));
        assert_eq!(["huge", "less", "long", "none"].map(|name| ceiling.get(name)), [largest, zero, zero, zero]);
        assert_eq!(["huge", "less", "long", "none"].map(|name| promise.get(name)), [None, None, None, zero], "unset is not 0");
        let whys = |faults: &[Fault]| faults.iter().map(|fault| fault.why.clone()).collect::<Vec<_>>().join(" | ");
        assert_eq!(
            whys(&of_ceiling),
            "too large; it counts as the largest amount | below 0; it counts as 0 | longer than 64 characters; it counts as 0"
        );
        assert_eq!(
            whys(&of_promise),
            "too large; it counts as unset | below 0; it counts as unset | longer than 64 characters; it counts as unset"
        );
    }

    #[test]
    fn a_name_is_repeated_in_a_fault_but_not_at_any_length() {
        let raw: RawResources = [("x".repeat(100_000), RawQuantity::Text("?".to_owned()))].into();
        let mut faults = Vec::new();
        let _none = minimum(&raw, "spec.minResources", &mut faults);
        assert!(faults[0].to_string().len() < 300);
    }

    #[test]
    fn what_cannot_be_used_gives_nobody_more_than_there_is() {
        let raw: RawResources = [("huge", "1e30"), ("long", &*"0".repeat(70)), ("right", "2")]
            .map(|(name, text)| (name.to_owned(), RawQuantity::Text(text.to_owned())))
            .into();
        let (mut asked, mut offers, mut ceiling) = (Vec::new(), Vec::new(), Vec::new());
        let two = Amount::from_units(2);
        let largest = Amount::from_units(i64::MAX);

        let request = resources(Some(&raw), "r", &mut asked);
        assert_eq!(["huge", "long", "right"].map(|name| request.get(name)), [largest, Amount::ZERO, two]);
        let offer = offered(Some(&raw), "a", &mut offers);
        assert_eq!(["huge", "long", "right"].map(|name| offer.get(name)), [Amount::ZERO, Amount::ZERO, two]);
        let limit = limits(Some(&raw), "c", &mut ceiling);
        assert_eq!(["huge", "long", "right"].map(|name| limit.get(name)), [Some(largest), Some(Amount::ZERO), Some(two)]);
        assert_eq!(limit.get("absent"), None, "unset is not 0");
        assert_eq!([asked.len(), offers.len(), ceiling.len()], [2, 2, 2], "each is told");
    }
}
