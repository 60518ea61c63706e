//! Is it so? Each check reads what the API shows, or asks a program.

use anyhow::{Result, anyhow, bail};
use serde_json::Value;

use super::World;
use super::view::{condition, group_named, members, nodes, waits};
use crate::objects::namespace;
use crate::server::kinds::Kind;
use crate::text::Words;

/// Returns what is there instead; `None` where the check is true. An error is a mistake in the line.
pub(super) async fn check(world: &World, words: &Words) -> Result<Option<String>> {
    if let Some(name) = unknown_name(world, words)? {
        return Ok(Some(format!("nothing was ever called `{name}`")));
    }
    match words.at(0)? {
        "bound" => bound(world, words),
        "pods" => count(world, words),
        "phase" => phase(world, words),
        "why" => why(world, words),
        "event" => event(world, words),
        "shows" => shows(world, words),
        "exists" | "absent" => exists(world, words),
        "ready" | "not-ready" => ready(world, words),
        "requests" => requests(world, words),
        "metric" => metric(world, words).await,
        "debug" => debug(world, words).await,
        other => bail!(
            "`{other}` is no verb. Actions: node, queue, group, gang, pod, deployment, replicaset, statefulset, job, daemonset, apply, change, scale, delete, \
             finish, later, start, stop, kill, restart, answer, silence, speak, cut, mend, ended, mark, and before them `try` and `repeat 5;`. Checks, also after `for 30s` and `within 30s`: bound, pods, phase, why, \
             event, shows, exists, absent, ready, not-ready, requests, metric, debug"
        ),
    }
}

/// Returns the name that a check is about, if no object ever had it: a check for nothing would be true of a misspelt name.
fn unknown_name<'a>(world: &World, words: &'a Words) -> Result<Option<&'a str>> {
    let name = match words.at(0)? {
        "bound" | "pods" | "phase" => words.at(1)?,
        "why" if ["pod", "pods"].contains(&words.at(1)?) && words.plain.len() > 3 => words.at(2)?,
        "why" => words.at(1)?,
        "event" | "shows" | "exists" => words.at(2)?,
        _ => return Ok(None),
    };
    let inside = world.server.inside();
    let is_known = inside.store.log().iter().any(|change| change.object["metadata"]["name"] == name);
    Ok((!is_known).then_some(name))
}

fn differs(is_true: bool, seen: impl FnOnce() -> String) -> Result<Option<String>> {
    Ok((!is_true).then(seen))
}

/// `bound g 3`, `bound g none`, `bound g n1,n1,n2`: how many pods have a node, or which nodes they have.
fn bound(world: &World, words: &Words) -> Result<Option<String>> {
    words.only(3, &[], &["namespace"])?;
    let pods = members(&world.server.inside().store, namespace(words), words.at(1)?);
    let (have, wanted) = (nodes(&pods), words.at(2)?);
    let is_true = match wanted.parse::<usize>() {
        Ok(number) => have.len() == number,
        Err(_) if wanted == "none" => have.is_empty(),
        Err(_) => {
            let mut list: Vec<&str> = wanted.split(',').collect();
            list.sort_unstable();
            have == list
        }
    };
    differs(is_true, || format!("{} of {} pods are bound, on [{}]", have.len(), pods.len(), have.join(",")))
}

/// `pods g 3`: how many pods exist, without those that are being deleted.
fn count(world: &World, words: &Words) -> Result<Option<String>> {
    words.only(3, &["running", "succeeded", "terminating"], &["namespace"])?;
    let pods = members(&world.server.inside().store, namespace(words), words.at(1)?);
    let is_one = |pod: &&Value| {
        let goes = !pod["metadata"]["deletionTimestamp"].is_null();
        let phase = &pod["status"]["phase"];
        if words.has("terminating", 3) {
            goes
        } else {
            !goes && (!words.has("running", 3) || phase == "Running") && (!words.has("succeeded", 3) || phase == "Succeeded")
        }
    };
    let number = pods.iter().filter(is_one).count();
    differs(number == words.number(2)?, || format!("{number} pods exist"))
}

/// `phase g Running`.
fn phase(world: &World, words: &Words) -> Result<Option<String>> {
    words.only(3, &[], &["namespace"])?;
    let Some(group) = group_named(&world.server.inside().store, namespace(words), words.at(1)?) else {
        return Ok(Some("there is no PodGroup".to_owned()));
    };
    let seen = group["status"]["phase"].as_str().unwrap_or("not written");
    differs(seen == words.at(2)?, || format!("the phase is {seen}"))
}

/// `why g "is over its quota"`: the condition of the PodGroup contains the text; `why g nothing`: it does not wait. `why pod p "…"` reads
/// the pod's condition, and `why pods g 3 "…"` says how many pods have it.
fn why(world: &World, words: &Words) -> Result<Option<String>> {
    let inside = world.server.inside();
    if words.at(1)? == "pods" && words.plain.len() == 5 {
        let pods = members(&inside.store, namespace(words), words.at(2)?);
        let says =
            |pod: &&Value| condition(pod, "PodScheduled", "False").is_some_and(|text| text.contains(words.at(4).unwrap_or_default()));
        let number = pods.iter().filter(says).count();
        return differs(number == words.number(3)?, || format!("{number} of {} pods say so", pods.len()));
    }
    let (of_pod, name, wanted) = match (words.at(1)?, words.plain.len()) {
        ("pod", 4) => (true, words.at(2)?, words.at(3)?),
        _ => (false, words.at(1)?, words.at(2)?),
    };
    let seen: Vec<String> = if of_pod {
        members(&inside.store, namespace(words), name).iter().filter_map(|pod| condition(pod, "PodScheduled", "False")).collect()
    } else {
        group_named(&inside.store, namespace(words), name).iter().filter_map(waits).collect()
    };
    let is_true = if wanted == "nothing" { seen.is_empty() } else { seen.iter().any(|text| text.contains(wanted)) };
    differs(is_true, || if seen.is_empty() { "it does not wait, as its condition says".to_owned() } else { format!("it says {seen:?}") })
}

/// `event queue a InvalidQueue "text"`: there is an Event about the object; `event group g none` says that there is none.
fn event(world: &World, words: &Words) -> Result<Option<String>> {
    let kind = World::kind(words.at(1)?)?;
    let inside = world.server.inside();
    let name = match group_named(&inside.store, namespace(words), words.at(2)?) {
        Some(group) if kind.plural == "podgroups" => group["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        _ => words.at(2)?.to_owned(),
    };
    let about = |event: &&Value| event["involvedObject"]["kind"] == kind.name && event["involvedObject"]["name"] == *name;
    let text =
        |event: &Value| format!("{}: {}", event["reason"].as_str().unwrap_or_default(), event["message"].as_str().unwrap_or_default());
    let all: Vec<String> = inside.store.all("events").filter(about).map(text).collect();
    let is_true = match words.at(3)? {
        "none" => all.is_empty(),
        reason => {
            let wanted = words.plain.get(4).map_or("", String::as_str);
            all.iter().any(|event| event.strip_prefix(reason).is_some_and(|rest| rest.starts_with(": ") && rest.contains(wanted)))
        }
    };
    differs(is_true, || format!("its Events are {all:?}"))
}

/// `shows group g spec.minMember 3`: a field of an object, by its path. `absent` is the value of a missing field.
fn shows(world: &World, words: &Words) -> Result<Option<String>> {
    let kind = World::kind(words.at(1)?)?;
    let Some(object) = object(world, kind, words)? else { return Ok(Some(format!("there is no {} {}", kind.name, words.at(2)?))) };
    compare_with(at_path(&object, words.at(3)?), words, 4)
}

fn pointer(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{}", path.replace('.', "/")) }
}

/// Returns the value at a path. Keys with dots stand behind slashes: `/metadata/labels/a.b~1c`. In a list, a number is a place, a word the
/// name or type of an element, and `field=value` the element with this field.
fn at_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = object;
    for step in pointer(path).split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        at = match (at, step.split_once('=')) {
            (Value::Array(list), Some((field, wanted))) => list.iter().find(|element| element[field] == wanted)?,
            (Value::Array(list), None) => match step.parse::<usize>() {
                Ok(place) => list.get(place)?,
                Err(_) => list.iter().find(|element| element["name"] == *step || element["type"] == *step)?,
            },
            _ => at.get(&step)?,
        };
    }
    Some(at)
}

/// Compares a value with the words from `from` on: a value, or `contains` and a text.
fn compare_with(value: Option<&Value>, words: &Words, from: usize) -> Result<Option<String>> {
    if words.at(from)? == "contains" {
        let seen = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default();
        let wanted = words.at(from + 1)?;
        return differs(seen.contains(wanted), || format!("it is {seen:?}"));
    }
    compare(value, words.at(from)?)
}

fn compare(value: Option<&Value>, wanted: &str) -> Result<Option<String>> {
    let seen = match value {
        None | Some(Value::Null) => "absent".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    differs(seen == wanted, || format!("it is {seen}"))
}

fn object(world: &World, kind: &'static Kind, words: &Words) -> Result<Option<Value>> {
    let inside = world.server.inside();
    let name = words.at(2)?;
    let space = if kind.namespaced { namespace(words) } else { "" };
    if kind.plural == "podgroups" {
        return Ok(group_named(&inside.store, space, name));
    }
    Ok(inside.store.get(kind, space, name).cloned())
}

/// Whether a scenario can name requests so.
fn is_request(action: &str) -> bool {
    let of_a_kind = |(verb, resource): (&str, &str)| {
        let plural = resource.split('/').next().unwrap_or_default();
        ["get", "list", "watch", "create", "update", "patch", "delete"].contains(&verb) && Kind::by_plural(plural).is_some()
    };
    ["writes", "bind", "evict"].contains(&action) || action.split_once(' ').is_some_and(of_a_kind)
}

/// `ready scheduler`, `not-ready scheduler "queues"`: what `/readyz` answers.
fn ready(world: &World, words: &Words) -> Result<Option<String>> {
    let (is_ready, report) = world.programs.ready(words.at(1)?)?;
    let says = words.plain.get(2).is_none_or(|text| report.contains(text));
    differs(is_ready == (words.at(0)? == "ready") && says, || format!("ready: {is_ready}; it says {report:?}"))
}

/// `exists group g`, `absent pod p`.
fn exists(world: &World, words: &Words) -> Result<Option<String>> {
    words.only(3, &[], &["namespace"])?;
    let there = object(world, World::kind(words.at(1)?)?, words)?.is_some();
    differs(there == (words.at(0)? == "exists"), || if there { "it exists".to_owned() } else { "it does not exist".to_owned() })
}

/// `requests 3 patch podgroups of g by scheduler`: how many such requests came since `mark`. `requests 0 writes` counts all that change
/// objects, but for leases.
fn requests(world: &World, words: &Words) -> Result<Option<String>> {
    let said = words.plain.get(2..).unwrap_or_default().join(" ");
    let (action, code) = said.split_once(" answered ").map_or((&*said, None), |(action, code)| (action, code.parse::<u16>().ok()));
    if !is_request(action) {
        bail!("`{action}` is no request: writes, bind, evict, or a verb and a resource as `create podgroups`, `patch pods/status`");
    }
    let inside = world.server.inside();
    let (sender, subject) = (words.option("by"), words.option("of"));
    let is_one = |request: &&crate::server::Received| {
        let fits = if action == "writes" { request.writes } else { request.action == action };
        fits && code.is_none_or(|code| request.code == code)
            && sender.is_none_or(|sender| *request.sender == *sender)
            && subject.is_none_or(|subject| request.subject == subject)
    };
    let all: Vec<_> = inside.received.iter().skip(world.marked).filter(is_one).collect();
    let is_true = match words.at(1)?.split_once("..") {
        Some((least, most)) => (least.parse()?..=most.parse()?).contains(&all.len()),
        None => all.len() == words.number(1)?,
    };
    let list =
        || all.iter().take(20).map(|request| format!("{} {} {}", request.sender, request.action, request.subject)).collect::<Vec<_>>();
    differs(is_true, || format!("there were {}: {:?}", all.len(), list()))
}

/// `metric scheduler podgroup_scheduler_pending_pods 2`: the value of a series of the page of metrics.
async fn metric(world: &World, words: &Words) -> Result<Option<String>> {
    let page = world.programs.metrics(words.at(1)?).await?;
    let name = words.at(2)?;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    differs(value == Some(words.at(3)?), || format!("it is {}", value.unwrap_or("not on the page")))
}

/// `debug scheduler /debug/queues /queues/0/name default`: a value of the debug endpoint.
async fn debug(world: &World, words: &Words) -> Result<Option<String>> {
    let answer = world.programs.ask(words.at(1)?, words.at(2)?).await.map_err(|error| anyhow!("{error}"))?;
    compare_with(at_path(&answer, words.at(3)?), words, 4)
}
