//! Tests of the control of a proxy: rules come before mixes, and what was ordered must come.

use http_body_util::BodyExt;
use hyper::{HeaderMap, Method};

use super::super::carry::Sent;
use super::super::mix::Rate;
use super::super::stream;
use super::*;
use crate::wait::millis;

fn control() -> Arc<Control> {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let log = std::env::temp_dir().join(format!("faults-{}-{number}.log", std::process::id()));
    let control = Control::new(&log).unwrap();
    std::fs::remove_file(log).unwrap();
    Arc::new(control)
}

fn api_request(method: &str, uri: &str) -> ApiRequest {
    ApiRequest::read(&method.parse().unwrap(), &uri.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_mix_has_ended_when_delayed_requests_have_arrived_and_every_retry_after_is_over() {
    let control = control();
    let start = Instant::now();
    control.end_faults().await.unwrap();
    assert!(start.elapsed() < millis(1));
    let held = Arc::clone(&control);
    control.later(async move {
        let _held = held.count_delayed();
        tokio::time::sleep(secs(5)).await;
    });
    tokio::task::yield_now().await;
    control.end_faults().await.unwrap();
    assert!(start.elapsed() >= secs(5));
    let fault = Fault::Refuse(Refusal::TooMany { after: 3600, plain: false });
    control.add_rule(Rule { verb: None, resource: "pods", name: None, fault, times: 1 });
    assert_eq!(fault_of(&control, &api_request("GET", "/api/v1/pods")), Some(fault));
    assert_eq!(fault_of(&control, &api_request("GET", "/api/v1/pods")), None);
    let start = Instant::now();
    control.end_faults().await.unwrap();
    assert_eq!(start.elapsed().as_secs(), LONGEST_OBEYED.as_secs());
}

fn fault_of(control: &Control, request: &ApiRequest) -> Option<Fault> {
    control.decide(request).map(|(fault, _)| fault)
}

#[test]
fn a_long_retry_after_is_told_when_it_is_injected_and_not_before() {
    let (control, longer) = (control(), Arc::new(Mutex::new(Duration::ZERO)));
    let sum = Arc::clone(&longer);
    control.begin(Mix { seed: 1, rate: Rate { requests: 0, ..Rate::LOW } }, Told::new(move |more| *sum.lock().unwrap() += more));
    for (after, wanted) in [(1, Duration::ZERO), (3600, LONGEST_OBEYED)] {
        let fault = Fault::Refuse(Refusal::TooMany { after, plain: false });
        control.add_rule(Rule { verb: None, resource: "pods", name: None, fault, times: 1 });
        assert_eq!(fault_of(&control, &api_request("GET", "/api/v1/pods")), Some(fault));
        assert_eq!(*longer.lock().unwrap(), wanted);
    }
}

#[test]
fn a_fault_that_was_ordered_and_never_injected_is_named() {
    let control = control();
    assert!(control.never_injected().is_empty());
    let pods = api_request("GET", "/api/v1/pods");
    control.ledger.injected("500", &pods, "");
    let fault = Fault::Refuse(Refusal::Unavailable);
    control.add_rule(Rule { verb: None, resource: "pods", name: None, fault, times: 2 });
    assert_eq!(control.never_injected().len(), 1);
    assert_eq!(fault_of(&control, &pods), Some(fault));
    assert_eq!(control.never_injected().len(), 1, "decided, but not injected yet");
    control.ledger.injected("503", &pods, "");
    assert!(control.never_injected().is_empty(), "not every time that was ordered has to come");
}

#[test]
fn a_mix_deals_every_kind_to_few_requests_and_says_which_must_have_come() {
    let control = control();
    control.begin(Mix { seed: 5, rate: Rate { requests: 100, ..Rate::HIGH } }, Told::new(|_| ()));
    let [create, watch] =
        [("POST", "/api/v1/namespaces/n/pods"), ("GET", "/api/v1/nodes?watch=true")].map(|(method, uri)| api_request(method, uri));
    let mut kinds = BTreeSet::new();
    // A call does not fail five times in a row.
    while kinds.len() < 16 {
        let before = kinds.len();
        for request in [&create, &watch].into_iter().cycle().take(40) {
            kinds.extend(fault_of(&control, request).map(|fault| fault.kind()));
        }
        assert!(kinds.len() > before, "40 requests later still only {kinds:?}");
    }
    assert!(!control.due().contains("429-huge"), "one is enough");
    for _ in 0..200 {
        fault_of(&control, &create);
    }
    let mut due = control.due();
    assert!(due.contains("lost-reply") && !due.contains("watch-hold"), "{due:?}");
    for _ in 0..400 {
        control.next_of_stream(&watch).unwrap();
    }
    due = control.due();
    assert!(
        ["watch-close", "watch-cut", "watch-410", "watch-500", "watch-hold", "old-view"].iter().all(|kind| due.contains(kind)),
        "{due:?}"
    );
}

#[tokio::test]
async fn between_two_renewals_of_a_lease_at_most_one_call_fails() {
    let lease = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l";
    let mut most = 0;
    for seed in 0..50 {
        let (control, mut failed) = (control(), 0);
        control.begin(Mix { seed, rate: Rate { requests: 100, ..Rate::HIGH } }, Told::new(|_| ()));
        for method in ["GET", "PUT"].into_iter().cycle().take(100) {
            let fault = fault_of(&control, &api_request(method, lease));
            match fault {
                None | Some(Fault::DelayRequest(_) | Fault::DelayResponse(_)) if method == "PUT" => failed = 0,
                None | Some(Fault::DelayRequest(_) | Fault::DelayResponse(_)) => {}
                Some(_) => failed += 1,
            }
            most = most.max(failed);
        }
    }
    assert_eq!(most, 1);
}

#[tokio::test]
async fn an_end_between_the_decision_and_the_answer_of_the_server_ends_the_silence_of_the_watch() {
    let (control, uri) = (control(), "/api/v1/nodes?watch=true");
    // It is not asked: the answer is there.
    let server = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let sent = Sent { method: Method::GET, uri: uri.parse().unwrap(), headers: HeaderMap::new(), body: Bytes::new() };
    let silent = (control.generation(), Some((Duration::ZERO, StreamFault::Silent(secs(3600)))), None);
    control.end_faults().await.unwrap();
    let event = b"{\"type\":\"ADDED\",\"object\":{}}\n";
    let mut events = stream::relay(event.to_vec().into(), sent, api_request("GET", uri), silent, control, server);
    let frame = timeout(secs(5), events.frame()).await.expect("the event is not held back").unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), &event[..]);
}

#[tokio::test]
async fn a_watch_that_ends_before_its_fault_gives_it_back() {
    let (control, uri) = (control(), "/api/v1/pods?watch=true");
    let fault = Fault::Stream(Duration::ZERO, StreamFault::Close);
    control.add_rule(Rule { verb: Some(Verb::Watch), resource: "pods", name: None, fault, times: 1 });
    let server = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let open = || {
        let (fault, rule) = control.decide(&api_request("GET", uri))?;
        let Fault::Stream(after, what) = fault else { return None };
        let first = (control.generation(), Some((after, what)), rule.map(|rule| Unused::new(&control, rule)));
        let sent = Sent { method: Method::GET, uri: uri.parse().unwrap(), headers: HeaderMap::new(), body: Bytes::new() };
        // An event that is not sent before the fault.
        let body = b"{\"type\":\"ADDED\",\"object\":{}}\n".to_vec().into();
        Some(stream::relay(body, sent, api_request("GET", uri), first, Arc::clone(&control), server.clone()))
    };
    let cut = open().unwrap();
    assert!(open().is_none(), "once at a time");
    drop(cut);
    let mut injected = open().unwrap();
    assert!(timeout(secs(5), injected.frame()).await.unwrap().is_none());
    drop(injected);
    assert!(open().is_none());
}

#[test]
fn only_the_fault_of_a_watch_can_be_given_back() {
    let control = control();
    for (verb, fault) in [(Verb::List, Fault::DelayResponse(secs(1))), (Verb::Watch, Fault::Stream(secs(1), StreamFault::Cut))] {
        control.add_rule(Rule { verb: Some(verb), resource: "pods", name: None, fault, times: 1 });
    }
    let rules = ["", "?watch=true"].map(|query| control.decide(&api_request("GET", &format!("/api/v1/pods{query}"))).unwrap().1);
    assert_eq!(rules, [None, Some(1)]);
}
