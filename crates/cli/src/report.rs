//! `disktime report`: what a bug report needs, in one directory, without secrets.

use std::borrow::Cow;
use std::fs;
use std::io::{self, BufRead, BufReader, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use disktime_config::quantity;
use disktime_model::preset;
use disktime_server::clock;
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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

/// Bytes of a trace's line that are too many.
const LINE_MAX: u64 = 64 << 10;
/// The device of a scenario if the configuration's is not an emulated one.
const PRESET: &str = "nearline-7200";

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
    let text = |file: &PathBuf| {
        let failed = |error| BadInput(format!("--config {}: {error}", file.display()));
        disktime_profiler::read_text(file).map_err(failed)
    };
    let text = config.as_ref().map(text).transpose()?;
    fs::create_dir(&out).map_err(|error| BadInput(format!("--out {}: {error}", out.display())))?;
    let mut written = Written { out: &out, files: Vec::new(), left_out: Vec::new() };
    written.add("versions.json", &pretty(&versions()))?;
    written.add("doctor.json", &pretty(&serde_json::to_value(doctor::diagnose(None))?))?;
    ask(daemon, &mut written)?;
    if let (Some(text), Some(path)) = (&text, config) {
        match without_secrets(text) {
            Some(text) => written.add("configuration.toml", &text)?,
            None => written.left_out.push(format!("configuration.toml: {}", no_toml(path))),
        }
        traces(text, path, &mut written)?;
    }
    if daemon.json {
        let Written { files, left_out, .. } = written;
        let report =
            json!({ "directory": out.display().to_string(), "files": files, "left_out": left_out });
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
/// passwords in addresses of servers. None if it is no TOML: nobody knows where a value of it ends.
fn without_secrets(text: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let mut changes = Vec::new();
    in_table(table.get_ref(), &mut changes);
    // The later ones first, so that places of the others stay.
    changes.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut kept = text.to_owned();
    changes.iter().for_each(|(place, value)| kept.replace_range(place.clone(), value));
    Some(kept.lines().map(|line| format!("{}\n", without_user(&commented(line)))).collect())
}

/// A value's bytes in a text, and what takes their place.
type Replaced = (Range<usize>, String);

/// The values of a table that are to be replaced.
fn in_table(table: &DeTable<'_>, changes: &mut Vec<Replaced>) {
    for (key, value) in table {
        if is_secret(key.get_ref()) {
            leave_out(value, changes);
        } else {
            in_value(value, changes);
        }
    }
}

/// A secret: each value in it. A table's own place may be that of its header alone.
fn leave_out(value: &Spanned<DeValue<'_>>, changes: &mut Vec<Replaced>) {
    match value.get_ref() {
        DeValue::Table(table) => table.values().for_each(|value| leave_out(value, changes)),
        DeValue::Array(list) => list.iter().for_each(|value| leave_out(value, changes)),
        _ => changes.push((value.span(), "\"left out\"".to_owned())),
    }
}

fn in_value(value: &Spanned<DeValue<'_>>, changes: &mut Vec<Replaced>) {
    match value.get_ref() {
        DeValue::Table(table) => in_table(table, changes),
        DeValue::Array(list) => list.iter().for_each(|value| in_value(value, changes)),
        // A text may be written over several lines, and with escapes.
        DeValue::String(text) => {
            let kept = without_user(text);
            if kept != **text {
                changes.push((value.span(), toml::Value::from(kept).to_string()));
            }
        }
        _ => {}
    }
}

fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRETS.iter().any(|it| key.contains(it))
}

/// A line that may be a comment: a key that was commented out has no value.
fn commented(line: &str) -> Cow<'_, str> {
    let comment = line.trim_start().strip_prefix('#');
    match comment.and_then(|it| it.split_once('=')) {
        Some((key, _)) if is_secret(key) => Cow::Owned(format!("#{key}= \"left out\"")),
        _ => Cow::Borrowed(line),
    }
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

/// Without the line of the error, which may have a secret.
fn no_toml(config: &Path) -> String {
    let file = config.display();
    format!("{file} is no TOML: `disktime serve --config {file} --check` says where")
}

/// The ends of the traces that a configuration records, and a scenario that replays them.
fn traces(text: &str, config: &Path, written: &mut Written<'_>) -> anyhow::Result<()> {
    let Ok(table) = text.parse::<toml::Table>() else {
        written.left_out.push(format!("traces: {}", no_toml(config)));
        return Ok(());
    };
    // Shares are of one device: each has a scenario of its own.
    let mut scenarios: Vec<(Option<&str>, String)> = Vec::new();
    for vdisk in list(&table, "vdisk") {
        let (Some(name), Some(path)) = (text_of(vdisk, "name"), text_of(vdisk, "record")) else {
            continue;
        };
        let file = format!("trace-{}.csv", written.files.len());
        match end_of_trace(Path::new(path)) {
            Ok(trace) => {
                written.add(&file, &trace)?;
                let device = text_of(vdisk, "device");
                if scenarios.iter().all(|(of, _)| *of != device) {
                    scenarios.push((device, String::new()));
                }
                let streams = scenarios.iter_mut().find(|(of, _)| *of == device);
                let (_, capacity) = preset_of(&table, device);
                streams
                    .into_iter()
                    .for_each(|(_, text)| *text += &stream(vdisk, name, &file, capacity));
            }
            Err(error) => written.left_out.push(format!("the trace of {name}: {path}: {error}")),
        }
    }
    if scenarios.is_empty() {
        let why = "traces: no virtual disk has a `record` that can be read";
        written.left_out.push(why.to_owned());
    }
    for (index, (device, streams)) in scenarios.iter().enumerate() {
        let (preset, _) = preset_of(&table, *device);
        let name = match index {
            0 => "scenario.toml".to_owned(),
            _ => format!("scenario-{}.toml", index + 1),
        };
        let scenario = format!(
            "# `disktime sim run {name}`, in this directory. The device is an emulated one: put a\n\
             # preset here that is like yours.\n\
             [scenario]\nduration = \"60s\"\n\n[device]\nemulate = \"{preset}\"\n{streams}"
        );
        written.add(&name, &scenario)?;
    }
    Ok(())
}

/// The preset that a device is emulated as, or the usual one, and its bytes. A virtual disk that names
/// no device is on the only one.
fn preset_of<'a>(table: &'a toml::Table, device: Option<&str>) -> (&'a str, u64) {
    let is_it = |it: &&toml::Table| device.is_none() || text_of(it, "name") == device;
    let emulated = list(table, "device").find(is_it).and_then(|it| text_of(it, "emulate"));
    let preset = emulated.and_then(preset::find).or_else(|| preset::find(PRESET));
    preset.map_or((PRESET, u64::MAX), |it| (it.name, (it.build)(0).capacity_bytes()))
}

fn list<'a>(table: &'a toml::Table, name: &str) -> impl Iterator<Item = &'a toml::Table> {
    let all = table.get(name).and_then(toml::Value::as_array);
    all.into_iter().flatten().filter_map(toml::Value::as_table)
}

fn text_of<'a>(table: &'a toml::Table, key: &str) -> Option<&'a str> {
    table.get(key).and_then(toml::Value::as_str)
}

/// The table of a scenario that replays a virtual disk's trace under its contract, on a device of so
/// many bytes.
fn stream(vdisk: &toml::Table, name: &str, file: &str, capacity: u64) -> String {
    let name = toml::Value::from(name);
    let mut text = format!("\n[[stream]]\nname = {name}\n");
    for key in ["reserve", "limit", "weight"] {
        if let Some(value) = vdisk.get(key) {
            text += &format!("{key} = {value}\n");
        }
    }
    let size = text_of(vdisk, "size").and_then(|size| quantity::parse_size(size).ok());
    let size = toml::Value::from(quantity::size_text(size.unwrap_or(1 << 30).min(capacity)));
    let past = "past_end = \"wrap\"";
    text + &format!("[stream.replay]\npath = \"{file}\"\nextent = {{ end = {size} }}\n{past}\n")
}

/// The header and the last requests of a trace, with times from the first of these on.
fn end_of_trace(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    let mut lines = BufReader::new(fs::File::open(path)?);
    let header = line_of(&mut lines)?.unwrap_or_default();
    let mut last = std::collections::VecDeque::new();
    while let Some(line) = line_of(&mut lines)? {
        if last.len() == TRACE_MAX {
            last.pop_front();
        }
        last.push_back(line);
    }
    if last.is_empty() {
        return Err(io::Error::other("it has no requests yet"));
    }
    let time = |line: &String| line.split_once(',').and_then(|(time, _)| time.parse::<u64>().ok());
    let start = last.front().and_then(time).unwrap_or(0);
    let mut text = format!("{header}\n");
    for line in &last {
        let (Some(at), Some((_, rest))) = (time(line), line.split_once(',')) else { continue };
        text += &format!("{},{rest}\n", at.saturating_sub(start));
    }
    Ok(text)
}

/// The next line without its end. None if it is cut: the last one of a trace that is being written.
fn line_of(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    lines.take(LINE_MAX).read_line(&mut line)?;
    if line.len() as u64 == LINE_MAX {
        return Err(io::Error::other(format!(
            "a line of {LINE_MAX} bytes or more: it is no trace"
        )));
    }
    Ok(line.strip_suffix('\n').map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        let text = "[tls]\nkey = \"/etc/server.key\"\ntokens = \"/etc/tokens\"\nmy_password=\"x\"\n\
                    back_end = \"nbd://anna:pass@host:10809/a\"\nstate = \"/var/lib\"\n";
        let found = without_secrets(text).expect("TOML");
        for secret in ["server.key", "/etc/tokens", "\"x\"", "anna", "pass@"] {
            assert!(!found.contains(secret), "{secret}: {found}");
        }
        assert!(found.contains("nbd://host:10809/a") && found.contains("state = \"/var/lib\""));
        assert_eq!(
            without_user("a = 'nbd+unix:///db?socket=/x@y'"),
            "a = 'nbd+unix:///db?socket=/x@y'"
        );
    }

    /// Values over several lines stayed, in a report that says that it has no secrets.
    #[test]
    fn secrets_are_left_out_however_they_are_written() {
        let text = r#"[tls]
key = """
/etc/server.key"""
tokens = [ # [
  "/etc/a",
  '/etc/b',
]
"k\u0065y2" = '/etc/c'
# password = "/etc/d"
b = """nbd://anna:\
  pass@host/a"""
c = "nbd:/\u002Fanna@host"
d = { my.token.x = 5501, n = 1 }
[secrets.one]
z = '''/etc/e
/etc/f'''
[[device]]
name = "kept"
"#;
        let found = without_secrets(text).expect("TOML");
        for secret in ["/etc", "anna", "pass@", "5501"] {
            assert!(!found.contains(secret), "{secret}: {found}");
        }
        assert!(found.contains("name = \"kept\"") && found.contains("n = 1"), "{found}");
        let table: toml::Table = found.parse().expect("still TOML");
        assert_eq!(table["tls"]["b"].as_str(), Some("nbd://host/a"));
        assert_eq!(table["tls"]["tokens"].as_array().map(Vec::len), Some(2));
        // Nobody knows where the value ends.
        assert_eq!(without_secrets("key = '''\n/etc/secret\n"), None);
    }

    #[test]
    fn the_end_of_a_trace_begins_at_zero() {
        let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
        let path = directory.path().join("a.csv");
        let mut text = "time_ns,op,offset,bytes\n".to_owned();
        (0..TRACE_MAX as u64 + 5).for_each(|it| text += &format!("{},read,0,4096\n", it * 10));
        fs::write(&path, text + "99,re").expect("a file can be written");
        let found = end_of_trace(&path).expect("the trace can be read");
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines[0], "time_ns,op,offset,bytes");
        assert_eq!(lines[1], "0,read,0,4096");
        assert_eq!(lines.len(), 1 + TRACE_MAX, "the cut line is left out");
        assert!(lines[TRACE_MAX].ends_with(",read,0,4096"), "{}", lines[TRACE_MAX]);
    }

    #[test]
    fn a_stream_has_the_contract_and_the_size() {
        let table: toml::Table =
            "name = \"a\"\nsize = \"2GiB\"\nreserve = \"30%\"\nweight = 5\n".parse().expect("TOML");
        let found = stream(&table, "a", "t.csv", u64::MAX);
        assert!(found.contains("reserve = \"30%\"\nweight = 5\n"), "{found}");
        assert!(found.contains("extent = { end = \"2GiB\" }"), "{found}");
        let found = stream(&table, "a", "t.csv", 1 << 30);
        assert!(found.contains("extent = { end = \"1GiB\" }"), "{found}");
    }

    #[test]
    fn what_is_no_trace_is_left_out() {
        let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
        let path = directory.path().join("a.csv");
        let error = |path: &Path| end_of_trace(path).expect_err("no trace").to_string();
        // A device was read until memory ended.
        assert_eq!(error(Path::new("/dev/zero")), "no regular file");
        fs::write(&path, vec![b'a'; 1 << 20]).expect("a file can be written");
        assert!(error(&path).starts_with("a line of 65536 bytes or more"));
        fs::write(&path, "time_ns,op,offset,bytes\n").expect("a file can be written");
        assert_eq!(error(&path), "it has no requests yet");
    }

    /// One scenario had the streams of all devices: more than 100 % was reserved, or an extent was
    /// beyond the end, and the simulator refused it.
    #[test]
    fn each_device_has_a_scenario() {
        let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
        let trace = directory.path().join("a.csv");
        fs::write(&trace, "time_ns,op,offset,bytes\n5,read,0,4096\n").expect("a file is written");
        let vdisk = |name: &str, device: &str, size: &str| {
            format!(
                "[[vdisk]]\nname = \"{name}\"\ndevice = \"{device}\"\nsize = \"{size}\"\n\
                 reserve = \"60%\"\nrecord = {:?}\n",
                trace.display().to_string()
            )
        };
        let text = format!(
            "[[device]]\nname = \"one\"\nemulate = \"deskstar-34gxp\"\n[[device]]\nname = \"two\"\n{}{}",
            vdisk("a", "one", "100GiB"),
            vdisk("b", "two", "1GiB")
        );
        let out = directory.path().join("out");
        fs::create_dir(&out).expect("a directory can be made");
        let mut written = Written { out: &out, files: Vec::new(), left_out: Vec::new() };
        traces(&text, Path::new("d.toml"), &mut written).expect("the traces are written");
        let expected = ["trace-0.csv", "trace-1.csv", "scenario.toml", "scenario-2.toml"];
        assert_eq!(
            (written.files.as_slice(), written.left_out.len()),
            (&expected.map(str::to_owned)[..], 0)
        );
        for (name, stream) in [("scenario.toml", "a"), ("scenario-2.toml", "b")] {
            let scenario = disktime_sim::Scenario::read(&out.join(name)).expect("a scenario");
            let plan = scenario.plan(1).expect("it can be run");
            assert_eq!(plan.streams.len(), 1);
            assert_eq!(plan.streams[0].name, stream);
        }
    }
}
