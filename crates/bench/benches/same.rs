//! Compares what every scenario does with what was blessed: `cargo xtask bench same [NAME…]`; or
//! blesses what they do now: `cargo xtask bless [NAME…]`.
//!
//! A NAME is a scenario's, `swarm/disktime/8`, or else the beginning of some, `paper/qbox`. Without
//! one all scenarios are meant. Exits with 1 if something differs, with 2 for a wrong NAME or a file
//! that can't be read.
#![allow(missing_docs, reason = "a program")]
#![expect(clippy::print_stdout, reason = "a command line's answers go to standard output")]

use std::io;
use std::num::NonZero;
use std::process::ExitCode;

use disktime_bench::same::{Blessed, BlessedError, Scenario, Selection, Unknown, scenarios, take};

const USAGE: &str = "usage: same compare|bless [NAME…]";
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/blessed.txt");

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0:?} is not understood; {USAGE}")]
    Usage(Vec<String>),
    #[error(transparent)]
    Unknown(#[from] Unknown),
    #[error("{FILE}: {0}")]
    Blessed(#[from] BlessedError),
    #[error("{FILE}: {0}")]
    File(#[from] io::Error),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode, Error> {
    let usage = || Error::Usage(words.to_vec());
    let (action, names) = words.split_first().ok_or_else(usage)?;
    let blesses = match action.as_str() {
        "bless" => true,
        "compare" => false,
        _ => return Err(usage()),
    };
    let blessed = read(blesses && names.is_empty())?;
    let all = scenarios();
    let selection = Selection::new(names, &all, &blessed)?;
    let chosen: Vec<_> = all.into_iter().filter(|it| selection.has(it.name())).collect();
    let now = measure(&chosen);
    let differences = blessed.only(|name| selection.has(name)).differences(&now);
    differences.iter().for_each(|difference| println!("{difference}"));
    if !blesses {
        println!("{} of {} scenarios differ from {FILE}", differences.len(), chosen.len());
        return Ok(ExitCode::from(u8::from(!differences.is_empty())));
    }
    let kept = blessed.only(|name| !selection.has(name));
    std::fs::write(FILE, kept.with(&now).to_string())?;
    println!("{} of {} scenarios blessed anew in {FILE}", differences.len(), chosen.len());
    Ok(ExitCode::SUCCESS)
}

/// The blessed hashes; none if there is no file yet, or one that is to be written anew is bad.
fn read(anew: bool) -> Result<Blessed, Error> {
    let text = match std::fs::read_to_string(FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    match text.parse() {
        Err(_) if anew => Ok(Blessed::default()),
        read => Ok(read?),
    }
}

fn measure(chosen: &[Scenario]) -> Blessed {
    let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    take(chosen, threads)
}
