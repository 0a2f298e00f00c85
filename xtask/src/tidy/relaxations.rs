//! Each `allow` and `expect` attribute says why. clippy asks the same of what it compiles; this
//! gate also sees macros' bodies and what is compiled on other systems only.

use crate::finding::{Finding, Report};
use crate::source::{RustFile, TokenKind};
use crate::workspace::Workspace;

/// Finds relaxed lints without `reason = "…"`.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut failures = Vec::new();
    for file in &workspace.rust {
        for index in attributes(file) {
            let bare = relaxations(file, index).filter(|(_, has_reason)| !has_reason);
            failures.extend(bare.map(|(line, _)| {
                Finding::at(&file.path, line, "a lint is relaxed without `reason = \"…\"`")
            }));
        }
    }
    failures.into()
}

/// The indices of the brackets that open an attribute.
fn attributes(file: &RustFile) -> impl Iterator<Item = usize> {
    let punct = |index, back, wanted| file.before(index, back) == Some(&TokenKind::Punct(wanted));
    (0..file.tokens.len()).filter(move |&index| {
        file.tokens[index].kind == TokenKind::Open('[')
            && (punct(index, 1, '#') || punct(index, 1, '!') && punct(index, 2, '#'))
    })
}

/// The relaxations in the attribute that opens at `open`: their lines, and whether each has a reason.
fn relaxations(file: &RustFile, open: usize) -> impl Iterator<Item = (usize, bool)> {
    (open..close_of(file, open)).filter_map(move |index| {
        let relaxes = matches!(&file.tokens[index].kind,
            TokenKind::Ident(word) if word == "allow" || word == "expect");
        if !relaxes || file.after(index) != Some(&TokenKind::Open('(')) {
            return None;
        }
        let arguments = &file.tokens[index..close_of(file, index + 1)];
        let is_reason = |kind: &TokenKind| matches!(kind, TokenKind::Ident(it) if it == "reason");
        Some((file.tokens[index].at.line, arguments.iter().any(|it| is_reason(&it.kind))))
    })
}

/// The index of the token that closes the group opened at `open`.
fn close_of(file: &RustFile, open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in file.tokens.iter().enumerate().skip(open) {
        match token.kind {
            TokenKind::Open(_) => depth += 1,
            TokenKind::Close(_) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    file.tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    const LIB: &str = "crates/nothing/src/lib.rs";

    #[test]
    fn bare_relaxations_are_found_in_every_form() {
        let text = "#![allow(dead_code)]\n\
                    #[expect(unused)]\nfn f() {}\n\
                    #[cfg_attr(unix, allow(unused))]\nfn g() {}\n\
                    macro_rules! m { () => { #[allow(unused)] fn h() {} } }\n";
        let expected = [1, 2, 4, 6]
            .map(|line| format!("{LIB}:{line}: a lint is relaxed without `reason = \"…\"`"));
        assert_eq!(failures(run, &[(LIB, text)]), expected);
    }

    #[test]
    fn reasons_and_calls_of_expect_pass() {
        let text = "#[allow(dead_code, reason = \"why\")]\nfn f() { x.expect(\"y\"); [allow(1)]; }";
        assert_eq!(failures(run, &[(LIB, text)]), Vec::<String>::new());
    }
}
