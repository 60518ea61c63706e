//! What does a line of a scenario say?
//!
//! ```text
//! # a comment
//! node n1 cpu:4 label=zone:a          a verb, names, amounts `name:amount`, options `name=value`
//! gang g 3 in team cpu:1              `in`, `of`, `on`, `below`, `by` are options too: the word after them is their value
//!   spec:                             indented YAML belongs to the line above it
//!     nodeSelector: {zone: a}
//! delete pod g-0; later 5s            several verbs on a line: nothing happens between them
//! delete pod g-{0..7}                 a word with a range stands for several words
//! why g "is over its quota"           a text in quotes is one word
//! ```

use std::fmt;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;

/// One line with its verbs.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Its text.
    pub text: String,
    /// Its verbs, in order.
    pub verbs: Vec<Words>,
    /// The indented YAML below it; null where there is none.
    pub block: Value,
}

/// A verb and its words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    /// The verb and the names, in order.
    pub plain: Vec<String>,
    /// The amounts, as in `cpu:4`.
    pub amounts: Vec<(String, String)>,
    /// The options, as in `min=3` or `in team`. One name may come several times.
    pub options: Vec<(String, String)>,
}

/// The words that are options with the next word as their value.
const PREPOSITIONS: [&str; 5] = ["in", "of", "on", "below", "by"];

/// The verbs with words that are all plain: conditions, paths and flags may contain `:` and `=`.
const ALL_PLAIN: [&str; 7] = ["why", "event", "shows", "metric", "debug", "start", "restart"];

impl Words {
    /// Returns the plain word at this place; 0 is the verb.
    pub fn at(&self, place: usize) -> Result<&str> {
        self.plain.get(place).map(String::as_str).ok_or_else(|| anyhow!("`{self}` lacks a word"))
    }

    /// Returns the number at this place.
    pub fn number(&self, place: usize) -> Result<usize> {
        self.at(place)?.parse().map_err(|_| anyhow!("`{}` is no number", self.plain[place]))
    }

    /// Returns the value of an option; of several the last one.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of an option.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether this plain word stands behind the names, from `from` on.
    #[must_use]
    pub fn has(&self, flag: &str, from: usize) -> bool {
        self.plain.iter().skip(from).any(|word| word == flag)
    }

    /// Refuses words that the verb does not know.
    pub fn only(&self, plain: usize, flags: &[&str], options: &[&str]) -> Result<()> {
        if let Some(word) = self.plain.iter().skip(plain).find(|word| !flags.contains(&word.as_str())) {
            bail!("`{}` does not know `{word}`; it knows {}", self.plain[0], known(flags, options));
        }
        if let Some((name, _)) = self.options.iter().find(|(name, _)| !options.contains(&name.as_str())) {
            bail!("`{}` does not know `{name}=`; it knows {}", self.plain[0], known(flags, options));
        }
        Ok(())
    }
}

fn known(flags: &[&str], options: &[&str]) -> String {
    let options = options.iter().map(|option| if PREPOSITIONS.contains(option) { format!("{option} …") } else { format!("{option}=…") });
    let all: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).chain(options).collect();
    if all.is_empty() { "nothing more".to_owned() } else { all.join(", ") }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plain.join(" "))
    }
}

/// Reads a scenario.
pub fn read(text: &str) -> Result<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut block = String::new();
    let mut all = text.lines().enumerate().peekable();
    while let Some((at, raw)) = all.next() {
        let indented = raw.starts_with([' ', '\t']) && !raw.trim().is_empty();
        if indented {
            block.push_str(raw);
            block.push('\n');
            let goes_on = all.peek().is_some_and(|(_, next)| next.starts_with([' ', '\t']) && !next.trim().is_empty());
            if !goes_on {
                let line = lines.last_mut().ok_or_else(|| anyhow!("line {}: YAML without a line above it", at + 1))?;
                let yaml = serde_saphyr::from_str(&block).map_err(|error| anyhow!("line {}: no YAML: {error}", at + 1))?;
                line.block = counted(yaml).map_err(|error| anyhow!("line {}: {error}", at + 1))?;
                block.clear();
            }
            continue;
        }
        let verbs = split(raw).map_err(|error| anyhow!("line {}: {error}", at + 1))?;
        if !verbs.is_empty() {
            lines.push(Line { number: at + 1, text: raw.trim().to_owned(), verbs, block: Value::Null });
        }
    }
    Ok(lines)
}

/// Replaces each item `{numbers: 0..3, each: …}` of a list by one item for each number, in which `$n` is the number.
fn counted(yaml: Value) -> Result<Value> {
    Ok(match yaml {
        Value::Object(fields) => {
            let field = |(name, value)| Ok((name, counted(value)?));
            fields.into_iter().map(field).collect::<Result<serde_json::Map<_, _>>>()?.into()
        }
        Value::Array(items) => {
            let mut all = Vec::new();
            for item in items {
                let Some(numbers) = item.get("numbers").and_then(Value::as_str).filter(|_| item.get("each").is_some()) else {
                    all.push(counted(item)?);
                    continue;
                };
                let (from, to) = numbers.split_once("..").ok_or_else(|| anyhow!("`{numbers}` are no numbers, as 0..3 are"))?;
                for number in from.parse::<u64>()?..to.parse()? {
                    all.push(replaced(&counted(item["each"].clone())?, "$n", &number.to_string()));
                }
            }
            all.into()
        }
        other => other,
    })
}

/// Replaces a part of all texts and keys of a value.
#[must_use]
pub fn replaced(value: &Value, part: &str, by: &str) -> Value {
    match value {
        Value::String(text) => text.replace(part, by).into(),
        Value::Array(items) => items.iter().map(|item| replaced(item, part, by)).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| (name.replace(part, by), replaced(value, part, by));
            fields.iter().map(field).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// A word, and whether it stood in quotes.
type Quoted = (String, bool);

fn split(raw: &str) -> Result<Vec<Words>> {
    let mut verbs: Vec<Vec<Quoted>> = vec![Vec::new()];
    let mut letters = raw.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' => {}
            '#' => break,
            ';' => verbs.push(Vec::new()),
            '"' => {
                let text: String = letters.by_ref().take_while(|letter| *letter != '"').collect();
                verbs.last_mut().ok_or_else(|| anyhow!("no verb"))?.push((with_double_quotes(&text), true));
            }
            first => {
                let mut word = String::from(first);
                while let Some(next) = letters.next_if(|next| !" \t;".contains(*next)) {
                    word.push(next);
                }
                verbs.last_mut().ok_or_else(|| anyhow!("no verb"))?.extend(expand(&word)?.into_iter().map(|word| (word, false)));
            }
        }
    }
    Ok(verbs.into_iter().filter(|words| !words.is_empty()).map(classify).collect())
}

/// Returns the words that `g-{0..2}` stands for: `g-0`, `g-1`, `g-2`.
fn expand(word: &str) -> Result<Vec<String>> {
    let parts = || {
        let (before, rest) = word.split_once('{')?;
        let (range, after) = rest.split_once('}')?;
        let (first, last) = range.split_once("..")?;
        Some((before, first, last, after))
    };
    let Some((before, first, last, after)) = parts() else { return Ok(vec![word.to_owned()]) };
    let number = |text: &str| text.parse::<u32>().map_err(|_| anyhow!("`{text}` in `{word}` is no number"));
    Ok((number(first)?..=number(last)?).map(|number| format!("{before}{number}{after}")).collect())
}

/// Makes double quotes of single ones. One between two letters is an apostrophe, as in `didn't`, and stays.
fn with_double_quotes(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let is_letter = |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(|letter| letter.is_alphabetic());
    let quote = |(at, letter): (usize, &char)| {
        let is_quote = *letter == '\'' && !(is_letter(at.checked_sub(1)) && is_letter(at.checked_add(1)));
        if is_quote { '"' } else { *letter }
    };
    letters.iter().enumerate().map(quote).collect()
}

fn classify(words: Vec<Quoted>) -> Words {
    let mut sorted = Words::default();
    let takes_plain = words.iter().take(3).any(|(word, quoted)| !quoted && ALL_PLAIN.contains(&word.as_str()));
    let mut words = words.into_iter();
    while let Some((word, quoted)) = words.next() {
        let is_preposition = !quoted && PREPOSITIONS.contains(&word.as_str()) && !sorted.plain.is_empty();
        if is_preposition && let Some((value, _)) = words.next() {
            sorted.options.push((word, value));
        } else if let Some(namespace) = word.strip_prefix("namespace=").filter(|_| !quoted) {
            sorted.options.push(("namespace".to_owned(), namespace.to_owned()));
        } else if quoted || takes_plain {
            sorted.plain.push(word);
        } else if let Some((name, value)) = word.split_once('=') {
            sorted.options.push((name.to_owned(), value.to_owned()));
        } else if let Some((name, amount)) = word.split_once(':') {
            sorted.amounts.push((name.to_owned(), amount.to_owned()));
        } else {
            sorted.plain.push(word);
        }
    }
    sorted
}

/// Reads a duration: `30s`, `500ms`, `2m`.
pub fn duration(text: &str) -> Result<std::time::Duration> {
    use std::time::Duration;
    let number = |number: &str| number.parse::<u64>().map_err(|_| anyhow!("`{text}` is no duration, as 500ms, 30s or 2m are"));
    if let Some(millis) = text.strip_suffix("ms") {
        Ok(Duration::from_millis(number(millis)?))
    } else if let Some(seconds) = text.strip_suffix('s') {
        Ok(Duration::from_secs(number(seconds)?))
    } else if let Some(minutes) = text.strip_suffix('m') {
        Ok(Duration::from_secs(number(minutes)? * 60))
    } else {
        bail!("`{text}` is no duration, as 500ms, 30s or 2m are")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_verbs_names_amounts_and_options() {
        let lines =
            read("# nothing\n\nnode n1 cpu:4 label=zone:a # one\n  spec:\n    unschedulable: true\ndelete pod a ; later 5s").unwrap();
        let [node, delete] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((node.number, &node.verbs[0].plain[..]), (3, &["node".to_owned(), "n1".to_owned()][..]));
        assert_eq!(node.verbs[0].amounts, [("cpu".to_owned(), "4".to_owned())]);
        assert_eq!(node.verbs[0].option("label"), Some("zone:a"));
        assert_eq!(node.block["spec"]["unschedulable"], true);
        assert_eq!(delete.verbs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["delete pod a", "later 5s"]);
        let gang = &read("gang g 3 in team cpu:1").unwrap()[0].verbs[0];
        assert_eq!((gang.option("in"), gang.number(2).unwrap()), (Some("team"), 3));
        assert!(gang.only(3, &[], &[]).unwrap_err().to_string().contains("does not know `in="));
    }

    #[test]
    fn a_range_stands_for_several_words() {
        let words = &read("pod g-{9..11} of g example.com/r{0..1}:2").unwrap()[0].verbs[0];
        assert_eq!(words.plain, ["pod", "g-9", "g-10", "g-11"]);
        assert_eq!(words.amounts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["example.com/r0", "example.com/r1"]);
        assert!(read("pod g-{0..all}").unwrap_err().to_string().contains("`all` in `g-{0..all}` is no number"));
    }

    #[test]
    fn an_item_with_numbers_stands_for_one_with_each_of_them() {
        let line = &read("pod p\n  a: [x, {numbers: 2..4, each: {'k-$n': [v$n]}}]").unwrap()[0];
        assert_eq!(line.block, serde_json::json!({ "a": ["x", { "k-2": ["v2"] }, { "k-3": ["v3"] }] }));
        assert!(read("pod p\n  a: [{numbers: 2, each: x}]").is_ok() && read("pod p\n  a: [{numbers: '2', each: x}]").is_err());
    }

    #[test]
    fn a_text_in_quotes_is_one_word_and_single_quotes_in_it_are_double_ones() {
        let line = &read("for 5s why g \"queue 'a' is over: cpu requested 1; x\"").unwrap()[0];
        assert_eq!(line.verbs[0].plain[4], "queue \"a\" is over: cpu requested 1; x");
        let line = &read("why g \"didn't match the zone's 'a'\"").unwrap()[0];
        assert_eq!(line.verbs[0].plain[2], "didn't match the zone's \"a\"");
    }
}
