//! `disktime report`: what a bug report needs, in one directory, without secrets.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use disktime_server::clock;
use serde_json::{Value, json};

use crate::BadInput;
use crate::control::{Daemon, EVENTS};
use crate::doctor;

const EXAMPLES: &str = "\
Examples:
  disktime report                                    of the user's own daemon
  disktime report --config /etc/disktime.toml \\
      --url unix:/run/disktime/control.sock --out report

The directory has: versions, `disktime doctor`, the configuration without
secrets, devices, virtual disks, metrics and recent events of the daemon if it
answers, and the end of each trace that key `record` of the configuration names,
with a scenario that `disktime sim run` replays. Names of virtual disks and
paths are in it: look at it before you send it. Exits with 0 once it is written,
also if no daemon answers.";

/// Requests of a trace that a report has at most: some 400 KiB.
const TRACE_MAX: usize = 10_000;

/// Words in a key's name whose value is left out.
const SECRETS: &[&str] = &["key", "token", "password", "secret"];

/// Write what a bug report needs into a directory, without secrets.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The directory, which must not be there yet; else `disktime-report-` and the time
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The daemon's configuration, if it has one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs `report`.
pub fn run(Arguments { out, config, daemon }: &Arguments) -> anyhow::Result<ExitCode> {
    let usual = || PathBuf::from(format!("disktime-report-{}", clock::wall_ms() / 1000));
    let out = out.clone().unwrap_or_else(usual);
    let text = config.as_ref().map(fs::read_to_string).transpose();
    let text = text.map_err(|error| BadInput(format!("--config: {error}")))?;
    fs::create_dir(&out).map_err(|error| BadInput(format!("--out {}: {error}", out.display())))?;
    let mut written = Written { out: &out, files: Vec::new(), left_out: Vec::new() };
    written.add("versions.json", &pretty(&versions()))?;
    written.add("doctor.json", &pretty(&serde_json::to_value(doctor::diagnose(None))?))?;
    ask(daemon, &mut written)?;
    if let (Some(text), Some(path)) = (&text, config) {
        written.add("configuration.toml", &without_secrets(text))?;
        traces(text, path, &mut written)?;
    }
    if daemon.json {
        let Written { files, left_out, .. } = written;
        let report = json!({ "directory": out, "files": files, "left_out": left_out });
        println!("{report}");
    } else {
        println!("{}: {}", out.display(), written.files.join(", "));
        written.left_out.iter().for_each(|why| println!("  left out: {why}"));
        println!("Look at it before you send it: it has names of virtual disks and paths.");
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory and what is in it.
struct Written<'a> {
    out: &'a Path,
    files: Vec<String>,
    left_out: Vec<String>,
}

impl Written<'_> {
    fn add(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.out.join(name);
        fs::write(&path, text).with_context(|| format!("{} can't be written", path.display()))?;
        self.files.push(name.to_owned());
        Ok(())
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn versions() -> Value {
    let uname = rustix::system::uname();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    json!({
        "disktime": env!("CARGO_PKG_VERSION"),
        "kernel": uname.release().to_string_lossy(),
        "machine": uname.machine().to_string_lossy(),
        "system": system.map(|it| it.trim_matches('"')),
    })
}

/// Adds the daemon's word on itself.
fn ask(daemon: &Daemon, written: &mut Written<'_>) -> anyhow::Result<()> {
    let said = |target: &str| -> anyhow::Result<String> {
        if target == EVENTS {
            return Ok(pretty(&serde_json::to_value(daemon.kept_events(0)?)?));
        }
        let answer = daemon.ask("GET", target, (None::<&()>, None))?;
        let text = String::from_utf8_lossy(&answer.body);
        let value = serde_json::from_str::<Value>(&text).ok();
        Ok(value.map_or_else(|| text.into_owned(), |it| pretty(&it)))
    };
    for (name, target) in [
        ("daemon.json", "/v1"),
        ("devices.json", "/v1/devices"),
        ("vdisks.json", "/v1/vdisks"),
        ("events.json", EVENTS),
        ("metrics.txt", "/metrics"),
    ] {
        match said(target) {
            Ok(text) => written.add(name, &text)?,
            Err(error) => {
                written.left_out.push(format!("{name} and what follows: {error:#}"));
                break;
            }
        }
    }
    Ok(())
}

/// A configuration without what opens doors: values of keys that name secrets, and the names and
/// passwords in addresses of servers.
fn without_secrets(text: &str) -> String {
    let line = |line: &str| {
        let key = line.split_once('=').map_or("", |(key, _)| key.trim()).to_lowercase();
        if !line.trim_start().starts_with('#') && SECRETS.iter().any(|it| key.contains(it)) {
            return format!("{key} = \"left out\"\n");
        }
        format!("{}\n", without_user(line))
    };
    text.lines().map(line).collect()
}

/// A text whose addresses `scheme://user:password@host` have no user.
fn without_user(line: &str) -> String {
    let mut parts = line.split("://");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(['/', '"', '\'']).unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        kept = format!("{kept}://{host}{rest}");
    }
    kept
}

/// The ends of the traces that a configuration records, and a scenario that replays them.
fn traces(text: &str, config: &Path, written: &mut Written<'_>) -> anyhow::Result<()> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            written.left_out.push(format!("traces: {}: {error}", config.display()));
            return Ok(());
        }
    };
    let mut streams = String::new();
    for vdisk in list(&table, "vdisk") {
        let (Some(name), Some(path)) = (text_of(vdisk, "name"), text_of(vdisk, "record")) else {
            continue;
        };
        let file = format!("trace-{}.csv", written.files.len());
        match end_of_trace(Path::new(path)) {
            Ok(trace) => {
                written.add(&file, &trace)?;
                streams += &stream(vdisk, name, &file);
            }
            Err(error) => written.left_out.push(format!("the trace of {name}: {path}: {error}")),
        }
    }
    if streams.is_empty() {
        let why = "traces: no virtual disk has a `record` that can be read";
        written.left_out.push(why.to_owned());
        return Ok(());
    }
    let preset = list(&table, "device").find_map(|it| text_of(it, "emulate"));
    let preset = preset.filter(|it| !it.contains(',')).unwrap_or("nearline-7200");
    let scenario = format!(
        "# `disktime sim run scenario.toml`, in this directory. The device is an emulated one: put a \n\
         # preset here that is like yours.\n\
         [scenario]\nduration = \"60s\"\n\n[device]\nemulate = \"{preset}\"\n{streams}"
    );
    written.add("scenario.toml", &scenario.replace("a \n", "a\n"))
}

fn list<'a>(table: &'a toml::Table, name: &str) -> impl Iterator<Item = &'a toml::Table> {
    let all = table.get(name).and_then(toml::Value::as_array);
    all.into_iter().flatten().filter_map(toml::Value::as_table)
}

fn text_of<'a>(table: &'a toml::Table, key: &str) -> Option<&'a str> {
    table.get(key).and_then(toml::Value::as_str)
}

/// The table of a scenario that replays a virtual disk's trace under its contract.
fn stream(vdisk: &toml::Table, name: &str, file: &str) -> String {
    let name = toml::Value::from(name);
    let mut text = format!("\n[[stream]]\nname = {name}\n");
    for key in ["reserve", "limit", "weight"] {
        if let Some(value) = vdisk.get(key) {
            text += &format!("{key} = {value}\n");
        }
    }
    let size = toml::Value::from(text_of(vdisk, "size").unwrap_or("1GiB"));
    let past = "past_end = \"wrap\"";
    text + &format!("[stream.replay]\npath = \"{file}\"\nextent = {{ end = {size} }}\n{past}\n")
}

/// The header and the last requests of a trace, with times from the first of these on.
fn end_of_trace(path: &Path) -> std::io::Result<String> {
    let mut lines = BufReader::new(fs::File::open(path)?).lines();
    let header = lines.next().transpose()?.unwrap_or_default();
    let mut last = std::collections::VecDeque::new();
    for line in lines {
        if last.len() == TRACE_MAX {
            last.pop_front();
        }
        last.push_back(line?);
    }
    let time = |line: &String| line.split_once(',').and_then(|(time, _)| time.parse::<u64>().ok());
    let start = last.front().and_then(time).unwrap_or(0);
    let mut text = format!("{header}\n");
    for line in &last {
        // The last line of a trace that is being written may be cut.
        let (Some(at), Some((_, rest))) = (time(line), line.split_once(',')) else { continue };
        text += &format!("{},{rest}\n", at.saturating_sub(start));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        let text = "[tls]\nkey = \"/etc/server.key\"\ntokens = \"/etc/tokens\"\nmy_password=\"x\"\n\
                    back_end = \"nbd://anna:pass@host:10809/a\"\nstate = \"/var/lib\"\n";
        let found = without_secrets(text);
        for secret in ["server.key", "/etc/tokens", "\"x\"", "anna", "pass@"] {
            assert!(!found.contains(secret), "{secret}: {found}");
        }
        assert!(found.contains("nbd://host:10809/a") && found.contains("state = \"/var/lib\""));
        assert_eq!(
            without_user("a = 'nbd+unix:///db?socket=/x@y'"),
            "a = 'nbd+unix:///db?socket=/x@y'"
        );
    }

    #[test]
    fn the_end_of_a_trace_begins_at_zero() {
        let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
        let path = directory.path().join("a.csv");
        let mut text = "time_ns,op,offset,bytes\n".to_owned();
        (0..TRACE_MAX as u64 + 5).for_each(|it| text += &format!("{},read,0,4096\n", it * 10));
        fs::write(&path, text + "99").expect("a file can be written");
        let found = end_of_trace(&path).expect("the trace can be read");
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[0], "time_ns,op,offset,bytes");
        assert_eq!(lines[1], "0,read,0,4096");
        assert_eq!(lines.len(), TRACE_MAX, "the cut line is left out");
    }

    #[test]
    fn a_stream_has_the_contract_and_the_size() {
        let table: toml::Table =
            "name = \"a\"\nsize = \"2GiB\"\nreserve = \"30%\"\nweight = 5\n".parse().expect("TOML");
        let found = stream(&table, "a", "t.csv");
        assert!(found.contains("reserve = \"30%\"\nweight = 5\n"), "{found}");
        assert!(found.contains("extent = { end = \"2GiB\" }"), "{found}");
    }
}
