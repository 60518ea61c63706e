//! How long may the message of an Event be, and what is the name of one that is written once?

/// The most bytes of a message. The API server accepts 1,024. The limit is not much lower, because messages begin with names and end with the cause.
const BYTES: usize = 1000;

/// Returns the message as the API server accepts it. A message that is cut ends with `…`.
#[must_use]
pub fn message(text: &str) -> String {
    const CUT: &str = "…";
    if text.len() <= BYTES {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(BYTES - CUT.len())).unwrap_or_default();
    format!("{kept}{CUT}")
}

/// Returns the name of an Event that is written once, also after a restart and by the next leader: the name of its object, and the hash
/// of its content. The object's name is cut so that the result is a DNS-1123 subdomain.
#[must_use]
pub fn name<const N: usize>(object: &str, content: [&str; N]) -> String {
    let start = object.get(..200).unwrap_or(object).trim_end_matches(['-', '.']);
    format!("{start}.{:016x}", fnv1a(content))
}

/// Returns the FNV-1a hash of the parts. It is the same on every machine and in every version of the program.
fn fnv1a<const N: usize>(parts: [&str; N]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_to_what_the_api_server_accepts_and_says_so() {
        for whole in ["short".to_owned(), "x".repeat(1000)] {
            assert_eq!(message(&whole), whole);
        }
        assert_eq!(message(&"x".repeat(1001)), format!("{}…", "x".repeat(997)));
        // Each character has three bytes.
        assert_eq!(message(&"字".repeat(2000)), format!("{}…", "字".repeat(332)));
    }

    #[test]
    fn the_event_of_an_object_with_a_long_name_has_a_valid_name() {
        let [short, other] = ["a", "b"].map(|content| name("rs", [content]));
        assert_eq!((&*short, short == other), ("rs.089be207b544f1e4", false));
        for end in ["-x", ".x", "-.x"] {
            let name = name(&format!("{}{end}{}", "a".repeat(201 - end.len()), "b".repeat(50)), ["a"]);
            assert_eq!(name.trim_start_matches('a'), ".089be207b544f1e4", "{end}");
        }
    }
}
