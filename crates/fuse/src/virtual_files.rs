//! The directory `.disktime` at the top: figures of all streams, and parameters, as files.
//!
//! It is found by name and is in no listing, so that copies and searches of the mount see the source
//! and nothing else. A name `.disktime` that the source has at its top is hidden by it.

use std::ffi::OsStr;
use std::fmt::Write;

use disktime_config::{contract_text, quantity, read_contract};
use disktime_core::{Contract, Duration};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::file_system::{Answer, At, Found, Inode, Item, Lister};
use crate::nodes::VIRTUAL;
use crate::scheduler::{Parameter, Report, SHARED_NAME, Scheduler, StreamReport};
use crate::source::Source;

/// The directory's name.
const NAME: &str = ".disktime";
const DIRECTORY: Inode = Inode(VIRTUAL);

/// A file of the directory.
#[derive(Clone, Copy)]
struct VirtualFile {
    name: &'static str,
    text: fn(&Report) -> String,
    /// The parameter that a write sets, of a file that can be written.
    write: Option<fn(&str) -> Option<Parameter>>,
}

/// The directory's files: the place of each is its number.
const FILES: [VirtualFile; 5] = [
    VirtualFile { name: "streams", text: streams_text, write: None },
    VirtualFile { name: "device", text: device_text, write: None },
    VirtualFile {
        name: "queue_depth",
        text: |report| format!("{}\n", report.depth),
        write: Some(|text| text.parse().ok().map(Parameter::Depth)),
    },
    VirtualFile {
        name: "headroom",
        text: |report| format!("{}\n", report.headroom),
        write: Some(|text| quantity::parse_share(text).ok().map(Parameter::Headroom)),
    },
    VirtualFile {
        name: "shared",
        text: |report| format!("{}\n", contract_text(&report.shared)),
        write: Some(|text| read_contract(text).ok().map(Parameter::Shared)),
    },
];

/// The file of an inode, if it is one of these.
fn file(Inode(inode): Inode) -> Option<VirtualFile> {
    let place = inode.checked_sub(VIRTUAL + 1)?;
    FILES.get(usize::try_from(place).ok()?).copied()
}

/// Whether an inode is not the source's.
pub(crate) fn is_virtual(Inode(inode): Inode) -> bool {
    inode >= VIRTUAL
}

/// Whether a name is the directory's own or lies in it: it can't be made, moved or removed.
pub(crate) fn is_name(at: At<'_>) -> bool {
    is_virtual(at.parent) || (at.parent == Inode::ROOT && at.name == OsStr::new(NAME))
}

/// Looks a name up, if it is one of this directory's, or of its own.
pub(crate) fn lookup(source: &Source, at: At<'_>) -> Option<Answer<Found>> {
    if at.parent == Inode::ROOT && at.name == OsStr::new(NAME) {
        return Some(stat(source, DIRECTORY));
    }
    if at.parent != DIRECTORY {
        return is_virtual(at.parent).then_some(Err(Errno::NOTDIR));
    }
    let place = FILES.iter().position(|file| OsStr::new(file.name) == at.name);
    let inode = place.map(|place| Inode(VIRTUAL + 1 + place as u64));
    Some(inode.ok_or(Errno::NOENT).and_then(|inode| stat(source, inode)))
}

/// Attributes like those of the top, but for what differs.
pub(crate) fn stat(source: &Source, inode: Inode) -> Answer<Found> {
    let mut stat = source.stat(Inode::ROOT)?.stat;
    let mode = match file(inode) {
        None if inode == DIRECTORY => FileType::Directory.as_raw_mode() | 0o555,
        Some(VirtualFile { write: None, .. }) => FileType::RegularFile.as_raw_mode() | 0o444,
        Some(_) => FileType::RegularFile.as_raw_mode() | 0o644,
        None => return Err(Errno::STALE),
    };
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let links = if inode == DIRECTORY { 2 } else { 1 };
    (stat.st_ino, stat.st_mode, stat.st_nlink) = (inode.0, mode, links);
    (stat.st_uid, stat.st_gid, stat.st_rdev) = (uid, gid, 0);
    (stat.st_size, stat.st_blocks) = (0, 0);
    Ok(Found { inode, stat })
}

/// The text of a file now.
pub(crate) fn text(scheduler: &Scheduler, inode: Inode) -> Answer<String> {
    let file = file(inode).ok_or(Errno::ISDIR)?;
    let report = scheduler.report().ok_or(Errno::IO)?;
    Ok((file.text)(&report))
}

/// Writes a parameter.
pub(crate) fn write(scheduler: &Scheduler, inode: Inode, data: &[u8]) -> Answer<()> {
    let write = file(inode).and_then(|file| file.write).ok_or(Errno::ACCESS)?;
    let text = std::str::from_utf8(data).map_err(|_| Errno::INVAL)?;
    let parameter = write(text.trim()).ok_or(Errno::INVAL)?;
    scheduler.change(parameter).map_err(|error| {
        tracing::warn!(?parameter, %error, "a parameter is refused");
        Errno::INVAL
    })
}

pub(crate) fn list(from: u64, lister: Lister<'_>) {
    let dots = [(".", DIRECTORY), ("..", Inode::ROOT)];
    let dots = dots.map(|(name, inode)| (name, inode.0, FileType::Directory));
    let files = FILES.iter().zip(VIRTUAL + 1..);
    let files = files.map(|(file, inode)| (file.name, inode, FileType::RegularFile));
    for ((name, inode, kind), at) in dots.into_iter().chain(files).zip(0_u64..) {
        let item = Item { name: OsStr::new(name), inode, kind, next: at + 1 };
        if at >= from && !lister(item) {
            return;
        }
    }
}

fn seconds(span: Duration) -> String {
    format!("{:.6}", span.as_secs_f64())
}

/// A line for each stream, its fields separated by tabs; the first line names them.
fn streams_text(report: &Report) -> String {
    let mut text = "stream\tfile\tcontract\trequests\tfailed\twaiting\tbytes_read\tbytes_written\t\
                    device_seconds\tbound_seconds\tbehind\tcycles\tcycles_missed\n"
        .to_owned();
    for StreamReport { stream, file, contract, counters, waiting, promise, broken } in
        &report.streams
    {
        let name = match file {
            None => SHARED_NAME.to_owned(),
            Some(file) => file.upgrade().map_or("(closed)".to_owned(), |file| file.path()),
        };
        let _never_fails = writeln!(
            text,
            "{}\t{name}\t{}\t{}\t{}\t{waiting}\t{}\t{}\t{}\t{}\t{broken}\t{}\t{}",
            stream.0,
            of_stream(contract),
            counters.completed,
            counters.failed,
            counters.bytes_read,
            counters.bytes_written,
            seconds(counters.charged),
            promise.map_or("-".to_owned(), seconds),
            counters.cycles,
            counters.cycles_missed,
        );
    }
    text
}

/// A stream's contract with the share that is reserved for it, where it follows from a rate, too.
fn of_stream(contract: &Contract) -> String {
    let text = contract_text(contract);
    match contract.rate {
        Some(_) => format!("{text} reserve={}", contract.reserve),
        None => text,
    }
}

fn device_text(report: &Report) -> String {
    let Report { device, depth, in_flight, headroom, slack, .. } = report;
    let reserved = report.reserved_ppm;
    format!(
        "queue_depth {depth}\nin_flight {in_flight}\nheadroom {headroom}\nreserved_ppm {reserved}\n\
         slack_ns {slack}\nbusy_seconds {}\nspare_seconds {}\nheld_seconds {}\ncharged_seconds {}\n",
        seconds(device.busy),
        seconds(device.spare),
        seconds(device.held),
        seconds(device.charged),
    )
}
