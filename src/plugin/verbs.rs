//! Runs the verbs: reads what each needs, and makes its answer.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use axum::http::{Request, header};
use futures::join;
use serde_json::Value;

use crate::api::names::{CONTROLLER, SCHEDULER};
use crate::api::workload::{Namespace, NamespaceLabels};
use crate::api::{GroupFacts, Node, NodeFacts, Pod, PodFacts, PodGroup, Queue, QueueFacts};
use crate::resources::Resources;
use crate::runtime::call::call;
use crate::runtime::clock;

use super::answers::{self, Answers};
use super::audit;
use super::connect::{Bearer, connect};
use super::desired::{self, Desired};
use super::events::{self, Event};
use super::fetch::{Fetch, escaped, told};
use super::find::find;
use super::flags::{Arguments, Common, Kind, Named, Output, QueueChange, Target, Verb};
use super::gap::Gap;
use super::nodes;
use super::page::Page;
use super::queues::Queues;
use super::scheduler::{self, Scheduler};
use super::{tree, version, why};
use crate::nearest::nearest;

/// The path of the list of queues.
pub(super) const QUEUES: &str = "/apis/scheduling.volcano.sh/v1beta1/queues";

/// How long a queue's status is watched after a change of its state.
const NOTICED_WITHIN: Duration = Duration::from_secs(5);

/// How often the status is read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What is printed, in both forms, and the exit status.
pub struct Answer {
    /// The text for people.
    pub page: Page,
    /// The JSON for programs.
    pub json: Value,
    /// The exit status.
    pub code: ExitCode,
}

/// Answers a command line.
///
/// # Errors
///
/// In one line, why there is no answer.
pub async fn answer(arguments: Arguments) -> Result<Answer, String> {
    let Arguments { common, verb } = arguments;
    let connection = connect(&common).await?;
    let shell = Shell {
        fetch: Fetch::new(connection.client, common.request_timeout),
        namespace: connection.namespace,
        bearer: connection.bearer,
        wide: common.output == Output::Wide,
        common,
    };
    match verb {
        Verb::Why { target } => shell.why(&target).await,
        Verb::Tree { groups } => shell.tree(groups).await,
        Verb::Nodes => shell.nodes().await,
        Verb::Queue { change: QueueChange::Open(named) } => shell.queue(&named, Desired::Open).await,
        Verb::Queue { change: QueueChange::Close(named) } => shell.queue(&named, Desired::Closed).await,
        Verb::Audit => shell.audit().await,
        Verb::Version => Ok(shell.version().await),
        Verb::Completion { .. } => Err("completion needs no cluster".to_owned()),
    }
}

struct Shell {
    fetch: Fetch,
    common: Common,
    namespace: String,
    bearer: Bearer,
    wide: bool,
}

impl Shell {
    async fn why(&self, target: &Target) -> Result<Answer, String> {
        let mut gaps = Vec::new();
        let found = match find(&self.fetch, &self.namespace, target, &mut gaps).await? {
            Ok(found) => found,
            Err(absent) => {
                let (events, more) = self.events(absent.uids()).await;
                gaps.extend(more);
                let controller = if absent.is_explained() { None } else { self.idle_controller(&mut gaps).await };
                let absent = absent.told(events, gaps, controller);
                return Ok(Answer { page: absent.page(), json: absent.json(), code: ExitCode::FAILURE });
            }
        };
        let (queues, nodes, pods, events, answer) =
            join!(self.queues(), self.node_facts(), self.pods(), self.events(&found.uids), self.ask("queues"));
        let (answers, of_answers) = answer;
        let (pods, all_pods, of_pods) = pods;
        let selects = |pod: &PodFacts| pod.terms.reads_namespace_labels();
        let namespaces = if pods.iter().flatten().any(selects) { self.namespaces().await } else { (Some(Vec::new()), Vec::new()) };
        let of_claims = self.events_of_claims(&why::claims_without_volume(&found.group, pods.iter().flatten())).await;
        for more in [queues.1, nodes.1, of_pods, namespaces.1, events.1, of_claims.1, of_answers] {
            gaps.extend(more);
        }
        let facts = why::Facts {
            answer: answers.waiting.get(&found.group.key.to_string()).cloned(),
            group: found.group,
            owner: found.owner,
            others: found.others,
            pods,
            all_pods,
            nodes: nodes.0,
            namespaces: namespaces.0,
            queues: queues.0.map(|queues| Queues::new(queues, answers.queues)),
            events: [of_claims.0, events.0].concat(),
            gaps,
        };
        let report = why::Report::of(facts, clock::now());
        Ok(Answer { page: report.page(self.wide), json: report.json(), code: ExitCode::SUCCESS })
    }

    /// Returns why the controller does not work at this moment. A Lease that cannot be read is a gap.
    async fn idle_controller(&self, gaps: &mut Vec<Gap>) -> Option<String> {
        match scheduler::lease(&self.fetch, self.common.system_namespace.as_deref(), CONTROLLER).await {
            Ok(lease) => version::not_working(CONTROLLER, lease, clock::now()),
            Err(why) => {
                gaps.push(Gap::new(format!("whether {CONTROLLER} works"), why));
                None
            }
        }
    }

    async fn tree(&self, with_groups: bool) -> Result<Answer, String> {
        let groups = async {
            if !with_groups {
                return (None, Vec::new(), None, Vec::new());
            }
            let ((groups, of_groups), (pods, _, of_pods)) = join!(self.groups(), self.pods());
            (groups, of_groups, pods, of_pods)
        };
        let (queues, nodes, answer, groups) = join!(self.queues(), self.node_facts(), self.ask("queues"), groups);
        let Some(facts) = queues.0 else { return Err(first(&queues.1)) };
        let (answers, of_answers) = answer;
        let (groups, of_groups, pods, of_pods) = groups;
        let gaps = [queues.1, nodes.1, of_answers, of_groups, of_pods].concat();
        let mut total = Resources::new();
        nodes.0.iter().flatten().for_each(|node| total.add(&node.allocatable));
        let queues = Queues::new(facts, answers.queues);
        let report = tree::Report::new(&queues, &total, groups.as_deref(), pods.as_deref(), gaps, clock::now());
        Ok(Answer { page: report.page(self.wide), json: report.json(), code: ExitCode::SUCCESS })
    }

    async fn nodes(&self) -> Result<Answer, String> {
        let (nodes, (pods, all_pods, of_pods), (answers, of_answers)) = join!(self.node_facts(), self.pods(), self.ask("ledger"));
        let Some(facts) = nodes.0 else { return Err(first(&nodes.1)) };
        let gaps = [nodes.1, of_pods, of_answers].concat();
        let pods = pods.filter(|_| all_pods);
        let report = nodes::Report::new(&facts, pods.as_deref(), &answers, gaps);
        Ok(Answer { page: report.page(self.wide), json: report.json(), code: ExitCode::SUCCESS })
    }

    async fn queue(&self, named: &Named, desired: Desired) -> Result<Answer, String> {
        let name = &named.name;
        let (facts, gaps) = self.queues().await;
        let Some(facts) = facts else { return Err(first(&gaps)) };
        let queues = Queues::new(facts, None);
        if queues.facts(name).is_none() {
            let meant = nearest(name, queues.names()).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            return Err(format!("there is no queue {name}{meant} (kubectl podgroup tree lists them)"));
        }
        let mut report = desired::Report::new(&queues, name, desired, named.dry_run, gaps);
        if !report.is_done() {
            let path = format!("{QUEUES}/{name}");
            let body = desired.patch().to_string().into_bytes();
            let request = Request::patch(&path).header(header::CONTENT_TYPE, "application/merge-patch+json").body(body);
            let request = request.map_err(|error| format!("queue {name}: {error}"))?;
            call(self.fetch.limit(), self.fetch.client().request_text(request))
                .await
                .map_err(|error| format!("queue {name}: {}", told(&error)))?;
            let state = self.noticed(&report, &path).await;
            report = report.seen(state);
        }
        Ok(Answer { page: report.page(), json: report.json(), code: ExitCode::SUCCESS })
    }

    /// Returns the state of the queue once its status follows the request; `None` if it does not within [`NOTICED_WITHIN`].
    async fn noticed(&self, report: &desired::Report, path: &str) -> Option<String> {
        let looks = async {
            loop {
                let object = self.fetch.get(path).await.ok().flatten();
                let state = object.as_ref().and_then(|object| object.pointer("/status/state")?.as_str());
                if let Some(state) = state.filter(|state| report.is_noticed(state)) {
                    return state.to_owned();
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(NOTICED_WITHIN, looks).await.ok()
    }

    async fn audit(&self) -> Result<Answer, String> {
        let cannot = |why: String| format!("only the scheduler knows its audit, and it cannot be asked: {why}");
        let scheduler = Scheduler::find(&self.common, &self.fetch, &self.bearer).await.map_err(cannot)?;
        let answer = scheduler.ask("/debug/audit").await.map_err(cannot)?;
        let report = audit::Report::of(&answer).ok_or("the scheduler's answer is no audit: is it of another version?")?;
        let code = if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        Ok(Answer { page: report.page(), json: report.json(), code })
    }

    async fn version(&self) -> Answer {
        let lease = |program| scheduler::lease(&self.fetch, self.common.system_namespace.as_deref(), program);
        let (controller, scheduler) = join!(lease(CONTROLLER), lease(SCHEDULER));
        let report = version::Report::of(controller, scheduler, clock::now());
        Answer { page: report.page(), json: report.json(), code: ExitCode::SUCCESS }
    }

    async fn queues(&self) -> (Option<Vec<QueueFacts>>, Vec<Gap>) {
        let mut gaps = Vec::new();
        (self.fetch.all("queues", QUEUES, "", &mut gaps, QueueFacts::of as fn(&Queue) -> _).await, gaps)
    }

    async fn node_facts(&self) -> (Option<Vec<NodeFacts>>, Vec<Gap>) {
        let mut gaps = Vec::new();
        (self.fetch.all("nodes", "/api/v1/nodes", "", &mut gaps, NodeFacts::of as fn(&Node) -> _).await, gaps)
    }

    async fn namespaces(&self) -> (Option<Vec<NamespaceLabels>>, Vec<Gap>) {
        let mut gaps = Vec::new();
        let of: fn(&Namespace) -> NamespaceLabels = NamespaceLabels::of;
        (self.fetch.all("namespaces", "/api/v1/namespaces", "", &mut gaps, of).await, gaps)
    }

    /// Returns the pods of the cluster, or those of the namespace where only these may be listed; the second value says which.
    async fn pods(&self) -> (Option<Vec<PodFacts>>, bool, Vec<Gap>) {
        let mut gaps = Vec::new();
        let of: fn(&Pod) -> PodFacts = PodFacts::of;
        if let Some(pods) = self.fetch.all("pods of all namespaces", &Kind::Pod.path(None), "", &mut gaps, of).await {
            return (Some(pods), true, gaps);
        }
        (self.fetch.all("pods", &Kind::Pod.path(Some(&self.namespace)), "", &mut gaps, of).await, false, gaps)
    }

    /// Returns the PodGroups of the cluster, or of the namespace.
    async fn groups(&self) -> (Option<Vec<GroupFacts>>, Vec<Gap>) {
        let mut gaps = Vec::new();
        let of: fn(&PodGroup) -> GroupFacts = GroupFacts::of;
        let mut groups = self.fetch.all("PodGroups of all namespaces", &Kind::PodGroup.path(None), "", &mut gaps, of).await;
        if groups.is_none() {
            groups = self.fetch.all("PodGroups", &Kind::PodGroup.path(Some(&self.namespace)), "", &mut gaps, of).await;
        }
        (groups, gaps)
    }

    async fn events(&self, uids: &[String]) -> (Vec<Event>, Vec<Gap>) {
        let (mut all, mut gaps) = (Vec::new(), Vec::new());
        for uid in uids {
            let query = format!("&fieldSelector=involvedObject.uid%3D{}", escaped(uid));
            let path = format!("/api/v1/namespaces/{}/events", self.namespace);
            match self.fetch.list(&path, &query).await {
                Ok(events) => all.extend(events.iter().map(Event::of)),
                Err(error) if gaps.is_empty() => gaps.push(Gap::new("Events", told(&error))),
                Err(_) => {}
            }
        }
        (events::newest(all), gaps)
    }

    /// Returns what provisioners say of these claims. Sends nothing where there is none.
    async fn events_of_claims(&self, claims: &BTreeSet<&str>) -> (Vec<Event>, Vec<Gap>) {
        if claims.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let query = format!("&fieldSelector={}", escaped(events::OF_PROVISIONERS));
        match self.fetch.list(&format!("/api/v1/namespaces/{}/events", self.namespace), &query).await {
            Ok(events) => (events::of_claims(&events, claims), Vec::new()),
            Err(error) => (Vec::new(), vec![Gap::new("what the provisioners of its claims say (Events)", told(&error))]),
        }
    }

    /// Returns the scheduler's answer at `/debug/queues` or `/debug/ledger`; where it cannot be asked, the gaps.
    async fn ask(&self, what: &'static str) -> (Answers, Vec<Gap>) {
        let mut gaps = Vec::new();
        let mut answers = Answers::default();
        let answer = async { Scheduler::find(&self.common, &self.fetch, &self.bearer).await?.ask(&format!("/debug/{what}")).await };
        match (answer.await, what) {
            (Ok(answer), "queues") => {
                answers.queues = Some(answers::queues(&answer, &mut gaps));
                answers.waiting = answers::waiting(&answer);
            }
            (Ok(answer), _) => answers.nodes = Some(answers::nodes(&answer, &mut gaps)),
            (Err(why), "queues") => {
                gaps.push(Gap::new("what only the scheduler knows (reservations, shares, what is kept for guarantees)", why))
            }
            (Err(why), _) => gaps.push(Gap::new("what only the scheduler knows (what is kept on nodes for gangs)", why)),
        }
        (answers, gaps)
    }
}

/// Returns why there is no answer at all.
fn first(gaps: &[Gap]) -> String {
    gaps.first().map(|gap| format!("{}: {}", gap.what, gap.why)).unwrap_or_default()
}
