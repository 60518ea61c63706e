//! Which subgroups are placed, where not all are needed and their own order finds no nodes for enough of them?
//!
//! Choices that are just enough are tried one after the other, each as pods that are all needed: first those with the subgroups that come first.
//! Not more than [`MOST_CHOICES`] are tried.

use crate::cycle::placement::parts::{Parts, parts_of};
use crate::cycle::placement::placer::{Attempt, Placer, Places, Pod};

/// The most choices that are tried.
const MOST_CHOICES: u32 = 16;
/// The most pods and subgroups to choose from.
const MOST: usize = 64;
/// The most steps from one choice to the next, over all choices.
const MOST_STEPS: u32 = 5_000;

/// Places one choice of the pods that is enough, or none and returns none.
pub(super) fn place(placer: &mut Placer<'_>, attempt: &Attempt<'_>) -> Option<Places> {
    let together: Vec<&[Pod<'_>]> = attempt.together().collect();
    if together.len() > MOST {
        return None;
    }
    let parts = Parts::new(attempt.needed, attempt.parts);
    let mut choices = Choices { placer, attempt, together, chosen: Vec::new(), choices: MOST_CHOICES, steps: MOST_STEPS };
    choices.choose(0, &parts)
}

struct Choices<'c, 'w, 'a> {
    placer: &'c mut Placer<'w>,
    attempt: &'c Attempt<'a>,
    together: Vec<&'c [Pod<'a>]>,
    chosen: Vec<Pod<'a>>,
    choices: u32,
    steps: u32,
}

impl Choices<'_, '_, '_> {
    /// Tries all choices of what stands from here on, beside what is chosen. Returns the places of the first that finds nodes.
    fn choose(&mut self, at: usize, parts: &Parts) -> Option<Places> {
        self.steps = self.steps.saturating_sub(1);
        if self.choices == 0 || self.steps == 0 || self.placer.is_spent() || !self.may_be_enough(at, parts) {
            return None;
        }
        if parts.are_placed() {
            return self.try_chosen();
        }
        let pods = self.together.get(at).copied()?;
        let before = self.chosen.len();
        if parts.take(pods) {
            let mut with = parts.clone();
            with.add(pods);
            self.chosen.extend(pods.iter().map(|pod| Pod { subgroup: None, ..*pod }));
            if let Some(places) = self.choose(at.saturating_add(1), &with) {
                return Some(places);
            }
            self.chosen.truncate(before);
        }
        self.choose(at.saturating_add(1), parts)
    }

    fn try_chosen(&mut self) -> Option<Places> {
        self.choices = self.choices.saturating_sub(1);
        let needed = u32::try_from(self.chosen.len()).unwrap_or(u32::MAX);
        self.placer.place_as(&Attempt { pods: &self.chosen, needed, parts: &[], ..*self.attempt }).ok()
    }

    /// Whether what is missing is among what stands from here on.
    fn may_be_enough(&self, at: usize, parts: &Parts) -> bool {
        let left = self.together.get(at..).unwrap_or_default();
        let all = left.iter().map(|pods| pods.len()).sum::<usize>();
        let of_part = |part: usize| left.iter().map(|pods| parts_of(pods).filter(|of| *of == part).count()).sum::<usize>();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        parts.are_enough(number(all), |part| number(of_part(part)))
    }
}
