//! Row H3: the fault proxy injects each kind of fault as described, as a kube client sees it, with a real API server.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use futures::{Stream, StreamExt};
use http_body_util::BodyExt;
use hyper::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Api, Client, Error, ResourceExt};
use tokio::time::{Instant, timeout};

use crate::faults::{Fault, HttpProxy, Refusal, Rule, StreamFault, Verb};
use crate::kubeconfig;
use crate::objects::NAMESPACE;
use crate::wait::{Seen, holds_until, millis, secs, wait_until};
use crate::world::World;

/// The proxy, and a direct and a proxied client for the same objects.
struct Lab {
    proxy: HttpProxy,
    through: Api<ConfigMap>,
    truth: Api<ConfigMap>,
}

/// Injects every kind of fault, one after the other.
pub(super) async fn each_kind_is_as_described(w: &mut World) -> Result<()> {
    let lab = Lab::new(w).await?;
    // This is the first step: a later `end_faults` would wait for the `Retry-After` of an hour.
    lab.lateness().await.context("lateness")?;
    lab.refusals().await.context("refusals")?;
    lab.delays().await.context("delays")?;
    lab.cuts().await.context("cuts")?;
    lab.ends_of_watches().await.context("ends of watches")?;
    lab.held_events().await.context("held events")?;
    lab.old_views().await.context("old views")?;
    let never = lab.proxy.never_injected();
    ensure!(never.is_empty(), "never injected: {never:?}");
    Ok(())
}

impl Lab {
    async fn new(w: &World) -> Result<Self> {
        // A token and no certificate, because TLS ends at the proxy.
        w.cluster().run("kubectl", &["create", "serviceaccount", "lab"]).await?;
        let admin = ["create", "clusterrolebinding", "lab", "--clusterrole=cluster-admin", "--serviceaccount=default:lab"];
        w.cluster().run("kubectl", &admin).await?;
        let token = w.cluster().run("kubectl", &["create", "token", "lab"]).await?;
        let (server, _) = kubeconfig::door(w.cluster().kubeconfig())?;
        let logs = w.cluster().scratch().path("logs");
        let proxy = HttpProxy::start(w.cluster().kubeconfig(), server, &logs, "lab").await?;
        let file = w.cluster().scratch().path("kubeconfig-lab");
        kubeconfig::write(&file, proxy.port(), proxy.authority(), token.trim(), NAMESPACE)?;
        let mut config = kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(&file)?, &KubeConfigOptions::default()).await?;
        // The programs' clients do not retry either, and a retry would hide the response.
        config.default_retry = false;
        let through = Api::namespaced(Client::try_from(config)?, NAMESPACE);
        Ok(Self { proxy, through, truth: Api::namespaced(w.client(), NAMESPACE) })
    }

    /// Injects a fault into the next request with this verb.
    fn next(&self, verb: Verb, fault: Fault) {
        self.proxy.rule(Rule { verb: Some(verb), resource: "configmaps", name: None, fault, times: 1 });
    }

    async fn create(&self, name: &str) -> Result<ConfigMap, Error> {
        let object = ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() };
        self.through.create(&PostParams::default(), &object).await
    }

    async fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.truth.get_opt(name).await?.is_some())
    }

    async fn refusals(&self) -> Result<()> {
        let many = |after, plain| Refusal::TooMany { after, plain };
        for (refusal, code, reason, after) in [
            (Refusal::Conflict, 409, "Conflict", 0),
            (Refusal::Expired, 410, "Expired", 0),
            (many(2, false), 429, "TooManyRequests", 2),
            (many(3600, false), 429, "TooManyRequests", 3600),
            (many(1, true), 429, "", 0),
            (Refusal::Internal, 500, "InternalError", 0),
            (Refusal::Gateway, 502, "", 0),
            (Refusal::Unavailable, 503, "ServiceUnavailable", 0),
            (Refusal::Timeout, 504, "Timeout", 0),
        ] {
            self.next(Verb::Create, Fault::Refuse(refusal));
            let status = refused(self.create("refused").await)?;
            let said = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            ensure!(status.code == code && said == after, "{refusal:?} was {status:?}");
            // For a response that is not a Status the client makes up a reason.
            ensure!(reason.is_empty() || status.reason == reason, "{refusal:?} was {status:?}");
            ensure!(!self.exists("refused").await?, "{refusal:?} was returned, but the request was handled");
        }
        self.create("refused").await.context("a request after all refusals")?;
        Ok(())
    }

    async fn delays(&self) -> Result<()> {
        self.next(Verb::Create, Fault::DelayRequest(millis(1500)));
        let (start, made) = (Instant::now(), self.create("slow-request"));
        let (made, early) = tokio::join!(made, async {
            tokio::time::sleep(millis(200)).await;
            // A request at a time when the delay may be over proves nothing.
            let there = self.exists("slow-request").await?;
            anyhow::Ok(there && start.elapsed() < millis(1500))
        });
        made?;
        ensure!(!early? && start.elapsed() >= millis(1500), "a delayed request arrived after {:?}", start.elapsed());

        self.next(Verb::Create, Fault::DelayResponse(millis(3000)));
        let start = Instant::now();
        let answered = AtomicBool::new(false);
        let make = async {
            let made = self.create("slow-answer").await;
            answered.store(true, Ordering::Relaxed);
            made
        };
        let seen = wait_until(secs(10), "the object exists before its response arrives", || async {
            let there = self.exists("slow-answer").await?;
            Ok(Seen::when(there && !answered.load(Ordering::Relaxed), || {
                format!("it exists: {there}, the response came: {}", answered.load(Ordering::Relaxed))
            }))
        });
        let (made, seen) = tokio::join!(make, seen);
        made?;
        ensure!(start.elapsed() >= millis(3000), "a delayed response arrived after {:?}", start.elapsed());
        seen
    }

    async fn cuts(&self) -> Result<()> {
        for (fault, done) in [(Fault::CutBefore, false), (Fault::CutMiddle, true), (Fault::LoseReply, true)] {
            let name = fault.kind();
            self.next(Verb::Create, fault);
            match self.create(name).await {
                Err(Error::Api(status)) => bail!("{name} was answered: {status:?}"),
                Err(_) => {}
                Ok(_) => bail!("{name} was answered"),
            }
            ensure!(self.exists(name).await? == done, "{name}: expected handled = {done}, found {}", !done);
        }
        Ok(())
    }

    async fn lateness(&self) -> Result<()> {
        let done = Instant::now() + secs(3);
        self.next(Verb::Create, Fault::Late(secs(3)));
        let status = refused(self.create("late").await)?;
        ensure!(status.code == 504, "{status:?}");
        holds_until(done, "the late request is not handled yet", || async {
            Ok(Seen::when(!self.exists("late").await?, || "it is handled".to_owned()))
        })
        .await?;
        // `end_faults` waits until the late request has arrived.
        self.proxy.end_faults().await?;
        ensure!(self.exists("late").await?, "the late request was never handled");
        Ok(())
    }

    async fn ends_of_watches(&self) -> Result<()> {
        self.next(Verb::Watch, Fault::Refuse(Refusal::Expired));
        let Err(Error::Api(status)) = self.watch("1").await.map(drop) else { bail!("a refused watch was opened") };
        ensure!(status.code == 410, "{status:?}");
        for (what, code) in [(StreamFault::Close, 0), (StreamFault::Cut, 0), (StreamFault::Expire, 410), (StreamFault::Error, 500)] {
            for (after, events) in [(0, 0), (4000, 1)] {
                let version = self.version().await?;
                let name = format!("{}-{after}", what.kind());
                self.create(&name).await?;
                self.next(Verb::Watch, Fault::Stream(millis(after), what));
                let stream = self.watch(&version).await?;
                let seen = until_the_end(stream).await?;
                let told = seen.iter().filter(|each| **each == format!("added {name}")).count();
                ensure!(told == events, "{what:?} after {after} ms: {seen:?}");
                let end = seen.last().map_or("", String::as_str);
                let right = match what {
                    // The client reports a cut as an end: see below.
                    StreamFault::Close | StreamFault::Cut => end.is_empty() || end.starts_with("added"),
                    StreamFault::Expire | StreamFault::Error => end == format!("error {code}"),
                    StreamFault::Hold(_) | StreamFault::Silent(_) | StreamFault::OldView(_) => false,
                };
                ensure!(right, "{what:?} after {after} ms: {seen:?}");
            }
        }
        for (what, clean) in [(StreamFault::Close, true), (StreamFault::Cut, false)] {
            self.next(Verb::Watch, Fault::Stream(millis(500), what));
            let path = format!("{}?watch=true&resourceVersion={}", self.through.resource_url(), self.version().await?);
            let answer = self.through.clone().into_client().send(Request::get(path).body(kube::client::Body::empty())?).await?;
            let end = timeout(secs(10), answer.into_body().collect()).await.context("the watch does not end")?;
            ensure!(end.is_ok() == clean, "on the wire {what:?} was {:?}", end.map(|_| ()));
        }
        Ok(())
    }

    /// While events are held, only bookmarks of the sent version come; then all events come in order.
    async fn held_events(&self) -> Result<()> {
        let version = self.version().await?;
        let first = self.create("held-0").await?;
        self.next(Verb::Watch, Fault::Stream(secs(3), StreamFault::Hold(secs(6))));
        let mut stream = self.watch(&version).await?.boxed();
        let WatchEvent::Added(_) = next(&mut stream).await? else { bail!("the first event does not arrive") };
        let WatchEvent::Bookmark(mark) = next(&mut stream).await? else { bail!("an event came where only bookmarks are allowed") };
        ensure!(
            Some(&mark.metadata.resource_version) == first.metadata.resource_version.as_ref(),
            "the bookmark has version {}",
            mark.metadata.resource_version
        );
        let start = Instant::now();
        self.create("held-1").await?;
        let second = self.through.patch("held-1", &PatchParams::default(), &Patch::Merge(serde_json::json!({"data": {"a": "b"}}))).await?;
        let (mut events, mut marks) = (Vec::new(), 0);
        while events.len() < 2 {
            match next(&mut stream).await? {
                WatchEvent::Bookmark(mark) => {
                    ensure!(
                        Some(mark.metadata.resource_version) == first.metadata.resource_version,
                        "a bookmark has the version of a held event"
                    );
                    marks += 1;
                }
                WatchEvent::Added(object) | WatchEvent::Modified(object) => events.push(object),
                other @ (WatchEvent::Deleted(_) | WatchEvent::Error(_)) => bail!("{other:?}"),
            }
        }
        ensure!(marks >= 1 && start.elapsed() >= secs(1), "{marks} bookmarks, and the events came after {:?}", start.elapsed());
        ensure!(events.first().is_some_and(|object| object.data.is_none()), "out of order: {events:?}");
        ensure!(events.last().and_then(ResourceExt::resource_version) == second.resource_version(), "out of order: {events:?}");
        Ok(())
    }

    /// The list after the watch shows the old state. A list that no watch follows shows the present. The watch from the old state sends the
    /// later events again.
    async fn old_views(&self) -> Result<()> {
        let version = self.version().await?;
        self.next(Verb::Watch, Fault::Stream(millis(0), StreamFault::OldView(secs(5))));
        let stream = self.watch(&version).await?.boxed();
        // The state is stored before the first bytes of the watch are read, so later changes are not in it.
        let mut stream = stream;
        let made = async {
            tokio::time::sleep(millis(500)).await;
            self.create("after-the-view").await
        };
        let (made, first) = tokio::join!(made, next(&mut stream));
        made?;
        ensure!(matches!(first?, WatchEvent::Added(object) if object.name_any() == "after-the-view"), "the event did not arrive");
        ensure!(matches!(next(&mut stream).await?, WatchEvent::Error(status) if status.code == 410), "the watch does not end");
        let has = |list: &kube::core::ObjectList<ConfigMap>| list.iter().any(|object| object.name_any() == "after-the-view");
        let look = self.through.list(&ListParams::default().fields("metadata.name!=other")).await?;
        ensure!(has(&look), "a list that no watch follows was answered with an old state");
        let old = self.through.list(&ListParams::default()).await?;
        ensure!(!has(&old) && !old.items.is_empty(), "the list shows the present state");
        let mut again = self.watch(&old.metadata.resource_version.unwrap_or_default()).await?.boxed();
        ensure!(
            matches!(next(&mut again).await?, WatchEvent::Added(object) if object.name_any() == "after-the-view"),
            "the event did not arrive again"
        );
        ensure!(has(&self.through.list(&ListParams::default()).await?), "the old state was sent twice");
        Ok(())
    }

    async fn version(&self) -> Result<String> {
        self.truth.list(&ListParams::default()).await?.metadata.resource_version.context("a version")
    }

    async fn watch(&self, version: &str) -> Result<impl Stream<Item = Result<WatchEvent<ConfigMap>, Error>> + use<>, Error> {
        self.through.watch(&WatchParams::default(), version).await
    }
}

fn refused(outcome: Result<ConfigMap, Error>) -> Result<Box<Status>> {
    match outcome {
        Err(Error::Api(status)) => Ok(status),
        other => bail!("expected a refusal: {other:?}"),
    }
}

async fn next(stream: &mut (impl Stream<Item = Result<WatchEvent<ConfigMap>, Error>> + Unpin)) -> Result<WatchEvent<ConfigMap>> {
    Ok(timeout(secs(10), stream.next()).await.context("no event arrives")?.context("the watch ended")??)
}

/// Returns the events of a watch until it ends, as one or two words each.
async fn until_the_end(stream: impl Stream<Item = Result<WatchEvent<ConfigMap>, Error>>) -> Result<Vec<String>> {
    let all = stream.map(|event| match event {
        Ok(WatchEvent::Added(object)) => format!("added {}", object.name_any()),
        Ok(WatchEvent::Error(status)) => format!("error {}", status.code),
        Ok(other) => format!("{other:?}"),
        Err(_) => "broken".to_owned(),
    });
    timeout(secs(10), all.collect()).await.context("the watch does not end")
}
