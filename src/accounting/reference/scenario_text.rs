//! Reads and writes a cluster as text.
//!
//! One fact per line, `name:amount` for amounts (with the suffixes n, m, Ki, Mi, Gi or none), separated by commas:
//!
//! ```text
//! total cpu:10
//! node n1 cpu:4
//! queue a parent=p capability=cpu:4 deserved=cpu:2 guarantee=cpu:1 weight=2 priority=1 reclaimable=no closed
//! place old below=p created=3 by=p1
//! pod p1 in a cpu:2 path=root/p/a group=g node=n1 priority=1 created=3 preemptable=no terminating foreign
//! group g in a min=2 asks=cpu:1 times=3 minresources=requests.cpu:3 priority=1 preemptable=no
//! reserve g in a cpu:3
//! foreign f1 cpu:2 node=n1
//! gone p1
//! no queue a
//! no node n1
//! no reserve g
//! ```

use std::fmt::Write;

use super::cluster::{Amounts, Cluster, Former, Group, Pod, Queue, Reservation};
use super::places;

/// Why a line cannot be read.
pub(super) type Fault = String;

const SUFFIXES: [(&str, i128); 5] =
    [("n", 1), ("m", 1_000_000), ("Ki", 1_000_000_000 << 10), ("Mi", 1_000_000_000 << 20), ("Gi", 1_000_000_000 << 30)];

/// Adds one fact to the cluster.
pub(super) fn read_fact(cluster: &mut Cluster, line: &str) -> Result<(), Fault> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["total", amounts] => cluster.total = read_amounts(amounts)?,
        ["node", name, amounts] => {
            cluster.nodes.insert((*name).to_owned(), read_amounts(amounts)?);
        }
        ["queue", name, options @ ..] => {
            cluster.queues.insert((*name).to_owned(), read_queue(options)?);
        }
        ["pod", uid, "in", queue, amounts, options @ ..] => {
            let pod = Pod { queue: (*queue).to_owned(), amounts: read_amounts(amounts)?, ..Pod::default() };
            let pod = read_pod(pod, options)?;
            places::tell(cluster, uid, pod.created, &pod.path);
            cluster.pods.insert((*uid).to_owned(), pod);
        }
        ["place", queue, below, told @ ..] => {
            let parent = below.strip_prefix("below=").ok_or_else(|| format!("no place: {below}"))?.to_owned();
            let told_by = match told {
                [created, by] => Some((
                    read_number(created.strip_prefix("created=").unwrap_or_default())?,
                    by.strip_prefix("by=").unwrap_or_default().to_owned(),
                )),
                _ => None,
            };
            cluster.former.insert((*queue).to_owned(), Former { parent, told_by });
            return Ok(());
        }
        ["group", name, "in", queue, options @ ..] => {
            cluster.groups.insert((*name).to_owned(), read_group(queue, options)?);
        }
        ["reserve", group, "in", queue, amounts] => {
            let reservation = Reservation { queue: (*queue).to_owned(), amounts: read_amounts(amounts)? };
            cluster.reservations.insert((*group).to_owned(), reservation);
        }
        ["foreign", uid, amounts, node] => {
            let node = node.strip_prefix("node=").ok_or_else(|| format!("no node: {node}"))?;
            cluster.foreign.insert((*uid).to_owned(), (node.to_owned(), read_amounts(amounts)?));
        }
        ["gone", uid] => {
            let was = cluster.pods.remove(*uid).is_some() || cluster.foreign.remove(*uid).is_some();
            was.then_some(()).ok_or_else(|| format!("no pod {uid}"))?;
        }
        ["no", "queue", name] => {
            cluster.queues.contains_key(*name).then_some(()).ok_or_else(|| format!("no queue {name}"))?;
            places::delete(cluster, name);
        }
        ["no", "node", name] => {
            cluster.nodes.remove(*name).ok_or_else(|| format!("no node {name}"))?;
        }
        ["no", "reserve", group] => {
            cluster.reservations.remove(*group).ok_or_else(|| format!("no reservation of {group}"))?;
        }
        _ => return Err(format!("not a fact: {line}")),
    }
    places::forget(cluster);
    Ok(())
}

fn read_queue(options: &[&str]) -> Result<Queue, Fault> {
    let mut queue = Queue::default();
    for option in options {
        match option.split_once('=') {
            Some(("parent", name)) => queue.parent = Some(name.to_owned()),
            Some(("capability", amounts)) => queue.capability = read_amounts(amounts)?,
            Some(("deserved", amounts)) => queue.deserved = read_amounts(amounts)?,
            Some(("guarantee", amounts)) => queue.guarantee = read_amounts(amounts)?,
            Some(("weight", number)) => queue.weight = read_number(number)?,
            Some(("priority", number)) => queue.priority = read_number(number)?,
            Some(("reclaimable", "no")) => queue.reclaimable = false,
            None if *option == "closed" => queue.closed_by_hand = true,
            _ => return Err(format!("not of a queue: {option}")),
        }
    }
    Ok(queue)
}

fn read_pod(mut pod: Pod, options: &[&str]) -> Result<Pod, Fault> {
    for option in options {
        match option.split_once('=') {
            Some(("group", name)) => pod.group = Some(name.to_owned()),
            Some(("node", name)) => pod.node = Some(name.to_owned()),
            Some(("priority", number)) => pod.priority = read_number(number)?,
            Some(("path", path)) => pod.path = path.rsplit('/').map(str::to_owned).collect(),
            Some(("created", number)) => pod.created = read_number(number)?,
            Some(("preemptable", "no")) => pod.preemptable = false,
            None if *option == "terminating" => pod.terminating = true,
            None if *option == "foreign" => pod.ours = false,
            _ => return Err(format!("not of a pod: {option}")),
        }
    }
    Ok(pod)
}

fn read_group(queue: &str, options: &[&str]) -> Result<Group, Fault> {
    let mut group = Group {
        queue: queue.to_owned(),
        min_member: 0,
        asks: Vec::new(),
        min_resources: None,
        priority: 0,
        preemptable: true,
        member_keeps: false,
    };
    let mut min_member = None;
    for option in options {
        match option.split_once('=') {
            Some(("min", number)) => min_member = Some(read_number(number)?),
            Some(("asks", amounts)) => group.asks.push(read_amounts(amounts)?),
            Some(("times", number)) => {
                let last = group.asks.pop().ok_or("times of nothing")?;
                group.asks.extend(std::iter::repeat_n(last, read_number(number)?));
            }
            Some(("minresources", amounts)) => group.min_resources = Some(read_amounts(amounts)?),
            Some(("priority", number)) => group.priority = read_number(number)?,
            Some(("preemptable", "no")) => group.preemptable = false,
            Some(("preemptable", "not-all")) => group.member_keeps = true,
            _ => return Err(format!("not of a group: {option}")),
        }
    }
    group.min_member = min_member.unwrap_or(group.asks.len());
    Ok(group)
}

fn read_number<N: std::str::FromStr>(text: &str) -> Result<N, Fault> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

/// Reads `cpu:3,memory:2Gi`, or `nothing`.
pub(super) fn read_amounts(text: &str) -> Result<Amounts, Fault> {
    if text == "nothing" {
        return Ok(Amounts::new());
    }
    let entry = |entry: &str| {
        let (name, amount) = entry.rsplit_once(':').ok_or_else(|| format!("no amounts: {entry}"))?;
        Ok((name.to_owned(), read_amount(amount)?))
    };
    text.split(',').map(entry).collect()
}

pub(super) fn read_amount(text: &str) -> Result<i128, Fault> {
    let suffixed = SUFFIXES.iter().find_map(|(suffix, scale)| text.strip_suffix(suffix).map(|number| (number, *scale)));
    let (number, scale) = suffixed.unwrap_or((text, 1_000_000_000));
    Ok(read_number::<i128>(number)? * scale)
}

/// Writes an amount in whole units if possible, otherwise in nanos: exact, and readable as the same amount.
pub(super) fn write_amount(amount: i128) -> String {
    if amount % 1_000_000_000 == 0 { (amount / 1_000_000_000).to_string() } else { format!("{amount}n") }
}

pub(super) fn write_amounts(amounts: &Amounts) -> String {
    let entries: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}:{}", write_amount(*amount))).collect();
    if entries.is_empty() { "nothing".to_owned() } else { entries.join(",") }
}

/// Writes the facts of a cluster, so that a shrunk failure can be stored as a scenario.
pub(super) fn write_facts(cluster: &Cluster) -> String {
    let mut text = format!("total {}\n", write_amounts(&cluster.total));
    let mut line = |words: Vec<String>| {
        let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let _ = writeln!(text, "{}", words.join(" "));
    };
    let flag = |set: bool, word: &str| if set { word.to_owned() } else { String::new() };
    let bounds =
        |key: &str, amounts: &Amounts| if amounts.is_empty() { String::new() } else { format!("{key}={}", write_amounts(amounts)) };
    let named = |key: &str, name: &Option<String>| name.as_ref().map(|name| format!("{key}={name}")).unwrap_or_default();
    for (name, offered) in &cluster.nodes {
        line(vec![format!("node {name} {}", write_amounts(offered))]);
    }
    for (name, queue) in &cluster.queues {
        line(vec![
            format!("queue {name}"),
            named("parent", &queue.parent),
            bounds("capability", &queue.capability),
            bounds("deserved", &queue.deserved),
            bounds("guarantee", &queue.guarantee),
            format!("weight={} priority={}", queue.weight, queue.priority),
            flag(!queue.reclaimable, "reclaimable=no"),
            flag(queue.closed_by_hand, "closed"),
        ]);
    }
    for (uid, pod) in &cluster.pods {
        line(vec![
            format!("pod {uid} in {} {}", pod.queue, write_amounts(&pod.amounts)),
            named("group", &pod.group),
            named("node", &pod.node),
            format!("priority={} created={}", pod.priority, pod.created),
            flag(!pod.preemptable, "preemptable=no"),
            flag(pod.terminating, "terminating"),
            flag(!pod.ours, "foreign"),
        ]);
    }
    for (uid, (node, amounts)) in &cluster.foreign {
        line(vec![format!("foreign {uid} {} node={node}", write_amounts(amounts))]);
    }
    for (name, group) in &cluster.groups {
        let asks: Vec<String> = group.asks.iter().map(|asks| format!("asks={}", write_amounts(asks))).collect();
        line(vec![
            format!("group {name} in {} min={}", group.queue, group.min_member),
            asks.join(" "),
            group.min_resources.as_ref().map(|amounts| format!("minresources={}", write_amounts(amounts))).unwrap_or_default(),
            format!("priority={}", group.priority),
            flag(!group.preemptable, "preemptable=no"),
            flag(group.member_keeps, "preemptable=not-all"),
        ]);
    }
    for (group, reservation) in &cluster.reservations {
        line(vec![format!("reserve {group} in {} {}", reservation.queue, write_amounts(&reservation.amounts))]);
    }
    // Last: a place without a charge is forgotten.
    for (name, Former { parent, told_by }) in &cluster.former {
        let told = told_by.as_ref().map(|(created, uid)| format!("created={created} by={uid}")).unwrap_or_default();
        line(vec![format!("place {name} below={parent}"), told]);
    }
    text
}
