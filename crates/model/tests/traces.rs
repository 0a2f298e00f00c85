//! Real disks against their models: requests issued to the very drive, and the response time that
//! was measured for each.
//!
//! The figure is the demerit of Ruemmler & Wilkes: the root mean square of the horizontal distance
//! between the two distributions of response times, in the median over five angles of the spindle at
//! the start. Asked for is .4 ms; DiskSim has .14, .11 and .31 ms. The asserted bounds are what the
//! models reach, with a little room. Each drive's hit and accept times are fitted to its responses,
//! as its preset says; seeks, zones, skews and other overheads are published.

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
fn measured(test: &str, trace: &str) -> Option<(Vec<Request>, SeekCurve)> {
    let read = |name: String| match std::fs::read(folder().join(&name)) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            skip(test, &format!("{name} can't be read from ../shared/traces: {error}"));
            None
        }
    };
    let packed = read(format!("disk_measured_{trace}.csv.gz"))?;
    let table = read(format!("{trace}.seek.csv"))?;
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

/// The response time of each request in milliseconds. The host gives the disk one at a time, each
/// its gap after the completion of the one before, as the traces were recorded. The seed decides
/// where the spindle is at the start.
fn replay(spec: &DiskSpec, requests: &[Request], seed: u64) -> Vec<f64> {
    let mut disk = Disk::new(spec.clone(), seed);
    let mut done: Vec<Completion> = Vec::new();
    let mut responses = Vec::with_capacity(requests.len());
    let mut arrival = Instant::ZERO;
    for request in requests {
        disk.submit(arrival, 0, request.op);
        let completed = disk.next_completion().expect("one is inside");
        disk.advance(completed, &mut done);
        responses.push(completed.since(arrival).as_secs_f64() * 1e3);
        arrival = completed + request.gap;
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

/// The part of the values whose request is of that kind.
fn of_kind(requests: &[Request], kind: Kind, values: &[f64]) -> Vec<f64> {
    let both = requests.iter().zip(values);
    both.filter(|(request, _)| request.op.kind == kind).map(|(_, &value)| value).collect()
}

/// The median over five angles of the spindle at the start of the demerit with one seek curve. Since
/// each request follows the completion of the one before, the angle is the same after the first
/// read, whatever it was: the five differ by less than a microsecond.
fn median_demerit(name: &str, curve: &str, spec: &DiskSpec, requests: &[Request]) -> f64 {
    let measured: Vec<f64> = requests.iter().map(|request| request.measured_ms).collect();
    let demerit_of = |seed| {
        let modelled = replay(spec, requests, seed);
        let all = demerit(&modelled, &measured);
        eprintln!(
            "{name}, seek {curve}, phase {seed}: demerit {all:.3} ms; mean {:.3} ms, measured {:.3} ms",
            mean(&modelled),
            mean(&measured)
        );
        for (label, kind) in [("reads", Kind::Read), ("writes", Kind::Write)] {
            let [modelled, measured] = [&modelled, &measured].map(|it| of_kind(requests, kind, it));
            eprintln!(
                "  {label}: demerit {:.3} ms; mean {:.3} ms, measured {:.3} ms",
                demerit(&modelled, &measured),
                mean(&modelled),
                mean(&measured)
            );
        }
        all
    };
    let mut demerits: Vec<f64> = (1..=5).map(demerit_of).collect();
    demerits.sort_by(f64::total_cmp);
    eprintln!("{name}, seek {curve}: median demerit {:.3} ms of {demerits:.3?}", demerits[2]);
    demerits[2]
}

/// Both with the measured seek table and with the preset's own fit; `limit_ms` for each.
fn below(test: &str, trace: &str, spec: &DiskSpec, limits_ms: [f64; 2]) {
    let Some((requests, table)) = measured(test, trace) else { return };
    let with_table = preset::with_seek_table(spec.clone(), table);
    let curves = [("table", &with_table), ("fit", spec)];
    for ((curve, spec), limit) in curves.into_iter().zip(limits_ms) {
        let demerit = median_demerit(trace, curve, spec, &requests);
        assert!(
            demerit < limit,
            "{trace}, seek {curve}: demerit {demerit:.3} ms, {limit} ms allowed"
        );
    }
}

#[test]
fn ibm18es_against_its_trace() {
    below("ibm18es_against_its_trace", "ibm18es", &preset::ibm18es(), [0.15, 0.12]);
}

#[test]
fn cheetah9lp_against_its_trace() {
    below("cheetah9lp_against_its_trace", "cheetah9LP", &preset::cheetah9lp(), [0.2, 0.2]);
}

#[test]
fn hp_c3323a_against_its_trace() {
    below("hp_c3323a_against_its_trace", "hp_c3323a", &preset::hp_c3323a(), [0.27, 0.27]);
}
