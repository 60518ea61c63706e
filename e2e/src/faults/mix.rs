//! What does a seed do to the n-th request of its kind? Pure: the same seed, request and number draw the same fault.
//!
//! Each seed weighs the kinds differently, so that some seeds have much of one kind and others of another; no kind is ever left out.

use std::time::Duration;

use super::fault::{Fault, Refusal, StreamFault};
use super::request::{Asked, Verb};
use crate::proxy::Dice;
use crate::wait::{millis, secs};

/// How often something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Of a hundred requests, so many.
    pub requests: u64,
    /// Between two faults of an open watch, in milliseconds: least and most.
    pub streams: (u64, u64),
}

impl Rate {
    /// For the program that the case is about.
    pub const HIGH: Self = Self { requests: 40, streams: (300, 4000) };
    /// For the other one.
    pub const LOW: Self = Self { requests: 15, streams: (2000, 12_000) };
}

/// The longest that a request or an answer is under way.
const LONGEST_DELAY: Duration = millis(1500);
/// A Lease is renewed every two seconds and must never be ten seconds late by the mix alone.
const LONGEST_LEASE_DELAY: Duration = millis(400);
/// The longest that the API server works on what it has answered with 504.
const LATEST: Duration = secs(6);
/// The longest that a watch holds its events back.
const LONGEST_HOLD: Duration = secs(5);
/// The oldest view that is shown.
const OLDEST_VIEW: Duration = secs(8);
/// A client that obeys `Retry-After` is right to do so, but none needs to believe more than this.
pub(super) const OBEYED: Duration = secs(30);
/// No call fails more often in a row.
pub(super) const IN_A_ROW: u32 = 4;
/// The same for a Lease.
pub(super) const LEASES_IN_A_ROW: u32 = 2;

/// How much longer than usual something may take while the mix goes on: an absurd `Retry-After` that is obeyed for half a minute, then four failures with
/// delay and back-off (8 s), an old view (8 s), events held back (5 s), and a write that lands late (6 s); rounded up.
pub const PATIENCE: Duration = secs(60);

/// One seed's mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Where all comes from.
    pub seed: u64,
    /// How much of it.
    pub rate: Rate,
}

impl Mix {
    /// What happens to this request, the `number`-th of its verb and resource, after so many failures of it in a row. `huge` says whether an absurd
    /// `Retry-After` may come (once is enough).
    pub(super) fn request(&self, asked: &Asked, number: u64, in_a_row: u32, huge: bool) -> Option<Fault> {
        let mut dice = self.dice(asked, number, 1);
        let lease = asked.resource == "leases";
        let bound = if lease { LEASES_IN_A_ROW } else { IN_A_ROW };
        let chance = if lease { self.rate.requests / 2 } else { self.rate.requests };
        if asked.verb == Verb::Other || in_a_row >= bound || dice.roll() % 100 >= chance {
            return None;
        }
        let longest = if lease { LONGEST_LEASE_DELAY } else { LONGEST_DELAY };
        let mut bag = vec![
            Fault::DelayRequest(between(&mut dice, millis(20), longest)),
            Fault::DelayResponse(between(&mut dice, millis(20), longest)),
            Fault::Refuse(Refusal::TooMany { after: 1, plain: dice.roll().is_multiple_of(2) }),
            Fault::Refuse(Refusal::Internal),
            Fault::Refuse(Refusal::Gateway),
            Fault::Refuse(Refusal::Unavailable),
            Fault::Refuse(Refusal::Timeout),
            Fault::CutBefore,
        ];
        if huge && !lease {
            bag.push(Fault::Refuse(Refusal::TooMany { after: 3600, plain: false }));
        }
        if asked.verb == Verb::Watch {
            bag.extend([
                Fault::Refuse(Refusal::Expired),
                Fault::Stream(Duration::ZERO, StreamFault::Close),
                Fault::Stream(Duration::ZERO, StreamFault::Expire),
            ]);
        } else {
            bag.push(Fault::CutMiddle);
        }
        if asked.verb == Verb::List && asked.continues {
            bag.push(Fault::Refuse(Refusal::Expired));
        }
        if asked.verb.writes() {
            bag.extend([Fault::LoseReply, Fault::Late(between(&mut dice, millis(200), LATEST))]);
            // See the head of this folder: a binding's or an Event's conflict would say something that is not so.
            if !matches!(asked.resource.as_str(), "pods/binding" | "events") {
                bag.push(Fault::Refuse(Refusal::Conflict));
            }
        }
        self.choose(&mut dice, &bag, Fault::kind)
    }

    /// What happens next to an open watch, and after how long; `number` counts over all watches of these objects.
    pub(super) fn stream(&self, asked: &Asked, number: u64) -> Option<(Duration, StreamFault)> {
        let mut dice = self.dice(asked, number, 2);
        let (least, most) = self.rate.streams;
        let bag = [
            StreamFault::Close,
            StreamFault::Cut,
            StreamFault::Expire,
            StreamFault::Error,
            StreamFault::Hold(between(&mut dice, millis(500), LONGEST_HOLD)),
            StreamFault::OldView(between(&mut dice, secs(1), OLDEST_VIEW)),
        ];
        let after = between(&mut dice, millis(least), millis(most));
        Some((after, self.choose(&mut dice, &bag, StreamFault::kind)?))
    }

    /// One of the bag, the kinds weighed 1, 2 or 4 by the seed.
    fn choose<T: Copy>(&self, dice: &mut Dice, bag: &[T], kind: fn(&T) -> &'static str) -> Option<T> {
        let weight = |each: &T| 1_u64 << (Dice(self.seed ^ hash(kind(each))).roll() % 3);
        let all: u64 = bag.iter().map(weight).sum();
        let mut left = dice.roll() % all.max(1);
        bag.iter().copied().find(|each| {
            let weight = weight(each);
            let found = left < weight;
            left = left.saturating_sub(weight);
            found
        })
    }

    fn dice(&self, asked: &Asked, number: u64, what: u64) -> Dice {
        let of = hash(asked.verb.name()) ^ hash(&asked.resource).rotate_left(17) ^ what.rotate_left(40);
        let mut dice = Dice(self.seed ^ of ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        dice.roll();
        dice
    }
}

fn between(dice: &mut Dice, least: Duration, most: Duration) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
    least + millis(dice.roll() % span.saturating_add(1))
}

/// FNV-1a: the same on every machine.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::fault::KINDS;
    use super::*;

    fn asked(method: &str, uri: &str) -> Asked {
        Asked::read(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    fn drawn(seed: u64, asked: &Asked) -> Vec<Fault> {
        let mix = Mix { seed, rate: Rate::HIGH };
        (0..2000).filter_map(|number| mix.request(asked, number, 0, true)).collect()
    }

    fn every() -> Vec<Asked> {
        let group = "/apis/scheduling.volcano.sh/v1beta1/namespaces/n/podgroups";
        vec![
            asked("GET", "/api/v1/pods?watch=true&resourceVersion=7"),
            asked("GET", "/api/v1/pods?limit=500"),
            asked("GET", "/api/v1/pods?limit=500&continue=x"),
            asked("GET", &format!("{group}/g")),
            asked("POST", group),
            asked("PATCH", &format!("{group}/g")),
            asked("DELETE", &format!("{group}/g")),
            asked("POST", "/api/v1/namespaces/n/pods/p/binding"),
            asked("POST", "/api/v1/namespaces/n/events"),
            asked("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"),
        ]
    }

    #[test]
    fn a_seed_always_does_the_same_and_every_seed_does_every_kind() {
        for seed in [0, 1, 7, u64::MAX] {
            let mix = Mix { seed, rate: Rate::LOW };
            let mut kinds: BTreeSet<&str> = BTreeSet::new();
            for each in every() {
                assert_eq!(drawn(seed, &each), drawn(seed, &each));
                kinds.extend(drawn(seed, &each).iter().map(Fault::kind));
            }
            kinds.extend((0..500).filter_map(|number| Some(mix.stream(&every()[0], number)?.1.kind())));
            assert_eq!(kinds.len(), KINDS.len(), "seed {seed}: {kinds:?}");
        }
        assert_ne!(drawn(1, &every()[5]), drawn(2, &every()[5]));
    }

    #[test]
    fn nothing_is_drawn_that_no_api_server_does() {
        for each in every() {
            for fault in (0..5).flat_map(|seed| drawn(seed, &each)) {
                let kind = fault.kind();
                let writes = each.verb.writes();
                let expires = each.verb == Verb::Watch || each.continues;
                assert!(writes || !matches!(kind, "409" | "504-late" | "lost-reply"), "{each}: {kind}");
                assert!(expires || kind != "410", "{each}: {kind}");
                assert!(each.verb == Verb::Watch || !matches!(fault, Fault::Stream(..)), "{each}: {kind}");
                assert!(kind != "409" || !matches!(each.resource.as_str(), "pods/binding" | "events"), "{each}: {kind}");
            }
        }
        let other = asked("GET", "/version");
        assert!(drawn(1, &other).is_empty());
    }

    #[test]
    fn no_call_fails_without_an_end() {
        let mix = Mix { seed: 3, rate: Rate { requests: 100, ..Rate::HIGH } };
        for each in every() {
            let bound = if each.resource == "leases" { LEASES_IN_A_ROW } else { IN_A_ROW };
            // A hundred of a hundred is half of that for a Lease: only the calls in a row are of interest here.
            assert!((0..50).any(|number| mix.request(&each, number, bound - 1, true).is_some()), "{each}");
            assert!((0..50).all(|number| mix.request(&each, number, bound, true).is_none()), "{each}");
        }
    }
}
