//! Row W2: the scheduler's view of nodes is old, because a watch is open and says nothing.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::seen::bound;
use crate::faults::{Fault, Rule, StreamFault, Verb};
use crate::http;
use crate::objects::{make_member, make_node, make_podgroup};
use crate::wait::{Seen, holds_for, millis, secs, wait_until};
use crate::workloads::wait_running;
use crate::world::World;

/// The promise: a change of a queue or a node is honoured at most this late.
const HONOURED: std::time::Duration = secs(90);

/// How late the list is that follows a dead watch. It is requested when the view is 75 s old, so that the view becomes older than the 80 s
/// after which nothing is decided, and it is complete before the 90 s are over.
const LATE: std::time::Duration = secs(12);

/// The next watch of a resource says nothing for this long.
pub(super) fn silent(resource: &'static str, length: std::time::Duration) -> Rule {
    Rule { verb: Some(Verb::Watch), resource, name: None, fault: Fault::Stream(millis(0), StreamFault::Silent(length)), times: 1 }
}

/// W2. The watch of nodes says nothing. The only node is cordoned, and 90 s later a gang is created: it is not bound, and is when the node
/// is as before.
pub(super) async fn silent_nodes(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    // The scheduler has seen that the node is ready.
    gang(&client, "warm", 1, "default").await?;
    wait_running(&client, "warm", 1, 10).await?;
    silenced(w, "nodes", async || cordon(&client, "n1", true).await).await?;
    gang(&client, "gang", 4, "default").await?;
    stays_unbound(&client, "gang").await?;
    cordon(&client, "n1", false).await?;
    wait_running(&client, "gang", 4, 10).await?;
    wait_running(&client, MEANWHILE, 1, 10).await
}

/// The PodGroup of one pod that is created while the scheduler decides nothing.
const MEANWHILE: &str = "meanwhile";

/// Silences the scheduler's watch of this resource, makes a change, and returns 90 s after it. Meanwhile the scheduler has shown how old
/// its view is, has said that the watch is dead, has decided nothing on the old view, and works again.
async fn silenced(w: &mut World, resource: &'static str, change: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    w.inject(silent(resource, secs(600)))?;
    w.scheduler_path()?.cut();
    wait_until(secs(10), &format!("the watch of {resource} is silent"), || async {
        Ok(Seen::when(w.hits("watch-silent")? == 1, || "it is not open yet".to_owned()))
    })
    .await?;
    change().await?;
    let end = Instant::now() + HONOURED;
    says_how_old_its_view_is(w, resource).await?;
    let port = w.scheduler()?.port();
    // The promise is about what is decided, and not about when decisions go on.
    wait_until(
        end.saturating_duration_since(Instant::now()) + secs(10),
        &format!("the {resource} are listed again, and decisions go on"),
        || async {
            let (view, (ready, text)) = (http::json(port, "/debug/view").await?, http::get(port, "/readyz").await?);
            let good = decides(&view) && age(&view, resource) < 30.0 && ready == 200;
            Ok(Seen::when(good, || format!("{view}; /readyz {ready}: {text}")))
        },
    )
    .await?;
    sleep_until(end).await;
    Ok(())
}

/// The scheduler shows the age of its silent view while it grows. At 75 s `/readyz` and the log say that the watch is dead, and at 80 s
/// `/debug/view` and the log that nothing is decided. Returns then.
async fn says_how_old_its_view_is(w: &mut World, resource: &'static str) -> Result<()> {
    let client = w.client();
    let (port, log) = (w.scheduler()?.port(), w.scheduler()?.log().to_owned());
    let logged = |what: String| {
        let log = log.clone();
        async move {
            wait_until(secs(10), &format!("the log says: {what}"), || async {
                let lines = std::fs::read_to_string(&log)?;
                let said = lines.lines().any(|line| line.contains(&what) && line.contains(resource));
                Ok(Seen::when(said, || "it does not".to_owned()))
            })
            .await
        }
    };
    let view = wait_until(secs(75), &format!("the view of {resource} is 60 s old, and shown so"), || async {
        let view = http::json(port, "/debug/view").await?;
        Ok(if age(&view, resource) >= 60.0 { Seen::Yes(view) } else { Seen::NotYet(view.to_string()) })
    })
    .await?;
    let (ready, text) = http::get(port, "/readyz").await?;
    ensure!(decides(&view) && trouble(&view).is_empty() && ready == 200, "too early: {view}; /readyz {ready}: {text}");
    // A question for the version of the kind is a list, too.
    w.inject(Rule { verb: Some(Verb::List), resource, name: None, fault: Fault::DelayRequest(LATE), times: 2 })?;
    wait_until(secs(20), &format!("/readyz says that the watch of {resource} is dead"), || async {
        let (status, text) = http::get(port, "/readyz").await?;
        let said = text.lines().any(|line| line.starts_with(&format!("{resource}: complete (")) && line.contains("the watch is dead"));
        Ok(Seen::when(status == 503 && said, || format!("{status}: {text}")))
    })
    .await?;
    logged("the watch is dead".to_owned()).await?;
    let old = format!("the view of {resource} is ");
    wait_until(secs(8), &format!("/debug/view says that nothing is decided on the old view of {resource}"), || async {
        let view = http::json(port, "/debug/view").await?;
        let said = !decides(&view) && trouble(&view).starts_with(&old);
        Ok(Seen::when(said, || view.to_string()))
    })
    .await?;
    // With something to decide on, the log says so too.
    gang(&client, MEANWHILE, 1, "default").await?;
    logged(format!("no decisions until it is over: {old}")).await
}

/// Returns the age of the view of this resource in `/debug/view`, in seconds.
fn age(view: &Value, resource: &str) -> f64 {
    view.pointer(&format!("/ageSeconds/{resource}")).and_then(Value::as_f64).unwrap_or_default()
}

/// Returns whether `/debug/view` says that decisions are made.
pub(super) fn decides(view: &Value) -> bool {
    view.get("decides").and_then(Value::as_bool).unwrap_or_default()
}

/// Returns why the view prevents decisions; empty if it does not.
pub(super) fn trouble(view: &Value) -> &str {
    view.get("trouble").and_then(Value::as_str).unwrap_or_default()
}

pub(super) async fn cordon(client: &Client, node: &str, cordoned: bool) -> Result<()> {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(json!({"spec": {"unschedulable": cordoned}}))).await?;
    Ok(())
}

/// Creates a gang of this many pods of 1 cpu.
pub(super) async fn gang(client: &Client, name: &str, members: u32, queue: &str) -> Result<()> {
    make_podgroup(client, name, json!({"minMember": members, "queue": queue})).await?;
    for number in 0..members {
        make_member(client, &format!("{name}-{number}"), name, &[("cpu", "1")]).await?;
    }
    Ok(())
}

pub(super) async fn stays_unbound(client: &Client, name: &str) -> Result<()> {
    holds_for(secs(10), &format!("no pod of {name} is bound"), || async {
        let count = bound(client, name).await?;
        Ok(Seen::when(count == 0, || format!("{count} are bound")))
    })
    .await
}
