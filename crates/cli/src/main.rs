//! `disktime`: virtual disks that own a share of a device's time.
#![forbid(unsafe_code)]

// Its macros hold in all modules below.
#[macro_use]
mod say;

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

mod bench;
mod cat;
mod control;
mod costs;
mod demo;
mod device;
mod doctor;
#[cfg(test)]
mod documents;
mod failure;
mod interrupt;
mod manual;
mod miss;
mod mount;
mod operators;
mod output;
mod paper;
mod plan;
mod play;
mod progress;
#[cfg(test)]
mod reference;
mod registries;
mod report;
mod serve;
mod sim;
mod table;
mod terminal;
mod top;
mod vdisk;
mod why;

use failure::BadInput;
use terminal::Color;

/// Carves a storage device into virtual disks that each own a share of its time.
#[derive(Parser)]
#[command(version, propagate_version = true, after_help = failure::EXIT_CODES)]
#[command(max_term_width = terminal::COLUMNS)]
struct Arguments {
    /// Colours: always, never or auto: on terminals, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        display_order = 1000,
        hide_possible_values = true,
        hide_default_value = true
    )]
    color: Color,
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
    /// Make, change, show and back up virtual disks that a daemon serves
    Vdisk(Box<vdisk::Arguments>),
    /// Devices of a daemon; find out what a device does, or make a place for virtual disks
    Device(Box<device::Arguments>),
    /// Show live who gets what of each device's time
    Top(top::Arguments),
    /// Say what held a virtual disk back over the last seconds
    Why(why::Why),
    /// Show what happened at a daemon
    Events(why::Events),
    /// Mount a directory whose open files own shares of the device's time
    Mount(mount::Arguments),
    /// Copy files of such a mount to standard output with a priority or a contract
    Cat(cat::Arguments),
    /// Work out what share of a device's time a goal takes, and whether it fits
    Plan(plan::Arguments),
    /// Measure
    Bench(bench::Arguments),
    /// Say what this machine lacks, and what a device is good for
    Doctor(doctor::Arguments),
    /// Write what a bug report needs into a directory, without secrets
    Report(report::Arguments),
    /// Write the manual pages and the completions of shells, for packages
    Manual(manual::Arguments),
}

fn main() -> ExitCode {
    // Also where arguments can't be parsed: a script that asked for JSON reads JSON.
    if std::env::args_os().any(|argument| argument == "--json") {
        terminal::as_json();
    }
    let words: Vec<_> = std::env::args_os().collect();
    let color = Color::among(&words);
    terminal::choose(color);
    let parsed = Arguments::command().color(color.choice()).try_get_matches_from(words);
    let command = match parsed.and_then(|found| Arguments::from_arg_matches(&found)) {
        Ok(Arguments { command, color: _ }) => command,
        Err(error) => return usage(&error),
    };
    if matches!(command, Command::Cat(_)) {
        terminal::has_data();
    }
    log(&command);
    let exit = run(&command).unwrap_or_else(|error| failure::tell(&error));
    if interrupt::is_unheard() { ExitCode::from(failure::FAILED) } else { exit }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    if !matches!(command, Command::Serve(_)) {
        interrupt::install(failure::interrupted).context("signals can't be handled")?;
    }
    match command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Play(arguments) => play::run(arguments),
        Command::Miss(arguments) => miss::run(arguments),
        Command::Paper(arguments) => paper::run(arguments),
        Command::Sim(arguments) => sim::run(arguments),
        Command::Vdisk(arguments) => vdisk::run(arguments),
        Command::Device(arguments) => device::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Why(arguments) => why::why(arguments),
        Command::Events(arguments) => why::events(arguments),
        Command::Mount(arguments) => mount::run(arguments),
        Command::Cat(arguments) => cat::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Manual(arguments) => manual::run(arguments, Arguments::command()),
    }
}

/// Help is an answer; anything else is wrong usage.
fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if !error.use_stderr() {
        let Err(error) = printed else { return ExitCode::SUCCESS };
        say::unprinted(&error);
        return ExitCode::from(failure::FAILED);
    }
    let text = error.render().to_string();
    let document = failure::document(text.trim().trim_start_matches("error: "), failure::BAD_INPUT);
    if let Some(document) = document {
        say::last(&document);
    }
    ExitCode::from(failure::BAD_INPUT)
}

/// Logs go to stderr, a line each: time, level, place, what is said, and `key=value`; or an object each.
fn log(command: &Command) {
    let usual = if matches!(command, Command::Serve(_)) { serve::LOG } else { "warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("DISKTIME_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual));
    let to = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Where nobody reads standard error, nobody reads that a line could not be written there either.
    let to = to.log_internal_errors(false);
    match command {
        Command::Serve(serve) if serve.logs_json() => to.json().init(),
        _ => to.init(),
    }
    // A panic is a line of the log like any other.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or_default();
        let said = panic.payload_as_str().unwrap_or_default();
        tracing::error!(thread, place, said, "a bug: it panicked");
    }));
}
