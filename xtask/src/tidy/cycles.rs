//! Modules of a crate import each other in no circle.
//!
//! The modules that have one parent are looked at together: one depends on another if anything in it,
//! however deep, names something in the other. A parent and its own children may use each other, so what
//! a child takes from `super` is no arrow. A path counts as an arrow to each module that it goes through,
//! also by `pub use`; a name that the crate's root re-exports counts for the module that defines it. Inline
//! modules belong to their file, and code for tests is left out.
//!
//! Where a crate's modules have an order (`layers`), arrows between them point downwards only.

mod graph;
mod layers;
mod resolve;

use std::collections::BTreeMap;

use crate::finding::{Finding, Report};
use crate::source::{RustFile, module_files};
use crate::workspace::Workspace;
use graph::Graph;

/// Finds circles, and arrows against a stated order.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let mut failures = layers::judge(workspace);
    for root in workspace.rust.iter().filter(|file| is_root(file, workspace)) {
        let knots = knots(&workspace.rust, root);
        failures.extend(knots.iter().map(|knot| Finding::new(&root.path, knot.text())));
    }
    failures.into()
}

fn is_root(file: &RustFile, workspace: &Workspace) -> bool {
    let roots = ["src/lib.rs", "src/main.rs"];
    workspace.packages.iter().any(|package| {
        file.path
            .strip_prefix(&package.dir)
            .is_some_and(|rest| rest.strip_prefix('/').is_some_and(|rest| roots.contains(&rest)))
    })
}

/// A set of modules with one parent of which each depends on each, directly or through others.
struct Knot {
    modules: Vec<String>,
    /// One circle: a module, and where it names the next one.
    circle: Vec<(String, String)>,
}

impl Knot {
    fn text(&self) -> String {
        let steps: Vec<String> =
            self.circle.iter().map(|(module, place)| format!("{module} ({place})")).collect();
        let first = self.circle.first().map_or("", |(module, _)| module);
        format!(
            "{} modules import each other in a circle ({}); one is {} -> {first}",
            self.modules.len(),
            self.modules.join(", "),
            steps.join(" -> ")
        )
    }
}

/// By the parent: its children's graph, of which an arrow carries where it was seen first.
type Graphs = BTreeMap<Vec<String>, Graph>;

fn graphs(files: &[RustFile], root: &RustFile) -> Graphs {
    let modules = module_files(files, root);
    let crate_ = resolve::Crate::new(&modules);
    let mut graphs = Graphs::new();
    for (from, file) in &modules {
        for (inside, scope) in &file.scopes {
            let place = [from.as_slice(), inside].concat();
            for path in &scope.paths {
                for to in crate_.visits(&place, &path.segments) {
                    let common =
                        from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                    if let (Some(one), Some(other)) = (from.get(common), to.get(common)) {
                        let graph = graphs.entry(from[..common].to_vec()).or_default();
                        graph.add(one, other, || format!("{}:{}", file.path, path.line));
                    }
                }
            }
        }
    }
    graphs
}

fn knots(files: &[RustFile], root: &RustFile) -> Vec<Knot> {
    let graphs = graphs(files, root);
    let named = |parent: &[String], module: &String| {
        [parent, std::slice::from_ref(module)].concat().join("::")
    };
    let mut knots = Vec::new();
    for (parent, graph) in &graphs {
        for modules in graph.knots() {
            let circle = graph.circle(&modules).into_iter();
            let circle = circle.map(|(module, place)| (named(parent, &module), place)).collect();
            let modules = modules.iter().map(|module| named(parent, module)).collect();
            knots.push(Knot { modules, circle });
        }
    }
    knots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failures, manifest};

    const A: &str = "crates/a/src/lib.rs";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = manifest("a", "");
        failures(run, &[&[("crates/a/Cargo.toml", manifest.as_str())], files].concat())
    }

    /// The knots of these modules beside the root.
    fn knots_of(lib: &str, modules: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<_> =
            modules.iter().map(|(name, text)| (format!("crates/a/src/{name}.rs"), *text)).collect();
        let mut files = vec![(A, lib)];
        files.extend(paths.iter().map(|(path, text)| (path.as_str(), *text)));
        found(&files)
    }

    #[test]
    fn two_siblings_that_use_each_other_are_named_with_their_lines() {
        let modules =
            [("x", "use crate::y::Y;\npub struct X;"), ("y", "\npub struct Y(super::x::X);")];
        assert_eq!(
            knots_of("mod x; mod y;", &modules),
            ["crates/a/src/lib.rs: 2 modules import each other in a circle (x, y); one is x \
                 (crates/a/src/x.rs:1) -> y (crates/a/src/y.rs:2) -> x",]
        );
        assert!(knots_of("mod x; mod y;", &modules[..1]).is_empty(), "one arrow is no circle");
    }

    /// 39 files of the core were in one circle: most took each other's types from the crate's root, which
    /// re-exports them.
    #[test]
    fn a_name_that_the_root_re_exports_leads_to_its_module() {
        let lib = "mod x; mod y; mod z; pub use x::X; pub use crate::y::*; pub use z::Z as W;";
        let modules = [
            ("x", "use crate::Y; pub struct X;"),
            ("y", "use crate::W; pub struct Y;"),
            ("z", "fn f(x: crate::X) {} pub struct Z;"),
        ];
        let found = knots_of(lib, &modules);
        assert!(
            found[0].contains("3 modules import each other in a circle (x, y, z)"),
            "{found:?}"
        );
    }

    #[test]
    fn a_parent_and_its_children_may_use_each_other_and_rooms_may_not() {
        let rooms = [
            ("x", "mod part; use part::P; use other::O; mod other; pub(crate) struct X;"),
            ("x/part", "use super::X; pub(super) struct P;"),
            ("x/other", "use super::part::P; pub(super) struct O;"),
            ("y", "pub struct Y;"),
        ];
        assert!(knots_of("mod x; mod y; fn f() { x::f() }", &rooms).is_empty());
        let within = [rooms[0], ("x/part", "use super::other::O; pub(super) struct P;"), rooms[2]];
        let found = knots_of("mod x;", &within);
        assert!(found[0].contains("(x::other, x::part)"), "{found:?}");
        // However deep in the rooms the arrows are.
        let deep = [
            rooms[0],
            ("x/part", "use crate::y::Y; pub(super) struct P;"),
            rooms[2],
            ("y", "fn f() { matches!(a, crate::x::X) }"),
        ];
        let found = knots_of("mod x; mod y;", &deep);
        assert!(found[0].contains("(x, y)"), "{found:?}");
    }

    #[test]
    fn tests_and_names_of_others_are_no_arrows() {
        let modules = [
            ("x", "use std::y; use crate::y::Y; pub struct X;"),
            (
                "y",
                "pub struct Y; enum E { x }\nfn f() { E::x; x::X; }\n#[cfg(test)] mod tests { use crate::x::X; }",
            ),
        ];
        assert!(knots_of("mod x; mod y;", &modules).is_empty());
    }
}
