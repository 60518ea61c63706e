//! Row K9: the standby scheduler is warm. It is ready without the Lease (otherwise a rolling update would wait for ever), has the same accounting as
//! the leader, and leads as soon as the leader ends.

use anyhow::{Result, ensure};

use crate::lease::leases;
use crate::objects::make_node;
use crate::programs::Program;
use crate::wait::{Seen, secs, wait_until};
use crate::workloads::{Workload, wait_running};
use crate::world::World;
use crate::{chart, http, kubeconfig};

/// K9. A second scheduler starts, is ready beside the first, follows it, and takes over.
pub(super) async fn warm(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "8"), ("memory", "32Gi")]).await?;
    Workload::new("before").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "before", 2, 10).await?;

    let (server, authority) = kubeconfig::door(w.cluster().kubeconfig())?;
    let kubeconfig = chart::kubeconfig_as(w.cluster(), chart::SCHEDULER, "standby", server, &authority).await?;
    let mut standby = Program::start_as(w.cluster().scratch(), chart::SCHEDULER, "standby", &kubeconfig, &[], &[])?;
    standby.wait_ready().await?;
    // Objects that are created during its standby are in its cache, too.
    Workload::new("meanwhile").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "meanwhile", 2, 10).await?;
    let ports = (w.scheduler()?.port(), standby.port());
    for path in ["/debug/ledger", "/debug/queues"] {
        wait_until(secs(10), &format!("both schedulers return the same at {path}"), || async move {
            let (first, second) = (http::json(ports.0, path).await?, http::json(ports.1, path).await?);
            Ok(Seen::when(first == second, || format!("{first}\nand {second}")))
        })
        .await?;
    }

    let held =
        async || anyhow::Ok(leases(&client).get(chart::SCHEDULER).await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default());
    let first = held().await?;
    w.scheduler()?.terminate().await?;
    ensure!(!first.is_empty(), "the Lease had no holder");
    // A normal end releases the Lease, so the successor need not wait until its 15 s are over.
    wait_until(secs(5), &format!("the Lease has another holder than {first}, which has ended"), || async {
        let now = held().await?;
        Ok(Seen::when(now != first, || format!("{now:?} holds it")))
    })
    .await?;
    Workload::new("after").replicas(2).gang("2").make(&client).await?;
    wait_running(&client, "after", 2, 10).await?;
    w.scheduler()?.restart().await?;
    standby.terminate().await
}
