//! Tables that align: names to the left, numbers to the right.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets};

/// An empty table; `numbers` are the columns that hold numbers.
pub fn new(header: &[&str], numbers: Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
