//! Every format of traces, with a sample, and with everything that can be wrong with it.

use disktime_core::{Instant, Kind};
use disktime_workload::IoOp;
use disktime_workload::trace::{Disorder, TraceError, TraceFault, TraceFormat, TraceReader};
use disktime_workload::trace::{TraceRecord, TraceWriter};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use Kind::{Flush, Read, Trim, Write as Write_};

fn reader(text: &str, format: Option<TraceFormat>) -> Result<TraceReader, TraceError> {
    TraceReader::new(Cursor::new(text.to_owned()), "t", format)
}

fn read_all(mut reader: TraceReader) -> Result<Vec<TraceRecord>, TraceError> {
    std::iter::from_fn(|| reader.read().transpose()).collect()
}

fn read(text: &str) -> Result<Vec<TraceRecord>, TraceError> {
    read_all(reader(text, None)?)
}

fn record(ns: u64, kind: Kind, offset: u64, bytes: u64, stream: u64) -> TraceRecord {
    TraceRecord { at: Instant::from_nanos(ns), op: IoOp { kind, offset, bytes }, stream }
}

/// The text of the error that reading this ends with.
fn fault(text: &str) -> String {
    read(text).expect_err("something is wrong with it").to_string()
}

const OWN: &str = "time_ns,op,offset,bytes,stream\n";

#[test]
fn own() {
    let text = "time_ns,op,offset,bytes,stream\n\
                0,read,4096,8192,0\n\
                1500, write ,0,4096,1\n\n\
                1500,flush,0,0,1\r\n\
                1600,trim,512,512,0\n1700,zeroes,1,2,0\n1800,cache,3,4,7";
    let records = [
        record(0, Read, 4096, 8192, 0),
        record(1500, Write_, 0, 4096, 1),
        record(1500, Flush, 0, 0, 1),
        record(1600, Trim, 512, 512, 0),
        record(1700, Kind::Zeroes, 1, 2, 0),
        record(1800, Kind::Cache, 3, 4, 7),
    ];
    assert_eq!(read(text).unwrap(), records);

    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    let written = String::from_utf8(writer.finish().unwrap()).unwrap();
    assert_eq!(read(&written).unwrap(), records);
    assert_eq!(written.lines().next(), Some("time_ns,op,offset,bytes,stream"));
    assert_eq!(written.lines().nth(2), Some("1500,write,0,4096,1"));

    let short = "time_ns,op,offset,bytes\n5,read,0,1\n";
    assert_eq!(read(short).unwrap(), [record(5, Read, 0, 1, 0)]);
}

#[test]
fn a_written_time_never_goes_back() {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    writer.write(&record(9, Read, 0, 1, 0)).unwrap();
    writer.write(&record(8, Read, 0, 1, 0)).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    assert_eq!(read(&text).unwrap()[1].at, Instant::from_nanos(9));
}

#[test]
fn sectors() {
    let text = "time_s,op,lbn,sectors,dev\n0.000000,W,42932745,1,0\n0.242639,R,8,3,2\n1,R,0,1,0\n";
    let expected = [
        record(0, Write_, 42_932_745 * 512, 512, 0),
        record(242_639_000, Read, 4096, 1536, 2),
        record(1_000_000_000, Read, 0, 512, 0),
    ];
    assert_eq!(read(text).unwrap(), expected);
    let short = "time_s,op,lbn,sectors\n0.0000000019,R,1,1\n";
    assert_eq!(read(short).unwrap(), [record(1, Read, 512, 512, 0)]);
}

#[test]
fn fio() {
    let v2 = "fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n\
              /dev/a wait 1000 0\n/dev/b write 8192 512\n/dev/a wait 500\n/dev/b datasync 0 0\n\
              /dev/a trim 4096 4096\n/dev/a close\n";
    let expected = [
        record(0, Read, 0, 4096, 0),
        record(1_000_000, Write_, 8192, 512, 1),
        record(1_500_000, Flush, 0, 0, 1),
        record(1_500_000, Trim, 4096, 4096, 0),
    ];
    assert_eq!(read(v2).unwrap(), expected);

    // As fio 3.33 wrote it.
    let v3 = "fio version 3 iolog\n20 x add\n134 x open\n137 x read 0 4096\n409 x write 45056 4096\n\
              150240 x sync 32768 0\n350426 x close\n";
    let expected = [
        record(137_000, Read, 0, 4096, 0),
        record(409_000, Write_, 45056, 4096, 0),
        record(150_240_000, Flush, 0, 0, 0),
    ];
    assert_eq!(read(v3).unwrap(), expected);
}

const BLKPARSE: &str = "
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002197   697  P   N [kjournald]
  8,0    3        4     0.000003230   697  I   W 223490 + 8 [kjournald]
  8,0    3        5     0.000005000   697  D   W 223490 + 8 [kjournald]
  8,16   1        6     0.000006000   698  Q  RA 16 + 8 [a b]
  8,0    1        7     0.000007000   698  Q FWS [jbd2/sda1-8]
  8,0    1        8     0.000008000   698  Q FWFS 100 + 2 [jbd2/sda1-8]
  8,0    1        9     0.000009000   698  Q  DS 4096 + 1024 [fstrim]
  8,0    1       10     0.000009500   698  Q   R 36 (12 00 00 00 24 00 ..) [smartd]
  8,0    1       11     0.000010000     0  C   W 223490 + 8 [0]
  8,0    1       12     1.500000000   698  A   W 5 + 8 <- (8,1) 1
  8,0    1        0     1.500000001     0  m   N cfq workload slice
  8,0    1       13     1.600000000   698  U   N [a] 1
CPU3 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           3,        5KiB
Total (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           3,        5KiB

Throughput (R/W): 0KiB/s / 0KiB/s
Events (8,0): 13 entries
Skips: 0 forward (0 -   0.0%)
";

#[test]
fn blkparse() {
    let (sda, sdb) = (8 << 20, (8 << 20) + 16);
    let queued = [
        record(0, Write_, 223_490 * 512, 4096, sda),
        record(6_000, Read, 8192, 4096, sdb),
        record(7_000, Flush, 0, 0, sda),
        record(8_000, Write_, 51_200, 1024, sda),
        record(9_000, Trim, 2 << 20, 512 << 10, sda),
    ];
    assert_eq!(read(BLKPARSE).unwrap(), queued);
    let issued = reader(BLKPARSE, Some(TraceFormat::BlkparseIssued)).unwrap();
    assert_eq!(read_all(issued).unwrap(), [record(5_000, Write_, 223_490 * 512, 4096, sda)]);
}

#[test]
fn msr() {
    let line = "128166372003061629,hm,1,Read,383496192,32768,413\n";
    let expected = [record(12_816_637_200_306_162_900, Read, 383_496_192, 32768, 1)];
    assert_eq!(read(line).unwrap(), expected);
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    assert_eq!(read(&format!("{header}{line}")).unwrap(), expected);
}

#[test]
fn names_lead_to_formats() {
    for format in TraceFormat::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let wrong = "\"x\": a trace's format is one of disktime, sectors, fio, blkparse, \
                 blkparse-issued, msr";
    assert_eq!("x".parse::<TraceFormat>(), Err(wrong.to_owned()));
}

#[test]
fn a_bad_file_is_refused_with_its_reason() {
    assert_eq!(fault(""), "t: no operations; at least one is needed");
    assert_eq!(fault("\n \n"), "t: no operations; at least one is needed");
    let unknown = "t:1: \"hello\" begins no format that is known; name the format";
    assert_eq!(fault("hello\n"), unknown);
    let long = format!("{OWN}{}\n", "x".repeat(70_000));
    assert_eq!(fault(&long), "t:2: the line is longer than 65536 bytes; no format has such lines");
    let bytes = [OWN.as_bytes(), b"1,read,\xff,1,0\n"].concat();
    let mut reader = TraceReader::new(Cursor::new(bytes), "t", None).unwrap();
    assert_eq!(reader.read().unwrap_err().to_string(), "t:2: the line is no UTF-8 text");

    let missing = TraceReader::open(Path::new("no/such/trace.csv"), None).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "no/such/trace.csv: can't be opened: No such file or directory (os error 2)"
    );
    let directory = TraceReader::open(Path::new("src"), None).unwrap_err();
    assert_eq!(directory.to_string(), "src: can't be read: Is a directory (os error 21)");
}

#[test]
fn headers_of_another_format() {
    let header = |format, text| {
        reader(text, Some(format)).map(|_| ()).expect_err("it is another's").to_string()
    };
    assert_eq!(
        header(TraceFormat::Disktime, "time_ns,op,offset\n"),
        "t:1: \"time_ns,op,offset\"; the first line must be `time_ns,op,offset,bytes` or \
         `time_ns,op,offset,bytes,stream`"
    );
    assert_eq!(
        header(TraceFormat::Sectors, OWN),
        "t:1: \"time_ns,op,offset,bytes,stream\"; the first line must be \
         `time_s,op,lbn,sectors,dev`"
    );
    assert_eq!(
        header(TraceFormat::FioIolog, "fio version 1 iolog"),
        "t:1: \"fio version 1 iolog\"; the first line must be `fio version 2 iolog` or `fio \
         version 3 iolog`"
    );
    assert_eq!(
        header(TraceFormat::Msr, "Timestamp,Host\n"),
        "t:1: \"Timestamp,Host\"; the first line must be \
         `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`"
    );
}

#[test]
fn a_bad_line_of_our_format_is_refused_with_its_reason() {
    let own = |line: &str| fault(&format!("{OWN}1000,read,0,1,0\n{line}\n"));
    assert_eq!(own("1,2,3"), "t:3: 3 columns; `time_ns,op,offset,bytes,stream` is needed");
    assert_eq!(own("1"), "t:3: 1 column; `time_ns,op,offset,bytes,stream` is needed");
    assert_eq!(
        own("1000,read,0,1,0,9"),
        "t:3: 6 columns; `time_ns,op,offset,bytes,stream` is needed"
    );
    assert_eq!(own("1e3,read,0,1,0"), "t:3: time_ns: \"1e3\"; a whole number below 2^64 is needed");
    assert_eq!(own("1000,read,-1,1,0"), "t:3: offset: \"-1\"; a whole number below 2^64 is needed");
    assert_eq!(own("1000,read,0,,0"), "t:3: bytes: \"\"; a whole number below 2^64 is needed");
    assert_eq!(
        own("1000,read,0,18446744073709551616,0"),
        "t:3: bytes: \"18446744073709551616\"; a whole number below 2^64 is needed"
    );
    assert_eq!(own("1000,read,0,1,x"), "t:3: stream: \"x\"; a whole number below 2^64 is needed");
    assert_eq!(
        own("1000,Read,0,1,0"),
        "t:3: op: \"Read\"; read, write, flush, trim, zeroes or cache is needed"
    );
    let long = format!("1000,{},0,1,0", "ä".repeat(50));
    assert_eq!(
        own(&long),
        format!(
            "t:3: op: \"{}…\"; read, write, flush, trim, zeroes or cache is needed",
            "ä".repeat(40)
        )
    );
    assert_eq!(own("1000,write,0,0,0"), "t:3: bytes: 0; at least 1 is needed");
    assert_eq!(
        own("999,read,0,1,0"),
        "t:3: time_ns: @999ns comes after @1µs; times must not go back unless disorder is allowed"
    );
    assert_eq!(
        own("1000,read,18446744073709551615,2,0"),
        "t:3: offset: 2 bytes at byte 18446744073709551615 pass the end at 18446744073709551615; \
         wrap, or enlarge the extent"
    );
}

#[test]
fn a_bad_line_of_a_foreign_format_is_refused_with_its_reason() {
    let sectors = |line: &str| fault(&format!("time_s,op,lbn,sectors,dev\n{line}\n"));
    assert_eq!(sectors("0.5,R,1"), "t:2: 3 columns; `time_s,op,lbn,sectors,dev` is needed");
    for time in ["x", "1.", ".5", "-1", "1.5e3", "99999999999", "1.0000000001x"] {
        assert_eq!(
            sectors(&format!("{time},R,1,1,0")),
            format!("t:2: time_s: \"{time}\"; a time in seconds, like 1.25, is needed")
        );
    }
    assert_eq!(sectors("0.5,r,1,1,0"), "t:2: op: \"r\"; R or W is needed");
    assert_eq!(
        sectors("0.5,R,36028797018963968,1,0"),
        "t:2: lbn: \"36028797018963968\"; a smaller number is needed"
    );
    assert_eq!(sectors("0.5,R,1,0,0"), "t:2: sectors: 0; at least 1 is needed");
    assert_eq!(
        sectors("0.5,R,1,1,0\n0.4,R,1,1,0"),
        "t:3: time_s: @400ms comes after @500ms; times must not go back unless disorder is allowed"
    );

    let fio = |line: &str| fault(&format!("fio version 2 iolog\n{line}\n"));
    let columns = "`filename action [offset length]` is needed";
    assert_eq!(fio("x"), format!("t:2: 1 column; {columns}"));
    assert_eq!(fio("x read 0"), format!("t:2: 3 columns; {columns}"));
    assert_eq!(fio("x read 0 1 2"), format!("t:2: 5 columns; {columns}"));
    assert_eq!(fio("x open 0 1"), format!("t:2: 4 columns; {columns}"));
    assert_eq!(fio("x wait"), format!("t:2: 2 columns; {columns}"));
    assert_eq!(
        fio("x frob 0 1"),
        "t:2: action: \"frob\"; read, write, trim, sync, datasync, sync_file_range, wait, add, \
         open or close is needed"
    );
    assert_eq!(fio("x read a 1"), "t:2: offset: \"a\"; a whole number below 2^64 is needed");
    assert_eq!(fio("x read 1 0"), "t:2: length: 0; at least 1 is needed");
    let fio = |line: &str| fault(&format!("fio version 3 iolog\n{line}\n"));
    assert_eq!(
        fio("5 x wait 1 2"),
        "t:2: action: \"wait\"; read, write, trim, sync, datasync, sync_file_range, add, open or \
         close is needed"
    );
    assert_eq!(fio("x read 0 4096"), "t:2: timestamp: \"x\"; a whole number below 2^64 is needed");

    let blk = |line: &str| fault(&format!("  8,0 0 1 0.5 7 Q R 8 + 8 [x]\n{line}\n"));
    assert_eq!(
        blk("8,0 0 2"),
        "t:2: 3 columns; `device cpu sequence time pid action rwbs sector + sectors [process]` is \
         needed"
    );
    assert_eq!(
        blk("sda 0 2 0.6 7 Q R 8 + 8 [x]"),
        "t:2: device: \"sda\"; MAJOR,MINOR, like 8,0, is needed"
    );
    assert_eq!(
        blk("8,0 0 2 0.6s 7 Q R 8 + 8 [x]"),
        "t:2: time: \"0.6s\"; a time in seconds, like 1.25, is needed"
    );
    assert_eq!(
        blk("8,0 0 2 0.6 7 Q X 8 + 8 [x]"),
        "t:2: rwbs: \"X\"; R, W, D, F or N with its flags is needed"
    );
    assert_eq!(
        blk("8,0 0 2 0.6 7 Q R 8 - 8 [x]"),
        "t:2: sector: \"-\"; SECTOR + SECTORS is needed"
    );
    assert_eq!(
        blk("8,0 0 2 0.6 7 Q R 8 + y [x]"),
        "t:2: sectors: \"y\"; a whole number below 2^64 is needed"
    );

    let msr = |line: &str| fault(&format!("5,hm,0,Read,0,1,2\n{line}\n"));
    assert_eq!(
        msr("5,hm,0,Read,0,1"),
        "t:2: 6 columns; `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` is needed"
    );
    assert_eq!(msr("5,hm,0,Look,0,1,2"), "t:2: Type: \"Look\"; Read or Write is needed");
    assert_eq!(
        msr("5,hm,0,Read,0,1,-2"),
        "t:2: ResponseTime: \"-2\"; a whole number below 2^64 is needed"
    );
    assert_eq!(
        msr("4,hm,0,Read,0,1,2"),
        "t:2: Timestamp: @400ns comes after @500ns; times must not go back unless disorder is \
         allowed"
    );
}

#[test]
fn disorder_can_be_allowed() {
    let text = format!("{OWN}9,read,0,1,0\n8,read,0,1,0\n10,read,0,1,0\n");
    let reader = reader(&text, None).unwrap().with_disorder(Disorder::Hold);
    let times: Vec<_> = read_all(reader).unwrap().iter().map(|it| it.at.as_nanos()).collect();
    assert_eq!(times, [9, 9, 10]);
}

/// A file of many lines in a directory of its own.
fn compressed(lines: u64) -> std::io::Result<(tempfile::TempDir, std::path::PathBuf)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("trace.csv.gz");
    let file = std::fs::File::create(&path)?;
    let mut writer = TraceWriter::new(GzEncoder::new(file, Compression::fast()))?;
    for number in 0..lines {
        // Offsets that don't compress well.
        let offset = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        writer.write(&record(number, Read, offset, 4096, number % 7))?;
    }
    writer.finish()?.finish()?;
    Ok((directory, path))
}

#[test]
fn a_compressed_file_is_read_with_its_progress() {
    let (_directory, path) = compressed(300_000).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    let mut reader = TraceReader::open(&path, None).unwrap();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&reports);
    reader.on_progress(Box::new(move |progress| kept.lock().unwrap().push(progress)));
    assert_eq!(read_all(reader).unwrap().len(), 300_000);

    let reports = reports.lock().unwrap();
    assert!(reports.len() as u64 > length >> 20, "{} reports", reports.len());
    assert!(reports.windows(2).all(|pair| pair[0].bytes_read <= pair[1].bytes_read));
    let last = reports.last().unwrap();
    assert_eq!((last.bytes_read, last.bytes_total), (length, Some(length)));
}

#[test]
fn a_truncated_compressed_file_is_found_out() {
    let (_directory, path) = compressed(1000).unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::File::create(&path).unwrap().write_all(&whole[..whole.len() / 2]).unwrap();
    let error = read_all(TraceReader::open(&path, None).unwrap()).unwrap_err();
    assert!(matches!(error.fault, TraceFault::Read { .. }), "{error}");
    assert!(error.to_string().contains("trace.csv.gz:"), "{error}");
}

/// Says aloud that something isn't tested here.
fn skip(what: &str) {
    eprintln!("SKIP: {what}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "SKIP: {what}"));
        written.expect("the list of skips can be written");
    }
}

/// The shared traces are data that is not part of the project.
#[test]
fn shared_traces_are_read_where_they_are_there() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let expected = [
        ("cloudphysics_w_sample.csv.gz", 113_872, 46_974),
        ("ssdmodel_postmark.csv.gz", 62_257, 51_780),
    ];
    for (name, operations, reads) in expected {
        let path = traces.join(name);
        if !path.exists() {
            skip(&format!("shared_traces_are_read_where_they_are_there: no {name}"));
            continue;
        }
        let records = read_all(TraceReader::open(&path, None).unwrap()).unwrap();
        assert_eq!(records.len(), operations, "{name}");
        let found = records.iter().filter(|record| record.op.kind == Read).count();
        assert_eq!(found, reads, "{name}");
    }
}

proptest! {
    #[test]
    fn a_written_trace_is_read(
        raw in prop::collection::vec((0_u64..1000, 0_usize..6, any::<u32>(), 1_u64..1 << 30, any::<u64>()), 1..50),
    ) {
        let kinds = [Read, Write_, Flush, Trim, Kind::Zeroes, Kind::Cache];
        let mut now = 0;
        let records: Vec<_> = raw.into_iter().map(|(span, kind, offset, bytes, stream)| {
            now += span;
            record(now, kinds[kind], offset.into(), bytes, stream)
        }).collect();
        let mut writer = TraceWriter::new(Vec::new()).unwrap();
        records.iter().for_each(|record| writer.write(record).unwrap());
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        prop_assert_eq!(read(&text).unwrap(), records);
    }

    /// No bytes make a reader panic.
    #[test]
    fn nonsense_is_an_error_or_nothing(
        format in 0_usize..6, text in "[ -~\n]{0,200}", line in "[0-9a-zRWQDF.,+\\[\\] -]{0,60}",
    ) {
        let headers = [OWN, "time_s,op,lbn,sectors,dev\n", "fio version 3 iolog\n", "", "", ""];
        let whole = format!("{}{line}\n{text}", headers[format]);
        if let Ok(reader) = reader(&whole, Some(TraceFormat::ALL[format])) {
            let _ = read_all(reader);
        }
    }
}
