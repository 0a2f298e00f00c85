//! Loads by fio: on an export with its engine `nbd`, or on a file with its engine `io_uring`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Figures, NbdError, SIZE, Work};

/// The target of a load.
pub(super) enum Target<'a> {
    /// An export's URI.
    Export(&'a str),
    /// A file, past the page cache.
    File(&'a Path),
}

/// Whether fio is installed.
#[must_use]
pub fn is_installed() -> bool {
    let mut command = Command::new("fio");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The figures of a load by fio, without CPU times; and its count of requests.
pub(super) fn run(
    server: &'static str,
    work: &Work,
    target: &Target<'_>,
    length: Duration,
) -> Result<(Figures, f64), NbdError> {
    let wrong = |reason: String| NbdError::Fio { server, reason };
    let mut command = Command::new("fio");
    command.args([
        "--name=load",
        "--time_based",
        "--group_reporting",
        "--randrepeat=0",
        "--norandommap",
        "--percentile_list=50:99:99.9",
        "--output-format=json",
    ]);
    match target {
        Target::Export(uri) => command.args(["--ioengine=nbd", &format!("--uri={uri}")]),
        Target::File(path) => {
            let file = format!("--filename={}", path.display());
            command.args(["--ioengine=io_uring", "--direct=1", &file])
        }
    };
    command
        .arg(format!("--rw={}", work.pattern()))
        .arg(format!("--bs={}", work.bytes))
        .arg(format!("--iodepth={}", work.outstanding))
        .arg(format!("--numjobs={}", work.connections))
        .arg(format!("--size={SIZE}"))
        .arg(format!("--runtime={}ms", length.as_millis()))
        .stdin(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().rev().find(|line| !line.trim().is_empty());
        return Err(wrong(line.unwrap_or("it said nothing").to_owned()));
    }
    let document = document(&output.stdout).map_err(|it| wrong(it.to_string()))?;
    figures(&document, work).ok_or_else(|| wrong("its document lacks figures".to_owned()))
}

/// The document in fio's output: its engine `nbd` says something first.
fn document(output: &[u8]) -> serde_json::Result<Value> {
    let start = output.iter().position(|byte| *byte == b'{').unwrap_or(0);
    serde_json::from_slice(&output[start..])
}

/// The figures in fio's document.
fn figures(document: &Value, work: &Work) -> Option<(Figures, f64)> {
    let side = &document["jobs"][0][if work.reads { "read" } else { "write" }];
    let times = &side["clat_ns"];
    let quantile = |key: &str| Some(times["percentile"][key].as_f64()? / 1e3);
    let figures = Figures {
        iops: side["iops"].as_f64()?,
        bytes_per_second: side["bw_bytes"].as_f64()?,
        mean_us: times["mean"].as_f64()? / 1e3,
        p50_us: quantile("50.000000")?,
        p99_us: quantile("99.000000")?,
        p999_us: quantile("99.900000")?,
        ..Figures::default()
    };
    Some((figures, side["total_ios"].as_f64()?))
}

#[cfg(test)]
mod tests {
    use super::super::WORKS;
    use super::*;

    #[test]
    fn figures_are_read_from_the_side_that_the_work_is_on() {
        let text = r#"{"jobs": [{"read": {"iops": 1.0}, "write": {"iops": 50000.5, "bw_bytes":
            204800000, "total_ios": 100001, "clat_ns": {"mean": 640000.0, "percentile":
            {"50.000000": 610000, "99.000000": 900000, "99.900000": 1500000}}}}]}"#;
        let said = format!("fio: connected to NBD server\n{text}");
        let document = document(said.as_bytes()).unwrap();
        let write = WORKS.iter().find(|work| !work.reads).unwrap();
        let (figures_of_write, requests) = figures(&document, write).unwrap();
        assert_eq!((figures_of_write.iops, requests), (50_000.5, 100_001.0));
        assert_eq!((figures_of_write.p50_us, figures_of_write.p999_us), (610.0, 1500.0));
        let read = WORKS.iter().find(|work| work.reads).unwrap();
        assert!(figures(&document, read).is_none(), "a document that lacks something is no zero");
    }
}
