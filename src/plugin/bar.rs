//! Draws a bar that shows how full a queue or a node is.

use crate::resources::Amount;

/// The number of cells of a bar.
pub(super) const WIDTH: usize = 20;

/// Draws `[██████▒▒····|·······]`: used, then reserved, of `most`; `|` is where `deserved` ends, also where more than that is used. `None`
/// where there is no maximum to compare with.
#[must_use]
pub(super) fn bar(used: Amount, reserved: Amount, deserved: Option<Amount>, most: Option<Amount>) -> Option<String> {
    let most = most.filter(|most| most.is_positive())?;
    let full = cells(used, most);
    let taken = cells(used.plus(reserved), most);
    let mark = deserved.map(|deserved| cells(deserved, most)).filter(|mark| *mark > 0 && *mark < WIDTH);
    let mut bar = String::from("[");
    for cell in 0..WIDTH {
        let drawn = match cell {
            _ if mark == Some(cell) => '|',
            _ if cell < full => '█',
            _ if cell < taken => '▒',
            _ => '·',
        };
        bar.push(drawn);
    }
    bar.push(if used.plus(reserved) > most { '>' } else { ']' });
    Some(bar)
}

/// Returns the number of cells of an amount: 0 only for 0, and all only for all of `most`.
fn cells(amount: Amount, most: Amount) -> usize {
    if !amount.is_positive() {
        return 0;
    }
    if amount >= most {
        return WIDTH;
    }
    let width = i128::try_from(WIDTH).unwrap_or(1);
    // Amounts of real clusters are far below the limit of exact multiplication.
    let exact = amount.nanos().saturating_mul(width).checked_div(most.nanos()).unwrap_or(0);
    usize::try_from(exact).unwrap_or(0).clamp(1, WIDTH.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bar_shows_what_is_used_reserved_and_deserved() {
        let of = |used, reserved, deserved: Option<i64>, most: Option<i64>| {
            bar(Amount::from_units(used), Amount::from_units(reserved), deserved.map(Amount::from_units), most.map(Amount::from_units))
        };
        assert_eq!(of(5, 2, Some(8), Some(10)).unwrap(), "[██████████▒▒▒▒··|···]");
        assert_eq!(of(8, 1, Some(5), Some(10)).unwrap(), "[██████████|█████▒▒··]", "more than deserved");
        assert_eq!(of(0, 0, None, Some(10)).unwrap(), "[····················]");
        assert_eq!(of(12, 0, Some(10), Some(10)).unwrap(), "[████████████████████>");
        assert_eq!(of(1, 0, None, Some(1000)).unwrap(), "[█···················]");
        assert_eq!(of(1, 0, None, Some(0)), None);
        assert_eq!(of(1, 0, None, None), None);
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn every_bar_has_the_same_width(used in any::<i128>(), reserved in any::<i128>(), deserved in any::<Option<i128>>(), most in any::<i128>()) {
            let bar = bar(Amount::from_nanos(used), Amount::from_nanos(reserved), deserved.map(Amount::from_nanos), Some(Amount::from_nanos(most)));
            prop_assert!(bar.is_none_or(|bar| bar.chars().count() == WIDTH + 2));
        }
    }
}
