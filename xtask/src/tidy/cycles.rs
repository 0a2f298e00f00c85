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

/// The list of crates that still have circles; none if there is no such file.
const PATH: &str = "xtask/cycles.txt";

/// Modules in a crate's largest knot, and in all of its knots. A knot is a set of modules of which each
/// depends on each, directly or through others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Size {
    largest: usize,
    all: usize,
}

/// Finds circles that are not listed, and what is listed and no longer true.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let (listed, failures) = read(workspace.text(PATH).map_or("", |file| &file.text));
    let mut report = Report::from(failures);
    report.failures.extend(layers::judge(workspace));
    let mut seen = Vec::new();
    for root in workspace.rust.iter().filter(|file| is_root(file, workspace)) {
        let knots = knots(&workspace.rust, root);
        let size = Size {
            largest: knots.iter().map(|knot| knot.modules.len()).max().unwrap_or(0),
            all: knots.iter().map(|knot| knot.modules.len()).sum(),
        };
        let allowed = listed.get(root.path.as_str()).copied();
        let known = allowed.unwrap_or_default();
        seen.push(root.path.as_str());
        let lines = knots.iter().map(|knot| Finding::new(&root.path, knot.text()));
        if size == known {
            report.notes.extend(lines);
        } else if size.largest > known.largest || size.all > known.all {
            report.failures.extend(lines);
            let what = format!("{}; listed are {}", size.text(), known.text());
            report.failures.push(Finding::new(&root.path, what));
        } else {
            let what = format!(
                "{}; listed are {}: lower the numbers in {PATH}",
                size.text(),
                known.text()
            );
            report.failures.push(Finding::new(&root.path, what));
        }
    }
    for path in listed.keys().filter(|path| !seen.contains(path)) {
        let what = format!("is listed in {PATH} and is no crate's root: remove its line");
        report.failures.push(Finding::new(*path, what));
    }
    report
}

/// The list's lines, and what is wrong with the others.
fn read(text: &str) -> (BTreeMap<&str, Size>, Vec<Finding>) {
    let (mut listed, mut failures) = (BTreeMap::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] | ["#", ..] => {}
            [path, largest, all] if let (Ok(largest), Ok(all)) = (largest.parse(), all.parse()) => {
                listed.insert(*path, Size { largest, all });
            }
            _ => failures.push(Finding::at(
                PATH,
                index + 1,
                "is not `<root file> <modules in the largest knot> <modules in all knots>`",
            )),
        }
    }
    (listed, failures)
}

impl Size {
    fn text(self) -> String {
        format!("{} modules in the largest knot, {} in all knots", self.largest, self.all)
    }
}

fn is_root(file: &RustFile, workspace: &Workspace) -> bool {
    let roots = ["src/lib.rs", "src/main.rs"];
    workspace.packages.iter().any(|package| {
        file.path
            .strip_prefix(&package.dir)
            .is_some_and(|rest| rest.strip_prefix('/').is_some_and(|rest| roots.contains(&rest)))
    })
}

/// Modules with one parent that depend on each other.
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

    fn found(files: &[(&str, &str)], listed: &str) -> Vec<String> {
        let manifest = manifest("a", "");
        let added = [("crates/a/Cargo.toml", manifest.as_str()), (PATH, listed)];
        failures(run, &[&added, files].concat())
    }

    /// The knots of these modules beside the root.
    fn knots_of(lib: &str, modules: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<_> =
            modules.iter().map(|(name, text)| (format!("crates/a/src/{name}.rs"), *text)).collect();
        let mut files = vec![(A, lib)];
        files.extend(paths.iter().map(|(path, text)| (path.as_str(), *text)));
        found(&files, "# none\n")
    }

    #[test]
    fn two_siblings_that_use_each_other_are_named_with_their_lines() {
        let modules =
            [("x", "use crate::y::Y;\npub struct X;"), ("y", "\npub struct Y(super::x::X);")];
        assert_eq!(
            knots_of("mod x; mod y;", &modules),
            [
                "crates/a/src/lib.rs: 2 modules import each other in a circle (x, y); one is x \
                 (crates/a/src/x.rs:1) -> y (crates/a/src/y.rs:2) -> x",
                "crates/a/src/lib.rs: 2 modules in the largest knot, 2 in all knots; listed are 0 modules \
                 in the largest knot, 0 in all knots",
            ]
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

    #[test]
    fn listed_numbers_may_only_shrink_and_must_be_true() {
        let files = [
            (A, "mod x; mod y;"),
            ("crates/a/src/x.rs", "use crate::y::Y; pub struct X;"),
            ("crates/a/src/y.rs", "use crate::x::X; pub struct Y;"),
        ];
        let with = |largest, all| found(&files, &format!("{A} {largest} {all}\n"));
        assert!(with(2, 2).is_empty());
        assert!(with(1, 2).last().is_some_and(|it| it.contains("listed are 1 modules")));
        let more = with(2, 1);
        assert!(more[1].contains("2 in all knots; listed are 2"), "{more:?}");
        assert!(!more[1].contains("lower the numbers"), "{more:?}");
        assert!(with(3, 3)[0].contains("lower the numbers"));
        let gone = found(&[(A, "")], "crates/gone/src/lib.rs 2 2\nnonsense\n");
        assert!(gone[0].starts_with("xtask/cycles.txt:2: is not `"), "{gone:?}");
        assert!(gone[1].contains("remove its line"), "{gone:?}");
    }
}
