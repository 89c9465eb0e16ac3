//! Lays out a text table in lines of 80 characters.
//!
//! Each column is as wide as its widest cell. A name that is too long for the line with its figures gets a line of its own.

use unicode_width::UnicodeWidthStr;

/// Characters per line: those of a standard terminal.
const LINE_WIDTH: usize = 80;

/// Names on the left, right-aligned cells beside them.
#[derive(Debug)]
pub struct TextTable {
    rows: Vec<(String, Vec<String>)>,
}

impl TextTable {
    pub fn with_header(name: &str, heads: &[&str]) -> TextTable {
        TextTable { rows: vec![(name.to_owned(), heads.iter().map(|&head| head.to_owned()).collect())] }
    }

    pub fn push(&mut self, name: String, cells: Vec<String>) {
        self.rows.push((name, cells));
    }

    pub fn render(&self) -> String {
        let widest = |column: usize| self.rows.iter().filter_map(|(_, cells)| cells.get(column)).map(|cell| cell.width()).max();
        let widths: Vec<usize> = (0..).map_while(widest).collect();
        let room = LINE_WIDTH.saturating_sub(widths.iter().map(|width| width + 1).sum());
        let names = self.rows.iter().map(|(name, _)| name.width()).filter(|&width| width <= room);
        let wide = names.max().unwrap_or_default();
        let mut text = String::new();
        for (name, cells) in &self.rows {
            text.push_str(name);
            let mut at = name.width();
            if at > wide {
                text.push('\n');
                at = 0;
            }
            text.push_str(&" ".repeat(wide - at));
            for (cell, width) in cells.iter().zip(&widths) {
                text.push_str(&" ".repeat(1 + width.saturating_sub(cell.width())));
                text.push_str(cell);
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

/// Wraps a sentence at 80 characters; further lines are indented.
pub fn wrap(sentence: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut at = 0;
    for (index, word) in sentence.split(' ').enumerate() {
        let width = word.width();
        if index > 0 && at + 1 + width > LINE_WIDTH && at > indent {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            at = indent;
        } else if index > 0 {
            text.push(' ');
            at += 1;
        }
        text.push_str(word);
        at += width;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_no_room_have_a_line_of_their_own() {
        let mut columns = TextTable::with_header("FIGURE", &["base p50", "p95", "×base"]);
        let long = "ü".repeat(70);
        columns.push("disk sda".to_owned(), vec!["1.00".to_owned(), "123456.78".to_owned(), "2.00".to_owned()]);
        columns.push(long.clone(), vec!["-".to_owned(), "-".to_owned(), String::new()]);
        let said = columns.render();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines,
            ["FIGURE   base p50       p95 ×base", "disk sda     1.00 123456.78  2.00", &long, "                -         -",]
        );
    }

    #[test]
    fn sentences_are_folded_between_words() {
        let sentence = format!("  new  {} {} end", "a".repeat(70), "b".repeat(90));
        let folded = wrap(&sentence, 7);
        assert_eq!(folded, format!("  new  {}\n       {}\n       end\n", "a".repeat(70), "b".repeat(90)));
    }
}
