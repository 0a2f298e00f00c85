//! A device's profile as `disktime device profile` saves it: integers in JSON, units in the keys.
//!
//! Only what admission, cost models and goals reckon with is taken; the rest of the file describes
//! how it was found.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use disktime_core::cost::PriceList;
use disktime_core::{Access, Duration, Positioning, Profile, ProfileError, Share, Transfer, Zone};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use serde::Deserialize;

use crate::asked::REQUEST_BYTES_MAX;
use crate::{Costs, PricesFile, Speeds, Work};

/// The longest file in bytes: a profile has hundreds of rows, a configuration thousands.
const BYTES_MAX: u64 = 16 << 20;

/// How long a pipe is waited for that nobody writes to.
const PIPE_WAIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The text of a regular file of at most 16 MiB. A device has no end, and a pipe may have nobody who
/// writes to it.
///
/// # Errors
/// If it is something else, or can't be read.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(read_bytes(path)?)
}

/// As [`read_text`]; also of a pipe, whose end it waits for once somebody writes to it.
///
/// # Errors
/// If it can't be read, goes on for more than 16 MiB, or is a pipe that nobody writes to within 5 s.
pub fn read_text_of_any(path: &Path) -> io::Result<String> {
    text(bytes_of_any(path)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })
}

/// The bytes of such a file, which may be no text.
///
/// # Errors
/// As [`read_text`].
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let is_file = fs::metadata(path)?.is_file();
    if !is_file {
        return Err(io::Error::other("no regular file: name one"));
    }
    bytes_of_any(path)
}

fn bytes_of_any(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = if fs::metadata(path)?.file_type().is_fifo() {
        written_pipe(path, PIPE_WAIT, &mut bytes)?
    } else {
        fs::File::open(path)?
    };
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// A pipe that has a writer, or had one, and a byte of it if one had to be read to know that. Opened as files
/// are, a pipe is waited for without end.
fn written_pipe(path: &Path, wait: Timespec, begin: &mut Vec<u8>) -> io::Result<fs::File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // A pipe without a writer yet has no event; one that is written to slowly has none either.
    let mut polled = [PollFd::new(&file, PollFlags::IN)];
    let events = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&wait)))?;
    let mut byte = [0];
    if events == 0 {
        match file.read(&mut byte) {
            Ok(0) => {
                let seconds = wait.tv_sec;
                let why = format!(
                    "nobody writes to this pipe within {seconds} s: name a file, or begin to write"
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Ok(_) => begin.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// Why a profile can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileFileError {
    /// It can't be read.
    #[error("profile = \"{}\": {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no profile.
    #[error("profile = \"{}\": {reason}: make it with `disktime device profile`", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Its numbers can't be.
    #[error("profile = \"{}\": {error}", path.display())]
    Numbers {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: ProfileError,
    },
    /// It is not this device's.
    #[error(
        "profile = \"{}\": a profile of another device, {name}: it has {profiled} bytes, this one \
         {size}: make one of this device with `disktime device profile`", path.display()
    )]
    Another {
        /// Which file.
        path: PathBuf,
        /// The profiled device.
        name: String,
        /// Its size in bytes.
        profiled: u64,
        /// The device's size in bytes.
        size: u64,
    },
}

/// A device by its profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceProfile {
    /// The name that it was given.
    pub name: String,
    /// The profile that admission and cost models use.
    pub profile: Profile,
    /// How fast it is with each kind of requests, if that was measured.
    pub speeds: Option<Speeds>,
    /// A revolution and the longest seek, if something turns.
    mechanics: Option<(Duration, Duration)>,
}

/// How costs follow from a profile, the surest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// QBox's: what batches of 20 took, at a confidence.
    Batches,
    /// Prices: what requests took on the mean.
    Prices,
    /// zygaria's: half the longest seek, half a revolution, and the transfer.
    Mechanics,
}

impl Method {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Batches, Self::Prices, Self::Mechanics];

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batches => "batches",
            Self::Prices => "prices",
            Self::Mechanics => "mechanics",
        }
    }
}

impl DeviceProfile {
    /// The fewest outstanding with which the device is fast; 1 if its speeds were not measured.
    #[must_use]
    pub fn fast_from(&self) -> u32 {
        self.speeds.as_ref().map_or(1, Speeds::fast_from)
    }

    /// Reads a profile; `size` is the device's, if it has one.
    ///
    /// # Errors
    /// If it can't be read, is none, or is of a device of another size.
    pub fn load(path: &Path, size: Option<u64>) -> Result<Self, ProfileFileError> {
        let syntax = |reason| ProfileFileError::Syntax { path: path.to_owned(), reason };
        let read = |error| ProfileFileError::Read { path: path.to_owned(), error };
        let text = read_text(path).map_err(read)?;
        let file: File = serde_json::from_str(&text).map_err(|error| syntax(error.to_string()))?;
        let profile = file.profile();
        profile
            .check()
            .map_err(|error| ProfileFileError::Numbers { path: path.to_owned(), error })?;
        if let Some(kind) = profile.prices.as_ref().and_then(free) {
            return Err(syntax(format!("prices: a {kind} costs 0 ns, and each costs at least 1")));
        }
        match size {
            Some(size) if size != profile.size() => {
                let (path, profiled) = (path.to_owned(), profile.size());
                Err(ProfileFileError::Another { path, name: file.name, profiled, size })
            }
            _ => {
                let longest = file.seeks.iter().map(|seek| seek.time_ns).max();
                let mechanics = file.rotation_ns.zip(longest);
                let mechanics = mechanics.map(|(revolution, seek)| {
                    (Duration::from_nanos(revolution), Duration::from_nanos(seek))
                });
                Ok(Self { name: file.name, profile, speeds: file.speeds, mechanics })
            }
        }
    }

    /// The cost of requests of so many bytes with at most `depth` at the device; `None` if the
    /// profile doesn't say. Mechanics know of one at a time alone.
    #[must_use]
    pub fn costs(
        &self,
        method: Method,
        (access, bytes): (Access, u64),
        depth: u32,
        confidence: Share,
    ) -> Option<Costs> {
        let priced = |confidence| {
            let (prices, speeds) = (self.profile.prices.as_ref()?, self.speeds.as_ref()?);
            Some(speeds.costs(prices, access, bytes, depth, confidence))
        };
        match method {
            Method::Batches => priced(Some(confidence)),
            Method::Prices => priced(None),
            Method::Mechanics => {
                let (revolution, seek_max) = self.mechanics?;
                let transfer = self.profile.transfer((0, self.profile.size()), access);
                Some(Costs::mechanical(seek_max, revolution, transfer.time(bytes, bytes)))
            }
        }
    }
}

/// A kind of requests that cost nothing: any goal of them would fit.
fn free(prices: &PriceList) -> Option<&'static str> {
    let costs = |work: &Work| work.price(prices).of(REQUEST_BYTES_MAX);
    Work::ALL.into_iter().find(|work| costs(work) == Duration::ZERO).map(Work::name)
}

/// The keys that admission needs. The profiler's own are its business, so others are let pass.
#[derive(Deserialize)]
struct File {
    name: String,
    zones: Vec<ZoneRow>,
    positioning: Vec<PositioningRow>,
    #[serde(default)]
    destage_ns: u64,
    rotation_ns: Option<u64>,
    #[serde(default)]
    seeks: Vec<SeekRow>,
    prices: Option<PricesFile>,
    speeds: Option<Speeds>,
}

#[derive(Deserialize)]
struct SeekRow {
    time_ns: u64,
}

#[derive(Deserialize)]
struct ZoneRow {
    end_bytes: u64,
    read: TransferRow,
    write: TransferRow,
}

#[derive(Deserialize)]
struct TransferRow {
    per_request_ns: u64,
    bytes_per_second: u64,
}

#[derive(Deserialize)]
struct PositioningRow {
    distance_bytes: u64,
    mean_ns: u64,
    deviation_ns: u64,
    worst_ns: u64,
}

impl File {
    fn profile(&self) -> Profile {
        let transfer = |row: &TransferRow| Transfer {
            per_request: Duration::from_nanos(row.per_request_ns),
            bytes_per_second: row.bytes_per_second,
        };
        let zone = |row: &ZoneRow| Zone {
            end: row.end_bytes,
            read: transfer(&row.read),
            write: transfer(&row.write),
        };
        let positioning = |row: &PositioningRow| Positioning {
            distance: row.distance_bytes,
            mean: Duration::from_nanos(row.mean_ns),
            deviation: Duration::from_nanos(row.deviation_ns),
            worst: Duration::from_nanos(row.worst_ns),
        };
        Profile {
            zones: self.zones.iter().map(zone).collect(),
            positioning: self.positioning.iter().map(positioning).collect(),
            destage: Duration::from_nanos(self.destage_ns),
            prices: self.prices.as_ref().map(PriceList::from),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
    use super::*;

    /// As the profiler saves it.
    const SAVED: &str = r#"{
        "name": "disk", "size_bytes": 1000, "rotation_ns": 8333333, "overhead_ns": 300000,
        "writes_measured": false, "requests": 20, "took_ns": 3000000000,
        "zones": [
            { "end_bytes": 600, "read": { "per_request_ns": 5, "bytes_per_second": 20 },
              "write": { "per_request_ns": 6, "bytes_per_second": 19 } },
            { "end_bytes": 1000, "read": { "per_request_ns": 5, "bytes_per_second": 12 },
              "write": { "per_request_ns": 6, "bytes_per_second": 11 } }
        ],
        "positioning": [
            { "distance_bytes": 1000, "mean_ns": 10, "deviation_ns": 3, "worst_ns": 20 }
        ],
        "seeks": [{ "distance_bytes": 1, "from_bytes": 0, "time_ns": 9, "samples": 2 }],
        "rates": [{ "offset_bytes": 0, "bytes_per_second": 20 }]
    }"#;

    fn loaded(text: &str, size: Option<u64>) -> Result<DeviceProfile, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.json");
        fs::write(&path, text).unwrap();
        DeviceProfile::load(&path, size).map_err(|error| error.to_string())
    }

    #[test]
    fn a_saved_profile_is_read() {
        let known = loaded(SAVED, Some(1000)).unwrap();
        let profile = &known.profile;
        assert_eq!(profile.zones[1].write.bytes_per_second, 11);
        assert_eq!(profile.positioning[0].worst, Duration::from_nanos(20));
        assert_eq!((&profile.prices, &known.speeds), (&None, &None), "an old one");
        assert_eq!(loaded(SAVED, None), Ok(known));
    }

    #[test]
    fn a_file_that_is_no_profile_or_another_devices_is_refused() {
        let says = |text: &str| loaded(text, Some(1000)).unwrap_err();
        let another = loaded(SAVED, Some(2000)).unwrap_err();
        assert!(
            another.contains("a profile of another device, disk: it has 1000 bytes, this one 2000"),
            "{another}"
        );
        assert!(says("zones = 3").contains("make it with `disktime device profile`"));
        let unsorted = SAVED.replace("\"end_bytes\": 600", "\"end_bytes\": 1000");
        assert!(says(&unsorted).contains("zones[1] is not above the one before"));
        let still = SAVED.replace("\"bytes_per_second\": 12", "\"bytes_per_second\": 0");
        assert!(says(&still).contains("zones[1] transfers 0 bytes/s"));
        let none =
            DeviceProfile::load(Path::new("/nowhere/at/all.json"), None).unwrap_err().to_string();
        assert!(none.contains("/nowhere/at/all.json"), "{none}");
        let prices = r#"{ "each_ns": 0, "per_mib_ns": 0 }"#;
        let price = r#"{ "each_ns": 1, "per_mib_ns": 0 }"#;
        let free = SAVED.replacen(
            "\"zones\"",
            &format!(
                "\"prices\": {{ \"sequential_read\": {price}, \"random_read\": {price}, \
                 \"sequential_write\": {prices}, \"random_write\": {price} }}, \"zones\""
            ),
            1,
        );
        assert!(says(&free).contains("prices: a sequential write costs 0 ns, and each costs at"));
        assert!(loaded(&free.replace(prices, price), Some(1000)).is_ok());
        // A device was read until memory ended.
        let device = DeviceProfile::load(Path::new("/dev/zero"), None).unwrap_err().to_string();
        assert_eq!(device, "profile = \"/dev/zero\": no regular file: name one");
        let long = " ".repeat(usize::try_from(BYTES_MAX).unwrap() + 1);
        assert!(says(&long).contains("it has more than 16777216 bytes"));
    }

    /// A scenario in a pipe without a writer was waited for without end.
    #[test]
    fn a_pipe_is_read_once_somebody_writes_to_it() {
        use std::io::Write as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let short = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let mut begin = Vec::new();
        let error = written_pipe(&path, short, &mut begin).unwrap_err();
        assert!(error.to_string().contains("nobody writes to this pipe"), "{error}");
        // A writer that takes its time is one.
        let slow = fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut file = written_pipe(&path, short, &mut begin).unwrap();
        (&slow).write_all(b"text").unwrap();
        drop(slow);
        file.read_to_end(&mut begin).unwrap();
        assert_eq!(begin, b"text");
        let writing = std::thread::spawn({
            let path = path.clone();
            move || fs::write(path, "more")
        });
        assert_eq!(read_text_of_any(&path).unwrap(), "more");
        writing.join().unwrap().unwrap();
    }
}
