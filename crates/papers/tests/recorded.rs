//! The figures that a recorded trace joins, with one where it is there.

use std::io::{Cursor, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use disktime_papers::recorded::{RecordedError, Trace, join};
use disktime_papers::{Report, Runs, find, run};
use disktime_workload::OpenTrace;
use disktime_workload::trace::TraceReader;

fn skip(test: &str, reason: &str) {
    let line = format!("SKIP: {test}: {reason}\n");
    eprint!("{line}");
    if let Some(path) = std::env::var_os("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the list of skips opens");
    }
}

fn joined(ids: &[&str], path: &Path) -> Vec<Report> {
    let open = || -> OpenTrace {
        let path = path.to_owned();
        Box::new(move || TraceReader::open(&path, None))
    };
    let (reports, joined) = join_all(ids, &open);
    assert_eq!(joined.expect("the trace is read"), ids.len());
    reports
}

fn join_all(ids: &[&str], open: &Trace<'_>) -> (Vec<Report>, Result<usize, RecordedError>) {
    let experiments: Vec<_> = ids.iter().map(|id| find(id).expect("a registered id")).collect();
    let (one, runs) = (NonZero::<usize>::MIN, Runs::of_seeds(NonZero::<u32>::MIN));
    let mut reports = run(&experiments, runs, one, |_, _| {});
    let joined = join(&mut reports, open, runs, one);
    (reports, joined)
}

/// A trace that broke off gave figures all the same: its stream had stopped in the middle.
#[test]
fn a_trace_that_cannot_be_read_to_its_end_joins_no_figure() {
    let open = || -> OpenTrace {
        Box::new(|| {
            let rows: String =
                (0..100).map(|it| format!("{it},read,{},4096\n", it * 8192)).collect();
            let text = format!("time_ns,op,offset,bytes\n{rows}100,read,x,4096\n");
            TraceReader::new(Cursor::new(text), "t.csv", None)
        })
    };
    let (_, joined) = join_all(&["qbox-18"], &open);
    let error = joined.expect_err("the trace is broken").to_string();
    assert_eq!(error, "t.csv:102: offset: \"x\"; a whole number below 2^64 is needed");
}

/// Half of the reads of this trace jump, so that in shares of disk time it has no more than in shares
/// of requests: the claim is one about streams whose requests cost less than the others'.
#[test]
fn a_recorded_trace_gains_what_its_requests_cost_less() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/traces/cloudphysics_w_sample.csv.gz");
    if !path.exists() {
        let test = "a_recorded_trace_gains_what_its_requests_cost_less";
        return skip(test, "cloudphysics_w_sample.csv.gz is not in ../shared/traces");
    }
    let reports = joined(&["qbox-17", "qbox-18"], &path);
    let checks = reports.iter().flat_map(|report| &report.checks);
    let checks: Vec<_> =
        checks.filter(|check| check.name.starts_with("with a recorded trace: ")).collect();
    let missed: Vec<_> = checks.iter().filter(|check| !check.pass()).collect();
    for check in &missed {
        assert!(check.name.contains("recorded, "), "{check:?}");
        assert!(!check.name.contains("% of all requests"), "{check:?}");
    }
    assert_eq!(checks.len(), 9);
    assert_eq!(missed.len(), 3, "{missed:#?}");
}
