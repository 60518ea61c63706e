//! Does a text say the same as another, with other numbers?
//!
//! What somebody waits for is told with its numbers, which in a full cluster change all the time; that is no news. Looked at are the texts that stand, not what was meant by
//! them: whoever starts anew, or could not write, knows as much. With the numbers goes what hangs on them alone: which nodes lack what, who comes first in a fifo queue, and why
//! nobody goes for it.

/// What these texts begin with is all that they say but for numbers.
const OPEN_ENDED: [&str; 2] = ["no node takes it", "its queue is fifo"];

/// Whether the two say the same but for their numbers.
#[must_use]
pub fn same_but_numbers(one: &str, other: &str) -> bool {
    gist(one).eq(gist(other))
}

/// The words of a text but for its numbers, each of which is `#`.
fn gist(text: &str) -> impl Iterator<Item = &str> {
    let first = text.split("; ").next().unwrap_or_default();
    let said = OPEN_ENDED.into_iter().find(|begin| first.starts_with(begin)).unwrap_or(first);
    said.split_whitespace().map(|word| if word.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit()) { "#" } else { word })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_and_what_hangs_on_them_may_differ() {
        let nodes = "no node takes it: 1/1 nodes: lacks cpu (asked 5, most free 2)";
        let full = "queue team-1 is full: memory asked 1Gi, used 4Gi of capability 10Gi";
        for (other, same) in [
            ("no node takes it: 3/9 nodes: lacks memory (asked 5, most free 2); 6/9 nodes: cordoned", true),
            ("no node takes it: 1/1 nodes: lacks cpu (asked 5, most free 2); nobody may go for it (queue a has 3)", true),
            ("0 of 2 members find a place; for the next one: 1/1 nodes: cordoned", false),
            (full, false),
        ] {
            assert_eq!(same_but_numbers(nodes, other), same, "{other}");
        }
        for (other, same) in [
            ("queue team-1 is full: memory asked 512Mi, used 10Gi of capability 10Gi, 1Gi kept for guarantees", false),
            ("queue team-1 is full: memory asked 512Mi, used 10Gi of capability 9; too few may go for it (a has 1): it", true),
            ("queue team-1 is full: cpu asked 1Gi, used 4Gi of capability 10Gi", false),
            ("queue team-2 is full: memory asked 1Gi, used 4Gi of capability 10Gi", false),
            ("queue team-1 is closed", false),
            ("", false),
        ] {
            assert_eq!(same_but_numbers(full, other), same, "{other}");
        }
        assert!(same_but_numbers("its queue is fifo, and a/b comes first", "its queue is fifo, and a/c comes first"));
        assert!(same_but_numbers("2 of 4 members find a place; for the next one: x", "3 of 4 members find a place; for the next one: y"));
    }
}
