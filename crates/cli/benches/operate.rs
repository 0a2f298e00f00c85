//! Measures what it takes to operate a large daemon: `cargo xtask bench operate [--vdisks N] [--many N]
//! [--creates N] [--kills N] [--only NAME] [--json]`.
//!
//! A daemon of its own serves 10,000 virtual disks, in files and in memory: its start, changes, lists and
//! scrapes. Another one serves 100,000 on 16 devices. A third is asked for 100,000 virtual disks at once.
//! A fourth is killed in the middle of changes, over and over: what was acknowledged is there, what was
//! not is there wholly or not at all. A fifth and a sixth serve a client with the control API and without.
//! The last one answers requests that schemathesis makes up by the OpenAPI document, where `st` is installed.
#![allow(missing_docs, reason = "a program")]
#![expect(clippy::print_stdout, reason = "a command line's answers go to standard output")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use disktime_api::{DeviceSpec, Problem, Vdisk, VdiskSpec};
use disktime_client::control::{Answer, ControlApi};
use disktime_client::{Load, LoadSpec, Options};
use disktime_control::{Phase, Store};
use disktime_workload::{Extent, Pace, Pattern, Spec};
use serde::Serialize;
use serde_json::{Value, json};

/// A figure, and what it is to be at most.
#[derive(Serialize)]
struct Row {
    name: String,
    got: f64,
    most: f64,
    unit: &'static str,
}

/// The sizes of what is measured.
struct Sizes {
    vdisks: usize,
    many: usize,
    creates: usize,
    kills: usize,
}

type Case = (&'static str, fn(&Sizes, &mut Vec<Row>) -> anyhow::Result<()>);

/// The version of schemathesis that the document was checked with last (`docs/control.md`).
const SCHEMATHESIS: &str = "4.32.5";

const CASES: [Case; 7] = [
    ("memory", |sizes, rows| large("memory", sizes, rows)),
    ("files", |sizes, rows| large("files", sizes, rows)),
    ("many", many),
    ("creates", creates),
    ("kills", kills),
    ("path", path),
    ("document", document),
];

fn main() -> ExitCode {
    match run(std::env::args().skip(1).filter(|word| word != "--bench")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(mut words: impl Iterator<Item = String>) -> anyhow::Result<bool> {
    let mut sizes = Sizes { vdisks: 10_000, many: 100_000, creates: 100_000, kills: 200 };
    let (mut only, mut as_json) = (None, false);
    while let Some(word) = words.next() {
        if word == "--json" {
            as_json = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word}: takes a value"))?;
        let number = || value.parse().with_context(|| format!("{word} {value}: a number"));
        match word.as_str() {
            "--vdisks" => sizes.vdisks = number()?,
            "--many" => sizes.many = number()?,
            "--creates" => sizes.creates = number()?,
            "--kills" => sizes.kills = number()?,
            "--only" => only = Some(value),
            _ => bail!("{word}: --vdisks, --many, --creates, --kills, --only NAME, --json"),
        }
    }
    let names = CASES.map(|(name, _)| name);
    if let Some(only) = only.as_deref().filter(|only| !names.contains(only)) {
        bail!("--only {only}: there are {}", names.join(", "));
    }
    let mut rows = Vec::new();
    for (name, case) in CASES {
        if only.as_deref().is_none_or(|only| only == name) {
            let before = rows.len();
            case(&sizes, &mut rows).with_context(|| name.to_owned())?;
            rows[before..].iter().filter(|_| !as_json).for_each(tell);
        }
    }
    if as_json {
        println!("{}", serde_json::to_string(&rows)?);
    }
    Ok(rows.iter().all(|row| row.got <= row.most))
}

fn tell(Row { name, got, most, unit }: &Row) {
    let kept = if got <= most { "" } else { "  MISSED" };
    println!("{name:44} {got:10.2} {unit:8} at most {most}{kept}");
}

/// A daemon of ours, killed when it is dropped.
struct Daemon {
    child: Child,
    api: ControlApi,
    /// How long it took until it answered.
    started: Duration,
}

#[expect(clippy::disallowed_methods, reason = "a daemon runs in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "nothing tells how far another process is")]
fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

impl Daemon {
    fn start(state: &Path) -> anyhow::Result<Self> {
        let words = ["serve".as_ref(), "--state".as_ref(), state.as_os_str()];
        Self::start_with(&words, &state.join("control.sock"))
    }

    fn start_with(words: &[&std::ffi::OsStr], socket: &Path) -> anyhow::Result<Self> {
        let begun = now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(words).env("DISKTIME_LOG", "error").stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).spawn()?;
        let mut daemon = Self { child, api: ControlApi::at(socket), started: Duration::ZERO };
        while !daemon.api.request("GET", "/v1", (None, None)).is_ok_and(|it| it.status == 200) {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("the daemon ended: {status}");
            }
            ensure!(begun.elapsed() < Duration::from_secs(600), "the daemon does not answer");
            pause(2);
        }
        daemon.started = begun.elapsed();
        Ok(daemon)
    }

    fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> anyhow::Result<Answer> {
        let body = body.map(serde_json::to_vec).transpose()?;
        Ok(self.api.request(method, target, (body.as_deref(), None))?)
    }

    /// Asks for something that must be done; answers how long that took.
    fn time(&self, method: &str, target: &str, body: Option<&Value>) -> anyhow::Result<Duration> {
        let begun = now();
        let answer = self.ask(method, target, body)?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status < 300, "{method} {target}: {} {text}", answer.status);
        Ok(begun.elapsed())
    }

    /// CPU time of the whole process.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// CPU time of the devices' threads and of all others.
    fn cpu_of_threads(&self) -> anyhow::Result<[Duration; 2]> {
        let mut times = [Duration::ZERO; 2];
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let thread = thread?.path();
            let time = std::fs::read_to_string(thread.join("schedstat"))?;
            let time =
                time.split(' ').next().and_then(|it| it.parse().ok()).context("schedstat")?;
            let device = std::fs::read_to_string(thread.join("comm"))?.starts_with("shard");
            times[usize::from(!device)] += Duration::from_nanos(time);
        }
        Ok(times)
    }

    /// Memory in bytes.
    fn memory(&self) -> anyhow::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let pages = text.split(' ').nth(1).and_then(|it| it.parse::<u64>().ok());
        Ok(pages.context("statm")? * 4096)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn vdisk(name: String, device: &str) -> VdiskSpec {
    let (device, size) = (device.to_owned(), "1MiB".to_owned());
    VdiskSpec { name, device, size, ..VdiskSpec::default() }
}

/// A state directory with so many virtual disks, dealt out to devices.
fn filled(
    directory: &Path,
    devices: &[(String, String)],
    vdisks: usize,
) -> anyhow::Result<PathBuf> {
    let state = directory.join("state");
    let store = Store::open(&state)?;
    for (name, back_end) in devices {
        let (name, back_end, create) = (name.clone(), back_end.clone(), Some(true));
        let create = create.filter(|_| back_end != "memory");
        store.put_device(&DeviceSpec { name, back_end, create, ..DeviceSpec::default() })?;
    }
    let of = |at: usize| vdisk(format!("v{at:06}"), &devices[at % devices.len()].0);
    let all: Vec<_> = (0..vdisks).map(of).collect();
    store.settle(Phase::Ready, &all.iter().collect::<Vec<_>>(), &[])?;
    Ok(state)
}

/// Changes, lists and scrapes of a large daemon.
fn large(on: &'static str, sizes: &Sizes, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let back_end = match on {
        "files" => format!("file:{}", directory.path().join("pool").display()),
        _ => "memory".to_owned(),
    };
    let state = filled(directory.path(), &[("disk".to_owned(), back_end)], sizes.vdisks)?;
    // The first start makes the files.
    drop(Daemon::start(&state)?);
    let daemon = Daemon::start(&state)?;
    let mut row = |what: &str, got: f64, most: f64, unit| {
        rows.push(Row { name: format!("{on}: {what}"), got, most, unit });
    };
    row("start", daemon.started.as_secs_f64(), 5.0, "s");
    let mut worst = [Duration::ZERO; 3];
    for at in 0..20 {
        let (name, target) = (format!("new{at}"), format!("/v1/vdisks/new{at}"));
        let spec = json!({"name": name, "device": "disk", "size": "1MiB"});
        let weight = json!({"weight": 7});
        let steps = [("PUT", Some(&spec)), ("PATCH", Some(&weight)), ("DELETE", None)];
        for ((method, body), worst) in steps.into_iter().zip(&mut worst) {
            *worst = daemon.time(method, &target, body)?.max(*worst);
        }
    }
    for (what, worst) in ["create", "change", "delete"].into_iter().zip(worst) {
        row(&format!("{what}, the slowest of 20"), millis(worst), 50.0, "ms");
    }
    let best = |target: &str| {
        let times = (0..5).map(|_| daemon.time("GET", target, None));
        times.collect::<anyhow::Result<Vec<_>>>().map(|it| it.into_iter().min().unwrap_or_default())
    };
    row("list, the fastest of 5", millis(best("/v1/vdisks")?), 200.0, "ms");
    row("scrape, the fastest of 5", millis(best("/metrics")?), 500.0, "ms");
    let before = daemon.cpu()?;
    for _ in 0..10 {
        daemon.time("GET", "/metrics", None)?;
    }
    let each = (daemon.cpu()?.saturating_sub(before)).as_secs_f64() / 10.0;
    row("CPU of a scrape every 15 s, of a core", each / 15.0 * 100.0, 1.0, "%");
    Ok(())
}

/// Very many virtual disks on 16 devices.
fn many(sizes: &Sizes, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let devices: Vec<_> = (0..16).map(|at| (format!("d{at}"), "memory".to_owned())).collect();
    let empty = filled(&directory.path().join("empty"), &devices, 0)?;
    let bare = Daemon::start(&empty)?.memory()?;
    let state = filled(directory.path(), &devices, sizes.many)?;
    let daemon = Daemon::start(&state)?;
    let each = daemon.memory()?.saturating_sub(bare) as f64 / sizes.many.max(1) as f64;
    let name = format!("{} on 16 devices: start", sizes.many);
    rows.push(Row { name, got: daemon.started.as_secs_f64(), most: 60.0, unit: "s" });
    let name = format!("{} on 16 devices: memory of each", sizes.many);
    rows.push(Row { name, got: each, most: 4096.0, unit: "bytes" });
    Ok(())
}

/// Very many creates by callers that don't wait for each other: made, or refused with the reason.
fn creates(sizes: &Sizes, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    creates_on("memory", sizes.creates, rows)?;
    // Each has a file that is on disk before it is acknowledged: as many would take an hour.
    creates_on("files", sizes.creates / 20, rows)
}

fn creates_on(on: &str, wanted: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    const CALLERS: usize = 500;
    let directory = tempfile::tempdir()?;
    let back_end = match on {
        "files" => format!("file:{}", directory.path().join("pool").display()),
        _ => "memory".to_owned(),
    };
    // A device takes 16,384 virtual disks: the others are refused with that reason.
    let devices: Vec<_> = match on {
        "files" => vec![("d0".to_owned(), back_end)],
        _ => (0..8).map(|at| (format!("d{at}"), back_end.clone())).collect(),
    };
    let state = filled(directory.path(), &devices, 0)?;
    let daemon = Daemon::start(&state)?;
    let before = daemon.memory()?;
    let (next, made, refused, wrong) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let begun = now();
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= wanted {
                        return;
                    }
                    let on = &devices[at % devices.len()].0;
                    let spec = json!({"name": format!("v{at}"), "device": on, "size": "1MiB"});
                    let answer = daemon.ask("PUT", &format!("/v1/vdisks/v{at}"), Some(&spec));
                    let counter = match &answer {
                        Ok(Answer { status: 201, .. }) => &made,
                        Ok(answer) if serde_json::from_slice::<Problem>(&answer.body).is_ok() => {
                            &refused
                        }
                        _ => &wrong,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let seconds = begun.elapsed().as_secs_f64();
    let listed: Vec<Vdisk> = serde_json::from_slice(&daemon.ask("GET", "/v1/vdisks", None)?.body)?;
    ensure!(listed.len() == count(&made), "{} made, {} listed", count(&made), listed.len());
    let (made, refused) = (count(&made), count(&refused));
    let name = format!("{wanted} creates on {on} by {CALLERS} callers");
    rows.push(Row { name: format!("{name}: time"), got: seconds, most: 150.0, unit: "s" });
    let name = format!("{name}, {made} made, {refused} refused: neither");
    rows.push(Row { name, got: count(&wrong) as f64, most: 0.0, unit: "answers" });
    let grown = daemon.memory()?.saturating_sub(before) as f64 / made.max(1) as f64;
    let name = format!("memory of each that was made on {on}, and all else");
    rows.push(Row { name, got: grown, most: 16384.0, unit: "bytes" });
    Ok(())
}

/// Virtual disks with weight and size, as far as somebody was told of them.
type Known = BTreeMap<String, (u32, u64)>;

/// A change by number: what is asked, and the virtual disks after it.
fn change(round: usize, before: &Known) -> (String, &'static str, Option<Value>, Known) {
    let mut after = before.clone();
    let first = before.keys().next().cloned();
    let target = |name: &str| format!("/v1/vdisks/{name}");
    match (round % 5, first) {
        (0, _) | (_, None) => {
            let name = format!("v{round}");
            let spec = json!({"name": name, "device": "disk", "size": "2MiB", "weight": 7});
            after.insert(name.clone(), (7, 2 << 20));
            (target(&name), "PUT", Some(spec), after)
        }
        (1, Some(name)) => {
            let weight = u32::try_from(round % 999).unwrap_or(0) + 1;
            after.entry(name.clone()).and_modify(|it| it.0 = weight);
            (target(&name), "PATCH", Some(json!({ "weight": weight })), after)
        }
        (2, Some(name)) => {
            let kept = after.remove(&name).unwrap_or_default();
            let to = format!("r{round}");
            after.insert(to.clone(), kept);
            (target(&name), "PATCH", Some(json!({ "name": to })), after)
        }
        (3, Some(name)) => {
            let size = before[&name].1;
            let (to, shrink) = if size > 1 << 20 { (1 << 20, Some(true)) } else { (2 << 20, None) };
            after.entry(name.clone()).and_modify(|it| it.1 = to);
            let mut body = json!({ "size": format!("{to}B") });
            if shrink.is_some() {
                body["shrink"] = true.into();
            }
            (target(&name), "PATCH", Some(body), after)
        }
        (_, Some(name)) if before.len() > 3 => {
            after.remove(&name);
            (target(&name), "DELETE", None, after)
        }
        (_, Some(name)) => (target(&name), "PATCH", Some(json!({"weight": 5})), {
            after.entry(name).and_modify(|it| it.0 = 5);
            after
        }),
    }
}

/// Kills in the middle of changes: each is wholly there after the next start, or not at all.
fn kills(sizes: &Sizes, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let pool = directory.path().join("pool");
    let devices = [("disk".to_owned(), format!("file:{}", pool.display()))];
    let state = filled(directory.path(), &devices, 0)?;
    let (mut known, mut round, mut torn, mut in_doubt) = (Known::new(), 0, 0, 0_usize);
    // Without a generator of the crate: any times will do, as long as they differ.
    let mut random = 0x9e37_79b9_u64;
    for kill in 0..sizes.kills {
        let mut daemon = Daemon::start(&state)?;
        let listed: Vec<Vdisk> =
            serde_json::from_slice(&daemon.ask("GET", "/v1/vdisks", None)?.body)?;
        let found = listed.into_iter().map(|it| (it.name, (it.contract.weight, it.size_bytes)));
        let found: Known = found.collect();
        let (.., after) = change(round, &known);
        let files = std::fs::read_dir(&pool)?.filter_map(Result::ok);
        let files = files.filter(|it| it.file_name().to_string_lossy().ends_with(".raw")).count();
        if (found != known && found != after) || files != found.len() {
            torn += 1;
            eprintln!("kill {kill}: found {found:?}, {files} files; told {known:?} or {after:?}");
        }
        in_doubt += usize::from(found != known);
        round += usize::from(found == after);
        known = found;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let after = Duration::from_micros((random >> 33) % 40_000);
        let stop = AtomicBool::new(false);
        let child = &mut daemon.child;
        let api = &daemon.api;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                #[expect(clippy::disallowed_methods, reason = "a kill comes at any time")]
                std::thread::sleep(after);
                stop.store(true, Ordering::SeqCst);
                let _ended_already = child.kill();
            });
            loop {
                let (target, method, body, after) = change(round, &known);
                let body = body.map(|it| it.to_string().into_bytes());
                match api.request(method, &target, (body.as_deref(), None)) {
                    Ok(answer) if answer.status < 300 => (known, round) = (after, round + 1),
                    Ok(answer) => {
                        let text = String::from_utf8_lossy(&answer.body);
                        eprintln!("{method} {target}: {} {text}", answer.status);
                        torn += 1;
                        return;
                    }
                    Err(_) => return,
                }
            }
        });
    }
    let name = format!(
        "{} kills, {round} changes, {in_doubt} done untold: neither done nor undone",
        sizes.kills
    );
    rows.push(Row { name, got: f64::from(torn), most: 0.0, unit: "changes" });
    Ok(())
}

/// The CPU time that the control API, its looks, its history and a scrape take, by that of the device's thread in
/// the same seconds; and the CPU time of a request with and without them, by the same configuration in turn. Batches
/// decide what a request takes: the pair is judged only where equal runs differ by less than it is to show.
fn path(_: &Sizes, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    const ROUNDS: usize = 7;
    const APART_MOST: f64 = 0.05;
    let (mut ratios, mut parts) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Neither is always the first one.
        let first = round % 2 == 0;
        let [one, other] = [cost(first)?, cost(!first)?];
        let (with, without) = if first { (one, other) } else { (other, one) };
        ratios.push(with.0 / without.0);
        parts.push(with.1 * 100.0);
    }
    [&mut ratios, &mut parts].into_iter().for_each(|all| all.sort_by(f64::total_cmp));
    let name = "CPU of all other threads, of the device's".to_owned();
    rows.push(Row { name, got: parts[ROUNDS / 2], most: 2.0, unit: "%" });
    let (least, most) = (ratios[0], ratios[ROUNDS - 1]);
    let got = (ratios[ROUNDS / 2] - 1.0) * 100.0;
    if most - least > APART_MOST {
        eprintln!("CPU of a request: {got:.2} % more, {least:.3} to {most:.3} times: not judged");
        return Ok(());
    }
    let name = format!("CPU of a request, median of {ROUNDS} ({least:.3} to {most:.3})");
    rows.push(Row { name, got, most: 2.0, unit: "%" });
    Ok(())
}

/// Requests of every form that the OpenAPI document allows, and of some that it does not: all answers are as
/// the document says.
fn document(_: &Sizes, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let Ok(found) = Command::new("st").arg("--version").output() else {
        eprintln!("document: not run: `pip install schemathesis=={SCHEMATHESIS}`");
        return Ok(());
    };
    let version = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    if !version.contains(SCHEMATHESIS) {
        eprintln!("document: {version} is not {SCHEMATHESIS}, which found nothing");
    }
    let directory = tempfile::tempdir()?;
    let state = directory.path().join("state");
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let web = format!("tcp:127.0.0.1:{port}");
    let words = ["serve".as_ref(), "--state".as_ref(), state.as_os_str()];
    let words = [&words[..], &["--control".as_ref(), web.as_ref()]].concat();
    let daemon = Daemon::start_with(&words, &state.join("control.sock"))?;
    let pool = format!("file:{}", directory.path().join("pool").display());
    let device = json!({"name": "disk", "back_end": pool, "create": true});
    daemon.time("PUT", "/v1/devices/disk", Some(&device))?;
    let vdisk = json!({"name": "db", "device": "disk", "size": "1MiB"});
    daemon.time("PUT", "/v1/vdisks/db", Some(&vdisk))?;
    let tokens = std::fs::read_to_string(state.join("tokens"))?;
    let token = tokens.lines().find_map(|line| line.strip_prefix("operate "));
    let bearer = format!("authorization: Bearer {}", token.context("a token that operates")?);
    // A virtual disk that is there: one of a made-up name has no snapshot.
    let known = "[[operations]]\ninclude-path = \"/v1/vdisks/{name}/snapshot\"\n\
                 parameters = { \"path.name\" = \"db\" }\n";
    std::fs::write(directory.path().join("schemathesis.toml"), known)?;
    let mut command = Command::new("st");
    command.arg("run").arg(format!("http://127.0.0.1:{port}/v1/openapi.json"));
    command.args(["-H", &bearer, "--exclude-path", "/v1/events", "--exclude-path", "/v1/live"]);
    command.args(["--exclude-checks", "positive_data_acceptance", "--no-color"]);
    let said = command.current_dir(directory.path()).stdin(Stdio::null()).output()?;
    if !said.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&said.stdout));
    }
    daemon.time("GET", "/v1", None)?;
    let (name, got) = (format!("{version}: runs that find something"), !said.status.success());
    rows.push(Row { name, got: f64::from(u8::from(got)), most: 0.0, unit: "runs" });
    Ok(())
}

/// CPU time of a request in microseconds, and that of all other threads by that of the device's.
fn cost(controlled: bool) -> anyhow::Result<(f64, f64)> {
    let directory = tempfile::tempdir()?;
    let here = directory.path().display();
    let control = format!("control = \"unix:{here}/control.sock\"\n");
    let text = format!(
        "[server]\nnbd = [\"unix:{here}/nbd.sock\"]\n{}[[device]]\nname = \"disk\"\n\
         back_end = \"memory\"\n[[vdisk]]\nname = \"db\"\ndevice = \"disk\"\nsize = \"64MiB\"\n",
        if controlled { &control } else { "" }
    );
    let config = directory.path().join("disktime.toml");
    std::fs::write(&config, text)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["serve", "--config"]).arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn()?;
    let api = ControlApi::at(&directory.path().join("control.sock"));
    let daemon = Daemon { child, api, started: Duration::ZERO };
    let uri = format!("nbd+unix:///db?socket={here}/nbd.sock").parse()?;
    let spec = || LoadSpec {
        workload: Spec::reads(Pattern::Random, Extent { start: 0, end: 64 << 20 }, 4096),
        pace: Pace::Closed { outstanding: 16, think: disktime_core::Duration::ZERO },
        seed: 1,
        name: "db".to_owned(),
        options: Options::default(),
    };
    let begun = now();
    let load = loop {
        match Load::start(&uri, spec()) {
            Ok(load) => break load,
            Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error.into()),
            Err(_) => pause(5),
        }
    };
    pause(500);
    let done = |load: &Load| load.counters().completed;
    let (before, [device, others]) = (done(&load), daemon.cpu_of_threads()?);
    pause(1500);
    if controlled {
        daemon.time("GET", "/metrics", None)?;
    }
    pause(1500);
    let (after, [device_then, others_then]) = (done(&load), daemon.cpu_of_threads()?);
    drop(load.stop());
    let (device, others) = (device_then - device, others_then.saturating_sub(others));
    let each = (device + others).as_secs_f64() * 1e6 / (after - before).max(1) as f64;
    Ok((each, others.as_secs_f64() / device.as_secs_f64()))
}
