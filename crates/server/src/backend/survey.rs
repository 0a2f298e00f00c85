//! Which bytes of a virtual disk were never written: what block status tells.
//!
//! A file knows its holes, but asking for them may wait for the disk: a thread of its own asks, started
//! with the first question. A shard gives it the places of a range's bytes (*runs*) as they are now, and
//! hears on an eventfd of the question that the answer is there.
//!
//! An answer may end before its range: so many runs, and so many extents, at once.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{SeekFrom, seek};

use super::Io;
use crate::ring::{Token, Transfer};
use crate::served_file::ServedFile;
use crate::wakeup::wake;

/// Extents of one answer at most.
pub const EXTENTS_MAX: usize = 1000;
/// Runs that are made for one question at most: what that takes is the shard's time.
pub(crate) const RUNS_MAX: usize = 4096;

/// Bytes that are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// How many; not 0.
    pub bytes: u64,
    /// They have no place of their own, and read as zeroes.
    pub hole: bool,
}

/// A question about a range of a virtual disk, and its answer.
pub struct Survey {
    /// The range, in the virtual disk's bytes.
    pub extent: Range<u64>,
    /// From the range's start on, no two of a kind next to each other; at least one once it is
    /// answered, at most [`EXTENTS_MAX`]. The last may end behind the range.
    pub found: Vec<Stretch>,
    /// Stretches that are wanted at most.
    most: usize,
    coming: Option<Coming>,
}

/// An answer that is awaited.
struct Coming {
    answer: Receiver<Vec<Stretch>>,
    /// The eventfd that wakes the shard for it, to be kept until then.
    _wakeup: Option<OwnedFd>,
    /// Bytes that it describes ahead of the range.
    before: u64,
}

impl Survey {
    /// A question; `one` if the first stretch is all that is wanted.
    #[must_use]
    pub fn new(extent: Range<u64>, one: bool) -> Self {
        let most = if one { 1 } else { EXTENTS_MAX };
        Self { extent, found: Vec::new(), most, coming: None }
    }

    /// Adds bytes to the answer; false if it takes no more.
    pub(crate) fn push(&mut self, bytes: u64, hole: bool) -> bool {
        push(&mut self.found, self.most, Stretch { bytes, hole })
    }

    /// The answer will come from a medium, with so many bytes ahead of the range.
    pub(super) fn comes_from(&mut self, answer: Receiver<Vec<Stretch>>, before: u64) {
        self.coming = Some(Coming { answer, _wakeup: None, before });
    }

    /// Takes what has come. Where nothing is known, everything is data.
    pub(super) fn collect(&mut self) {
        if let Some(Coming { answer, mut before, .. }) = self.coming.take() {
            for Stretch { bytes, hole } in answer.try_recv().unwrap_or_default() {
                let ahead = before.min(bytes);
                before -= ahead;
                if !self.push(bytes - ahead, hole) {
                    break;
                }
            }
        }
        if self.found.is_empty() {
            self.found.push(Stretch { bytes: self.extent.end - self.extent.start, hole: false });
        }
    }
}

/// Adds a stretch to those before it; false if there are so many already.
pub(crate) fn push(found: &mut Vec<Stretch>, most: usize, next: Stretch) -> bool {
    let full = found.len() == most;
    match found.last_mut() {
        _ if next.bytes == 0 => {}
        Some(last) if last.hole == next.hole => last.bytes += next.bytes,
        _ if full => return false,
        _ => found.push(next),
    }
    true
}

/// Bytes that lie next to each other.
#[derive(Clone)]
pub struct Run {
    pub(crate) bytes: u64,
    /// In this file, from this byte on; `None` for bytes that are data, wherever.
    pub(crate) place: Option<(Arc<ServedFile>, u64)>,
}

impl Run {
    pub(crate) fn data(bytes: u64) -> Self {
        Self { bytes, place: None }
    }

    /// Appends a run to others, or to the last of them if it goes on there.
    pub(crate) fn append(self, runs: &mut Vec<Self>) {
        let goes_on = |last: &Self| match (&last.place, &self.place) {
            (None, None) => true,
            (Some((file, at)), Some((next, start))) => {
                Arc::ptr_eq(file, next) && at + last.bytes == *start
            }
            _ => false,
        };
        match runs.last_mut() {
            Some(last) if goes_on(last) => last.bytes += self.bytes,
            _ => runs.push(self),
        }
    }
}

/// A question on its way.
struct Asked {
    runs: Vec<Run>,
    most: usize,
    answer: Sender<Vec<Stretch>>,
    wakeup: OwnedFd,
}

/// The thread that asks files.
#[derive(Default)]
pub(super) struct Surveyor(OnceLock<Sender<Asked>>);

impl Surveyor {
    /// Hands a question over; the ring tells under `token` when it is answered.
    pub(super) fn ask(
        &self,
        token: Token,
        runs: Vec<Run>,
        survey: &mut Survey,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (answer, coming) = bounded(1);
        let heard = wakeup.try_clone()?;
        let asked = Asked { runs, most: survey.most, answer, wakeup };
        self.thread()?.send(asked).map_err(io::Error::other)?;
        let (fd, buffer) = (heard.as_raw_fd(), io.pool.take(8));
        io.ring.read(token, Transfer { fd, offset: 0, buffer, range: 0..8 });
        survey.coming = Some(Coming { answer: coming, _wakeup: Some(heard), before: 0 });
        Ok(())
    }

    fn thread(&self) -> io::Result<&Sender<Asked>> {
        if self.0.get().is_none() {
            let (asks, asked) = unbounded();
            let run = move || asked.iter().for_each(answer);
            std::thread::Builder::new().name("survey".to_owned()).spawn(run)?;
            let _there_is_none = self.0.set(asks);
        }
        self.0.get().ok_or_else(|| io::Error::other("no thread"))
    }
}

fn answer(Asked { runs, most, answer, wakeup }: Asked) {
    let _nobody_waits_any_more = answer.send(walk(&runs, most));
    wake(&wakeup);
}

/// Files with the last stretch of each that was asked for.
type Seen = Vec<(Arc<ServedFile>, Range<u64>, bool)>;

fn walk(runs: &[Run], most: usize) -> Vec<Stretch> {
    let (mut found, mut seen) = (Vec::new(), Seen::new());
    for run in runs {
        let Some((file, start)) = &run.place else {
            if !push(&mut found, most, Stretch { bytes: run.bytes, hole: false }) {
                return found;
            }
            continue;
        };
        let (mut at, end) = (*start, start + run.bytes);
        while at < end {
            let (until, hole) = look(&mut seen, file, at);
            let stop = until.clamp(at + 1, end);
            if !push(&mut found, most, Stretch { bytes: stop - at, hole }) {
                return found;
            }
            at = stop;
        }
    }
    found
}

/// Whether a byte of a file is in a hole, and where that ends.
fn look(seen: &mut Seen, file: &Arc<ServedFile>, at: u64) -> (u64, bool) {
    let known = seen.iter().position(|(other, ..)| Arc::ptr_eq(other, file));
    if let Some((_, range, hole)) = known.map(|known| &seen[known])
        && range.contains(&at)
    {
        return (range.end, *hole);
    }
    let (until, hole) = ask(file, at);
    match known {
        Some(known) => (seen[known].1, seen[known].2) = (at..until, hole),
        None => seen.push((Arc::clone(file), at..until, hole)),
    }
    (until, hole)
}

/// As [`look`], asking the file system. A file without holes to tell of, a block device say, has data.
fn ask(file: &ServedFile, at: u64) -> (u64, bool) {
    match seek(file.file(), SeekFrom::Data(at)) {
        Ok(data) if data > at => (data, true),
        Ok(_) => (seek(file.file(), SeekFrom::Hole(at)).unwrap_or(u64::MAX), false),
        Err(rustix::io::Errno::NXIO) => (u64::MAX, true),
        Err(_) => (u64::MAX, false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    fn sparse(mib: u64, written: &[u64]) -> Arc<ServedFile> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.unwrap();
        file.set_len(mib << 20).unwrap();
        for at in written {
            file.write_all_at(&[7; 1 << 20], at << 20).unwrap();
        }
        Arc::new(ServedFile::new(file, &path).unwrap())
    }

    fn run(file: &Arc<ServedFile>, mib: Range<u64>) -> Run {
        Run { bytes: (mib.end - mib.start) << 20, place: Some((Arc::clone(file), mib.start << 20)) }
    }

    fn mib(found: &[Stretch]) -> Vec<(u64, bool)> {
        found.iter().map(|it| (it.bytes >> 20, it.hole)).collect()
    }

    #[test]
    fn holes_are_told_across_files_and_joined() {
        let (one, two) = (sparse(8, &[1, 2, 6]), sparse(8, &[0]));
        let runs = [run(&one, 0..8), run(&two, 4..8), Run::data(1 << 20), run(&two, 0..1)];
        let expected =
            [(1, true), (2, false), (3, true), (1, false), (5, true), (2, false)].to_vec();
        assert_eq!(mib(&walk(&runs, 100)), expected);
        assert_eq!(mib(&walk(&runs, 2)), expected[..2], "so many, and no more");
        // Stripes: every other MiB on the other file.
        let runs: Vec<_> =
            (0..16).map(|at| run([&one, &two][at % 2], at as u64 / 2..at as u64 / 2 + 1)).collect();
        let total: u64 = walk(&runs, 100).iter().map(|it| it.bytes).sum();
        assert_eq!(total, 16 << 20);
        let data = walk(&runs, 100).iter().filter(|it| !it.hole).map(|it| it.bytes).sum::<u64>();
        assert_eq!(data, 4 << 20);
    }

    #[test]
    fn runs_that_go_on_become_one() {
        let file = sparse(8, &[]);
        let mut runs = Vec::new();
        for next in
            [run(&file, 0..1), run(&file, 1..3), run(&file, 4..5), Run::data(1), Run::data(2)]
        {
            next.append(&mut runs);
        }
        let lengths: Vec<_> = runs.iter().map(|run| run.bytes).collect();
        assert_eq!(lengths, [3 << 20, 1 << 20, 3]);
    }
}
