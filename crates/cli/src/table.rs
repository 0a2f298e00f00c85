//! Tables that align and fit: names to the left, numbers to the right, in as many blocks of columns as
//! it takes, each with the names again.

use std::fmt;
use std::ops::Range;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};

use crate::terminal::{self, COLUMNS};

/// A name is wrapped to no fewer columns than this to make a table fit.
const NAME_LEAST: usize = 24;

/// Rows of cells under a header.
#[derive(Debug)]
pub struct Table {
    header: Vec<String>,
    numbers: Range<usize>,
    rows: Vec<Vec<String>>,
}

/// An empty table; `numbers` are the columns that hold numbers.
pub fn new(header: &[&str], numbers: Range<usize>) -> Table {
    let header = header.iter().map(|&it| it.to_owned()).collect();
    Table { header, numbers, rows: Vec::new() }
}

impl Table {
    /// Adds a row below the others.
    pub fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Rows without the header.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// As text of so many columns.
    fn text(&self, most: usize) -> String {
        let widths: Vec<usize> = (0..self.header.len()).map(|at| self.width(at)).collect();
        let all: Vec<usize> = (0..widths.len()).collect();
        let excess = width_of(&all, &widths).saturating_sub(most);
        if excess == 0 {
            return self.block(&all, None);
        }
        // One long name, or the last column's words, rather than many numbers: it is wrapped.
        let is_text = |at: &usize| !self.numbers.contains(at);
        let widest = all.iter().copied().filter(is_text).max_by_key(|&at| widths[at]);
        let fits = |at: &usize| {
            let width = widths[*at].saturating_sub(excess);
            width >= NAME_LEAST && self.longest_word(*at) <= width
        };
        if let Some(at) = widest.filter(fits) {
            return self.block(&all, Some((at, widths[at] - excess)));
        }
        let blocks = self.blocks(&widths, most);
        blocks.iter().map(|block| self.block(block, None)).collect::<Vec<_>>().join("\n\n")
    }

    /// Columns of each block: the names before the numbers, then as many others as fit. Names that take
    /// more than half of the columns are in the first block alone, but for the first of them.
    fn blocks(&self, widths: &[usize], most: usize) -> Vec<Vec<usize>> {
        let names: Vec<usize> = (0..self.numbers.start).collect();
        let many = width_of(&names, widths) > most / 2;
        let again = if many { names.get(..1).unwrap_or_default().to_vec() } else { names.clone() };
        let (mut block, mut blocks) = (names.clone(), Vec::new());
        for at in names.len()..widths.len() {
            let longer = [&block[..], &[at]].concat();
            if width_of(&longer, widths) <= most {
                block = longer;
            } else {
                blocks.push(std::mem::replace(&mut block, [&again[..], &[at]].concat()));
            }
        }
        blocks.push(block);
        blocks
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).chain(self.header.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// A name is never broken in the middle of a word: it is to be copied.
    fn longest_word(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).chain(self.header.get(at));
        let words = cells.flat_map(|cell| cell.split(' '));
        words.map(|word| word.chars().count()).max().unwrap_or(0)
    }

    /// These columns, one of them wrapped to a width.
    fn block(&self, columns: &[usize], wrapped: Option<(usize, usize)>) -> String {
        let of = |cells: &[String]| -> Vec<String> {
            columns.iter().map(|&at| cells.get(at).cloned().unwrap_or_default()).collect()
        };
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_header(of(&self.header));
        self.rows.iter().for_each(|row| {
            table.add_row(of(row));
        });
        for (index, at) in columns.iter().enumerate() {
            let Some(column) = table.column_mut(index) else { continue };
            if self.numbers.contains(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if let Some((_, width)) = wrapped.filter(|(narrowed, _)| narrowed == at) {
                let width = u16::try_from(width + 2).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
            }
        }
        if wrapped.is_some() {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::MAX);
        }
        let text = table.to_string();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

/// A blank before each cell, and one between two.
fn width_of(columns: &[usize], widths: &[usize]) -> usize {
    (columns.iter().map(|&at| widths[at] + 2).sum::<usize>()).saturating_sub(1)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(terminal::columns().max(COLUMNS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: usize, numbers: usize) -> Table {
        let header: Vec<String> = (0..names + numbers).map(|at| format!("column {at}")).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = new(&header, names..names + numbers);
        table.add_row((0..names + numbers).map(|at| format!("cell {at}")));
        table
    }

    #[test]
    fn a_table_that_fits_is_one_block() {
        let text = table(1, 3).text(80);
        assert_eq!(
            text,
            " column 0  column 1  column 2  column 3\n cell 0      cell 1    cell 2    cell 3"
        );
    }

    /// Sixteen columns took 150 of a terminal's: rows broke anywhere.
    #[test]
    fn a_wide_table_is_in_blocks_that_all_begin_with_the_names() {
        let text = table(2, 14).text(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let blocks: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(blocks.len(), 3, "{text}");
        assert!(blocks.iter().all(|block| block.starts_with(" column 0  column 1  ")), "{text}");
        for at in 0..16 {
            assert!(text.contains(&format!("cell {at}")), "cell {at} is lost: {text}");
        }
    }

    /// Two names of 38 and 25 columns left no room for the figures behind them.
    #[test]
    fn long_names_are_not_all_repeated() {
        let mut table = new(&["virtual disk", "device", "got", "device p50/p99"], 2..4);
        table.add_row(["v".repeat(38), "d".repeat(25), "50 %".to_owned(), "1ms/2ms".to_owned()]);
        let text = table.text(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("50 %") && text.contains("1ms/2ms"), "{text}");
        assert_eq!(text.matches(&"v".repeat(38)).count(), 2, "{text}");
        assert_eq!(text.matches(&"d".repeat(25)).count(), 1, "{text}");
    }

    #[test]
    fn a_long_name_is_wrapped_and_its_numbers_stay_beside_it() {
        let mut table = new(&["check", "measured"], 1..2);
        table.add_row(["a name of many words ".repeat(6).trim().to_owned(), "0.5".to_owned()]);
        let text = table.text(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.lines().count() > 2 && text.lines().nth(1).unwrap().ends_with("0.5"),
            "{text}"
        );
    }
}
