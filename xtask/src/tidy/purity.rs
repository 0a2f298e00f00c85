//! The engine, the policies and the NBD codec touch no clock, thread, socket, file or log: they can't,
//! because they depend on nothing but each other and have no `std` and no `unsafe`. Accounts of disk
//! time hold no floats.
//!
//! Not checked: what `alloc` and `core` offer, and tests, which may use `std`.

use crate::finding::{Finding, Report};
use crate::source::{RustFile, TokenKind};
use crate::workspace::{Dependency, DependencyKind, Package, Workspace};

/// Pure crates, with the crates that each may depend on.
const PURE: &[(&str, &[&str])] =
    &[("disktime-core", &[]), ("disktime-nbd", &[]), ("disktime-rivals", &["disktime-core"])];
/// The crates whose accounts are in integers.
const INTEGER: &[&str] = &["disktime-core", "disktime-rivals"];
const INNER_ATTRIBUTES: &[&str] = &["no_std", "forbid(unsafe_code)"];

/// Finds dependencies, missing attributes and words that a pure crate must not name.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut failures = Vec::new();
    for &(name, allowed) in PURE {
        let Some(package) = workspace.package(name) else {
            failures.push(Finding::new("Cargo.toml", format!("there is no package {name}")));
            continue;
        };
        check_manifest(package, allowed, &mut failures);
        check_attributes(workspace, package, &mut failures);
        for file in workspace.rust_under(&format!("{}/src/", package.dir)) {
            check_words(workspace, file, INTEGER.contains(&name), &mut failures);
        }
    }
    failures.into()
}

fn check_manifest(package: &Package, allowed: &[&str], failures: &mut Vec<Finding>) {
    let manifest = format!("{}/Cargo.toml", package.dir);
    let may = if allowed.is_empty() { "nothing" } else { &allowed.join(", ") };
    let excess =
        |it: &&Dependency| it.kind != DependencyKind::Dev && !allowed.contains(&it.name.as_str());
    for dependency in package.dependencies.iter().filter(excess) {
        let (name, other) = (&package.name, &dependency.name);
        let what = format!("{name} depends on {may}, but {other} is named");
        failures.push(Finding::new(&manifest, what));
    }
    if package.has_build_script {
        failures.push(Finding::new(&manifest, format!("{} has a build script", package.name)));
    }
}

fn check_attributes(workspace: &Workspace, package: &Package, failures: &mut Vec<Finding>) {
    let path = format!("{}/src/lib.rs", package.dir);
    let Some(lib) = workspace.rust.iter().find(|file| file.path == path) else {
        return failures.push(Finding::new(path, "is not there or does not parse"));
    };
    for attribute in INNER_ATTRIBUTES {
        if !lib.inner_attributes.iter().any(|it| it == attribute) {
            failures.push(Finding::new(&path, format!("lacks #![{attribute}]")));
        }
    }
}

fn check_words(workspace: &Workspace, file: &RustFile, integer: bool, failures: &mut Vec<Finding>) {
    for (index, token) in file.tokens.iter().enumerate() {
        let float = || float(file, index).filter(|_| integer && !is_in_display(file, index));
        if let Some(what) = escape(&token.kind).or_else(float)
            && !workspace.is_test(file, token.at)
        {
            failures.push(Finding::at(&file.path, token.at.line, what));
        }
    }
}

/// A way out of the pure world.
fn escape(kind: &TokenKind) -> Option<String> {
    match kind {
        TokenKind::Ident(word) if word == "std" => Some("names std".to_owned()),
        TokenKind::Ident(word) if word == "unsafe" => Some("is unsafe".to_owned()),
        _ => None,
    }
}

fn float(file: &RustFile, index: usize) -> Option<String> {
    match &file.tokens[index].kind {
        TokenKind::Ident(word) if is_float_word(word) => Some(format!("names {word}")),
        TokenKind::Float(text) if !is_tuple_index(file, index) => {
            Some(format!("holds the float {text}"))
        }
        _ => None,
    }
}

fn is_float_word(word: &str) -> bool {
    matches!(word, "f32" | "f64") || is_display_name(word)
}

/// Functions that turn an account into a float for a reader; calling one is naming a float.
fn is_display_name(name: &str) -> bool {
    name.ends_with("_f64") || name == "as_fraction"
}

fn is_in_display(file: &RustFile, index: usize) -> bool {
    let at = file.tokens[index].at;
    file.functions.iter().any(|it| is_display_name(&it.name) && it.span.contains(&at))
}

/// `pair.0.1` reads as a name, a dot and the float `0.1`; `0..1.5` has two dots before its float.
fn is_tuple_index(file: &RustFile, index: usize) -> bool {
    let dot = |back| file.before(index, back) == Some(&TokenKind::Punct('.'));
    dot(1) && !dot(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failures, manifest};

    const HEAD: &str = "#![no_std]\n#![forbid(unsafe_code)]\n";

    /// The gate's findings in a core with this body, in an otherwise pure workspace.
    fn of_core(body: &str) -> Vec<String> {
        of_files(&manifest("disktime-core", ""), &format!("{HEAD}{body}"), HEAD)
    }

    fn of_files(core_manifest: &str, core: &str, nbd: &str) -> Vec<String> {
        let nbd_manifest = manifest("disktime-nbd", "");
        let rivals_manifest = manifest("disktime-rivals", "");
        let mut files = vec![
            ("crates/core/Cargo.toml", core_manifest),
            ("crates/core/src/lib.rs", core),
            ("crates/nbd/Cargo.toml", &nbd_manifest),
            ("crates/nbd/src/lib.rs", nbd),
            ("crates/rivals/Cargo.toml", &rivals_manifest),
            ("crates/rivals/src/lib.rs", HEAD),
        ];
        if core.contains("mod tests;") {
            files.push(("crates/core/src/tests.rs", "use std::thread; const X: f64 = 1.0;"));
        }
        failures(run, &files)
    }

    #[test]
    fn a_pure_crate_passes_with_its_tests_and_display_functions() {
        let body = "#[cfg(test)] mod tests;\n#[cfg(test)] extern crate std;\n\
                    pub fn as_secs_f64(x: u64) -> f64 { x as f64 / 1e9 }\n\
                    pub fn as_fraction(x: ((u8, u8), u8)) -> f64 { f64::from(x.0.1) }\n\
                    pub fn inner(x: ((u8, u8), u8)) -> u8 { x.0.1 }\n// std, unsafe, f64\n";
        assert_eq!(of_core(body), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_name_std_is_seen() {
        for body in [
            "use std::time::Instant;",
            "use ::std::time::Instant;",
            "extern crate std;",
            "fn f() { m!(std::mem::take(x)) }",
            "use {core::mem, std as other};",
            "#[cfg(not(test))] use std::thread;",
        ] {
            assert_eq!(of_core(body), ["crates/core/src/lib.rs:3: names std"], "{body}");
        }
    }

    #[test]
    fn a_tests_file_that_the_product_compiles_is_not_excused() {
        let found = of_core("mod tests;");
        assert!(found.contains(&"crates/core/src/tests.rs:1: names std".to_owned()), "{found:?}");
    }

    #[test]
    fn unsafe_is_seen() {
        assert_eq!(of_core("fn f() { unsafe { g() } }"), ["crates/core/src/lib.rs:3: is unsafe"]);
    }

    #[test]
    fn floats_in_accounts_are_seen_and_those_of_the_codec_are_not() {
        for (body, what) in [
            ("struct A { tokens: f64 }", "names f64"),
            ("fn f(x: u64) -> u64 { x as f32; x }", "names f32"),
            ("const X: u64 = g(1.5);", "holds the float 1.5"),
            ("fn f() { m!(0..2.5) }", "holds the float 2.5"),
            ("fn f(x: Duration) { g(x.as_secs_f64()) }", "names as_secs_f64"),
        ] {
            assert_eq!(of_core(body), [format!("crates/core/src/lib.rs:3: {what}")], "{body}");
        }
        let nbd = format!("{HEAD}pub const X: f64 = 1.5;");
        assert_eq!(of_files(&manifest("disktime-core", ""), HEAD, &nbd), Vec::<String>::new());
    }

    #[test]
    fn missing_attributes_are_named() {
        let found =
            of_files(&manifest("disktime-core", ""), "#![no_std]", "#![forbid(unsafe_code)]");
        assert_eq!(
            found,
            [
                "crates/core/src/lib.rs: lacks #![forbid(unsafe_code)]",
                "crates/nbd/src/lib.rs: lacks #![no_std]",
            ]
        );
    }

    #[test]
    fn dependencies_and_build_scripts_are_named() {
        let core = manifest(
            "disktime-core",
            "build = \"src/lib.rs\"\n\
             [dependencies]\nlibc = \"0.2\"\n\
             [dev-dependencies]\nproptest = \"1\"",
        );
        assert_eq!(
            of_files(&core, HEAD, HEAD),
            [
                "crates/core/Cargo.toml: disktime-core depends on nothing, but libc is named",
                "crates/core/Cargo.toml: disktime-core has a build script",
            ]
        );
    }

    #[test]
    fn a_policy_may_depend_on_the_engine_alone() {
        let rivals = manifest(
            "disktime-rivals",
            "[dependencies]\nlibc = \"0.2\"\n\
             disktime-core = { path = \"../core\" }",
        );
        let rest = |name| manifest(name, "");
        let (core, nbd) = (rest("disktime-core"), rest("disktime-nbd"));
        let found = failures(
            run,
            &[
                ("crates/core/Cargo.toml", &core),
                ("crates/core/src/lib.rs", HEAD),
                ("crates/nbd/Cargo.toml", &nbd),
                ("crates/nbd/src/lib.rs", HEAD),
                ("crates/rivals/Cargo.toml", &rivals),
                ("crates/rivals/src/lib.rs", &format!("{HEAD}struct A {{ tokens: f64 }}")),
            ],
        );
        assert_eq!(
            found,
            [
                "crates/rivals/Cargo.toml: disktime-rivals depends on disktime-core, but libc is named",
                "crates/rivals/src/lib.rs:3: names f64",
            ]
        );
    }

    #[test]
    fn a_pure_crate_cannot_vanish_unseen() {
        let found = failures(run, &[]);
        assert_eq!(found[0], "Cargo.toml: there is no package disktime-core");
    }
}
