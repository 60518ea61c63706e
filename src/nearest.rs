//! Finds the name that is nearest to a typed one. Pure.

use strsim::osa_distance;

/// How many letters may be wrong, at most; in a short name a third of them.
const MOST: usize = 4;

/// A typed text of this length is the beginning of too many names.
const SHORT: usize = 3;

/// Returns the nearest name, the first by name of several; otherwise the shortest that begins with the typed text. `None` where none is near.
pub(crate) fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (typed.len() / 3).min(MOST);
    let rank = |name: &'a str| {
        // Each letter that is inserted, deleted or replaced counts, and each pair of neighbours that is swapped. A difference in length that
        // is too large needs no count.
        let distance = (typed.len().abs_diff(name.len()) <= most).then(|| osa_distance(typed, name)).filter(|distance| *distance <= most);
        let begins = typed.len() >= SHORT && name.starts_with(typed);
        distance.map(|distance| (distance, 0, name)).or_else(|| begins.then_some((usize::MAX, name.len(), name)))
    };
    names.into_iter().filter_map(rank).min().map(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_none_that_is_far() {
        let names = ["train", "science", "biology", "physics", "a", "team-blue-training", "team-blue", "default"];
        let table = [
            ("sience", Some("science")),
            ("sceince", Some("science")),
            ("trian", Some("train")),
            ("biologie", Some("biology")),
            ("b", None),
            ("team-bleu-trainig", Some("team-blue-training")),
            ("team", Some("team-blue")),
            ("te", None),
            ("chemistry", None),
        ];
        for (typed, want) in table {
            assert_eq!(nearest(typed, names), want, "{typed}");
        }
        assert_eq!(nearest("abc", ["bbc", "aac"]), Some("aac"), "the first by name");
        assert_eq!(nearest("x", []), None);
    }
}
