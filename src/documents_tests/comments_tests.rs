//! Are comments narrow enough to be read beside other code?

use super::{names_below, read};

/// The widest line of a comment, in characters. Code is narrower (`max_width` in `rustfmt.toml`), and rustfmt leaves comments as they are.
const WIDEST: usize = 150;

/// Returns the numbers of the lines that are nothing but a comment, and too wide. The row of a table cannot be broken.
fn too_wide(text: &str) -> Vec<usize> {
    let is_text =
        |line: &str| line.trim_start().strip_prefix("//").is_some_and(|comment| !comment.starts_with("! |") && !comment.starts_with("/ |"));
    let lines = text.lines().enumerate().filter(|(_, line)| is_text(line) && line.chars().count() > WIDEST);
    lines.map(|(before, _)| before + 1).collect()
}

#[test]
fn no_comment_is_wider_than_the_limit() {
    let files: Vec<_> =
        ["src", "model", "benches", "examples", "e2e/src", "scenarios"].iter().flat_map(|folder| names_below(folder, ".rs")).collect();
    assert!(files.len() > 400, "{}", files.len());
    let wide: Vec<_> = files.iter().flat_map(|file| too_wide(&read(file)).into_iter().map(move |line| format!("{file}:{line}"))).collect();
    assert!(wide.is_empty(), "comments wider than {WIDEST} characters: {wide:?}");
}

#[test]
fn a_wide_comment_is_found_and_wide_code_is_not() {
    let wide = "x".repeat(WIDEST);
    assert_eq!(too_wide(&format!("//! {wide}\nlet text = \"{wide}\";\n    /// short\n    // {wide}\n//! | {wide} |")), [1, 4]);
}
