//! Row E6: LeaderWorkerSet 0.6.0, which creates no PodGroup. The user asks for one for each group of a leader and its workers.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::lws::{FLAG, WEBHOOKS, restart_container};
use super::{
    Page, apply, as_read, change, delete_owner_first, group_names, is_their_example, kind_of, pods, uid, variant, wait_minimum,
    wait_nothing, wait_owners, wait_replaced, wait_running, wait_whole, with_spec,
};
use crate::cases::seen::{accounting_matches_api, group_says, queue_uses};
use crate::objects::{field, has_node, make_node, podgroups};
use crate::operator::{Names, Operator};
use crate::wait::{Seen, holds_for, secs, wait_until};
use crate::workloads::MIN_MEMBER;
use crate::world::World;

const NAMES: Names = Names { operator: "lws-0.6.0", namespace: "lws-system", account: "lws-controller-manager" };

/// The LeaderWorkerSet of the page, and its pods.
const SET: &str = "leaderworkerset-sample";
const PODS: &str = "leaderworkerset.sigs.k8s.io/name=leaderworkerset-sample";
const GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";

/// The metadata of the only pod template.
const TEMPLATE: &str = "/spec/leaderWorkerTemplate/workerTemplate/metadata";

/// E6. First without the opt-in: our controller makes a PodGroup for each StatefulSet, and 11 of 12 pods start where there is room for 11.
/// Then with it: two groups of four run and the third waits. With room for all it runs, too. A container restarts, and its group starts
/// anew. The set is scaled and deleted, and leaves nothing. Last with workers that are created when their leader is ready.
pub(super) async fn set(w: &mut World) -> Result<()> {
    let client = w.client();
    make_node(&client, "n1", &[("cpu", "11"), ("memory", "64Gi")]).await?;
    let file = Page::read("leaderworkerset")?.file_after("Create it with ")?;
    let operator = Operator::serving(w.cluster(), NAMES, WEBHOOKS, vec![FLAG.to_owned()], "").await?;
    let sets = kind_of(&client, "leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet");
    let manifest = as_read(w.cluster(), &file, "LeaderWorkerSet").await?;
    is_their_example(w.cluster(), manifest, &operator, "LeaderWorkerSet").await?;

    apply(w.cluster(), &variant(w.cluster(), &file, "LeaderWorkerSet", &[(TEMPLATE, json!({}))]).await?).await?;
    without_opt_in(&client).await?;
    delete_owner_first(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;

    apply(w.cluster(), &file).await?;
    let waiting = two_groups_run(&client).await?;
    group_says(&client, &group_named(&client, &waiting).await?, "3 of 4 members find a place").await?;
    make_node(&client, "n2", &[("cpu", "5"), ("memory", "64Gi")]).await?;
    wait_running(&client, PODS, 12).await?;
    queue_uses(&client, "default", "cpu", "12").await?;
    one_for_each_group(&client, 3).await?;

    first_group_restarts(&client).await?;
    wait_running(&client, PODS, 12).await?;
    one_for_each_group(&client, 3).await?;

    change(&sets, SET, json!({"spec": {"replicas": 4}})).await?;
    wait_running(&client, PODS, 16).await?;
    one_for_each_group(&client, 4).await?;
    change(&sets, SET, json!({"spec": {"replicas": 2}})).await?;
    wait_running(&client, PODS, 8).await?;
    one_for_each_group(&client, 2).await?;
    delete_owner_first(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;
    queue_uses(&client, "default", "cpu", "0").await?;

    let ready = with_spec(w.cluster(), &file, "LeaderWorkerSet", &[("startupPolicy", json!("LeaderReady"))]).await?;
    apply(w.cluster(), &ready).await?;
    wait_whole(&client, PODS, 3).await?;
    group_says(&client, &group_named(&client, "0").await?, "the gang needs 4 members, 1 exist").await?;
    delete_owner_first(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;
    let alone = json!({"annotations": {"podgroup.dev/gang": "leaderworkerset", MIN_MEMBER: "1"}});
    apply(w.cluster(), &variant(w.cluster(), &ready, "LeaderWorkerSet", &[(TEMPLATE, alone)]).await?).await?;
    wait_running(&client, PODS, 12).await?;
    wait_minimum(&client, &group_named(&client, "0").await?, 1).await?;
    delete_owner_first(&sets, SET).await?;
    wait_nothing(&client, PODS).await?;
    accounting_matches_api(w).await?;
    operator.end().await
}

/// Waits until 11 of 12 pods run, and the PodGroups are those of four StatefulSets: one of the leaders, and one of the workers of each leader.
async fn without_opt_in(client: &Client) -> Result<()> {
    let owners = wait_owners(client, "StatefulSet", 4).await?;
    let expected: Vec<_> =
        [String::new()].into_iter().chain((0..3).map(|group| format!("-{group}"))).map(|part| format!("{SET}{part}")).collect();
    ensure!(owners == expected, "the owners of the PodGroups are {owners:?}");
    for group in podgroups(client).list(&ListParams::default()).await? {
        wait_minimum(client, &group.name_any(), 1).await?;
    }
    let eleven = || async {
        let all = pods(client, PODS).await?;
        let bound = all.iter().filter(|pod| has_node(pod)).count();
        Ok(Seen::when((bound, all.len()) == (11, 12), || format!("{bound} of {} pods have a node", all.len())))
    };
    wait_until(secs(20), "11 of 12 pods have a node", eleven).await?;
    holds_for(secs(2), "11 of 12 pods have a node", eleven).await
}

/// Waits until two of three groups have their nodes, then fails if a pod of the third gets one within two seconds. Returns the number of
/// the third group.
async fn two_groups_run(client: &Client) -> Result<String> {
    let state = || async {
        let mut bound: BTreeMap<String, usize> = BTreeMap::new();
        let all = pods(client, PODS).await?;
        for pod in &all {
            let group = pod.labels().get(GROUP).context("a pod has no number of its group")?.clone();
            *bound.entry(group).or_default() += usize::from(has_node(pod));
        }
        let mut counts: Vec<_> = bound.values().copied().collect();
        counts.sort_unstable();
        let waiting = bound.iter().find(|(_, bound)| **bound == 0).map(|(group, _)| group.clone());
        let right = all.len() == 12 && counts == [0, 4, 4];
        Ok(match waiting {
            Some(waiting) if right => Seen::Yes(waiting),
            _ => Seen::NotYet(format!("of {} pods these have nodes, by group: {bound:?}", all.len())),
        })
    };
    let waiting = wait_until(secs(20), "two of three groups have their nodes", state).await?;
    let same = || async { Ok(if let Seen::NotYet(why) = state().await? { Seen::NotYet(why) } else { Seen::Yes(()) }) };
    holds_for(secs(2), "no pod of the third group gets a node", same).await?;
    Ok(waiting)
}

/// Returns the name of the PodGroup of a group. It ends with the revision of the template.
async fn group_named(client: &Client, group: &str) -> Result<String> {
    let prefix = format!("lws-{SET}-{group}-");
    let names = group_names(client).await?;
    names.iter().find(|name| name.starts_with(&prefix)).cloned().with_context(|| format!("no PodGroup {prefix}…: {names:?}"))
}

/// Waits until each group has a PodGroup of its own, which its leader owns, and there is no other PodGroup.
async fn one_for_each_group(client: &Client, groups: usize) -> Result<()> {
    let leaders = wait_owners(client, "Pod", groups).await?;
    let expected: Vec<_> = (0..groups).map(|group| format!("{SET}-{group}")).collect();
    ensure!(leaders == expected, "the owners of the PodGroups are {leaders:?}");
    // The PodGroup of a former leader may exist for a moment.
    for (number, leader) in leaders.iter().enumerate() {
        wait_until(secs(20), &format!("{leader} owns the PodGroup of its group"), || async {
            let name = group_named(client, &number.to_string()).await?;
            let group = podgroups(client).get(&name).await?;
            let owner = group.owner_references().first().map(|owner| owner.uid.clone());
            // The admission policy writes the name onto the pods, also onto leaders, which get the number of their group from a webhook.
            let labelled = pods(client, &format!("podgroup.dev/group={name}")).await?.len();
            let right = owner == uid(client, leader).await? && field(&group, "/spec/minMember") == json!(4) && labelled == 4;
            Ok(Seen::when(right, || format!("{labelled} pods have the label with {name}: {group:?}")))
        })
        .await?;
    }
    Ok(())
}

/// A container of the first group restarts. The operator creates the pods of this group anew, and no others.
async fn first_group_restarts(client: &Client) -> Result<()> {
    let (leader, other) = (format!("{SET}-0"), format!("{SET}-1"));
    let (lost, kept) = (uid(client, &leader).await?, uid(client, &other).await?);
    restart_container(client, &format!("{SET}-0-2")).await?;
    wait_replaced(client, &leader, lost.as_deref()).await?;
    ensure!(uid(client, &other).await? == kept, "the other group was started anew as well");
    Ok(())
}
