//! How long the message of an Event may be.

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
}
