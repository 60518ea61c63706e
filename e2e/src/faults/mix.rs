//! Which faults can the n-th request of a kind have? Drawn from a seed. Pure: the same seed, request and number give the same faults.
//!
//! `pack` decides which one of them it gets.

use std::time::Duration;

use super::fault::{Fault, Refusal, StreamFault};
use super::request::{ApiRequest, Verb};
use crate::proxy::SeededRandom;
use crate::wait::{millis, secs};

/// How often faults happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The number of faults for each hundred requests.
    pub requests: u64,
    /// The time between two faults of an open watch, in milliseconds: least and most.
    pub streams: (u64, u64),
}

impl Rate {
    /// The rate for the program that the case tests.
    pub const HIGH: Self = Self { requests: 40, streams: (300, 4000) };
    /// The rate for the other program.
    pub const LOW: Self = Self { requests: 15, streams: (2000, 12_000) };
}

/// The longest delay of a request or a response.
const LONGEST_DELAY: Duration = millis(1500);
/// A Lease is renewed every two seconds. The mix alone must never delay it by ten seconds.
const LONGEST_LEASE_DELAY: Duration = millis(400);
/// The longest time after which the API server handles a request that was answered with 504.
const LATEST: Duration = secs(6);
/// The longest time for which a watch holds its events back.
const LONGEST_HOLD: Duration = secs(5);
/// The greatest age of an old view.
const OLDEST_VIEW: Duration = secs(8);
/// The longest time for which a client has to obey a `Retry-After`.
pub(super) const LONGEST_OBEYED: Duration = secs(30);
/// The largest number of failures in a row of one call.
pub(super) const IN_A_ROW: u32 = 4;
/// The same for a Lease. It is renewed every two seconds and lost after ten. More failures on a slow machine would be an outage, with
/// another correct outcome.
pub(super) const LEASE_IN_A_ROW: u32 = 1;

/// The time of [`IN_A_ROW`] failures, each with a delay and the back-off after it.
const FAILURES: Duration = secs(8);

/// How much longer than usual an action may take while a mix is active: what its faults can take together, and no more. [`LONGEST_OBEYED`]
/// is added while a client obeys one, not before and not after.
pub const PATIENCE: Duration = secs(FAILURES.as_secs() + OLDEST_VIEW.as_secs() + LONGEST_HOLD.as_secs() + LATEST.as_secs());

/// The mix of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// The seed that determines every fault.
    pub seed: u64,
    /// The rate of faults.
    pub rate: Rate,
}

impl Mix {
    /// Returns the faults of which this request gets one, the `number`-th of its verb and resource, after `in_a_row` failures; empty where
    /// it gets none. `huge` says whether an absurd `Retry-After` is allowed (one is enough).
    pub(super) fn request(&self, api_request: &ApiRequest, number: u64, in_a_row: u32, huge: bool) -> Vec<Fault> {
        let mut random = self.random(api_request, number, 1);
        let lease = api_request.resource == "leases";
        let bound = if lease { LEASE_IN_A_ROW } else { IN_A_ROW };
        let chance = if lease { self.rate.requests / 2 } else { self.rate.requests };
        if api_request.verb == Verb::Other || in_a_row >= bound || random.draw_number() % 100 >= chance {
            return Vec::new();
        }
        let longest = if lease { LONGEST_LEASE_DELAY } else { LONGEST_DELAY };
        let mut bag = vec![
            Fault::DelayRequest(between(&mut random, millis(20), longest)),
            Fault::DelayResponse(between(&mut random, millis(20), longest)),
            Fault::Refuse(Refusal::TooMany { after: 1, plain: random.draw_number().is_multiple_of(2) }),
            Fault::Refuse(Refusal::Internal),
            Fault::Refuse(Refusal::Gateway),
            Fault::Refuse(Refusal::Unavailable),
            Fault::Refuse(Refusal::Timeout),
            Fault::CutBefore,
        ];
        if huge && !lease {
            bag.push(Fault::Refuse(Refusal::TooMany { after: 3600, plain: false }));
        }
        if api_request.verb == Verb::Watch {
            bag.extend([
                Fault::Refuse(Refusal::Expired),
                Fault::Stream(Duration::ZERO, StreamFault::Close),
                Fault::Stream(Duration::ZERO, StreamFault::Expire),
            ]);
        } else {
            bag.push(Fault::CutMiddle);
        }
        if api_request.verb == Verb::List && api_request.continues {
            bag.push(Fault::Refuse(Refusal::Expired));
        }
        if api_request.verb.writes() {
            bag.extend([Fault::LoseReply, Fault::Late(between(&mut random, millis(200), LATEST))]);
            // See the rules in `mod.rs`: a Conflict of a binding or an Event would say something false about the state.
            if !matches!(api_request.resource.as_str(), "pods/binding" | "events") {
                bag.push(Fault::Refuse(Refusal::Conflict));
            }
        }
        bag
    }

    /// Returns the faults of which an open watch gets one next, and the time until then. `number` counts over all watches of these objects.
    pub(super) fn stream(&self, api_request: &ApiRequest, number: u64) -> (Duration, [StreamFault; 6]) {
        let mut random = self.random(api_request, number, 2);
        let (least, most) = self.rate.streams;
        let bag = [
            StreamFault::Close,
            StreamFault::Cut,
            StreamFault::Expire,
            StreamFault::Error,
            StreamFault::Hold(between(&mut random, millis(500), LONGEST_HOLD)),
            StreamFault::OldView(between(&mut random, secs(1), OLDEST_VIEW)),
        ];
        (between(&mut random, millis(least), millis(most)), bag)
    }

    fn random(&self, api_request: &ApiRequest, number: u64, what: u64) -> SeededRandom {
        let of = hash(api_request.verb.name()) ^ hash(&api_request.resource).rotate_left(17) ^ what.rotate_left(40);
        let mut random = SeededRandom(self.seed ^ of ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.draw_number();
        random
    }
}

fn between(random: &mut SeededRandom, least: Duration, most: Duration) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
    least + millis(random.draw_number() % span.saturating_add(1))
}

/// FNV-1a, a hash that is the same on every machine.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::fault::KINDS;
    use super::*;

    fn api_request(method: &str, uri: &str) -> ApiRequest {
        ApiRequest::read(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    fn draws(seed: u64, api_request: &ApiRequest) -> Vec<Fault> {
        let mix = Mix { seed, rate: Rate::HIGH };
        (0..500).flat_map(|number| mix.request(api_request, number, 0, true)).collect()
    }

    fn every() -> Vec<ApiRequest> {
        let group = "/apis/scheduling.volcano.sh/v1beta1/namespaces/n/podgroups";
        vec![
            api_request("GET", "/api/v1/pods?watch=true&resourceVersion=7"),
            api_request("GET", "/api/v1/pods?limit=500"),
            api_request("GET", "/api/v1/pods?limit=500&continue=x"),
            api_request("GET", &format!("{group}/g")),
            api_request("POST", group),
            api_request("PATCH", &format!("{group}/g")),
            api_request("DELETE", &format!("{group}/g")),
            api_request("POST", "/api/v1/namespaces/n/pods/p/binding"),
            api_request("POST", "/api/v1/namespaces/n/events"),
            api_request("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"),
        ]
    }

    #[test]
    fn a_seed_always_draws_the_same_faults_of_every_kind() {
        for seed in [0, 1, 7, u64::MAX] {
            let mix = Mix { seed, rate: Rate::LOW };
            let mut kinds: BTreeSet<&str> = BTreeSet::new();
            for each in every() {
                assert_eq!(draws(seed, &each), draws(seed, &each));
                kinds.extend(draws(seed, &each).iter().map(Fault::kind));
            }
            kinds.extend(mix.stream(&every()[0], 7).1.iter().map(StreamFault::kind));
            assert_eq!(mix.stream(&every()[0], 7), mix.stream(&every()[0], 7));
            assert_eq!(kinds.len(), KINDS.len(), "seed {seed}: {kinds:?}");
        }
        assert_ne!(draws(1, &every()[5]), draws(2, &every()[5]));
    }

    #[test]
    fn only_faults_that_an_api_server_can_show_are_drawn() {
        for each in every() {
            for fault in (0..5).flat_map(|seed| draws(seed, &each)) {
                let kind = fault.kind();
                let writes = each.verb.writes();
                let expires = each.verb == Verb::Watch || each.continues;
                assert!(writes || !matches!(kind, "409" | "504-late" | "lost-reply"), "{each}: {kind}");
                assert!(expires || kind != "410", "{each}: {kind}");
                assert!(each.verb == Verb::Watch || !matches!(fault, Fault::Stream(..)), "{each}: {kind}");
                assert!(kind != "409" || !matches!(each.resource.as_str(), "pods/binding" | "events"), "{each}: {kind}");
            }
        }
        let other = api_request("GET", "/version");
        assert!(draws(1, &other).is_empty());
    }

    #[test]
    fn no_call_fails_for_ever() {
        let mix = Mix { seed: 3, rate: Rate { requests: 100, ..Rate::HIGH } };
        for each in every() {
            let bound = if each.resource == "leases" { LEASE_IN_A_ROW } else { IN_A_ROW };
            // A Lease gets half of this rate. Only the failures in a row matter here.
            assert!((0..50).any(|number| !mix.request(&each, number, bound - 1, true).is_empty()), "{each}");
            assert!((0..50).all(|number| mix.request(&each, number, bound, true).is_empty()), "{each}");
        }
    }
}
