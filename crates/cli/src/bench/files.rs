//! The files that `--out` of an insulation bench writes.

use std::path::Path;

use anyhow::Context;
use disktime_report::page::File;
use serde::Serialize;

use crate::output;

/// Writes a page with its drawing, and the rows under that name.
pub(super) fn write(
    dir: &Path,
    page: [File; 2],
    json: &str,
    rows: &impl Serialize,
) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(rows)? + "\n";
    for File { name, text } in page.into_iter().chain([File { name: json.to_owned(), text }]) {
        let path = dir.join(name);
        output::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    eprintln!("wrote {}", dir.display());
    Ok(())
}
