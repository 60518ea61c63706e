//! The controller's requests since a moment of the case.

use anyhow::Result;
use tokio::time::sleep;

pub use crate::audit_log::tally;
use crate::audit_log::{AuditLog, Entry, Position};
use crate::chart;
use crate::wait::millis;
use crate::world::World;

/// Returns the present position in the audit log when it shows no request of the controller for half a second: the cluster shows an object
/// before the API server has logged its creation. It waits no longer than five seconds for a controller that goes on.
pub async fn now(w: &World) -> Result<Position> {
    let mut log = AuditLog::from_now(w.cluster().audit_log())?;
    for _ in 0..10 {
        sleep(millis(500)).await;
        if of_controller(log.fresh()?).is_empty() {
            break;
        }
    }
    Ok(log.position())
}

/// Returns the controller's requests since a position, without its upkeep, and without the lists with limit=1, by which a watch asks for a
/// resourceVersion.
pub fn since(w: &World, position: Position) -> Result<Vec<Entry>> {
    Ok(of_controller(AuditLog::at(w.cluster().audit_log(), position).fresh()?))
}

/// Returns how many requests change an object.
pub fn writes(calls: &[Entry]) -> usize {
    calls.iter().filter(|call| !matches!(call.verb.as_str(), "get" | "list")).count()
}

fn of_controller(mut entries: Vec<Entry>) -> Vec<Entry> {
    let controller = chart::user(chart::CONTROLLER);
    entries.retain(|entry| {
        let asks_for_version = entry.verb == "list" && entry.uri.split(['?', '&']).any(|part| part == "limit=1");
        entry.user == controller && !entry.is_upkeep() && !asks_for_version && !entry.resource.starts_with('/')
    });
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit_log::tests::entry;

    #[test]
    fn requests_of_the_controller_count_and_its_lease_its_watches_and_others_do_not() {
        let of = |user: &str, kind: &str, uri: &str| of_controller(vec![Entry { uri: uri.to_owned(), ..entry(user, kind, 200) }]).len();
        let us = chart::user(chart::CONTROLLER);
        assert_eq!([of(&us, "patch podgroups", ""), of(&us, "list pods", "/api/v1/pods?a=b&limit=100")], [1, 1]);
        for (user, kind, uri) in [
            (&*us, "update leases", ""),
            (&us, "watch podgroups", ""),
            (&us, "get /readyz", "/readyz"),
            (&us, "list pods", "/api/v1/pods?a=b&limit=1"),
            ("other-user", "patch podgroups", ""),
        ] {
            assert_eq!(of(user, kind, uri), 0, "{user} {kind}");
        }
    }
}
