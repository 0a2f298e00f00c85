//! `cargo xtask bench crash`: the rounds of `crates/cli/tests/e2e_crash`, many of them, on a release
//! build; a table of what was flushed and what was lost.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::{Workspace, cargo};

/// Rounds of each kind of crash, and of take-overs.
const ROUNDS: u64 = 200;
/// The longest pause of a client during a take-over, in milliseconds.
const PAUSE_MS_MAX: u64 = 300;

/// The options of a run.
#[derive(PartialEq, Eq, Debug)]
struct Wish {
    rounds: u64,
    seed: u64,
    only: Option<String>,
    json: bool,
}

/// Runs the command; see the module.
///
/// # Errors
/// When the words are not understood, or cargo can't be run.
pub(super) fn run(words: &[String]) -> Result<bool> {
    let wish = parse(words)?;
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let path = workspace.target.join("crash-rows.jsonl");
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let passed = rounds(&workspace.root, &path, &wish)?;
    let rows = read(&path)?;
    if let (true, Some(only)) = (rows.is_empty(), &wish.only) {
        bail!("--only {only}: no row was run; rows are like `power:tiered:fuse`");
    }
    if wish.json {
        println!("{}", Value::from(rows.clone()));
    } else {
        print!("{}", table(&rows));
    }
    // A pause of take-overs is a promise, too: docs/nbd.md.
    let brief = |row: &Value| row["pause_ms_max"].as_u64().is_none_or(|pause| pause < PAUSE_MS_MAX);
    Ok(passed && rows.iter().all(|row| row["bytes_lost"] == 0 && brief(row)))
}

fn parse(words: &[String]) -> Result<Wish> {
    let mut wish = Wish { rounds: ROUNDS, seed: 1, only: None, json: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} takes a value"));
        match word.as_str() {
            "--json" => wish.json = true,
            "--only" => wish.only = Some(value()?.clone()),
            "--rounds" => wish.rounds = value()?.parse().context("--rounds takes a number")?,
            "--seed" => wish.seed = value()?.parse().context("--seed takes a number")?,
            _ => bail!("`{word}` is none of --rounds N, --seed N, --only ROW, --json"),
        }
    }
    Ok(wish)
}

/// Whether all rounds went well. The tests' output goes to stderr.
fn rounds(root: &Path, rows: &PathBuf, wish: &Wish) -> Result<bool> {
    let mut command = Command::new(cargo());
    command.current_dir(root).args(["test", "--release", "-p", "disktime"]);
    command.args(["--test", "e2e_crash", "--", "rounds::", "--test-threads", "1", "--nocapture"]);
    command.env("DISKTIME_CRASH_ROWS", rows);
    command.env("DISKTIME_CRASH_ROUNDS", wish.rounds.to_string());
    command.env("DISKTIME_CRASH_SEED", wish.seed.to_string());
    if let Some(only) = &wish.only {
        command.env("DISKTIME_CRASH_ONLY", only);
    }
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    Ok(command.status().context("cargo can't be run")?.success())
}

fn read(path: &Path) -> Result<Vec<Value>> {
    let text = if path.exists() { std::fs::read_to_string(path)? } else { String::new() };
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Within 80 columns.
fn table(rows: &[Value]) -> String {
    let mut text = format!(
        "{:<6} {:<10} {:<15} {:>6} {:>14} {:>10} {:>8}\n",
        "crash", "back end", "below", "rounds", "bytes flushed", "bytes lost", "pause ms"
    );
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap_or(0);
    let sum = |key: &str| rows.iter().map(|row| number(row, key)).sum::<u64>();
    let longest = rows.iter().map(|row| number(row, "pause_ms_max")).max().unwrap_or(0);
    let mut line = |[crash, back_end, below]: [&str; 3],
                    [rounds, flushed, lost, pause]: [u64; 4]| {
        let _never_fails = writeln!(
            text,
            "{crash:<6} {back_end:<10} {below:<15} {rounds:>6} {flushed:>14} {lost:>10} {pause:>8}"
        );
    };
    const NUMBERS: [&str; 4] = ["rounds", "bytes_flushed", "bytes_lost", "pause_ms_max"];
    for row in rows {
        let names = ["crash", "back_end", "below"].map(|key| row[key].as_str().unwrap_or("?"));
        line(names, NUMBERS.map(|key| number(row, key)));
    }
    let [rounds, flushed, lost, _] = NUMBERS.map(sum);
    line(["all", "", ""], [rounds, flushed, lost, longest]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_named() {
        let parse =
            |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let wish = parse("--only power:tiered:fuse --seed 17 --rounds 1 --json").unwrap();
        let only = Some("power:tiered:fuse".to_owned());
        assert_eq!(wish, Wish { rounds: 1, seed: 17, only, json: true });
        assert_eq!(parse("").unwrap().rounds, ROUNDS);
        for (text, says) in [("--rounds", "--rounds takes a value"), ("--sed 1", "`--sed` is none")]
        {
            assert!(parse(text).unwrap_err().to_string().contains(says), "{text}");
        }
    }

    #[test]
    fn the_table_fits_a_terminal() {
        let row = serde_json::json!({
            "crash": "power", "back_end": "directory", "below": "this machine's",
            "rounds": 200, "bytes_flushed": 9_999_999_999_u64, "bytes_lost": 61_440,
        });
        let text = table(&[row.clone(), row]);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        assert!(text.ends_with("400    19999999998     122880        0\n"), "{text}");
    }
}
