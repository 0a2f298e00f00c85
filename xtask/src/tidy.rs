//! The gates that only read the source. Each is a function in a file of its own, with tests that
//! plant a violation and see it found.

mod architecture;
mod arrows;
mod budgets;
mod cycles;
mod fields;
mod links;
mod pages;
mod purity;
mod reexports;
mod relaxations;
mod sizes;
mod sleeps;
mod unsafety;
mod words;

use anyhow::Result;

use crate::finding::Report;
use crate::workspace::Workspace;

/// One gate: what it claims of the workspace, and the function that finds where that is untrue.
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) run: fn(&Workspace) -> Report,
}

/// Every gate, in the order in which they are reported.
pub(crate) const GATES: &[Gate] = &[
    Gate {
        name: "syntax",
        claim: "every .rs file is Rust, so that gates can read it",
        run: syntax,
    },
    Gate { name: "arrows", claim: "crates depend on each other as stated", run: arrows::run },
    Gate { name: "re-exports", claim: "no crate re-exports another of ours", run: reexports::run },
    Gate { name: "cycles", claim: "modules import each other in no circle", run: cycles::run },
    Gate {
        name: "purity",
        claim: "core and nbd are sans-IO, without floats in accounts",
        run: purity::run,
    },
    Gate { name: "unsafe", claim: "`unsafe` stands in named files only", run: unsafety::run },
    Gate {
        name: "words",
        claim: "the field's words; no machine's paths, unfinished work or foreign registry",
        run: words::run,
    },
    Gate {
        name: "relaxations",
        claim: "each relaxed lint carries its reason",
        run: relaxations::run,
    },
    Gate {
        name: "links",
        claim: "relative links and anchors in Markdown resolve",
        run: links::run,
    },
    Gate {
        name: "pages",
        claim: "README and the manual's pages are short, found, and say which commands are run",
        run: pages::run,
    },
    Gate {
        name: "architecture",
        claim: "ARCHITECTURE.md is short and maps every crate",
        run: architecture::run,
    },
    Gate { name: "sizes", claim: "files and functions fit in a head", run: sizes::run },
    Gate {
        name: "budgets",
        claim: "the engine's crate has at most as much code as stated",
        run: budgets::run,
    },
    Gate { name: "fields", claim: "a struct has at most 15 fields", run: fields::run },
    Gate { name: "sleeps", claim: "only end-to-end tests sleep", run: sleeps::run },
];

/// `cargo xtask tidy`: prints what each gate found; whether all passed.
///
/// # Errors
/// When the workspace can't be read.
pub(crate) fn run(_: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut clean = true;
    for gate in GATES {
        let report = (gate.run)(&workspace);
        println!("{:<14}{}", gate.name, if report.passed() { "ok" } else { "FAILED" });
        report.notes.iter().for_each(|note| println!("  note: {note}"));
        report.failures.iter().for_each(|failure| println!("  {failure}"));
        clean &= report.passed();
    }
    Ok(clean)
}

fn syntax(workspace: &Workspace) -> Report {
    workspace.unparsed.clone().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

    #[test]
    fn a_file_that_is_not_rust_is_named() {
        let found = failures(syntax, &[("crates/nothing/src/lib.rs", "fn f( {}")]);
        assert!(found[0].starts_with("crates/nothing/src/lib.rs:1: does not parse"), "{found:?}");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GATES.len());
    }
}
