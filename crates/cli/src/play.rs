//! `disktime play`: a client that needs its data at a constant rate, and says when they are late.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use disktime_client::{
    Connection, Counters, Load, LoadError, LoadSpec, MissError, MissReports, Options, Uri,
};
use disktime_config::quantity;
use disktime_core::Duration;
use disktime_workload::{Extent, Pace, Pattern, Playback, Spec};
use serde::Serialize;

use crate::{BadInput, failure, interrupt};

mod view;

const EXAMPLES: &str = "\
Examples:
  disktime play --rate 8MB/s 'nbd+unix:///video?socket=/tmp/disktime.sock'
  disktime play --rate 8MB/s \\
      --report /tmp/misses.sock 'nbd+unix:///video?socket=/tmp/disktime.sock'
  disktime play --rate 2MB/s --streams 4 --vbr 50% --for 60s movie.mkv
  # OVERWRITES what is there
  disktime play --rate 2MB/s --write --for 60s /dev/sdb

A stream reads its part of the target in order, again from the start at its end,
and fills its buffer as fast as it can. It plays from when a buffer's time has
passed. When it needs data that are not there, that is a miss: it stands still
until they come. With --write it records: a miss is a full buffer. --report
tells the daemon of each miss, at the socket that `misses` in its configuration
names; there the virtual disk is of class soft-real-time, on a device with a
`feedback` controller. Plays until --for has passed; without --for until a
signal comes. Exits with 0 if no stream missed (after --grace), 1 if one did or
a request failed, 2 if an option or a target can't be used, 130 if a signal came
before --for had passed.";

/// The most streams at once.
const STREAMS_MAX: usize = 64;
/// How long can be played, and what a buffer can hold.
const PLAYS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(8_760 * 3600);
const BUFFERS: RangeInclusive<Duration> = Duration::from_nanos(1)..=Duration::from_secs(3600);
/// How often the view is drawn.
const TICK: std::time::Duration = std::time::Duration::from_millis(500);

/// Play, or record, at a constant rate, and count what was late.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// NBD URIs, files or block devices; each has streams of its own
    #[arg(value_name = "PATH|URI", required = true)]
    targets: Vec<String>,
    /// Rate that each stream needs, like `8MB/s`
    #[arg(long, value_parser = quantity::parse_rate)]
    rate: u64,
    /// How long what is in a full buffer plays
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::parse_duration)]
    buffer: Duration,
    /// Bytes of a request
    #[arg(long, value_name = "SIZE", default_value = "128KiB", value_parser = quantity::parse_size)]
    request: u64,
    /// Requests that a stream has outstanding at most
    #[arg(long, value_name = "N", default_value = "4")]
    outstanding: u32,
    /// Record instead: what is on the target is overwritten
    #[arg(long)]
    write: bool,
    /// A variable bit rate: a second's data play in a second more or less up to so much, at most 90%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = quantity::parse_permille)]
    vbr: u16,
    /// Streams on each target, each on a part of it
    #[arg(long, value_name = "N", default_value = "1")]
    streams: u32,
    /// For how long; else until a signal
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
    /// Misses before are no failure: a controller needs some to learn what is wanted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::parse_duration)]
    grace: Duration,
    /// Report misses at this socket
    #[arg(long, value_name = "SOCKET")]
    report: Option<PathBuf>,
    /// Virtual disk whose misses these are, if the target is a file; of an NBD URI it is the export
    #[arg(long, value_name = "NAME", requires = "report")]
    vdisk: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How it went.
#[derive(Serialize)]
struct Report {
    seconds: f64,
    streams: Vec<Stream>,
    pass: bool,
}

#[derive(Serialize)]
struct Stream {
    name: String,
    target: String,
    access: &'static str,
    /// Asked for, in bytes per second.
    rate: u64,
    /// Got, the first filling of the buffer included.
    bytes_per_second: f64,
    misses: u64,
    /// Misses after the grace; `misses` includes them.
    misses_late: u64,
    misses_unreported: u64,
    worst_lateness_ms: f64,
    /// Time in which it did not stand still.
    seconds_on_time: f64,
    seconds_stalled: f64,
    requests: u64,
    failed: u64,
    latency_us_p99: f64,
}

/// A stream under way.
struct Playing {
    name: String,
    target: String,
    load: Load,
    /// Misses when the grace ended.
    forgiven: u64,
}

/// Where a stream's data are.
enum Target {
    Export(Box<Uri>),
    File(PathBuf),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let count = arguments.targets.len().saturating_mul(arguments.streams as usize);
    if !(1..=STREAMS_MAX).contains(&count) {
        let streams = arguments.streams;
        bail!(BadInput(format!("--streams {streams}: {count} in all; 1 to {STREAMS_MAX} can be")));
    }
    let spans =
        [("--for", arguments.duration, PLAYS), ("--buffer", Some(arguments.buffer), BUFFERS)];
    for (option, span, range) in spans {
        if let Some(span) = span.filter(|span| !range.contains(span)) {
            let (least, most) = (range.start(), range.end());
            bail!(BadInput(format!("{option} {span:?}: {least:?} to {most:?} are possible")));
        }
    }
    if let Some(length) = arguments.duration.filter(|length| *length <= arguments.buffer) {
        bail!(BadInput(format!(
            "--for {length:?}: more than --buffer, {:?}, is needed: only then a stream plays and can miss",
            arguments.buffer
        )));
    }
    let mut streams = Vec::new();
    for target in &arguments.targets {
        start(arguments, target, &mut streams)?;
    }
    // Until here a signal ends it: there is nothing to say yet.
    interrupt::polled();
    let mut view = view::View::new(arguments.json);
    let whole = watch(arguments, &mut streams, &mut view);
    let streams: Vec<_> =
        streams.into_iter().map(|it| end(arguments, it)).collect::<anyhow::Result<_>>()?;
    let seconds = view.elapsed().as_secs_f64();
    let pass = streams.iter().all(|stream| stream.misses_late == 0 && stream.failed == 0);
    let report = Report { seconds, streams, pass };
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        view::verdict(&report);
    }
    Ok(match whole {
        false => ExitCode::from(failure::INTERRUPTED),
        true => ExitCode::from(u8::from(!report.pass)),
    })
}

/// Starts a target's streams.
fn start(arguments: &Arguments, text: &str, streams: &mut Vec<Playing>) -> anyhow::Result<()> {
    let (target, bytes, vdisk) = open(arguments, text)?;
    let parts = u64::from(arguments.streams);
    // Whole requests, from a boundary of them.
    let part = bytes / parts / arguments.request.max(1) * arguments.request;
    for index in 0..parts {
        let extent = Extent { start: index * part, end: (index + 1) * part };
        let reads = Spec::reads(Pattern::Sequential, extent, arguments.request);
        let name = match parts {
            1 => vdisk.clone(),
            _ => format!("{vdisk} {}", index + 1),
        };
        let spec = LoadSpec {
            name: name.clone(),
            workload: Spec { reads_permille: if arguments.write { 0 } else { 1000 }, ..reads },
            pace: Pace::Player(Playback {
                bytes_per_second: arguments.rate,
                buffer: arguments.buffer,
                outstanding: arguments.outstanding,
                vbr_permille: arguments.vbr,
            }),
            seed: 1 + index,
            options: Options::default(),
        };
        let load = match &target {
            Target::Export(uri) => Load::start_reporting(uri, spec, reports(arguments, &vdisk)?),
            Target::File(path) => {
                let reported = arguments.vdisk.as_deref().unwrap_or(&vdisk);
                Load::start_on_file(path, spec, reports(arguments, reported)?)
            }
        };
        let load = load.map_err(|error| match error {
            LoadError::Connect(_) | LoadError::System(_) => {
                anyhow::Error::from(error).context(text.to_owned())
            }
            LoadError::File { .. } | LoadError::NoFile { .. } | LoadError::InUse { .. } => {
                BadInput(error.to_string()).into()
            }
            error => BadInput(format!("{text}: {}", refused(arguments, &error))).into(),
        })?;
        streams.push(Playing { name, target: text.to_owned(), load, forgiven: 0 });
    }
    Ok(())
}

/// Why a load does not fit a target, in the command's own options.
fn refused(arguments: &Arguments, error: &LoadError) -> String {
    let request = quantity::size_text(arguments.request);
    match error {
        LoadError::ReadOnly { .. } => {
            "--write: the export is read-only: leave --write out, or name one that takes writes"
                .to_owned()
        }
        LoadError::TooLong { bytes_max, .. } => {
            let most = quantity::size_text((*bytes_max).into());
            format!("--request {request}: at most {most} is possible here")
        }
        LoadError::Unaligned { block_bytes, .. } => {
            let block = quantity::size_text((*block_bytes).into());
            format!("--request {request}: a multiple of {block}, the export's block, is needed")
        }
        error => error.to_string(),
    }
}

/// Opens a target: answers it, its bytes, and the virtual disk's name.
fn open(arguments: &Arguments, text: &str) -> anyhow::Result<(Target, u64, String)> {
    if text.starts_with("nbd") && text.contains("://") {
        let uri: Uri = text.parse().map_err(|error| BadInput(format!("{text}: {error}")))?;
        let connection =
            Connection::open(&uri).map_err(|error| BadInput(format!("{text}: {error}")))?;
        let export = connection.export();
        let (bytes, name) = (export.size_bytes, export.name.clone());
        connection.disconnect().with_context(|| text.to_owned())?;
        return Ok((Target::Export(Box::new(uri)), bytes, name));
    }
    let path = Path::new(text);
    let bytes = Load::file_bytes(path).map_err(|error| BadInput(error.to_string()))?;
    if arguments.report.is_some() && arguments.vdisk.is_none() {
        bail!(BadInput(format!("{text}: --report needs the virtual disk's name: add --vdisk")));
    }
    let name = path.file_name().map_or_else(|| text.into(), |name| name.to_string_lossy());
    Ok((Target::File(path.to_owned()), bytes, name.into_owned()))
}

/// Where a stream's misses go, if anywhere; somebody must be there.
fn reports(arguments: &Arguments, vdisk: &str) -> anyhow::Result<Option<MissReports>> {
    let Some(path) = &arguments.report else { return Ok(None) };
    let reports = MissReports::new(path, vdisk).and_then(|it| it.probe().map(|()| it));
    reports.map(Some).map_err(|error| match error {
        MissError::Name { .. } => BadInput(error.to_string()).into(),
        error => error.into(),
    })
}

/// Shows how streams do until it is time to end; whether that is as it was asked for.
fn watch(arguments: &Arguments, streams: &mut [Playing], view: &mut view::View) -> bool {
    let span = |span: Duration| std::time::Duration::from_nanos(span.as_nanos());
    let (length, grace) = (arguments.duration.map(span), span(arguments.grace));
    let mut forgiving = true;
    let mut drawn = view.elapsed();
    loop {
        let at = view.elapsed();
        if forgiving {
            streams.iter_mut().for_each(|it| it.forgiven = it.load.counters().misses);
            forgiving = at < grace;
        }
        if at >= drawn {
            let rows: Vec<_> = streams.iter().map(|it| (&*it.name, it.load.counters())).collect();
            view.draw(length, arguments.rate, &rows);
            drawn = at + TICK;
        }
        let over = length.is_some_and(|length| at >= length);
        let asked = interrupt::is_asked();
        if over || asked || streams.iter().any(|it| it.load.has_ended()) {
            return over || !asked || length.is_none();
        }
        let mut until = drawn;
        until = length.map_or(until, |length| until.min(length));
        until = if forgiving { until.min(grace) } else { until };
        sleep(until.saturating_sub(at).min(TICK / 5));
    }
}

/// A stream's end, and what became of it.
fn end(arguments: &Arguments, stream: Playing) -> anyhow::Result<Stream> {
    let Playing { name, target, load, forgiven } = stream;
    let report = load.stop();
    if let Some(error) = report.lost {
        return Err(error).with_context(|| format!("{target}: the connection broke"));
    }
    let Counters { completed, failed, misses, unreported, .. } = report.counters;
    let elapsed = seconds(report.elapsed.as_nanos());
    let stalled = seconds(report.counters.stalled_ns);
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let bytes = (report.counters.bytes_read + report.counters.bytes_written) as f64;
    Ok(Stream {
        name,
        target,
        access: if arguments.write { "write" } else { "read" },
        rate: arguments.rate,
        bytes_per_second: bytes / elapsed.max(1e-9),
        misses,
        misses_late: misses.saturating_sub(forgiven),
        misses_unreported: unreported,
        worst_lateness_ms: seconds(report.counters.stalled_ns_max) * 1e3,
        seconds_on_time: (elapsed - stalled).max(0.0),
        seconds_stalled: stalled,
        requests: completed,
        failed,
        latency_us_p99: report.latency.p99_us,
    })
}

#[expect(clippy::cast_precision_loss, reason = "for display")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::disallowed_methods, reason = "a player plays in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a player plays in real time")]
fn sleep(time: std::time::Duration) {
    std::thread::sleep(time);
}
