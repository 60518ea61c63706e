//! Do the questions of a scenario have the answers that it says?
//!
//! A scenario is facts (see `scenario_text`) and questions, `question -> answer`, each of the cluster as the lines above it
//! make it. `#` begins a comment; two spaces or more are as one. Amounts are `used`, `reserved`, `taken`, `guarantee`, `floor`,
//! `held`, `demand`, `share` and `right`, as in `share a cpu -> 5`; for the others see [`answer`].

use std::collections::BTreeSet;

use super::admission::{Verdict, admit, asks};
use super::cluster::Cluster;
use super::limits::{Refusal, fits, floor, guarantee, held};
use super::reclaim::reclaim_is_right;
use super::scenario_text::{Fault, read_amount, read_amounts, read_fact, write_amount, write_amounts};
use super::shares::{demand, is_over_share, is_within_right, right, share};
use super::tree::{broken, reserved, state, taken, used, walk};

/// The facts alone.
pub(super) fn cluster(text: &str) -> Cluster {
    let mut cluster = Cluster::default();
    for line in lines(text) {
        read_fact(&mut cluster, line).unwrap();
    }
    cluster
}

/// Every question that is not answered as it should be.
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

/// Amounts as they are written here; anything else as it is.
pub(super) fn normal(text: &str) -> String {
    read_amount(text)
        .map(write_amount)
        .or_else(|_| read_amounts(text).map(|amounts| write_amounts(&amounts)))
        .unwrap_or_else(|_| text.to_owned())
}

/// The reference's answer to one question.
pub(super) fn answer(cluster: &Cluster, question: &str) -> Result<String, Fault> {
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let words: Vec<&str> = question.split_whitespace().collect();
    Ok(match words.as_slice() {
        ["fits", queue, asked] => fits(cluster, queue, &read_amounts(asked)?).map_or_else(|refusal| refused(&refusal), |()| yes(true)),
        ["walk", queue] => walk(cluster, queue).join(" "),
        ["broken", queue] => broken(cluster, queue).map_or_else(|| yes(false), |at| format!("at {at}")),
        ["state", queue] => state(cluster, queue).to_owned(),
        ["over", queue, dimension] => yes(is_over_share(cluster, queue, dimension)),
        ["may-stay", queue, asked] => yes(is_within_right(cluster, queue, &read_amounts(asked)?)),
        ["asks", group] => write_amounts(&asks(cluster, group)),
        ["admit", group] => match admit(cluster, group) {
            Verdict::Admitted => yes(true),
            Verdict::ByRight => "by right".to_owned(),
            Verdict::Refused(refusal) => refused(&refusal),
            Verdict::Nothing => "nothing".to_owned(),
        },
        ["reclaim", group, "from", victims @ ..] => {
            let victims: BTreeSet<String> = victims.iter().map(|uid| (*uid).to_owned()).collect();
            reclaim_is_right(cluster, group, &victims).err().unwrap_or("right").to_owned()
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
fn every_scenario_is_answered_as_it_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/accounting/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 12, "the scenarios are there");
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("->"), "{} asks something", file.display());
        let answers = wrong_answers(&text).unwrap_or_else(|fault| vec![fault]);
        let by_books = super::beside::wrong_answers(&text).unwrap_or_else(|fault| vec![fault]);
        let by_books = by_books.into_iter().map(|answer| format!("the books: {answer}"));
        wrong.extend(answers.into_iter().chain(by_books).map(|answer| format!("{}: {answer}", file.file_name().unwrap().display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_answer_and_a_line_that_says_nothing_are_told() {
    assert_eq!(wrong_answers("total cpu:1\nshare root cpu -> 2").unwrap(), ["share root cpu -> 1, not 2"]);
    for nonsense in ["queue a wait=2", "pod p a cpu:1", "shares a cpu -> 1", "total cpu=3", "group g in a times=2", "gone p"] {
        assert!(wrong_answers(nonsense).is_err(), "{nonsense}");
    }
}
