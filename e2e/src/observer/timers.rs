//! Measures how long an object has been in a wrong state, in the time of the history, with one timer for each object and check.

use std::collections::BTreeMap;

use super::finding::Finding;

/// A period in which a check asserts nothing, because a case broke something on purpose or the observer could not see.
#[derive(Debug, Clone, Copy)]
pub struct Excuse {
    /// The check; `None` for all checks.
    pub check: Option<u8>,
    /// The start, in milliseconds.
    pub from: i64,
    /// The end, in milliseconds, also a future one; `None` while it is not known.
    pub to: Option<i64>,
    /// The longest extra grace for one object, in milliseconds; `None` means that the extra grace lasts as long as the excuse.
    pub at_most: Option<i64>,
}

/// The wrong states that are not findings yet, by check and object.
#[derive(Debug, Default)]
pub struct Timers(BTreeMap<(u8, String), Wrong>);

#[derive(Debug)]
struct Wrong {
    since: i64,
    detail: String,
    reported: bool,
}

impl Timers {
    /// Sets the state of an object at a time: wrong with a reason, or correct (`None`).
    pub fn set(&mut self, check: u8, object: String, at: i64, wrong: Option<String>) {
        match wrong {
            Some(detail) => {
                let fresh = Wrong { since: at, detail: String::new(), reported: false };
                self.0.entry((check, object)).or_insert(fresh).detail = detail;
            }
            None => drop(self.0.remove(&(check, object))),
        }
    }

    /// Forgets a deleted object, by the UID in its name.
    pub fn forget(&mut self, check: u8, uid: &str) {
        let marked = format!("({uid})");
        self.0.retain(|(kind, object), _| *kind != check || !object.ends_with(&marked));
    }

    /// Returns everything that is wrong now, without a grace.
    pub fn standing(&self, now: i64) -> Vec<Finding> {
        let finding = |((check, object), wrong): (&(u8, String), &Wrong)| Finding {
            check: *check,
            object: object.clone(),
            detail: wrong.detail.clone(),
            at: now,
        };
        self.0.iter().map(finding).collect()
    }

    /// Returns every wrong state with a grace period that ended by `now`, each once.
    pub fn expire(&mut self, now: i64, grace: impl Fn(u8) -> i64, excuses: &[Excuse]) -> Vec<Finding> {
        let mut found = Vec::new();
        for ((check, object), wrong) in self.0.iter_mut().filter(|(_, wrong)| !wrong.reported) {
            let grace = grace(*check);
            let Some(due) = due(*check, wrong.since, grace, excuses).filter(|due| *due <= now) else { continue };
            wrong.reported = true;
            let detail = format!("{} for more than {} s", wrong.detail, grace / 1000);
            found.push(Finding { check: *check, object: object.clone(), detail, at: due });
        }
        found
    }
}

/// Returns when a wrong state becomes a finding. If an excuse overlaps the grace, the grace starts again at the end of the excuse. `None` while the
/// excuse lasts.
fn due(check: u8, since: i64, grace: i64, excuses: &[Excuse]) -> Option<i64> {
    let mut due = since.saturating_add(grace);
    let mut mine: Vec<&Excuse> = excuses.iter().filter(|excuse| excuse.check.is_none_or(|excused| excused == check)).collect();
    mine.sort_by_key(|excuse| excuse.from);
    for excuse in mine {
        if excuse.from <= due && excuse.to.is_none_or(|to| to >= since) {
            let anew = excuse.to.map(|to| to.saturating_add(grace));
            due = match (anew, excuse.at_most) {
                (anew, None) => due.max(anew?),
                (anew, Some(most)) => due.max(since.saturating_add(grace).saturating_add(most).min(anew.unwrap_or(i64::MAX))),
            };
        }
    }
    Some(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(timers: &mut Timers, now: i64, excuses: &[Excuse]) -> usize {
        timers.expire(now, |_| 5000, excuses).len()
    }

    #[test]
    fn a_wrong_state_is_found_once_after_its_grace_and_again_when_it_returns() {
        let mut timers = Timers::default();
        timers.set(1, "p".to_owned(), 1000, Some("x".to_owned()));
        timers.set(1, "p".to_owned(), 3000, Some("y".to_owned()));
        assert_eq!(found(&mut timers, 5999, &[]), 0);
        assert_eq!(found(&mut timers, 6000, &[]), 1);
        assert_eq!(found(&mut timers, 9000, &[]), 0);
        timers.set(1, "p".to_owned(), 9000, None);
        timers.set(1, "p".to_owned(), 9001, Some("x".to_owned()));
        assert_eq!(found(&mut timers, 14_000, &[]), 0);
        assert_eq!(found(&mut timers, 14_001, &[]), 1);
    }

    #[test]
    fn the_grace_starts_at_the_end_of_an_excuse() {
        let mut timers = Timers::default();
        timers.set(1, "p".to_owned(), 1000, Some("x".to_owned()));
        let lasting = Excuse { check: Some(1), from: 2000, to: None, at_most: None };
        assert_eq!(found(&mut timers, 60_000, &[lasting]), 0);
        let over = Excuse { to: Some(8000), ..lasting };
        assert_eq!(found(&mut timers, 12_999, &[over]), 0);
        let other = Excuse { check: Some(2), ..lasting };
        assert_eq!(found(&mut timers, 13_000, &[over, other]), 1);
    }

    #[test]
    fn a_bounded_excuse_ends_at_its_bound_or_one_grace_after_its_end() {
        let wrong = || {
            let mut timers = Timers::default();
            timers.set(1, "p".to_owned(), 1000, Some("x".to_owned()));
            timers
        };
        let lasting = Excuse { check: None, from: 0, to: None, at_most: Some(60_000) };
        assert_eq!(found(&mut wrong(), 65_999, &[lasting]), 0);
        assert_eq!(found(&mut wrong(), 66_000, &[lasting]), 1);
        let over = Excuse { to: Some(2000), ..lasting };
        assert_eq!(found(&mut wrong(), 6999, &[over]), 0);
        assert_eq!(found(&mut wrong(), 7000, &[over]), 1);
    }
}
