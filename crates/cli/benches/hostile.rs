//! Measures the harm that hostile clients of one virtual disk do to a good client of another:
//! `cargo xtask bench hostile [--seconds N] [--rounds N] [--only NAME] [--on memory|file]
//! [--policy NAME] [--shards N] [--json]`.
//!
//! A daemon of its own serves two virtual disks with half of a device each, `good` and `other`. The good
//! client reads 4 KiB at random, four at once. First beside an ordinary neighbour that is always
//! backlogged (4 KiB at random, 32 at once), then beside each attack, in turn and several rounds of it;
//! figures are medians over rounds, each beside that round's own neighbour. It is to keep nine tenths of
//! what it has beside the neighbour, and its 99th percentile is to grow by a tenth at most, or by one
//! piece (1 MiB alone, as measured), whichever is more.
//!
//! Attackers and neighbours are processes of their own that run while nobody else does (`SCHED_IDLE`), so
//! that the machine's scheduler is not what is measured: one of the lowest nice value still keeps a
//! woken process waiting for the rest of its time slice. With `--shards 2` one thread carries the bytes of both clients
//! and another one decides; without it one does both. Then memory: 1,000 virtual disks with four connections each, and
//! all clients refusing to read.
#![allow(missing_docs, reason = "a program")]
#![expect(clippy::print_stdout, reason = "a command line's answers go to standard output")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use disktime_client::{Load, LoadReport, LoadSpec, Options};
use disktime_workload::{Extent, Pace, Pattern, Spec};
use serde::Serialize;

const GIB: u64 = 1 << 30;
/// Connections of an attack: all that a virtual disk takes but one.
const CROWD: usize = 15;
/// Others' part of the processors' time above which a round is not judged, in per cent.
const FOREIGN_MAX: f64 = 5.0;

/// An attack by name, which a process of ours carries out.
struct Attack {
    name: &'static str,
    what: &'static str,
    run: fn(&Path),
}

const NEIGHBOUR: Attack =
    Attack { name: "neighbour", what: "4 KiB at random, 32 at once", run: neighbour };

const ATTACKS: &[Attack] = &[
    Attack { name: "deaf", what: "4 reads of 32 MiB that are never read, x 15", run: deaf },
    Attack { name: "long-reads", what: "reads of 32 MiB, 4 at once, x 15", run: long_reads },
    Attack { name: "long-writes", what: "writes of 32 MiB, x 15", run: long_writes },
    Attack { name: "flushes", what: "flushes, 500 at once, x 15", run: flushes },
    Attack { name: "trims", what: "trims of 1 GiB, 32 at once, x 15", run: trims },
    Attack { name: "zeroes", what: "zeroes of 32 MiB, 32 at once, x 15", run: zeroes },
    Attack { name: "connects", what: "connects and hangs up, over and over", run: connects },
    Attack { name: "idle-handshakes", what: "2,000 connections that say nothing", run: idle },
    Attack { name: "lists", what: "lists that are never read", run: lists },
    Attack { name: "dying-writers", what: "dies in the middle of writes", run: dying_writers },
    Attack { name: "garbage", what: "noise in the transmission phase", run: garbage },
];

#[derive(Serialize)]
struct Row {
    back_end: &'static str,
    attack: &'static str,
    iops_beside_neighbour: f64,
    iops_beside_attack: f64,
    kept: f64,
    p99_us_beside_neighbour: f64,
    p99_us_beside_attack: f64,
    piece_us: f64,
    foreign_cpu: f64,
    verdict: &'static str,
}

#[derive(Serialize)]
struct Memory {
    case: &'static str,
    resident_mib: u64,
    bound_mib: u64,
    pass: bool,
}

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
    memory: Vec<Memory>,
    pass: bool,
}

struct Arguments {
    seconds: f64,
    rounds: usize,
    only: Option<String>,
    on: Option<String>,
    policy: Option<String>,
    shards: Option<u32>,
    json: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [flag, name, socket] = words.as_slice()
        && flag == "--attack"
    {
        let known = ATTACKS.iter().chain([&NEIGHBOUR]);
        let attack = known.into_iter().find(|attack| attack.name == name);
        (attack.context("no such attack")?.run)(Path::new(socket));
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = parse(&words)?;
    let mut rows = Vec::new();
    let on = |name: &&str| arguments.on.as_ref().is_none_or(|on| on == name);
    for back_end in ["memory", "file"].into_iter().filter(on) {
        rows.extend(judge_all(back_end, &arguments)?);
    }
    let memory = if arguments.only.is_none() { vec![crowd()?, all_deaf()?] } else { Vec::new() };
    let pass = rows.iter().all(|row| row.verdict != "FAIL") && memory.iter().all(|it| it.pass);
    let report = Report { rows, memory, pass };
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    Ok(ExitCode::from(u8::from(!report.pass)))
}

fn parse(words: &[String]) -> anyhow::Result<Arguments> {
    let mut arguments = Arguments {
        seconds: 3.0,
        rounds: 3,
        only: None,
        on: None,
        policy: None,
        shards: None,
        json: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seconds" => arguments.seconds = value()?.parse()?,
            "--rounds" => arguments.rounds = value()?.parse()?,
            "--only" => arguments.only = Some(value()?.clone()),
            "--on" => arguments.on = Some(value()?.clone()),
            "--policy" => arguments.policy = Some(value()?.clone()),
            "--shards" => arguments.shards = Some(value()?.parse()?),
            "--json" => arguments.json = true,
            _ => bail!(
                "{word}: there are --seconds N, --rounds N, --only ATTACK, --on BACK_END, \
                 --policy NAME, --shards N, --json"
            ),
        }
    }
    if !(0.5..=600.0).contains(&arguments.seconds) || !(1..=100).contains(&arguments.rounds) {
        bail!("--seconds is 0.5 to 600, --rounds 1 to 100");
    }
    Ok(arguments)
}

/// A running `disktime serve` with a configuration of its own.
struct Daemon {
    child: Child,
    directory: tempfile::TempDir,
}

impl Daemon {
    fn start(server: &str, disks: &str) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("disktime-hostile-").tempdir()?;
        let path = directory.path();
        let disks = disks.replace("DIRECTORY", &path.display().to_string());
        let text =
            format!("[server]\nnbd = [\"unix:{}/nbd.sock\"]\n{server}\n{disks}", path.display());
        let config = path.join("disktime.toml");
        std::fs::write(&config, text)?;
        let serve = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
            command.args(["serve", "--config"]).arg(&config);
            command
        };
        let mut child = serve().stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        if line.is_empty() {
            let checked = serve().arg("--check").output()?;
            bail!("the daemon did not start: {}", String::from_utf8_lossy(&checked.stderr).trim());
        }
        Ok(Self { child, directory })
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("nbd.sock")
    }

    /// Resident memory in bytes.
    fn resident(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmRSS")?;
        Ok(kib.trim().parse::<u64>()? * 1024)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// An attacker's process, ended when it is dropped.
struct Attacker(Child);

impl Attacker {
    fn start(name: &str, socket: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(std::env::current_exe()?);
        command.args(["--attack", name]).arg(socket).stderr(Stdio::null());
        Ok(Self(command.spawn().context("an attacker can't be started")?))
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

fn judge_all(back_end: &'static str, arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let device = match back_end {
        "memory" => "back_end = \"memory\"".to_owned(),
        _ => "back_end = \"file:DIRECTORY/image\"".to_owned(),
    };
    let disk = |name: &str| {
        format!(
            "[[vdisk]]\nname = \"{name}\"\ndevice = \"d\"\nsize = \"1GiB\"\nreserve = \"50%\"\n"
        )
    };
    let policy = arguments.policy.as_ref();
    let policy = policy.map(|name| format!("policy = \"{name}\"\nexperimental = true\n"));
    let shards = arguments.shards.map(|count| format!("shards = {count}\n"));
    let keys = [policy, shards].into_iter().flatten().collect::<String>();
    let device = format!("[[device]]\nname = \"d\"\n{device}\n{keys}");
    let disks = format!("{device}{}{}", disk("good"), disk("other"));
    let only = |attack: &&Attack| arguments.only.as_ref().is_none_or(|only| only == attack.name);
    let mut rows = Vec::new();
    for attack in ATTACKS.iter().filter(only) {
        let mut rounds = Vec::new();
        for round in 0..arguments.rounds {
            eprintln!("{back_end}: {} ({}), round {}", attack.name, attack.what, round + 1);
            let daemon = daemon(back_end, &disks)?;
            let socket = daemon.socket();
            let piece_us = alone(&socket)?;
            let beside = |name: &str| -> anyhow::Result<(LoadReport, f64)> {
                let attacker = Attacker::start(name, &socket)?;
                sleep(Duration::from_millis(1500));
                let before = Processors::now(&daemon, &attacker)?;
                let report = good(&socket, arguments.seconds)?;
                let foreign = before.foreign(&Processors::now(&daemon, &attacker)?);
                drop(attacker);
                sleep(Duration::from_millis(500));
                Ok((report, foreign))
            };
            let (usual, foreign) = beside(NEIGHBOUR.name)?;
            let (attacked, also) = beside(attack.name)?;
            rounds.push((usual, attacked, piece_us, foreign.max(also)));
        }
        let median = |figure: fn(&(LoadReport, LoadReport, f64, f64)) -> f64| {
            let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        let kept = median(|(usual, attacked, ..)| iops(attacked) / iops(usual).max(1.0));
        let p99 = median(|(usual, ..)| usual.latency.p99_us);
        let p99_attacked = median(|(_, attacked, ..)| attacked.latency.p99_us);
        let piece_us = median(|round| round.2);
        let foreign_cpu = median(|round| round.3);
        let pass = kept >= 0.9 && p99_attacked <= (p99 * 1.1).max(p99 + piece_us);
        rows.push(Row {
            back_end,
            attack: attack.name,
            iops_beside_neighbour: median(|(usual, ..)| iops(usual)),
            iops_beside_attack: median(|(_, attacked, ..)| iops(attacked)),
            kept,
            p99_us_beside_neighbour: p99,
            p99_us_beside_attack: p99_attacked,
            piece_us,
            foreign_cpu,
            verdict: match (pass, foreign_cpu > FOREIGN_MAX) {
                (true, _) => "ok",
                (false, true) => "not judged",
                (false, false) => "FAIL",
            },
        });
    }
    Ok(rows)
}

/// A daemon whose virtual disks hold data.
fn daemon(back_end: &str, disks: &str) -> anyhow::Result<Daemon> {
    if back_end == "memory" {
        let daemon = Daemon::start("", disks)?;
        fill(&daemon.socket(), "good")?;
        fill(&daemon.socket(), "other")?;
        return Ok(daemon);
    }
    // An image that holds data: what was never written is read in no time.
    let directory = tempfile::Builder::new().prefix("disktime-hostile-image-").tempdir()?;
    let image = directory.keep();
    let path = image.join("image");
    let mut file = std::fs::File::create(&path)?;
    let chunk: Vec<u8> = (0..1u32 << 20).map(|at| at.to_le_bytes()[0] | 1).collect();
    for _ in 0..((2 * GIB) >> 20) + 2 {
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    let disks = disks.replace("DIRECTORY/image", &path.display().to_string());
    let daemon = Daemon::start("", &disks);
    // The daemon has it open; nobody needs its name.
    let daemon = daemon?;
    let _kept_open = std::fs::remove_dir_all(image);
    Ok(daemon)
}

fn fill(socket: &Path, export: &str) -> anyhow::Result<()> {
    let mut client = Raw::connect(socket, export).context("no place")?;
    let data = vec![7; 32 << 20];
    for at in (0..GIB).step_by(32 << 20) {
        client.request(1, at, at, 32 << 20)?;
        client.socket.write_all(&data)?;
        client.socket.read_exact(&mut [0; 16])?;
    }
    Ok(())
}

fn load(socket: &Path, export: &str, bytes: u64, outstanding: u32) -> anyhow::Result<Load> {
    let uri = format!("nbd+unix:///{export}?socket={}", socket.display()).parse()?;
    let extent = Extent { start: 0, end: GIB };
    let think = disktime_core::Duration::ZERO;
    let spec = LoadSpec {
        workload: Spec::reads(Pattern::Random, extent, bytes),
        pace: Pace::Closed { outstanding, think },
        seed: 1,
        name: export.to_owned(),
        options: Options::default(),
    };
    Ok(Load::start(&uri, spec)?)
}

/// The good client for so long.
fn good(socket: &Path, seconds: f64) -> anyhow::Result<LoadReport> {
    let load = load(socket, "good", 4096, 4)?;
    sleep(Duration::from_secs_f64(seconds));
    let report = load.stop();
    if report.counters.failed > 0 || report.lost.is_some() {
        bail!("the good client failed: {report:?}");
    }
    Ok(report)
}

/// The mean time of a read of 1 MiB alone, in us.
fn alone(socket: &Path) -> anyhow::Result<f64> {
    let load = load(socket, "good", 1 << 20, 1)?;
    sleep(Duration::from_millis(500));
    Ok(load.stop().latency.mean_us)
}

fn iops(report: &LoadReport) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let completed = report.counters.completed as f64;
    completed / report.elapsed.as_secs_f64().max(1e-9)
}

/// Processor time so far in ticks of 10 ms: of everybody, and of us.
struct Processors {
    all: u64,
    ours: u64,
    at: Instant,
}

impl Processors {
    /// Ours are this process, the daemon and the attacker.
    fn now(daemon: &Daemon, attacker: &Attacker) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().context("no /proc/stat")?;
        let fields: Vec<u64> =
            line.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
        // user, nice, system, then idle and iowait, irq, softirq, steal.
        let all = fields.iter().take(3).chain(fields.iter().skip(5).take(3)).sum();
        let pids = [std::process::id(), daemon.child.id(), attacker.0.id()];
        let ours = pids.into_iter().map(ticks).sum::<anyhow::Result<u64>>()?;
        Ok(Self { all, ours, at: now() })
    }

    /// The time that others took since, in per cent of the machine's.
    fn foreign(&self, later: &Self) -> f64 {
        let seconds = (later.at - self.at).as_secs_f64();
        let foreign = (later.all - self.all).saturating_sub(later.ours - self.ours);
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        #[expect(clippy::cast_precision_loss, reason = "ticks of a few seconds")]
        let percent = foreign as f64 / (seconds * count as f64);
        percent
    }
}

/// A process's processor time in ticks of 10 ms.
fn ticks(pid: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = text.rsplit_once(')').context("no /proc/PID/stat")?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

fn print(report: &Report) {
    println!("back end  attack            IOPS beside      kept  p99 us beside     piece  verdict");
    println!("                          neighbour attack        neighbour attack     us");
    for row in &report.rows {
        println!(
            "{:<9} {:<15} {:>10.0} {:>6.0} {:>6.2} {:>8.0} {:>8.0} {:>7.0}  {}",
            row.back_end,
            row.attack,
            row.iops_beside_neighbour,
            row.iops_beside_attack,
            row.kept,
            row.p99_us_beside_neighbour,
            row.p99_us_beside_attack,
            row.piece_us,
            row.verdict,
        );
    }
    for Memory { case, resident_mib, bound_mib, pass } in &report.memory {
        let verdict = if *pass { "ok" } else { "FAIL" };
        println!("{case}: {resident_mib} MiB resident, at most {bound_mib}: {verdict}");
    }
}

/// 1,000 virtual disks with four connections each, which all ask for a lot and read nothing.
fn crowd() -> anyhow::Result<Memory> {
    let disk = |at| format!("[[vdisk]]\nname = \"v{at}\"\ndevice = \"d\"\nsize = \"1GiB\"\n");
    let disks: String = (0..1000).map(disk).collect();
    let daemon =
        Daemon::start("", &format!("[[device]]\nname = \"d\"\nback_end = \"memory\"\n{disks}"))?;
    let mut clients = Vec::new();
    for at in 0..4000 {
        let client = Raw::connect(&daemon.socket(), &format!("v{}", at / 4))
            .with_context(|| format!("client {at} gets no place"))?;
        client.socket.set_nonblocking(true)?;
        clients.push(client);
    }
    eprintln!("memory: 4,000 connections");
    ask_and_read_nothing(&mut clients);
    resident("1,000 virtual disks x 4 connections that read nothing", &daemon)
}

/// Sixteen connections on each of 16 virtual disks.
fn all_deaf() -> anyhow::Result<Memory> {
    let disk = |at| format!("[[vdisk]]\nname = \"v{at}\"\ndevice = \"d\"\nsize = \"1GiB\"\n");
    let disks: String = (0..16).map(disk).collect();
    let daemon =
        Daemon::start("", &format!("[[device]]\nname = \"d\"\nback_end = \"memory\"\n{disks}"))?;
    let mut clients = Vec::new();
    for at in 0..256 {
        let client = Raw::connect(&daemon.socket(), &format!("v{}", at / 16));
        let client = client.context("no place")?;
        client.socket.set_nonblocking(true)?;
        clients.push(client);
    }
    eprintln!("memory: 256 connections");
    ask_and_read_nothing(&mut clients);
    resident("16 virtual disks x 16 connections that read nothing", &daemon)
}

fn ask_and_read_nothing(clients: &mut [Raw]) {
    for _ in 0..5 {
        for client in &mut *clients {
            for length in [32 << 20, 1 << 20, 100_000, 4096, 4096] {
                for cookie in 0..20 {
                    let _full = client.request(0, cookie, 0, length);
                }
            }
        }
        sleep(Duration::from_millis(500));
    }
}

fn resident(case: &'static str, daemon: &Daemon) -> anyhow::Result<Memory> {
    let budget = machine_bytes()? / 4;
    let bound_mib = (budget.min(GIB) >> 20) + 64;
    let resident_mib = daemon.resident()? >> 20;
    Ok(Memory { case, resident_mib, bound_mib, pass: resident_mib <= bound_mib })
}

fn machine_bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no MemTotal")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// A socket in its transmission phase, without structured replies.
struct Raw {
    socket: UnixStream,
}

impl Raw {
    fn connect(socket: &Path, export: &str) -> Option<Self> {
        let mut socket = UnixStream::connect(socket).ok()?;
        socket.read_exact(&mut [0; 18]).ok()?;
        let mut bytes = vec![0, 0, 0, 3];
        bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01");
        bytes.extend_from_slice(&u32::try_from(export.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(export.as_bytes());
        socket.write_all(&bytes).ok()?;
        socket.read_exact(&mut [0; 10]).ok()?;
        Some(Self { socket })
    }

    fn request(
        &mut self,
        command: u16,
        cookie: u64,
        offset: u64,
        length: u32,
    ) -> std::io::Result<()> {
        self.socket.write_all(&request(command, cookie, offset, length))
    }
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

/// Runs the same on as many threads as a crowd has connections; each is begun anew when it ends.
fn crowded(socket: &Path, run: impl Fn(Raw) -> std::io::Result<()> + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| {
                loop {
                    if let Some(client) = Raw::connect(socket, "other") {
                        let _ended = run(client);
                    }
                    sleep(Duration::from_millis(1));
                }
            });
        }
    });
}

/// Keeps so many requests of no payload under way; replies have so many bytes.
fn keep_asking(
    client: Raw,
    command: u16,
    length: u32,
    count: u64,
    reply: usize,
) -> std::io::Result<()> {
    let Raw { mut socket } = client;
    let one = request(command, 1, 0, length);
    socket.write_all(&one.repeat(usize::try_from(count).unwrap_or(1)))?;
    let mut bytes = vec![0; 16 + reply];
    loop {
        socket.read_exact(&mut bytes)?;
        socket.write_all(&one)?;
    }
}

fn neighbour(socket: &Path) {
    match load(socket, "other", 4096, 32) {
        Ok(load) => {
            sleep(Duration::from_secs(3600));
            drop(load.stop());
        }
        Err(error) => eprintln!("{error:#}"),
    }
}

fn deaf(socket: &Path) {
    let mut crowd: Vec<_> = (0..CROWD).filter_map(|_| Raw::connect(socket, "other")).collect();
    for client in &mut crowd {
        for cookie in 0..4 {
            let _asked = client.request(0, cookie, 0, 32 << 20);
        }
    }
    sleep(Duration::from_secs(3600));
}

fn long_reads(socket: &Path) {
    crowded(socket, |client| keep_asking(client, 0, 32 << 20, 4, 32 << 20));
}

fn long_writes(socket: &Path) {
    let data = vec![9; 32 << 20];
    crowded(socket, |mut client| {
        loop {
            client.request(1, 1, 0, 32 << 20)?;
            client.socket.write_all(&data)?;
            client.socket.read_exact(&mut [0; 16])?;
        }
    });
}

fn flushes(socket: &Path) {
    crowded(socket, |client| keep_asking(client, 3, 0, 500, 0));
}

fn trims(socket: &Path) {
    crowded(socket, |client| keep_asking(client, 4, 1 << 30, 32, 0));
}

fn zeroes(socket: &Path) {
    crowded(socket, |client| keep_asking(client, 6, 32 << 20, 32, 0));
}

fn connects(socket: &Path) {
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    drop(UnixStream::connect(socket));
                }
            });
        }
    });
}

fn idle(socket: &Path) {
    let mut held = Vec::new();
    loop {
        match UnixStream::connect(socket) {
            Ok(socket) if held.len() < 2000 => held.push(socket),
            _ => sleep(Duration::from_millis(10)),
        }
    }
}

fn lists(socket: &Path) {
    let mut held = Vec::new();
    let list = [b"IHAVEOPT".as_slice(), &[0, 0, 0, 3, 0, 0, 0, 0]].concat();
    loop {
        if let Ok(mut socket) = UnixStream::connect(socket) {
            let _closed = socket.write_all(&[&[0, 0, 0, 3][..], &list.repeat(60)].concat());
            held.push(socket);
        }
        held.truncate(500);
    }
}

fn dying_writers(socket: &Path) {
    crowded(socket, |mut client| {
        client.request(1, 1, 0, 1 << 20)?;
        client.socket.write_all(&[1; 100_000])
    });
}

fn garbage(socket: &Path) {
    let noise: Vec<u8> = (0..100_000u32).map(|at| (at * 2_654_435_761).to_le_bytes()[3]).collect();
    crowded(socket, |mut client| client.socket.write_all(&noise));
}

#[expect(clippy::disallowed_methods, reason = "a bench measures in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a bench waits in real time")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}
