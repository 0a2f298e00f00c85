//! The project's own commands: `cargo xtask check`, which is what continuous integration runs, and
//! the gates it consists of.
//!
//! [`workspace`] reads the workspace once (cargo's metadata, git's list of files, syntax trees);
//! each gate under [`tidy`] is a function from it to a [`finding::Report`]; [`check`] adds the
//! gates that are cargo's and the tests. Nothing here knows what the product does.
#![expect(clippy::print_stdout, reason = "a command line's output is its purpose")]

mod bench;
mod check;
mod deb;
mod finding;
#[cfg(test)]
mod fixture;
mod fuzz;
mod instructions;
mod mutants;
mod source;
mod stream;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;

/// One subcommand: add a line to [`COMMANDS`] and the help follows.
struct Command {
    name: &'static str,
    help: &'static str,
    /// Flags that may follow the name; `None` if the command reads its words itself.
    flags: Option<&'static [&'static str]>,
    /// Gets the words after the name; `Ok(false)` when something was found.
    run: fn(&[String]) -> Result<bool>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "check",
        help: "every gate and test, listing every failure; --no-install leaves Debian's packages alone",
        flags: Some(&[check::NO_INSTALL]),
        run: check::run,
    },
    Command {
        name: "tidy",
        help: "the gates that only read the source: seconds",
        flags: Some(&[]),
        run: tidy::run,
    },
    Command {
        name: "bench",
        help: "a measurement that is too long for the check, on a release build",
        flags: None,
        run: bench::run,
    },
    Command {
        name: "bless",
        help: "writes down what every scenario decides, for `bench same`; NAME… for some",
        flags: None,
        run: bench::same::bless,
    },
    Command {
        name: "mutants",
        help: "one-line mistakes planted in the engine, and the tests that notice; NAME… or --sample",
        flags: None,
        run: mutants::run,
    },
    Command {
        name: "deb",
        help: "the Debian package of a release build; --tarball --binary FILE --out DIR --version V",
        flags: None,
        run: deb::run,
    },
    Command { name: "help", help: "this text", flags: Some(&[]), run: help },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, flags)) = find(&words) else {
        eprintln!("error: not understood: {words:?}\n\n{}", usage());
        return ExitCode::from(2);
    };
    match (command.run)(flags) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.is::<bench::NotJudged>() => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn find(words: &[String]) -> Option<(&'static Command, &[String])> {
    let (name, flags) = words.split_first()?;
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    let fits = |flag: &String| command.flags.is_none_or(|known| known.contains(&flag.as_str()));
    flags.iter().all(fits).then_some((command, flags))
}

fn usage() -> String {
    let lines = COMMANDS.iter().map(|it| format!("  {:<8}{}\n", it.name, it.help));
    format!("usage: cargo xtask COMMAND\n\n{}", lines.collect::<String>())
}

fn help(_: &[String]) -> Result<bool> {
    print!("{}\nThe benches:\n{}\nThe gates of tidy:\n", usage(), bench::list());
    for gate in tidy::GATES {
        println!("  {:<14}{}", gate.name, gate.claim);
    }
    Ok(true)
}
