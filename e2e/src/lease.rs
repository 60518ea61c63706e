//! Reads the controller's Lease like `kubectl get lease`, and takes it from its holder like an admin or a replica with a wrong clock.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::chart;
use crate::wait::{Seen, secs, wait_until};

/// Flags for a short lease: 10 s, renewed every half second, given up after 8 s. A machine that is busy for a few seconds does not lose it.
pub const QUICK: [&str; 3] = ["--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=500ms"];

/// Flags for a lease that no delay of a case ends.
pub const LONG: [&str; 2] = ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s"];

/// Longer than a lease of [`QUICK`].
pub const LONGER_THAN_QUICK: Duration = secs(12);

/// Returns the Leases of the chart's namespace.
pub fn leases(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), chart::NAMESPACE)
}

/// Returns the holder of the controller's Lease; empty when there is none.
pub async fn holder(client: &Client) -> Result<String> {
    let lease = leases(client).get_opt(chart::CONTROLLER).await?;
    Ok(spec(lease.as_ref()).holder_identity.unwrap_or_default())
}

/// Waits until `is` accepts the holder, and returns the holder.
pub async fn wait_holder(client: &Client, seconds: u64, what: &str, is: impl Fn(&str) -> bool) -> Result<String> {
    wait_until(secs(seconds), &format!("the Lease is held by {what}"), || async {
        let holder = holder(client).await?;
        Ok(if is(&holder) { Seen::Yes(holder) } else { Seen::NotYet(format!("{holder:?} holds it")) })
    })
    .await
}

/// Writes `thief` into the Lease as its holder for `seconds`. Returns the former holder.
pub async fn take_lease(client: &Client, new_holder: &str, seconds: i32) -> Result<String> {
    // The holder renews the Lease all the time, so the version that was read may be old.
    wait_until(secs(10), "the Lease has the new holder", || async {
        let mut lease = leases(client).get(chart::CONTROLLER).await?;
        let old = spec(Some(&lease));
        let holder = old.holder_identity.clone().unwrap_or_default();
        ensure!(holder != new_holder, "the new holder has the Lease already");
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(new_holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            lease_transitions: old.lease_transitions.map(|count| count.saturating_add(1)),
            ..old
        });
        leases(client).replace(chart::CONTROLLER, &PostParams::default(), &lease).await?;
        Ok(Seen::Yes(holder))
    })
    .await
}

/// Returns when the Lease was last renewed, by the clock of its holder.
pub async fn renewed(client: &Client) -> Result<Timestamp> {
    let lease = leases(client).get(chart::CONTROLLER).await.context("the Lease")?;
    Ok(spec(Some(&lease)).renew_time.context("the Lease was never renewed")?.0)
}

/// Returns how often the Lease of a program has changed its holder. Each process is a holder of its own.
pub async fn transitions(client: &Client, program: &str) -> Result<i32> {
    let lease = leases(client).get(program).await.context("the Lease")?;
    Ok(spec(Some(&lease)).lease_transitions.unwrap_or_default())
}

fn spec(lease: Option<&Lease>) -> LeaseSpec {
    lease.and_then(|lease| lease.spec.clone()).unwrap_or_default()
}
