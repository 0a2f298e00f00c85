//! Traces of other systems, read line by line in bounded memory.
//!
//! Does not know: what is done with the operations, and when.
//!
//! A format is a file in `trace/` and a line in [`TraceFormat::ALL`].

mod blkparse;
mod demand;
mod error;
mod fields;
mod fio;
mod input;
mod lines;
mod msr;
mod own;
mod sectors;
mod writer;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

pub use demand::{Demand, PERIOD};
pub use error::{TraceError, TraceFault};
pub use input::{OnProgress, Progress};
pub use writer::TraceWriter;

use crate::spec::IoOp;
use disktime_core::{Instant, Kind};
use fields::Parse;
use input::Input;
use lines::Lines;
use serde::{Deserialize, Deserializer};

/// An operation of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// When it arrived, since an epoch that the trace chose.
    pub at: Instant,
    /// The operation.
    pub op: IoOp,
    /// Its issuer or its device: a number whose meaning the format says; else 0.
    pub stream: u64,
}

/// The formats that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// Our own: see [`TraceWriter`].
    Disktime,
    /// `time_s,op,lbn,sectors,dev`: seconds with decimals, `R` or `W`, sectors of 512 bytes. The
    /// stream is the device; its column may be missing.
    Sectors,
    /// fio's iolog, versions 2 and 3. `sync` and its kin are flushes. The stream is the file, counted
    /// from 0 in the order in which they first occur. Version 2 has no times but `wait`, in
    /// microseconds, which its manual counts from the wait before.
    FioIolog,
    /// Text of `blkparse` as it comes by default, events `Q`: what was asked of the block layer. The
    /// stream is the device: its major number times 2^20 plus its minor.
    Blkparse,
    /// As [`Blkparse`](Self::Blkparse), events `D`: what was issued to the device.
    BlkparseIssued,
    /// The block traces of Microsoft Research, Cambridge, with or without a header:
    /// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, time in ticks of 100 ns. The
    /// stream is the disk's number.
    Msr,
}

impl TraceFormat {
    /// Every format.
    pub const ALL: [Self; 6] = [
        Self::Disktime,
        Self::Sectors,
        Self::FioIolog,
        Self::Blkparse,
        Self::BlkparseIssued,
        Self::Msr,
    ];

    /// As it is written in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disktime => "disktime",
            Self::Sectors => "sectors",
            Self::FioIolog => "fio",
            Self::Blkparse => "blkparse",
            Self::BlkparseIssued => "blkparse-issued",
            Self::Msr => "msr",
        }
    }

    /// The format of a trace that begins with this line. Text of `blkparse` is taken for its `Q`
    /// events.
    #[must_use]
    pub fn detect(line: &str) -> Option<Self> {
        let starts = |format: &Self| match format {
            Self::Disktime => line.starts_with("time_ns,"),
            Self::Sectors => line.starts_with("time_s,"),
            Self::FioIolog => line.starts_with("fio version "),
            Self::Blkparse => blkparse::begins_with(line),
            Self::BlkparseIssued => false,
            Self::Msr => line.split(',').count() == msr::COLUMNS,
        };
        Self::ALL.into_iter().find(starts)
    }

    fn parser(self) -> Box<dyn Parse> {
        match self {
            Self::Disktime => Box::new(own::Own::default()),
            Self::Sectors => Box::new(sectors::Sectors::default()),
            Self::FioIolog => Box::new(fio::Fio::default()),
            Self::Blkparse => Box::new(blkparse::Blkparse::new("Q")),
            Self::BlkparseIssued => Box::new(blkparse::Blkparse::new("D")),
            Self::Msr => Box::new(msr::Msr),
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{text:?}: a trace's format is one of {names}")
        })
    }
}

impl<'de> Deserialize<'de> for TraceFormat {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The treatment of an operation whose time is before that of the one above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disorder {
    /// Stop with an error.
    #[default]
    Refuse,
    /// Give it the time of the one above it. Traces of several processors need that.
    Hold,
}

/// Reads a trace, one operation after another. It holds one line of at most 64 KiB.
#[derive(Debug)]
pub struct TraceReader {
    lines: Lines,
    parser: Box<dyn Parse>,
    disorder: Disorder,
    last: Instant,
}

impl TraceReader {
    /// Opens a file, compressed with gzip or not; without a format its first line says which it is.
    ///
    /// # Errors
    /// It can't be opened or read, or its first line belongs to no format, or not to this one.
    pub fn open(path: &Path, format: Option<TraceFormat>) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let input = Input::open(path).map_err(|fault| TraceError::of_file(&name, fault))?;
        Self::start(Lines::new(input, name), format)
    }

    /// Reads text from memory, a pipe, a socket; `name` stands in errors for the file's.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn new(
        text: impl std::io::BufRead + Send + 'static,
        name: &str,
        format: Option<TraceFormat>,
    ) -> Result<Self, TraceError> {
        Self::start(Lines::new(Input::new(Box::new(text)), name.to_owned()), format)
    }

    fn start(mut lines: Lines, format: Option<TraceFormat>) -> Result<Self, TraceError> {
        let first = match lines.read()? {
            Some(line) => line.to_owned(),
            None => return Err(TraceError { line: None, ..lines.error(TraceFault::Empty) }),
        };
        let Some(format) = format.or_else(|| TraceFormat::detect(&first)) else {
            return Err(lines.error(TraceFault::Unknown { found: error::shorten(&first) }));
        };
        let mut parser = format.parser();
        match parser.header(&first) {
            Ok(true) => {}
            Ok(false) => lines.unread(),
            Err(fault) => return Err(lines.error(fault)),
        }
        Ok(Self { lines, parser, disorder: Disorder::Refuse, last: Instant::ZERO })
    }

    /// Says what to do when time goes back; without this it is an error.
    #[must_use]
    pub fn with_disorder(mut self, disorder: Disorder) -> Self {
        self.disorder = disorder;
        self
    }

    /// Calls `report` after about each MiB of the file, and at its end.
    pub fn on_progress(&mut self, report: OnProgress) {
        self.lines.input.on_progress = Some(report);
    }

    /// How much of the file has been read. It is read in blocks, ahead of the operations.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.lines.input.progress()
    }

    /// The next operation; `None` at the end.
    ///
    /// # Errors
    /// Says what is wrong with the file, and where. There is no sense in reading on after an error.
    pub fn read(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            let Some(line) = self.lines.read()? else { return Ok(None) };
            let parsed = self.parser.line(line);
            match parsed.and_then(|record| record.map(|record| self.check(record)).transpose()) {
                Ok(None) => {}
                Ok(Some(record)) => return Ok(Some(record)),
                Err(fault) => return Err(self.lines.error(fault)),
            }
        }
    }

    /// An error about the last operation.
    pub(crate) fn error(&self, fault: TraceFault) -> TraceError {
        self.lines.error(fault)
    }

    /// An error about the whole file.
    pub(crate) fn error_of_file(&self, fault: TraceFault) -> TraceError {
        TraceError { line: None, ..self.lines.error(fault) }
    }

    /// The name of the field that says where an operation starts.
    pub(crate) fn place_field(&self) -> &'static str {
        self.parser.place_field()
    }

    /// The name of the field that says how long an operation is.
    pub(crate) fn length_field(&self) -> &'static str {
        self.parser.length_field()
    }

    pub(crate) fn take_on_progress(&mut self) -> Option<OnProgress> {
        self.lines.input.on_progress.take()
    }

    /// Checks what holds in every format.
    fn check(&mut self, mut record: TraceRecord) -> Result<TraceRecord, TraceFault> {
        let IoOp { kind, offset, bytes } = record.op;
        if bytes == 0 && kind != Kind::Flush {
            return Err(TraceFault::NoBytes { field: self.parser.length_field() });
        }
        if offset.checked_add(bytes).is_none() {
            let field = self.parser.place_field();
            return Err(TraceFault::PastEnd { field, offset, bytes, end: u64::MAX });
        }
        if record.at < self.last {
            if self.disorder == Disorder::Refuse {
                let field = self.parser.time_field();
                return Err(TraceFault::TimeBack { field, at: record.at, last: self.last });
            }
            record.at = self.last;
        }
        self.last = record.at;
        Ok(record)
    }
}
