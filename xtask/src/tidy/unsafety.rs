//! `unsafe` stands in few files, each named here with its reason. Clippy checks that each block
//! says why it is sound (`undocumented_unsafe_blocks`).

use crate::finding::{Finding, Report};
use crate::source::{RustFile, TokenKind};
use crate::workspace::Workspace;

/// A file that may be unsafe, and why it can't be otherwise.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/server/src/clock.rs", "one system call, twice as cheap as through std's Instant"),
    (
        "crates/server/src/ring.rs",
        "the kernel reads and writes the memory of submitted operations until they complete",
    ),
    (
        "crates/server/src/buffers.rs",
        "registered, aligned buffers are lent to the kernel as raw memory",
    ),
    ("crates/server/src/backend/file/pool/clone.rs", "an ioctl that no safe wrapper has"),
    ("crates/fuse/src/extents.rs", "the kernel writes the places of a file into memory"),
    ("crates/fuse/src/handles.rs", "a call that no safe wrapper has"),
    ("crates/fuse/src/client.rs", "ioctls write into memory of the program that calls them"),
    ("crates/core/tests/allocation.rs", "an allocator that counts, in a test"),
];

/// Finds `unsafe` elsewhere, in product and tests alike, and list entries that are no longer needed.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut report = Report::default();
    for file in &workspace.rust {
        let allowed = ALLOWED.iter().any(|(path, _)| *path == file.path);
        let lines = unsafe_lines(file);
        if allowed && lines.is_empty() {
            let what = "is allowed to be unsafe and is not: take it off the list";
            report.failures.push(Finding::new(&file.path, what));
        }
        for line in lines.into_iter().filter(|_| !allowed) {
            let what = "`unsafe` outside the files that may use it";
            report.failures.push(Finding::at(&file.path, line, what));
        }
    }
    for (path, reason) in ALLOWED.iter().filter(|(path, _)| workspace.text(path).is_none()) {
        let what = format!("may be unsafe ({reason}) but is not there");
        report.notes.push(Finding::new(*path, what));
    }
    report
}

fn unsafe_lines(file: &RustFile) -> Vec<usize> {
    let is_unsafe = |kind: &TokenKind| matches!(kind, TokenKind::Ident(word) if word == "unsafe");
    file.tokens.iter().filter(|it| is_unsafe(&it.kind)).map(|it| it.at.line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failures, manifest};

    const LIB: &str = "crates/nothing/src/lib.rs";

    #[test]
    fn unsafe_in_any_form_is_found_outside_the_list() {
        let text = "fn f() {\n    unsafe { g() }\n}\nunsafe impl Send for A {}\n\
                    #[unsafe(no_mangle)]\nfn h() {}\nmod t { fn f() { m!(unsafe { g() }) } }\n";
        let places = [2, 4, 5, 7]
            .map(|line| format!("{LIB}:{line}: `unsafe` outside the files that may use it"));
        assert_eq!(failures(run, &[(LIB, text)]), places);
    }

    #[test]
    fn tests_are_no_exception() {
        let path = "crates/nothing/tests/e2e.rs";
        assert_eq!(failures(run, &[(path, "fn f() { unsafe {} }")]).len(), 1);
    }

    #[test]
    fn an_allowed_file_may_be_unsafe_and_must_need_it() {
        let ring = ALLOWED[0].0;
        let found = |text| {
            let manifest = manifest("disktime-server", "");
            let server =
                [("crates/server/Cargo.toml", &*manifest), ("crates/server/src/lib.rs", "")];
            failures(run, &[server[0], server[1], (ring, text)])
        };
        assert_eq!(found("fn f() { unsafe {} }"), Vec::<String>::new());
        assert_eq!(
            found("#![allow(unsafe_code)]"),
            [format!("{ring}: is allowed to be unsafe and is not: take it off the list")]
        );
    }

    #[test]
    fn the_word_in_comments_and_lints_is_no_matter() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";";
        assert_eq!(failures(run, &[(LIB, text)]), Vec::<String>::new());
    }
}
