//! Makes untrusted text safe to print.
//!
//! Names, annotations, messages and values come from tenants. All text goes through a [`Page`]. It writes control characters, and
//! characters that change the direction of text or have no width, as escapes, and cuts long text. Colours are added around the pieces
//! afterwards, so no foreign escape sequence can reach the terminal.

/// The limit of one piece of text, in characters; the longest message of the scheduler fits.
const MOST: usize = 2_000;

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Plain.
    Plain,
    /// A heading or a name.
    Strong,
    /// Good.
    Good,
    /// A problem.
    Bad,
    /// A warning.
    Warn,
    /// Less important.
    Faint,
}

impl Tone {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Warn => Some("33"),
            Self::Faint => Some("2"),
        }
    }
}

/// One line: pieces of text that are already safe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(Vec<(Tone, String)>);

impl Line {
    /// Makes a line of one piece.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self::default().and(Tone::Plain, text)
    }

    /// Returns the line with one more piece.
    #[must_use]
    pub fn and(mut self, tone: Tone, text: impl AsRef<str>) -> Self {
        self.0.push((tone, clean(text.as_ref())));
        self
    }

    /// Returns one line for each row, with aligned cells, two blanks between them, after `indent` blanks.
    #[must_use]
    pub fn aligned(indent: usize, rows: Vec<Vec<Self>>) -> Vec<Self> {
        let mut widths: Vec<usize> = Vec::new();
        for row in &rows {
            for (at, cell) in row.iter().enumerate() {
                match widths.get_mut(at) {
                    Some(width) => *width = (*width).max(cell.width()),
                    None => widths.push(cell.width()),
                }
            }
        }
        let aligned = |row: Vec<Self>| {
            let last = row.len().saturating_sub(1);
            let mut line = Self::new(" ".repeat(indent));
            for (at, cell) in row.into_iter().enumerate() {
                let gap = if at == last { 0 } else { widths.get(at).copied().unwrap_or(0).saturating_sub(cell.width()).saturating_add(2) };
                line.0.extend(cell.0);
                line.0.push((Tone::Plain, " ".repeat(gap)));
            }
            line
        };
        rows.into_iter().map(aligned).collect()
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }
}

/// The text to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page(Vec<Line>);

impl Page {
    /// Adds a line.
    pub fn line(&mut self, line: Line) {
        self.0.push(line);
    }

    /// Adds a line of plain text.
    pub fn text(&mut self, text: impl AsRef<str>) {
        self.line(Line::new(text));
    }

    /// Adds an empty line (not at the top) and a heading.
    pub fn heading(&mut self, text: impl AsRef<str>) {
        if !self.0.is_empty() {
            self.line(Line::default());
        }
        self.line(Line::default().and(Tone::Strong, text));
    }

    /// Adds rows with aligned columns, after `indent` blanks.
    pub fn table(&mut self, indent: usize, rows: Vec<Vec<Line>>) {
        self.0.extend(Line::aligned(indent, rows));
    }

    /// Returns the text, each line ended.
    #[must_use]
    pub fn render(&self, coloured: bool) -> String {
        let mut out = String::new();
        for line in &self.0 {
            let mut text = String::new();
            for (tone, piece) in &line.0 {
                match tone.code().filter(|_| coloured && !piece.trim().is_empty()) {
                    Some(code) => text.push_str(&format!("\u{1b}[{code}m{piece}\u{1b}[0m")),
                    None => text.push_str(piece),
                }
            }
            out.push_str(text.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Whether a character has an effect on a terminal or a reader other than being visible.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text with every unsafe character as an escape, cut at [`MOST`] characters.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        if at >= MOST {
            out.push('…');
            break;
        }
        if is_unsafe(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Returns the first of these names, of which there may be thousands, and how many more there are.
#[must_use]
pub fn first_of(names: &[impl AsRef<str>], most: usize) -> String {
    let first = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns the value as JSON. Unsafe characters are JSON escapes, so the value is the same and a terminal is safe.
#[must_use]
pub fn json(value: &serde_json::Value) -> String {
    let mut out = String::new();
    // Outside of strings, the pretty form has no control characters but line ends.
    for c in format!("{value:#}\n").chars() {
        if c != '\n' && is_unsafe(c) {
            let mut units = [0_u16; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn characters_with_an_effect_on_a_terminal_are_escaped() {
        assert_eq!(clean("a\u{1b}[31mb\r\n\u{202e}c\u{9b}"), "a\\u{1b}[31mb\\r\\n\\u{202e}c\\u{9b}");
        assert_eq!(clean("größe 数"), "größe 数");
        assert_eq!(clean(&"x".repeat(3_000)).chars().count(), 2_001);
    }

    #[test]
    fn columns_are_aligned_and_colours_have_no_width() {
        let mut page = Page::default();
        page.heading("A");
        page.heading("B");
        let row = |tone, a: &str, b: &str| vec![Line::default().and(tone, a), Line::new(b)];
        page.table(2, vec![row(Tone::Plain, "long", "x"), row(Tone::Bad, "s", "y")]);
        assert_eq!(page.render(false), "A\n\nB\n  long  x\n  s     y\n");
        assert_eq!(page.render(true), "\u{1b}[1mA\u{1b}[0m\n\n\u{1b}[1mB\u{1b}[0m\n  long  x\n  \u{1b}[31ms\u{1b}[0m     y\n");
    }

    proptest! {
        #![proptest_config(crate::random_tests::config(256))]

        #[test]
        fn no_printed_text_has_an_effect_on_a_terminal(text in any::<String>(), key in any::<String>()) {
            let mut page = Page::default();
            page.text(&text);
            page.table(1, vec![vec![Line::new(&key), Line::new(&text)]]);
            prop_assert!(page.render(false).chars().all(|c| c == '\n' || !is_unsafe(c)));
            let value = json!({ key: text });
            let written = json(&value);
            prop_assert!(written.chars().all(|c| c == '\n' || !is_unsafe(c)));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
        }
    }
}
