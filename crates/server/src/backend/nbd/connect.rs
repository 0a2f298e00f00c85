//! Connections to a server: the first ones before the shard runs, and new ones for those that are
//! lost, from a thread that may block.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use disktime_client::{Options, Transmission, Uri};
use disktime_nbd::{ExportInfo, TransmissionFlags};
use rustix::event::{EventfdFlags, eventfd};

use super::{NbdBackEnd, Remote, TIMEOUT, Terms};
use crate::backend::Abilities;
use crate::buffers::ALIGN;
use crate::wakeup::wake;

/// Connections where the server says that all see the same device, unless it is configured.
const CONNECTIONS_DEFAULT: u32 = 4;
/// Connections that can be asked for at once.
const ASKED_MAX: usize = 64;
/// From one try to connect again to the next; each time twice as long.
const WAIT_FIRST: Duration = Duration::from_millis(200);
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Zeroes are not offered when one request can't do so many: a long one would be too many.
const ZERO_MIN: u32 = 64 << 10;

/// Every connection asks for what the server knows of its holes.
const OPTIONS: Options = Options {
    timeout: disktime_core::Duration::from_secs(10),
    structured_replies: true,
    allocation: true,
};

/// A server's export, with connections to it. Opening blocks; not to be done on a shard.
pub struct Export {
    uri: Uri,
    lines: Vec<Transmission>,
    info: ExportInfo,
    connector: Connector,
    timeout: Duration,
    hold: Option<Duration>,
}

/// Where new connections come from.
pub(super) struct Connector {
    /// Asks for one, by the place of the lost one. Dropped, it ends the thread.
    pub(super) wanted: Sender<u32>,
    /// They come here,
    pub(super) found: Receiver<(u32, Transmission)>,
    /// followed by a count on this eventfd.
    pub(super) wakeup: Arc<OwnedFd>,
}

impl Export {
    /// Connects; `connections` as configured.
    ///
    /// # Errors
    /// If a connection can't be had, or the export can't be a device.
    pub fn open(uri: &Uri, connections: Option<u32>) -> io::Result<Self> {
        Self::open_with(uri, connections, OPTIONS)
    }

    fn open_with(uri: &Uri, connections: Option<u32>, options: Options) -> io::Result<Self> {
        let first = Transmission::open(uri, options).map_err(io::Error::other)?;
        let info = first.export.clone();
        check(&info).map_err(io::Error::other)?;
        let several = info.flags.contains(TransmissionFlags::MULTI_CONN);
        let connections = match connections {
            Some(count) if count > 1 && !several => {
                return Err(io::Error::other(format!(
                    "connections = {count}: this server doesn't say that several connections see \
                     one device (MULTI_CONN): set 1, or leave it out"
                )));
            }
            Some(count) => count,
            None if several => CONNECTIONS_DEFAULT,
            None => 1,
        };
        let mut lines = vec![first];
        for _ in 1..connections {
            lines.push(dial(uri, &info, options)?);
        }
        let connector = Connector::start(uri.clone(), info.clone())?;
        Ok(Self { uri: uri.clone(), lines, info, connector, timeout: TIMEOUT, hold: None })
    }

    /// Connects once more, with as many connections, none of which may take longer than that.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn again(&self, timeout: disktime_core::Duration) -> io::Result<Self> {
        let options = Options { timeout, ..OPTIONS };
        Self::open_with(&self.uri, u32::try_from(self.lines.len()).ok(), options)
    }

    /// Gives connections up when a request has waited for so long; 30 s unless it is said.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// While there is no connection, holds requests for so long before they fail; without, they fail
    /// at once.
    #[must_use]
    pub fn with_hold(self, hold: Option<Duration>) -> Self {
        Self { hold, ..self }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.info.size_bytes
    }

    /// The operations that the server offers.
    #[must_use]
    pub fn abilities(&self) -> Abilities {
        let (flags, sizes) = (self.info.flags, self.info.block_sizes);
        let write = !flags.contains(TransmissionFlags::READ_ONLY);
        let trim = write && flags.contains(TransmissionFlags::TRIM);
        let zero = write && flags.contains(TransmissionFlags::WRITE_ZEROES);
        let zero = zero && sizes.min() == 1 && sizes.max() >= ZERO_MIN;
        let cache = flags.contains(TransmissionFlags::CACHE);
        // Each connection must know it: a question goes to any of them.
        let survey = self.lines.iter().all(|line| line.allocation);
        Abilities { write, trim, zero, fast_zero: false, cache, survey }
    }

    /// Whether the server makes what it has acknowledged durable when it is asked to.
    #[must_use]
    pub fn can_flush(&self) -> bool {
        self.info.flags.contains(TransmissionFlags::FLUSH)
    }

    /// Virtual disks at these extents of it, each a first byte on a block and a size. To be called
    /// on the shard's thread.
    #[must_use]
    pub fn on_shard(self, extents: &[(u64, u64)]) -> NbdBackEnd {
        let abilities = self.abilities();
        let (flags, sizes) = (self.info.flags, self.info.block_sizes);
        let (timeout, hold) = (self.timeout, self.hold);
        let terms = Terms { flags, min: sizes.min(), max: sizes.max(), timeout, hold };
        let remote = Remote::new(self.uri.to_string(), terms, self.lines, self.connector);
        NbdBackEnd::on(remote, sizes.min() > 1, extents, abilities)
    }
}

impl Connector {
    fn start(uri: Uri, info: ExportInfo) -> io::Result<Self> {
        let (wanted, asked) = bounded(ASKED_MAX);
        let (give, found) = bounded(ASKED_MAX);
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let wakes = Arc::clone(&wakeup);
        let run = move || {
            connect_again(&uri, &info, &asked, |line, connection| {
                let taken = give.send((line, connection)).is_ok();
                wake(&wakes);
                taken
            });
        };
        std::thread::Builder::new().name("nbd-connect".to_owned()).spawn(run)?;
        Ok(Self { wanted, found, wakeup })
    }
}

/// Connects for each that asks until nobody can ask any more.
fn connect_again(
    uri: &Uri,
    info: &ExportInfo,
    asked: &Receiver<u32>,
    give: impl Fn(u32, Transmission) -> bool,
) {
    let mut waiting = VecDeque::new();
    let mut wait = WAIT_FIRST;
    let mut said = String::new();
    loop {
        let next = if waiting.is_empty() {
            asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            asked.recv_timeout(wait)
        };
        match next {
            Ok(line) => waiting.push_back(line),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => match dial(uri, info, OPTIONS) {
                Ok(connection) => {
                    let line = waiting.pop_front().expect("only those that wait time out");
                    if !give(line, connection) {
                        return;
                    }
                    wait = Duration::ZERO;
                    said.clear();
                }
                Err(error) => {
                    tell(uri, &error, &mut said);
                    wait = (wait * 2).clamp(WAIT_FIRST, WAIT_MAX);
                }
            },
        }
        if waiting.is_empty() {
            wait = WAIT_FIRST;
        }
    }
}

/// Logs why there is no connection, once for each reason in a row.
fn tell(uri: &Uri, error: &io::Error, said: &mut String) {
    let reason = error.to_string();
    if reason != *said {
        tracing::warn!(server = %uri, reason, "no connection yet: it is tried again");
        *said = reason;
    }
}

/// One more connection, which must be to the same thing; it may have become larger.
fn dial(uri: &Uri, info: &ExportInfo, options: Options) -> io::Result<Transmission> {
    let connection = Transmission::open(uri, options).map_err(io::Error::other)?;
    match difference(info, &connection.export) {
        Some(difference) => Err(io::Error::other(format!(
            "the server describes another device now: {difference}: have it serve what it did, or restart \
             disktime to use this one"
        ))),
        None => Ok(connection),
    }
}

/// Why an export is not the one from before, if that shows.
fn difference(before: &ExportInfo, now: &ExportInfo) -> Option<String> {
    let read_only = |it: &ExportInfo| it.flags.contains(TransmissionFlags::READ_ONLY);
    if now.size_bytes < before.size_bytes {
        return Some(format!("it had {} bytes, and has {}", before.size_bytes, now.size_bytes));
    }
    if read_only(now) != read_only(before) {
        let is = if read_only(now) { "is read-only" } else { "can be written" };
        return Some(format!("it {is} now"));
    }
    if now.flags != before.flags {
        let flags = |it: &ExportInfo| it.flags.to_wire();
        return Some(format!("it had flags {:#x}, and has {:#x}", flags(before), flags(now)));
    }
    let sizes = |it: &ExportInfo| {
        let sizes = it.block_sizes;
        format!("{} to {} bytes", sizes.min(), sizes.max())
    };
    let differs = now.block_sizes != before.block_sizes;
    differs.then(|| format!("it took requests of {}, and takes {}", sizes(before), sizes(now)))
}

/// Why an export can't be a device.
fn check(info: &ExportInfo) -> Result<(), String> {
    let (block, sizes) = (ALIGN as u64, info.block_sizes);
    if info.size_bytes < block {
        return Err(format!(
            "the export has {} bytes: at least {block} are needed",
            info.size_bytes
        ));
    }
    if u64::from(sizes.min()) > block {
        return Err(format!(
            "its smallest block has {} bytes: at most {block} are spoken",
            sizes.min()
        ));
    }
    if u64::from(sizes.max()) < block {
        return Err(format!("its largest request has {} bytes: {block} are needed", sizes.max()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use disktime_nbd::BlockSizes;

    use super::*;
    use crate::logged::logged;

    /// A server that came back read-only was said to have as many bytes as before.
    #[test]
    fn what_differs_of_an_export_is_named() {
        let before = ExportInfo {
            name: "e".to_owned(),
            description: String::new(),
            size_bytes: 8192,
            flags: TransmissionFlags::FLUSH,
            block_sizes: BlockSizes::new(1, 4096, 1 << 20).unwrap(),
        };
        let said = |now: ExportInfo| difference(&before, &now).unwrap_or_default();
        assert_eq!(said(ExportInfo { size_bytes: 1 << 20, ..before.clone() }), "");
        let smaller = ExportInfo { size_bytes: 4096, ..before.clone() };
        assert_eq!(said(smaller), "it had 8192 bytes, and has 4096");
        let flags = before.flags.with(TransmissionFlags::READ_ONLY);
        assert_eq!(said(ExportInfo { flags, ..before.clone() }), "it is read-only now");
        let flags = before.flags.with(TransmissionFlags::TRIM);
        assert!(said(ExportInfo { flags, ..before.clone() }).starts_with("it had flags 0x"));
        let block_sizes = BlockSizes::new(512, 4096, 1 << 20).unwrap();
        let other = said(ExportInfo { block_sizes, ..before.clone() });
        assert_eq!(other, "it took requests of 1 to 1048576 bytes, and takes 512 to 1048576 bytes");
    }

    /// A server that came back with a smaller export was retried for ever, and the log said only that it had
    /// hung up.
    #[test]
    fn the_reason_for_which_there_is_no_connection_is_logged_once_in_a_row() {
        let uri = "nbd://localhost/e".parse().unwrap();
        let lines = logged(|| {
            let mut said = String::new();
            for reason in ["refused", "refused", "it is smaller", "it is smaller", "refused"] {
                tell(&uri, &io::Error::other(reason), &mut said);
            }
        });
        let reasons = ["refused", "it is smaller", "refused"];
        assert_eq!(lines.len(), reasons.len(), "{lines:?}");
        for (line, reason) in lines.iter().zip(reasons) {
            assert!(line.contains("WARN") && line.contains(reason), "{line}");
        }
    }
}
