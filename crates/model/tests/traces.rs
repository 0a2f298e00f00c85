//! Real disks against their models: requests issued to the very drive, and the response time that
//! was measured for each.
//!
//! The figure is the demerit of Ruemmler & Wilkes: the root mean square of the horizontal distance
//! between the two distributions of response times. Asked for were .6, .6 and 1 ms; DiskSim has
//! .14, .11 and .31 ms. The asserted bounds are what the models reach, with a little room.

use disktime_core::{Duration, Instant, Kind};
use disktime_model::disk::{Disk, DiskSpec, SeekCurve};
use disktime_model::{Completion, Device, Op, preset};
use std::io::{Read, Write};
use std::path::PathBuf;

/// One line of a measured trace.
#[derive(Clone, Copy, Debug)]
struct Request {
    op: Op,
    measured_ms: f64,
    gap: Duration,
}

/// The event that a trace's gap runs from.
#[derive(Clone, Copy, Debug)]
enum GapFrom {
    /// From arrival to arrival.
    Arrival,
    /// From completion to arrival.
    Completion,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces")
}

/// The convention of CONTRIBUTING.md for a test that can't run here.
fn skip(test: &str, reason: &str) {
    let line = format!("SKIP: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skips opens");
    }
}

/// A trace and its drive's seek table, or `None` aloud.
fn measured(test: &str, trace: &str, table: &str) -> Option<(Vec<Request>, SeekCurve)> {
    let read = |name: String| match std::fs::read(folder().join(&name)) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            skip(test, &format!("{name} can't be read from ../shared/traces: {error}"));
            None
        }
    };
    let packed = read(format!("disk_measured_{trace}.csv.gz"))?;
    let table = read(format!("{table}.seek.csv"))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("a gzip text");
    let requests = text.lines().skip(1).map(parse).collect();
    let table = String::from_utf8(table).expect("a text");
    Some((requests, SeekCurve::parse_table(&table).expect("a seek table")))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a gap is positive and far below 2^53 ns"
)]
fn parse(line: &str) -> Request {
    let fields: Vec<&str> = line.split(',').collect();
    let [op, lbn, sectors, _, response_us, gap_us] = fields[..] else {
        panic!("six fields in {line}")
    };
    let number = |field: &str| field.parse::<f64>().expect("a number");
    let whole = |field: &str| field.parse::<u64>().expect("a whole number");
    let kind = if op == "R" { Kind::Read } else { Kind::Write };
    Request {
        op: Op { kind, offset: whole(lbn) * 512, bytes: whole(sectors) * 512, fua: false },
        measured_ms: number(response_us) / 1e3,
        gap: Duration::from_nanos((number(gap_us) * 1e3).round() as u64),
    }
}

/// The response time of each request in milliseconds; the host gives the disk one at a time.
fn replay(spec: &DiskSpec, requests: &[Request], gap_from: GapFrom) -> Vec<f64> {
    let mut disk = Disk::new(spec.clone(), 1);
    let mut done: Vec<Completion> = Vec::new();
    let mut responses = Vec::with_capacity(requests.len());
    let (mut arrival, mut free) = (Instant::ZERO, Instant::ZERO);
    for request in requests {
        let submitted = arrival.max(free);
        disk.submit(submitted, 0, request.op);
        free = disk.next_completion().expect("one is inside");
        disk.advance(free, &mut done);
        responses.push(free.since(arrival).as_secs_f64() * 1e3);
        arrival = match gap_from {
            GapFrom::Arrival => arrival,
            GapFrom::Completion => free,
        } + request.gap;
    }
    responses
}

/// Root mean square of the horizontal distance between two distributions of equally many values.
fn demerit(a: &[f64], b: &[f64]) -> f64 {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let squares: f64 = sorted(a).iter().zip(sorted(b)).map(|(a, b)| (a - b).powi(2)).sum();
    (squares / a.len() as f64).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The demerits with the measured seek table and with the preset's own fit.
fn demerits(
    name: &str,
    spec: &DiskSpec,
    (requests, table): &(Vec<Request>, SeekCurve),
    gap_from: GapFrom,
) -> [f64; 2] {
    let measured: Vec<f64> = requests.iter().map(|request| request.measured_ms).collect();
    let with_table = preset::with_seek_table(spec.clone(), table.clone());
    [("table", &with_table), ("fit", spec)].map(|(curve, spec)| {
        let modelled = replay(spec, requests, gap_from);
        let all = demerit(&modelled, &measured);
        eprintln!(
            "{name}, seek {curve}: demerit {all:.3} ms; mean {:.3} ms, measured {:.3} ms",
            mean(&modelled),
            mean(&measured)
        );
        for (label, kind) in [("reads", Kind::Read), ("writes", Kind::Write)] {
            let of = |values: &[f64]| -> Vec<f64> {
                let both = requests.iter().zip(values);
                both.filter(|(request, _)| request.op.kind == kind).map(|(_, &v)| v).collect()
            };
            let (modelled, measured) = (of(&modelled), of(&measured));
            eprintln!(
                "  {label}: demerit {:.3} ms; mean {:.3} ms, measured {:.3} ms",
                demerit(&modelled, &measured),
                mean(&modelled),
                mean(&measured)
            );
        }
        all
    })
}

fn below(name: &str, demerits: [f64; 2], limits_ms: [f64; 2]) {
    for (demerit, limit) in demerits.into_iter().zip(limits_ms) {
        assert!(demerit < limit, "{name}: demerit {demerit:.3} ms, {limit} ms allowed");
    }
}

#[test]
fn ibm18es_against_its_trace() {
    let Some(trace) = measured("ibm18es_against_its_trace", "ibm18es", "ibm18es") else { return };
    let found = demerits("ibm18es", &preset::ibm18es(), &trace, GapFrom::Arrival);
    below("ibm18es", found, [0.2, 0.2]);
}

#[test]
fn cheetah9lp_against_its_trace() {
    let trace = measured("cheetah9lp_against_its_trace", "cheetah9LP", "cheetah9LP");
    let Some(trace) = trace else { return };
    let found = demerits("cheetah9lp", &preset::cheetah9lp(), &trace, GapFrom::Arrival);
    below("cheetah9lp", found, [0.35, 0.35]);
}

/// Its gaps run from completion to arrival: read as from arrival to arrival they offer the drive
/// more work than it can do (a mean gap below the mean response), and a sixth of the measured
/// responses would have overtaken one another.
#[test]
fn hp_c3323a_against_its_trace() {
    let trace = measured("hp_c3323a_against_its_trace", "hp_c3323a", "hp_c3323a");
    let Some(trace) = trace else { return };
    let otherwise = replay(&preset::hp_c3323a(), &trace.0, GapFrom::Arrival);
    eprintln!("hp-c3323a with gaps from arrival: mean {:.0} ms", mean(&otherwise));
    let found = demerits("hp-c3323a", &preset::hp_c3323a(), &trace, GapFrom::Completion);
    below("hp-c3323a", found, [0.35, 0.35]);
}
