//! A struct with more fields than that holds several things: each is a type of its own.
//!
//! Code for tests is left out, and so are the variants of enums.

use std::collections::BTreeMap;

use crate::finding::{Finding, Report};
use crate::source::{RustFile, Struct};
use crate::workspace::Workspace;

const MOST: usize = 15;

/// The list of structs that still have more; none if there is no such file.
const PATH: &str = "xtask/fields.txt";

/// Finds structs with too many fields that are not listed, and what is listed and no longer true.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let (mut listed, mut failures) = read(workspace.text(PATH).map_or("", |file| &file.text));
    for (path, it) in workspace.rust.iter().flat_map(large) {
        let name = &it.name;
        let known = listed.remove(&(path.to_owned(), name.clone())).unwrap_or(MOST);
        let what = if it.fields > known {
            format!("struct {name} has {} fields, at most {known}: group them in types", it.fields)
        } else if it.fields < known {
            format!("struct {name} has {} fields: lower its number in {PATH}", it.fields)
        } else {
            continue;
        };
        failures.push(Finding::at(path, it.line, what));
    }
    let gone = |((path, name), _)| {
        let what = format!("struct {name} of {path} has at most {MOST} fields: remove its line");
        Finding::new(PATH, what)
    };
    failures.extend(listed.into_iter().map(gone));
    failures.into()
}

fn large(file: &RustFile) -> impl Iterator<Item = (&str, &Struct)> {
    let large = file.structs.iter().filter(|it| it.fields > MOST);
    large.map(|it| (file.path.as_str(), it))
}

/// The list's lines by file and struct, and what is wrong with the others.
fn read(text: &str) -> (BTreeMap<(String, String), usize>, Vec<Finding>) {
    let (mut listed, mut failures) = (BTreeMap::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] | ["#", ..] => {}
            [path, name, fields] if let Ok(fields) = fields.parse() => {
                listed.insert(((*path).to_owned(), (*name).to_owned()), fields);
            }
            _ => failures.push(Finding::at(PATH, index + 1, "is not `<file> <struct> <fields>`")),
        }
    }
    (listed, failures)
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

    fn found(text: &str, listed: &str) -> Vec<String> {
        failures(run, &[(LIB, text), (PATH, listed)])
    }

    #[test]
    fn a_struct_with_too_many_fields_is_named() {
        assert_eq!(found(&structure(15), ""), [""; 0]);
        let what = format!("{LIB}:1: struct S has 16 fields, at most 15: group them in types");
        assert_eq!(found(&structure(16), ""), [what.as_str()]);
        assert_eq!(found(&format!("mod inside {{ {} }}", structure(16)), ""), [what]);
        assert_eq!(found(&format!("#[cfg(test)] mod tests {{ {} }}", structure(16)), ""), [""; 0]);
    }

    #[test]
    fn listed_numbers_may_only_fall() {
        let listed = |fields| format!("# known\n{LIB} S {fields}\n");
        assert_eq!(found(&structure(20), &listed(20)), [""; 0]);
        let more = format!("{LIB}:1: struct S has 21 fields, at most 20: group them in types");
        assert_eq!(found(&structure(21), &listed(20)), [more]);
        let fewer = format!("{LIB}:1: struct S has 19 fields: lower its number in {PATH}");
        assert_eq!(found(&structure(19), &listed(20)), [fewer]);
        let gone = format!("{PATH}: struct S of {LIB} has at most 15 fields: remove its line");
        assert_eq!(found(&structure(15), &listed(20)), [gone]);
        assert_eq!(found("", "S 20\n"), [format!("{PATH}:1: is not `<file> <struct> <fields>`")]);
    }
}
