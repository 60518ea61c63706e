//! Which texts may be names of objects, and parts of them? The rules are those of RFC 1123, as Kubernetes applies them.

/// The longest label.
const LONGEST_LABEL: usize = 63;

/// The longest subdomain.
const LONGEST_SUBDOMAIN: usize = 253;

/// Returns whether the text is a DNS-1123 label, as the name of a namespace must be: 1 to 63 lower case letters, digits and `-`, which is
/// not first or last.
#[must_use]
pub fn is_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_part(text)
}

/// Returns whether the text is a DNS-1123 subdomain, as the name of most objects must be: parts with a `.` between them, 253 bytes in all.
/// A part is like a label, and may be longer, as in Kubernetes.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_part)
}

/// Returns whether the text is a number of at most nine digits, which may end a name.
#[must_use]
pub fn is_number(text: &str) -> bool {
    (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subdomain_is_parts_of_lower_case_letters_digits_and_inner_hyphens() {
        let (label, subdomain) = ("a".repeat(LONGEST_LABEL), "a".repeat(LONGEST_SUBDOMAIN));
        for (text, as_label, as_subdomain) in [
            ("a", true, true),
            ("a-1", true, true),
            ("0", true, true),
            ("a.b", false, true),
            (&label, true, true),
            (&format!("{label}a"), false, true),
            (&subdomain, false, true),
            (&format!("{subdomain}a"), false, false),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("ä", false, false),
            ("a..b", false, false),
            (".a", false, false),
            ("a.", false, false),
            ("a.-b", false, false),
        ] {
            assert_eq!((is_label(text), is_subdomain(text)), (as_label, as_subdomain), "{text:?}");
        }
    }
}
