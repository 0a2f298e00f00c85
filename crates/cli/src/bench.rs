//! `disktime bench`: figures that anyone can measure again.

use std::process::ExitCode;

use clap::Subcommand;

mod insulation;
mod nbd;
mod process;
mod sched;

/// What to measure.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Whether a share gives what it would give alone, policy by policy
    Insulation(insulation::Arguments),
    /// How fast the engine decides
    Sched(sched::Arguments),
    /// What a request costs the server, ours and each peer found
    Nbd(nbd::Arguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.bench {
        Bench::Insulation(arguments) => insulation::run(arguments),
        Bench::Sched(arguments) => sched::run(arguments),
        Bench::Nbd(arguments) => nbd::run(arguments),
    }
}
