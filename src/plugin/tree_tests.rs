//! Tests of the output of `tree`.

use super::*;
use crate::api::QueueFacts;
use crate::api::podgroup::PodGroupCondition;
use crate::api::quantities::RawQuantity;
use crate::cycle::testing::{amounts, group, limits, pod, queue, running};
use crate::plugin::answers::QueueAnswer;

fn used(mut queue: QueueFacts, cpu: &str, state: &str) -> QueueFacts {
    queue.status.allocated = Some([("cpu".to_owned(), RawQuantity::Text(cpu.to_owned()))].into());
    queue.status.state = Some(state.to_owned());
    queue
}

fn waiting(mut group: GroupFacts, message: &str) -> GroupFacts {
    let condition = |kind: &str| PodGroupCondition {
        kind: Some(kind.into()),
        status: Some("True".into()),
        message: Some(message.into()),
        ..Default::default()
    };
    group.status.conditions = Some(vec![condition("Scheduled"), condition("Unschedulable")]);
    group.status.phase = Some("Pending".into());
    group
}

#[test]
fn queues_stand_below_their_parents_with_their_groups() {
    let mut team = used(queue("team", None, &[("cpu", 8)]), "4", "Open");
    team.deserved = limits(&[("cpu", 6)]);
    let queues = Queues::new(vec![team, used(queue("a", Some("team"), &[]), "4", "Closing"), queue("b", Some("gone"), &[])], None);
    let groups =
        [group("ns", "runs", 2, "a"), waiting(group("ns", "waits", 1, "a"), "queue team is full"), group("ns", "lost", 1, "nowhere")];
    let pods = [running(pod("ns", "p", "runs", &[("cpu", 4)]), "n1"), pod("ns", "q", "waits", &[("cpu", 8)])];
    let now = Timestamp::UNIX_EPOCH;
    let report = Report::new(&queues, &amounts(&[("cpu", 20)]), Some(&groups), Some(&pods), Vec::new(), now);
    let want = "\
QUEUE      STATE    RESOURCE                          USED  RESERVED  SHARE  DESERVED  CAPABILITY
root       ?
  default  ?
  team     Open     cpu       [██████████·····|····]  4     ?         ?      6         8
    a      Closing  cpu       [██████████··········]  4     ?         ?      -         -
      ns/runs   -        1 bound, minMember 2
      ns/waits  Pending  0 bound, minMember 1  waits 0s: queue team is full
b          broken
  queue \"b\" names the parent \"gone\", which does not exist

PodGroups of queue nowhere, which does not exist
  ns/lost  -  0 bound, minMember 1
";
    assert_eq!(report.page(false).render(false), want);
    let value = report.json();
    assert_eq!(value["queues"][2]["name"], "team");
    assert_eq!(value["queues"][3]["parent"], "team");
    assert_eq!(value["queues"][3]["groups"][1]["message"], "queue team is full");
    assert_eq!(value["homeless"]["nowhere"][0]["name"], "lost");
    assert!(Report::new(&queues, &Resources::new(), None, None, Vec::new(), now).json()["queues"][0]["groups"].is_null());
}

#[test]
fn who_is_closed_from_above_says_by_whom() {
    let mut up = used(queue("up", None, &[]), "0", "Closed");
    up.closed_by_hand = true;
    let queues = Queues::new(vec![up, queue("below", Some("up"), &[])], None);
    let text = Report::new(&queues, &Resources::new(), None, None, Vec::new(), Timestamp::UNIX_EPOCH).page(false).render(false);
    assert_eq!(text.matches("closed by queue up").count(), 1, "{text}");
}

#[test]
fn a_deleted_queue_that_is_still_charged_is_shown() {
    let answer = |name: &str, cpu: i64| {
        let used = Some([("cpu".to_owned(), RawQuantity::Int(cpu))].into());
        (name.to_owned(), QueueAnswer { name: name.to_owned(), used, ..QueueAnswer::default() })
    };
    let queues = Queues::new(Vec::new(), Some([answer("default", 12), answer("gone", 0), answer("research", 3)].into()));
    let groups = [group("ns", "runs", 1, "research")];
    let report = Report::new(&queues, &Resources::new(), Some(&groups), None, Vec::new(), Timestamp::UNIX_EPOCH);
    let text = report.page(false).render(false);
    let row = text.lines().find(|line| line.starts_with("research")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["research", "missing", "cpu", "3", "?", "?", "-", "-"]);
    assert!(text.contains("\n  queue \"research\" does not exist\n") && !text.contains("gone"), "{text}");
    assert!(text.contains("PodGroups of queue research, which does not exist\n  ns/runs"), "{text}");
    assert_eq!(report.json()["queues"][2]["exists"], false);
}
