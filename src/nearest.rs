//! Finds the name that is nearest to a typed one. Pure.

/// How many letters may be wrong, at most; in a short name a third of them.
const MOST: usize = 4;

/// A typed text of this length is the beginning of too many names.
const SHORT: usize = 3;

/// Returns the nearest name, the first by name of several; otherwise the shortest that begins with the typed text. `None` where none is near.
pub(super) fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (typed.len() / 3).min(MOST);
    let rank = |name: &'a str| match distance(typed.as_bytes(), name.as_bytes(), most) {
        Some(distance) => Some((distance, 0, name)),
        None if typed.len() >= SHORT && name.starts_with(typed) => Some((usize::MAX, name.len(), name)),
        None => None,
    };
    names.into_iter().filter_map(rank).min().map(|(_, _, name)| name)
}

/// Returns how many letters must be inserted, deleted or replaced, or neighbours be swapped; `None` where that is more than `most`.
fn distance(a: &[u8], b: &[u8], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    // One row for each letter of `a`: the distances of what comes before it to each beginning of `b`.
    let (mut above, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (at, x) in a.iter().enumerate() {
        let mut left = at.saturating_add(1);
        let mut next = vec![left];
        for (column, ((y, up), diagonal)) in b.iter().zip(row.iter().skip(1)).zip(&row).enumerate() {
            let replaced = diagonal.saturating_add(usize::from(x != y));
            left = replaced.min(up.saturating_add(1)).min(left.saturating_add(1));
            let before = |letters: &[u8], at: usize| at.checked_sub(1).and_then(|at| letters.get(at).copied());
            if before(a, at) == Some(*y) && before(b, column) == Some(*x) {
                let both = column.checked_sub(1).and_then(|column| above.get(column));
                left = both.map_or(left, |both| left.min(both.saturating_add(1)));
            }
            next.push(left);
        }
        if next.iter().chain(&row).all(|distance| *distance > most) {
            return None;
        }
        above = std::mem::replace(&mut row, next);
    }
    row.last().copied().filter(|distance| *distance <= most)
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

    #[test]
    fn a_distance_is_counted_as_far_as_it_matters() {
        let of = |a: &str, b: &str, most| distance(a.as_bytes(), b.as_bytes(), most);
        assert_eq!(
            [
                of("kitten", "sitting", 3),
                of("kitten", "sitting", 2),
                of("", "abc", 3),
                of("abc", "abc", 0),
                of("ab", "ba", 1),
                of("ba", "abc", 1)
            ],
            [Some(3), None, Some(3), Some(0), Some(1), None]
        );
    }
}
