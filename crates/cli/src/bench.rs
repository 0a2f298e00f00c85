//! `disktime bench`: figures that anyone can measure again.

use std::process::ExitCode;

use clap::Subcommand;

mod cells;
mod files;
mod insulation;
mod insulation_live;
mod machine;
mod nbd;
mod random;
mod sched;
mod shards;

/// The bench to run.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Whether a share gives what it would give alone, policy by policy
    Insulation(insulation::Arguments),
    /// The same in cells drawn from a seed: devices, contracts and loads at random
    Random(random::Arguments),
    /// How fast the engine decides
    Sched(sched::Arguments),
    /// Cost of a request for the server, ours and each peer found
    Nbd(nbd::Arguments),
    /// A device with one thread and with two, and a model of up to nine
    Shards(shards::Arguments),
}

/// Seconds, as far as a figure makes sense.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "a number of seconds from 0.01 to 3600".to_owned())
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.bench {
        Bench::Insulation(arguments) => insulation::run(arguments),
        Bench::Random(arguments) => random::run(arguments),
        Bench::Sched(arguments) => sched::run(arguments),
        Bench::Nbd(arguments) => nbd::run(arguments),
        Bench::Shards(arguments) => shards::run(arguments),
    }
}

#[cfg(test)]
mod tests {
    /// `--seconds nan` measured for ever, `inf` too, and -1 not at all.
    #[test]
    fn seconds_are_a_number_of_them() {
        assert_eq!(super::seconds("1.5"), Ok(1.5));
        for text in ["nan", "inf", "-inf", "-1", "0", "1e300", "", "1s"] {
            assert!(super::seconds(text).is_err(), "{text}");
        }
    }
}
