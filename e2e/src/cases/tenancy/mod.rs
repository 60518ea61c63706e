//! Row T1: with the chart's `tenancy.enabled` a tenant can use nothing that belongs to another tenant (docs/tenancy.md has the table).
//!
//! The tenant is a user with the role `edit` in one namespace, with the additions of the chart, and with the right to use one queue. The
//! other tenant has a Deployment in another namespace and another queue. In the end it must be unchanged and still get its share.

mod attempts;
mod debug;
mod indirect;
mod request;
#[cfg(test)]
mod table_tests;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use self::attempts::Victim;
use self::request::{Attempt, Outcome};
use crate::objects::{field, make_node, make_queue, podgroups, podgroups_in, queues};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::{Workload, deployments, live_replica_sets, pods_of, scale, wait_one_group, wait_running};
use crate::world::World;
use crate::{chart, kubeconfig};

/// The tenant's user.
const TENANT: &str = "mallory";

/// The tenant's namespace.
const OWN: &str = "mallorys";

/// T1. All attempts of the table.
pub(super) async fn takes_nothing(w: &mut World) -> Result<()> {
    let client = w.client();
    // The policies refuse some requests of our controller on purpose, and some owners have no PodGroup.
    w.watched()?.excuse(&[1, 2, 8]);
    make_node(&client, "n1", &[("cpu", "16"), ("memory", "64Gi")]).await?;
    for queue in ["a", "b", "c"] {
        make_queue(&client, queue, None, &[("cpu", "4")]).await?;
    }
    make_tenant(&client).await?;
    may_use(&client, "a", json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}, account(OWN)])).await?;
    may_use(&client, "b", json!([account("default")])).await?;
    // The PodGroups that our controller creates for bare pods use this queue. The tenant itself may not.
    may_use(&client, "default", json!([account(OWN)])).await?;
    must(&client, &indirect::long()).await?;
    chart::upgrade(w.cluster(), &["tenancy.enabled=true", "tenancy.freeQueues={free}"]).await?;
    let tenant = kubeconfig::client_as(w.cluster().kubeconfig(), TENANT).await?;
    wait_until(secs(10), "the policies are in force", || async {
        let outcome = request::send(&tenant, &request::in_another_queue("dryRun=All")).await?;
        Ok(Seen::when(outcome.is_refused("lacks the verb use"), || format!("{outcome:?}")))
    })
    .await?;

    Workload::new("victim").replicas(2).gang("2").queue("b").make(&client).await?;
    wait_running(&client, "victim", 2, 10).await?;
    let victim = meet(&client).await?;
    // The requests that the tenant has the right to work as usual, by its own client and through our controller.
    must(&tenant, &request::deployment("own", "a")).await?;
    must(&tenant, &request::own_group()).await?;
    let own = wait_own_pod(&client, "own").await?;

    one_event_and_a_later_right(&client, &tenant).await?;

    let before = state_of_victim(&client, &victim).await?;
    let controller = kubeconfig::client_as(w.cluster().kubeconfig(), &chart::user(chart::CONTROLLER)).await?;
    let (by_tenant, by_controller) = everything(&victim, &own);
    let mut wrong = tried(&tenant, by_tenant).await?;
    wrong.extend(tried(&controller, by_controller).await?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    indirect::no_pods_from_templates(&client).await?;
    debug::tells_nothing(w).await?;
    holds_for(secs(4), "the objects of the other tenant are unchanged", || async {
        let now = state_of_victim(&client, &victim).await?;
        Ok(Seen::when(now == before, || format!("before: {before}\nnow: {now}")))
    })
    .await?;
    scale(&client, "victim", 4).await?;
    wait_running(&client, "victim", 4, 10).await?;
    let taken = field(&queues(&client).get("a").await?, "/status/allocated/cpu");
    ensure!(taken.as_str().is_some_and(|cpu| ["1", "2", "3", "4"].contains(&cpu)), "queue a, which has 4, uses {taken}");
    for template in indirect::TEMPLATES {
        must(&tenant, &request::end_of(template.plural, template.name)).await?;
    }
    // Otherwise the observer would report, at the end, an owner of a refused PodGroup.
    must(&tenant, &request::end_of("deployments", "stealer")).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), OWN);
    wait_until(secs(10), "the pods without a PodGroup are gone", || async {
        let left = pods.list(&ListParams::default().labels("app=stealer")).await?.items.len();
        Ok(Seen::when(left == 0, || format!("{left}")))
    })
    .await
}

/// Returns all attempts in the table of docs/tenancy.md: by the tenant, and by our controller.
fn everything(victim: &Victim, own: &str) -> (Vec<Attempt>, Vec<Attempt>) {
    let mut by_tenant = attempts::all(victim, own);
    by_tenant.extend(indirect::templates());
    by_tenant.extend(indirect::of_long_by_tenant());
    (by_tenant, indirect::of_long_by_controller())
}

/// Sends all attempts and returns each that has another outcome than expected.
async fn tried(client: &Client, attempts: Vec<Attempt>) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for attempt in attempts {
        let outcome = request::send(client, &attempt).await?;
        if !outcome.is_as(&attempt.expected) {
            wrong.push(format!("{}: expected {:?}, got {outcome:?}", attempt.what, attempt.expected));
        }
    }
    Ok(wrong)
}

/// A Deployment in a queue that its namespace may not use: no PodGroup, one Event on the Deployment with the reason, and other owners are served.
/// Once the right exists, the PodGroup is created without a change of the Deployment.
async fn one_event_and_a_later_right(client: &Client, tenant: &Client) -> Result<()> {
    must(tenant, &request::deployment("early", "c")).await?;
    let events = || async {
        let events: Api<Event> = Api::namespaced(client.clone(), OWN);
        let about = ListParams::default().fields("involvedObject.name=early,reason=PodGroupRefused");
        Ok::<_, kube::Error>(
            events.list(&about).await?.items.into_iter().map(|event| event.message.unwrap_or_default()).collect::<Vec<_>>(),
        )
    };
    let why = "queue c may not be used: ServiceAccount default of this namespace lacks the verb use on it";
    wait_until(secs(10), "an Event on the Deployment says why it has no PodGroup", || async {
        let events = events().await?;
        Ok(Seen::when(events.iter().any(|message| message.contains(why)), || format!("{events:?}")))
    })
    .await?;
    must(tenant, &request::deployment("beside", "a")).await?;
    wait_own_pod(client, "beside").await?;
    let events = events().await?;
    ensure!(events.len() == 1, "expected one Event: {events:?}");
    may_use(client, "c", json!([account(OWN)])).await?;
    wait_until(secs(60), "the PodGroup is created after the right exists", || async {
        let groups = podgroups_in(client, OWN).list(&ListParams::default()).await?;
        let found = groups.iter().any(|group| field(group, "/spec/queue") == "c");
        Ok(Seen::when(found, || format!("{} PodGroups, none in c", groups.items.len())))
    })
    .await
}

async fn must(tenant: &Client, attempt: &Attempt) -> Result<()> {
    let outcome = request::send(tenant, attempt).await?;
    ensure!(matches!(outcome, Outcome::Taken), "{}: {outcome:?}", attempt.what);
    Ok(())
}

async fn make_tenant(client: &Client) -> Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": OWN}}))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": TENANT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}],
    }))?;
    Api::<RoleBinding>::namespaced(client.clone(), OWN).create(&PostParams::default(), &binding).await?;
    Ok(())
}

fn account(namespace: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": namespace, "name": "default"})
}

/// Gives the right to use a queue, as docs/tenancy.md describes.
async fn may_use(client: &Client, queue: &str, subjects: Value) -> Result<()> {
    let name = format!("use-{queue}");
    let rule = json!({"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "resourceNames": [queue], "verbs": ["use"]});
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": name}, "rules": [rule]}))?;
    Api::<ClusterRole>::all(client.clone()).create(&PostParams::default(), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": subjects,
    }))?;
    Api::<ClusterRoleBinding>::all(client.clone()).create(&PostParams::default(), &binding).await?;
    Ok(())
}

async fn meet(client: &Client) -> Result<Victim> {
    let group = wait_one_group(client, "victim", 10).await?.name_any();
    let set = live_replica_sets(client, "victim").await?.pop().context("the victim has no ReplicaSet")?;
    let pod = pods_of(client, "victim").await?.pop().context("the victim has no pod")?.name_any();
    let deployment = deployments(client).get("victim").await?.uid().unwrap_or_default();
    Ok(Victim { group, set: set.name_any(), uid: set.uid().unwrap_or_default(), deployment, pod })
}

/// Returns everything of the other tenant that must not change.
async fn state_of_victim(client: &Client, victim: &Victim) -> Result<Value> {
    let mut pods: Vec<_> = pods_of(client, "victim").await?.iter().map(|pod| json!([pod.uid(), pod.spec, pod.annotations()])).collect();
    pods.sort_by_key(ToString::to_string);
    let whole = |object: DynamicObject, of_status: &str| {
        json!([object.uid(), object.labels(), object.annotations(), field(&object, "/spec"), field(&object, of_status)])
    };
    let group = whole(podgroups(client).get(&victim.group).await?, "/status/phase");
    let queue = whole(queues(client).get("b").await?, "/status/allocated");
    Ok(json!({"pods": pods, "group": group, "queue": queue}))
}

/// Waits until the pod of the tenant's Deployment runs; returns its name.
async fn wait_own_pod(client: &Client, name: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), OWN);
    let of_it = ListParams::default().labels(&format!("app={name}"));
    wait_until(secs(10), &format!("the tenant's own {name} runs"), || async {
        let pods = pods.list(&of_it).await?.items;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        let runs = pods.iter().find(|pod| phase(pod).as_deref() == Some("Running"));
        Ok(match runs {
            Some(pod) => Seen::Yes(pod.name_any()),
            None => Seen::NotYet(format!("{:?}", pods.iter().map(phase).collect::<Vec<_>>())),
        })
    })
    .await
}
