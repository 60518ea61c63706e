//! Reads the maps of quantities in API objects.
//!
//! In Volcano's objects a quantity is an int-or-string (`cpu: 2` is stored as a number), in Kubernetes' own objects a string. Both are read
//! here. A value that cannot be used becomes a fault; the other values, the object and its list are still used.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::resources::{Amount, Limits, ResourceName, Resources, quantity};

use super::fault::{Fault, shorten};

/// A quantity as it is written in an object: a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RawQuantity {
    /// A whole number, as in `cpu: 2`.
    Int(i64),
    /// A text, as in `cpu: 1500m`.
    Text(String),
}

/// A map of resource names to quantities as it is written in an object.
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

/// The amounts that replace values that cannot be used. They are chosen so that a bad value never takes resources from pods that already run. `None`
/// leaves the resource out.
#[derive(Clone, Copy)]
struct Instead {
    too_large: Option<Amount>,
    unreadable: Option<Amount>,
    /// The replacement of an amount below 0; the outer `None` if the caller handles negative amounts itself.
    negative: Option<Option<Amount>>,
    /// The end of the fault's text: which amount is used.
    effect: &'static str,
}

/// For requests. A request that is too large becomes the largest amount, which no node has. A request that cannot be read is left out, and its fault
/// keeps the pod or PodGroup from being scheduled.
const ASKED: Instead = Instead { too_large: Some(Amount::from_units(i64::MAX)), unreadable: None, negative: None, effect: "" };
/// For the allocatable resources of nodes. A bad value counts as 0.
const OFFERED: Instead = Instead { too_large: None, unreadable: None, negative: None, effect: "; it counts as 0" };
/// For `minResources`. A bad amount keeps the PodGroup from being scheduled, as that of a request does; the API server refuses no negative one.
const LEAST: Instead = Instead { negative: Some(None), ..ASKED };
/// For limits. A limit that is too large becomes the largest amount. A limit that cannot be read becomes 0.
const CEILING: Instead = Instead {
    too_large: Some(Amount::from_units(i64::MAX)),
    unreadable: Some(Amount::ZERO),
    negative: Some(Some(Amount::ZERO)),
    effect: "; it counts as 0",
};
/// For the annotation `group-min-resources`. If one amount is bad, none is used.
const STATED: Instead = Instead { too_large: None, unreadable: None, negative: Some(None), effect: "; the pods' own requests are used" };
/// For the deserved amount and guarantee of a queue. A bad value counts as unset, because it would be taken from other queues.
const PROMISED: Instead = Instead { too_large: None, unreadable: None, negative: Some(None), effect: "; it counts as unset" };

/// Returns the amounts of a map, in the order of the names, and adds a fault for each bad value. `place` is the path of the map in its object.
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

/// Reads a map of requests. An absent name is 0.
pub fn resources(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Resources {
    raw.map(|raw| amounts(raw, ASKED, place, faults).into_iter().collect()).unwrap_or_default()
}

/// Reads a map of allocatable resources. An absent name or a bad value is 0.
pub fn offered(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Resources {
    raw.map(|raw| amounts(raw, OFFERED, place, faults).into_iter().collect()).unwrap_or_default()
}

/// Reads the amounts of the annotation `group-min-resources`. A bad value means that none of them is used.
pub fn stated(raw: &RawResources, place: &str, faults: &mut Vec<Fault>) -> Option<Resources> {
    let mut found = Vec::new();
    let amounts = amounts(raw, STATED, place, &mut found).into_iter().collect();
    let usable = found.is_empty();
    faults.append(&mut found);
    usable.then_some(amounts)
}

/// Reads a deserved amount or a guarantee. An absent name or a bad value is unset, which is not 0.
pub fn promised(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Limits {
    raw.map(|raw| amounts(raw, PROMISED, place, faults).into_iter().collect()).unwrap_or_default()
}

/// Reads a map of limits. An absent name is unset, which is not 0. A value that cannot be read or is below 0 is 0.
pub fn limits(raw: Option<&RawResources>, place: &str, faults: &mut Vec<Fault>) -> Limits {
    raw.map(|raw| amounts(raw, CEILING, place, faults).into_iter().collect()).unwrap_or_default()
}

/// Returns the map as the programs write it: each amount as text in the canonical form of its resource.
#[must_use]
pub fn written(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(name, amount)| (name.to_string(), quantity::format(amount, name.style()))).collect()
}

/// Reads a map of `minResources`. Volcano's controller writes several forms of a name:
///
/// * `NAME` and `requests.NAME` are the resource NAME;
/// * `pods` and `count/pods` are the number of pods;
/// * `limits.NAME` is ignored.
///
/// If two names mean the same resource, the larger amount counts.
pub fn minimum(raw: &RawResources, place: &str, faults: &mut Vec<Fault>) -> Resources {
    let mut total = Resources::new();
    for (name, amount) in amounts(raw, LEAST, place, faults) {
        let counted = match &*name {
            "count/pods" => "pods",
            limit if limit.starts_with("limits.") => continue,
            other => other.strip_prefix("requests.").unwrap_or(other),
        };
        total.set(counted, total.get(counted).max(amount));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_is_0_as_a_limit_and_unset_as_a_guarantee() {
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
    fn a_long_resource_name_is_cut_in_a_fault() {
        let raw: RawResources = [("x".repeat(100_000), RawQuantity::Text("?".to_owned()))].into();
        let mut faults = Vec::new();
        let _none = minimum(&raw, "spec.minResources", &mut faults);
        assert!(faults[0].to_string().len() < 300);
    }

    #[test]
    fn a_bad_value_never_gives_more_resources_than_exist() {
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
        assert_eq!([asked.len(), offers.len(), ceiling.len()], [2, 2, 2], "each bad value is a fault");
    }
}
