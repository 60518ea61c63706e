//! How does text that anybody may have written become safe to print?
//!
//! Names, annotations, messages and values come from tenants. All text goes through a [`Page`], which writes control characters and those that turn
//! the direction of text or take no room as escapes, and cuts what is long. Colours are put around the pieces afterwards, so nobody else's escape
//! sequence can reach the terminal.

/// The most of one piece of text that is shown; the longest message of the scheduler fits.
const MOST: usize = 2_000;

/// What a piece of text is to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// A heading or a name.
    Strong,
    /// All is well.
    Good,
    /// Something is in the way.
    Bad,
    /// Something should be looked at.
    Warn,
    /// Beside the point.
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

/// One line: pieces of text that are safe already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(Vec<(Tone, String)>);

impl Line {
    /// A line that begins with this.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        Self::default().and(Tone::Plain, text)
    }

    /// The same with one more piece.
    #[must_use]
    pub fn and(mut self, tone: Tone, text: impl AsRef<str>) -> Self {
        self.0.push((tone, clean(text.as_ref())));
        self
    }

    /// One line for each row; its cells stand below those of the other rows, two blanks between them, after `indent` blanks.
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

/// What is to be printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page(Vec<Line>);

impl Page {
    /// One more line.
    pub fn line(&mut self, line: Line) {
        self.0.push(line);
    }

    /// One more line of plain text.
    pub fn text(&mut self, text: impl AsRef<str>) {
        self.line(Line::new(text));
    }

    /// An empty line and a heading; no empty line at the top.
    pub fn heading(&mut self, text: impl AsRef<str>) {
        if !self.0.is_empty() {
            self.line(Line::default());
        }
        self.line(Line::default().and(Tone::Strong, text));
    }

    /// Rows whose columns stand below each other, after `indent` blanks.
    pub fn table(&mut self, indent: usize, rows: Vec<Vec<Line>>) {
        self.0.extend(Line::aligned(indent, rows));
    }

    /// The text, each line ended.
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

/// Whether a character does to a terminal, or to who reads it, something other than standing there.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text with everything unsafe as an escape, cut at [`MOST`] characters.
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

/// The first of these names, of which there may be thousands, and how many more there are.
#[must_use]
pub fn first_of(names: &[impl AsRef<str>], most: usize) -> String {
    let first = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The value as JSON for people and programs. What is unsafe stands as JSON's own escapes, so it means the same and a terminal is safe from it.
#[must_use]
pub fn json(value: &serde_json::Value) -> String {
    let mut out = String::new();
    // Of what the pretty form has outside of strings only the ends of its lines are control characters.
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
    fn what_would_act_on_a_terminal_is_shown_instead() {
        assert_eq!(clean("a\u{1b}[31mb\r\n\u{202e}c\u{9b}"), "a\\u{1b}[31mb\\r\\n\\u{202e}c\\u{9b}");
        assert_eq!(clean("größe 数"), "größe 数");
        assert_eq!(clean(&"x".repeat(3_000)).chars().count(), 2_001);
    }

    #[test]
    fn columns_stand_below_each_other_and_colours_take_no_room() {
        let mut page = Page::default();
        page.heading("A");
        page.heading("B");
        let row = |tone, a: &str, b: &str| vec![Line::default().and(tone, a), Line::new(b)];
        page.table(2, vec![row(Tone::Plain, "long", "x"), row(Tone::Bad, "s", "y")]);
        assert_eq!(page.render(false), "A\n\nB\n  long  x\n  s     y\n");
        assert_eq!(page.render(true), "\u{1b}[1mA\u{1b}[0m\n\n\u{1b}[1mB\u{1b}[0m\n  long  x\n  \u{1b}[31ms\u{1b}[0m     y\n");
    }

    proptest! {
        #[test]
        fn nothing_that_is_printed_can_act(text in any::<String>(), key in any::<String>()) {
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
