//! `disktime`: virtual disks that own a share of a device's time.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command line's answers go to standard output")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod costs;
mod demo;
mod device;
mod miss;
mod paper;
mod plan;
mod play;
mod serve;
mod sim;
mod table;

/// Exit code for bad usage or input.
const BAD_INPUT: u8 = 2;

/// Carves a storage device into virtual disks that each own a share of its time.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show two virtual disks sharing one emulated disk
    Demo(demo::Arguments),
    /// Serve the virtual disks of a configuration over NBD
    Serve(serve::Arguments),
    /// Play or record at a constant rate, and report what is late
    Play(play::Arguments),
    /// Report a missed deadline of a virtual disk
    Miss(miss::Arguments),
    /// Reproduce the papers' figures and check them
    Paper(paper::Arguments),
    /// Run a scenario in virtual time
    Sim(sim::Arguments),
    /// Find out what a device does, or make a place for virtual disks
    Device(device::Arguments),
    /// Work out what share of a device's time a goal takes, and whether it fits
    Plan(plan::Arguments),
    /// Measure
    Bench(bench::Arguments),
}

/// Input that can't be used, as against a failure while running.
#[derive(Debug)]
struct BadInput(String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("DISKTIME_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let outcome = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Play(arguments) => play::run(&arguments),
        Command::Miss(arguments) => miss::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Device(arguments) => device::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("disktime: {error:#}");
            let bad_input = error.downcast_ref::<BadInput>().is_some();
            ExitCode::from(if bad_input { BAD_INPUT } else { 1 })
        }
    }
}
