//! Checks that the questions of a scenario have the expected answers.
//!
//! A scenario is facts (see `scenario_text`) and questions, `question -> answer`. Each question is about the cluster that the lines above it
//! make. `#` begins a comment; several spaces count as one. The amounts are `used`, `reserved`, `taken`, `guarantee`, `floor`,
//! `held`, `demand`, `share` and `right` (the entitlement), as in `share a cpu -> 5`; for the others see [`answer`].

use std::collections::BTreeSet;

use super::admission::{Verdict, admit, asks};
use super::cluster::Cluster;
use super::limits::{Refusal, fits, floor, guarantee, held};
use super::reclaim::check_reclaim;
use super::scenario_text::{Fault, read_amount, read_amounts, read_fact, write_amount, write_amounts};
use super::shares::{demand, is_over_share, is_within_entitlement, right, share};
use super::tree::{broken, reserved, state, taken, used, walk};

/// Reads the facts alone.
pub(super) fn cluster(text: &str) -> Cluster {
    let mut cluster = Cluster::default();
    for line in lines(text) {
        read_fact(&mut cluster, line).unwrap();
    }
    cluster
}

/// Returns every question with a wrong answer.
fn wrong_answers(text: &str) -> Result<Vec<String>, Fault> {
    let mut cluster = Cluster::default();
    let mut wrong = Vec::new();
    for line in lines(text) {
        let Some((question, want)) = line.split_once("->") else {
            read_fact(&mut cluster, line)?;
            continue;
        };
        let want = normal(want.trim());
        let got = answer(&cluster, question)?;
        if got != want {
            wrong.push(format!("{} -> {got}, not {want}", question.trim()));
        }
    }
    Ok(wrong)
}

pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty())
}

/// Returns amounts in their normal form, and other text unchanged.
pub(super) fn normal(text: &str) -> String {
    read_amount(text)
        .map(write_amount)
        .or_else(|_| read_amounts(text).map(|amounts| write_amounts(&amounts)))
        .unwrap_or_else(|_| text.to_owned())
}

/// Returns the reference's answer to one question.
pub(super) fn answer(cluster: &Cluster, question: &str) -> Result<String, Fault> {
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let words: Vec<&str> = question.split_whitespace().collect();
    Ok(match words.as_slice() {
        ["fits", queue, asked] => fits(cluster, queue, &read_amounts(asked)?).map_or_else(|refusal| refused(&refusal), |()| yes(true)),
        ["walk", queue] => walk(cluster, queue).join(" "),
        ["broken", queue] => broken(cluster, queue).map_or_else(|| yes(false), |at| format!("at {at}")),
        ["state", queue] => state(cluster, queue).to_owned(),
        ["over", queue, dimension] => yes(is_over_share(cluster, queue, dimension)),
        ["may-stay", queue, asked] => yes(is_within_entitlement(cluster, queue, &read_amounts(asked)?)),
        ["asks", group] => write_amounts(&asks(cluster, group)),
        ["admit", group] => match admit(cluster, group) {
            Verdict::Admitted => yes(true),
            Verdict::ByReclaim => "by right".to_owned(),
            Verdict::Refused(refusal) => refused(&refusal),
            Verdict::Nothing => "nothing".to_owned(),
        },
        ["reclaim", group, "from", victims @ ..] => {
            let victims: BTreeSet<String> = victims.iter().map(|uid| (*uid).to_owned()).collect();
            check_reclaim(cluster, group, &victims).err().unwrap_or("right").to_owned()
        }
        [what, queue, dimension] => {
            let of = match *what {
                "used" => used,
                "reserved" => reserved,
                "taken" => taken,
                "guarantee" => guarantee,
                "floor" => floor,
                "held" => held,
                "demand" => demand,
                "share" => share,
                "right" => right,
                _ => return Err(format!("not a question: {question}")),
            };
            write_amount(of(cluster, queue, dimension))
        }
        _ => return Err(format!("not a question: {question}")),
    })
}

fn refused(refusal: &Refusal) -> String {
    let words = ["no", "at", &refusal.queue, refusal.dimension.as_deref().unwrap_or_default(), refusal.rule];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_scenario_has_the_expected_answers() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/accounting/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 12, "the scenarios exist");
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("->"), "{} asks something", file.display());
        let answers = wrong_answers(&text).unwrap_or_else(|fault| vec![fault]);
        let by_accounting = super::accounting_answers::wrong_answers(&text).unwrap_or_else(|fault| vec![fault]);
        let by_accounting = by_accounting.into_iter().map(|answer| format!("the accounting: {answer}"));
        wrong.extend(answers.into_iter().chain(by_accounting).map(|answer| format!("{}: {answer}", file.file_name().unwrap().display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_answer_and_an_unreadable_line_are_reported() {
    assert_eq!(wrong_answers("total cpu:1\nshare root cpu -> 2").unwrap(), ["share root cpu -> 1, not 2"]);
    for nonsense in ["queue a wait=2", "pod p a cpu:1", "shares a cpu -> 1", "total cpu=3", "group g in a times=2", "gone p"] {
        assert!(wrong_answers(nonsense).is_err(), "{nonsense}");
    }
}
