//! A struct with more fields than that holds several things: each is a type of its own.
//!
//! Code for tests is left out, and so are the variants of enums.

use crate::finding::{Finding, Report};
use crate::workspace::Workspace;

const MOST: usize = 15;

/// Finds structs with too many fields.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let structs =
        workspace.rust.iter().flat_map(|file| file.structs.iter().map(move |it| (file, it)));
    let large = structs.filter(|(_, it)| it.fields > MOST).map(|(file, it)| {
        let (name, fields) = (&it.name, it.fields);
        let what =
            format!("struct {name} has {fields} fields, at most {MOST}: group them in types");
        Finding::at(&file.path, it.line, what)
    });
    large.collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    const LIB: &str = "crates/nothing/src/lib.rs";

    fn structure(fields: usize) -> String {
        let fields: Vec<_> = (0..fields).map(|field| format!("f{field}: u8")).collect();
        format!("struct S {{ {} }}", fields.join(", "))
    }

    fn found(text: &str) -> Vec<String> {
        failures(run, &[(LIB, text)])
    }

    #[test]
    fn a_struct_with_too_many_fields_is_named() {
        assert_eq!(found(&structure(15)), [""; 0]);
        let what = format!("{LIB}:1: struct S has 16 fields, at most 15: group them in types");
        assert_eq!(found(&structure(16)), [what.as_str()]);
        assert_eq!(found(&format!("mod inside {{ {} }}", structure(16))), [what]);
        assert_eq!(found(&format!("#[cfg(test)] mod tests {{ {} }}", structure(16))), [""; 0]);
    }
}
