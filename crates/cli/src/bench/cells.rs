//! Which cells `--cell` names.

use std::collections::BTreeSet;

use disktime_bench::insulation::{Cell, Selection};

use crate::BadInput;

/// The cells that any of the texts selects, each once.
pub(super) fn selected(texts: &[impl AsRef<str>]) -> Result<Vec<Cell>, BadInput> {
    let mut cells = BTreeSet::new();
    for text in texts.iter().map(AsRef::as_ref) {
        let selection: Result<Selection, _> = text.parse();
        let selection = selection.map_err(|error| BadInput(format!("--cell `{text}`: {error}")))?;
        cells.extend(selection.cells());
    }
    Ok(cells.into_iter().collect())
}
