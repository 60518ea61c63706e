//! What changes the cluster or the time? What disturbs the programs is in [`super::disturbances`].

use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};

use super::World;
use super::disturbances::{answer, cut, ended, program, silence};
use super::view::{group_named, members, owner_named};
use crate::objects::{self, NAMESPACE, NODE_FLAGS, POD_FLAGS, POD_OPTIONS, QUEUE_FLAGS, namespace};
use crate::server::carry_out::create;
use crate::server::kinds::Kind;
use crate::server::patch::merge;
use crate::server::request::Request;
use crate::server::store::{Store, names};
use crate::text::{Words, duration, replaced};

/// Carries out an action; false if the verb is none.
pub(super) async fn act(world: &mut World, words: &Words, block: &Value) -> Result<bool> {
    match words.at(0)? {
        "node" => objects::each_name(words, &NODE_FLAGS).iter().try_for_each(|words| put(world, "nodes", objects::node(words, block)?))?,
        "queue" => {
            objects::each_name(words, &QUEUE_FLAGS).iter().try_for_each(|words| put(world, "queues", objects::queue(words, block)?))?
        }
        "group" => {
            words.only(2, &["keeps"], &["min", "in", "minresources", "class", "namespace"])?;
            let mut group = objects::group(words.at(1)?, None, words)?;
            objects::add(&mut group, block);
            put(world, "podgroups", group)?;
        }
        "gang" => gang(world, words, block)?,
        "pod" => pod(world, words, block)?,
        "deployment" | "replicaset" | "statefulset" | "job" | "daemonset" => {
            let options = [&POD_OPTIONS[..], &["min", "in", "completions", "uid"]].concat();
            let flags = [&POD_FLAGS[..], &["ordered", "suspended"]].concat();
            let size = usize::from(words.at(0)? != "daemonset");
            words.only(2 + size, &flags, &options)?;
            put(world, World::kind(words.at(0)?)?.plural, objects::owner(words, block)?)?;
        }
        "apply" => apply(world, words, block)?,
        "scale" => {
            words.only(3, &[], &["namespace"])?;
            scale(world, words)?;
        }
        "change" => {
            let kind = World::kind(words.at(1)?)?;
            words.at(2)?;
            for name in words.plain.iter().skip(2) {
                if kind.plural == "pods" && block["spec"]["nodeName"].is_string() {
                    world.observer.bound_by_another(namespace(words), name);
                }
                change(world, kind, namespace(words), name, &replaced(block, "$name", name))?;
            }
        }
        "delete" => delete(world, words)?,
        "finish" => finish(world, words)?,
        "later" => {
            words.only(2, &[], &[])?;
            tokio::time::sleep(duration(words.at(1)?)?).await;
        }
        "start" | "stop" | "kill" | "restart" => program(world, words).await?,
        "answer" => answer(world, words)?,
        "silence" | "speak" => silence(world, words)?,
        "cut" | "mend" => cut(world, words)?,
        "ended" => ended(world, words).await?,
        "mark" => {
            let inside = world.server.inside();
            (world.marked, world.marked_version) = (inside.received.len(), inside.store.version());
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Creates an object, or changes the one of its name: its labels, annotations, spec and status become those of the line.
fn put(world: &World, plural: &str, object: Value) -> Result<()> {
    let kind = Kind::by_plural(plural).ok_or_else(|| anyhow!("no kind {plural}"))?;
    world.server.write(|store| put_into(store, kind, object))
}

fn put_into(store: &mut Store, kind: &'static Kind, object: Value) -> Result<()> {
    let (namespace, name) = names(&object);
    if let Some(known) = store.get(kind, &namespace, &name) {
        let mut changed = known.clone();
        merge(&mut changed["metadata"], &object["metadata"]);
        for field in ["spec", "status"] {
            if !object[field].is_null() {
                changed[field] = object[field].clone();
            }
        }
        store.change(kind, changed);
        return Ok(());
    }
    let request = Request {
        verb: "create",
        kind,
        namespace,
        name: String::new(),
        subresource: String::new(),
        query: Default::default(),
        body: object,
        strategic: false,
    };
    create(store, &request).map_err(|refusal| anyhow!("{}", refusal.message))?;
    Ok(())
}

/// A PodGroup and its pods: `gang g 3 in team cpu:1 min=2`. The block is merged into each pod.
fn gang(world: &World, words: &Words, block: &Value) -> Result<()> {
    let options = [&POD_OPTIONS[..], &["in", "min", "minresources"]].concat();
    words.only(3, &POD_FLAGS, &options)?;
    let (name, size) = (words.at(1)?, words.number(2)?);
    put(world, "podgroups", objects::group(name, Some(size), words)?)?;
    for number in 0..size {
        member(world, &format!("{name}-{number}"), name, words, block)?;
    }
    Ok(())
}

/// Further pods of a PodGroup, `pod g-3 g-4 of g cpu:1`, or pods without one: `pod p cpu:1`.
fn pod(world: &World, words: &Words, block: &Value) -> Result<()> {
    let options = [&POD_OPTIONS[..], &["of", "on", "phase"]].concat();
    if let Some((name, _)) = words.options.iter().find(|(name, _)| !options.contains(&name.as_str())) {
        bail!("`pod` does not know `{name}=`");
    }
    let pods: Vec<&String> = words.plain.iter().skip(1).filter(|word| !POD_FLAGS.contains(&word.as_str())).collect();
    if pods.is_empty() {
        bail!("`pod` lacks a name");
    }
    for name in pods {
        match words.option("of") {
            Some(group) => member(world, name, group, words, block)?,
            None => {
                let mut object = objects::pod(name, words, block)?;
                object["metadata"]["name"] = name.as_str().into();
                put(world, "pods", replaced(&object, "$name", name))?;
            }
        }
    }
    Ok(())
}

fn member(world: &World, name: &str, group: &str, words: &Words, block: &Value) -> Result<()> {
    let mut object = objects::pod(group, words, block)?;
    object["metadata"]["name"] = name.into();
    object["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = group.into();
    put(world, "pods", replaced(&object, "$name", name))
}

/// An object as YAML; with `apply pvc a b` one of each name with the same YAML.
fn apply(world: &World, words: &Words, block: &Value) -> Result<()> {
    let named = words.plain.get(1).map(String::as_str).or_else(|| block["kind"].as_str());
    let kind = World::kind(named.ok_or_else(|| anyhow!("`apply` needs a kind, or YAML with a kind below it"))?)?;
    let mut object = block.clone();
    if kind.namespaced && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = NAMESPACE.into();
    }
    for name in words.plain.iter().skip(2) {
        object["metadata"]["name"] = name.as_str().into();
        put(world, kind.plural, replaced(&object, "$name", name))?;
    }
    if words.plain.len() < 3 { put(world, kind.plural, object) } else { Ok(()) }
}

fn change(world: &World, kind: &'static Kind, namespace: &str, name: &str, block: &Value) -> Result<()> {
    let namespace = if kind.namespaced { namespace } else { "" };
    world.server.write(|store| {
        let mut object = existing(store, kind, namespace, name)?;
        merge(&mut object, block);
        let changed = store.change(kind, object);
        // It is gone, if that was its last finalizer. A namespace has one of its controller, which the scenario ends with `delete`.
        if kind.plural != "namespaces" && !changed["metadata"]["deletionTimestamp"].is_null() {
            store.begin_deletion(kind, &changed);
        }
        Ok(())
    })
}

/// Returns an object. The name of an owner stands for its PodGroup.
fn existing(store: &Store, kind: &'static Kind, namespace: &str, name: &str) -> Result<Value> {
    let found = if kind.plural == "podgroups" { group_named(store, namespace, name) } else { store.get(kind, namespace, name).cloned() };
    found.ok_or_else(|| anyhow!("there is no {} {name}", kind.name))
}

fn scale(world: &World, words: &Words) -> Result<()> {
    let (name, size) = (words.at(1)?, words.number(2)?);
    let owner = owner_named(&world.server.inside().store, namespace(words), name).ok_or_else(|| anyhow!("there is no owner {name}"))?;
    let kind = World::kind(owner["kind"].as_str().unwrap_or_default())?;
    let field = if kind.plural == "jobs" { "parallelism" } else { "replicas" };
    change(world, kind, namespace(words), name, &json!({ "spec": { field: size } }))
}

/// Deletes objects: `delete pod a b`, `delete group g`. With `now` pods are gone without their grace period; with `orphaned` what the
/// object owns stays.
fn delete(world: &World, words: &Words) -> Result<()> {
    let kind = World::kind(words.at(1)?)?;
    let namespace = if kind.namespaced { namespace(words) } else { "" };
    let (now, orphaned) = (words.has("now", 2), words.has("orphaned", 2));
    for name in words.plain.iter().skip(2).filter(|name| !["now", "orphaned"].contains(&name.as_str())) {
        world.server.write(|store| {
            let object = existing(store, kind, namespace, name)?;
            if orphaned {
                orphan(store, &object);
            }
            if now {
                store.remove(kind, namespace, &names(&object).1);
            } else {
                store.begin_deletion(kind, &object);
            }
            Ok::<_, anyhow::Error>(())
        })?;
    }
    Ok(())
}

/// Removes an owner from what it owns.
fn orphan(store: &mut Store, owner: &Value) {
    let uid = owner["metadata"]["uid"].clone();
    for plural in ["pods", "replicasets", "podgroups", "jobs"] {
        let owned: Vec<Value> = store.all(plural).cloned().collect();
        for mut object in owned {
            let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() else { continue };
            let before = owners.len();
            owners.retain(|reference| reference["uid"] != uid);
            if owners.len() < before
                && let Some(kind) = Kind::by_plural(plural)
            {
                store.change(kind, object);
            }
        }
    }
}

/// Lets pods end: `finish g-0 g-1` with success, `finish g-0 failed`. The name of a group stands for all its pods.
fn finish(world: &World, words: &Words) -> Result<()> {
    let phase = if words.has("failed", 1) { "Failed" } else { "Succeeded" };
    for name in words.plain.iter().skip(1).filter(|name| *name != "failed") {
        world.server.write(|store| {
            let pods = members(store, namespace(words), name);
            let kind = World::kind("pod")?;
            if pods.is_empty() {
                bail!("there is no pod {name}");
            }
            for mut pod in pods {
                if pod["spec"]["nodeName"].is_null() {
                    bail!("pod {name} has no node, so it cannot end");
                }
                pod["status"]["phase"] = phase.into();
                store.change(kind, pod);
            }
            Ok(())
        })?;
    }
    Ok(())
}
