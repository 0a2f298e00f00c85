//! A program that reads a file of a mount as a plan's stream says, and tells a soft real-time file's misses.
//!
//! Its threads wait for their reads. There are more of them than reads are outstanding, so that a miss is
//! told when it happens. Reads reach the kernel in the stream's order: a thread begins one once the thread
//! before it sleeps in its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration as Span;

use disktime_core::{Duration, Instant};
use disktime_fuse::client;
use disktime_papers::mounted_figures::Counts;
use disktime_server::clock;
use disktime_workload::{IoOp, Stream};

/// A program's memory for reads past the kernel's cache is aligned so.
pub const ALIGNMENT: usize = 4096;
/// The longest read.
const READ_MAX: usize = 1 << 20;
/// Waits end this late at most: by default the system adds up to 50 us.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1).expect("1 is not zero");

/// A file with its contract, and what a program does with it.
pub struct Program {
    file: File,
    /// The device's first byte that is in the file.
    start: u64,
    /// The file's user says when data come too late.
    tells_misses: bool,
    span: Range<Instant>,
    window: Duration,
    doing: Mutex<Doing>,
    /// There may be something to do for a thread that waits.
    woken: Condvar,
}

struct Doing {
    traffic: Stream,
    /// Reads that no thread has begun, and when they were due.
    due: VecDeque<(IoOp, Instant)>,
    /// The system's line about the thread that began the latest read, while it is there.
    latest: Option<Arc<File>>,
    counts: Counts,
    error: Option<io::Error>,
    /// When a thread that waits looks for what is due; `None` if none does.
    watched: Option<Instant>,
    /// It is to end before its time.
    stops: bool,
}

/// When a program reads, and how its reads are counted.
pub struct Times {
    pub span: Range<Instant>,
    pub window: Duration,
}

impl Program {
    /// A program whose reads, as `traffic` has them, are of the device's bytes from `start` on.
    pub fn new(
        file: File,
        (start, tells_misses): (u64, bool),
        traffic: Stream,
        Times { span, window }: Times,
    ) -> Self {
        let windows = span.end.since(span.start).as_nanos() / window.as_nanos();
        let windows = usize::try_from(windows).expect("a run has few windows");
        let counts = Counts { bytes: vec![0.0; windows], ..Counts::default() };
        let due = VecDeque::new();
        let (latest, error, watched, stops) = (None, None, None, false);
        let doing = Doing { traffic, due, latest, counts, error, watched, stops };
        let doing = Mutex::new(doing);
        Self { file, start, tells_misses, span, window, doing, woken: Condvar::new() }
    }

    /// A thread of it: returns at the end of the span.
    pub fn run(&self) {
        // Without it waits are less exact, which is no reason to stop.
        let _coarse = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let mut memory = vec![0; READ_MAX + ALIGNMENT];
        let aligned = memory.as_ptr().align_offset(ALIGNMENT);
        let memory = &mut memory[aligned..aligned + READ_MAX];
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let state = File::open(format!("/proc/self/task/{thread}/stat")).map(Arc::new);
        let mut doing = self.doing();
        let state = match state {
            Ok(state) => state,
            Err(error) => return doing.fail(Err(error)),
        };
        while clock::now() < self.span.end && doing.error.is_none() && !doing.stops {
            let (polled, missed) = doing.look(clock::now());
            if missed > 0 && self.tells_misses {
                drop(doing);
                let told = (0..missed).try_for_each(|_| client::late(&self.file));
                doing = self.doing();
                doing.fail(told.map_err(io::Error::from));
            } else if let Some((op, due)) = doing.due.pop_front() {
                if let Some(latest) = doing.latest.replace(Arc::clone(&state)) {
                    wait_until_it_sleeps(&latest);
                }
                // Another thread looks after what comes next meanwhile.
                self.woken.notify_one();
                drop(doing);
                let read = self.read(&op, memory);
                doing = self.doing();
                doing.latest.take_if(|latest| Arc::ptr_eq(latest, &state));
                self.ended(&mut doing, (&op, due));
                doing.fail(read);
            } else {
                doing = self.wait(doing, polled);
            }
        }
        self.woken.notify_all();
    }

    /// Until something may be due: one thread looks at the clock, the others wait to be woken.
    fn wait<'a>(&'a self, mut doing: MutexGuard<'a, Doing>, now: Instant) -> MutexGuard<'a, Doing> {
        let until = doing.traffic.next_at().unwrap_or(self.span.end).min(self.span.end);
        if doing.watched.is_some_and(|at| at <= until) {
            return self.woken.wait(doing).unwrap_or_else(PoisonError::into_inner);
        }
        doing.watched = Some(until);
        let wait = Span::from_nanos(until.since(now).as_nanos());
        let waited = self.woken.wait_timeout(doing, wait);
        let mut doing = waited.unwrap_or_else(PoisonError::into_inner).0;
        doing.watched = None;
        doing
    }

    /// Whether it has ended before its time.
    pub fn has_failed(&self) -> bool {
        self.doing().error.is_some()
    }

    /// Has its threads end when their reads have.
    pub fn stop(&self) {
        self.doing().stops = true;
        self.woken.notify_all();
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, op: &IoOp, memory: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(op.bytes).ok().and_then(|bytes| memory.get_mut(..bytes));
        let bytes = bytes.ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.read_exact_at(bytes, op.offset - self.start)
    }

    /// Counts a read that has ended within the span.
    fn ended(&self, doing: &mut Doing, (op, due): (&IoOp, Instant)) {
        let now = clock::now();
        doing.traffic.completed(now, op);
        let window = now.since(self.span.start).as_nanos() / self.window.as_nanos();
        let counts = &mut doing.counts;
        let bytes = usize::try_from(window).ok().and_then(|window| counts.bytes.get_mut(window));
        let Some(bytes) = bytes else { return };
        *bytes += float(op.bytes);
        counts.reads += 1.0;
        counts.seconds += now.since(due).as_secs_f64();
    }

    /// The counts, once its threads have ended.
    ///
    /// # Errors
    /// The error that ended it before its time.
    pub fn counts(self) -> io::Result<Counts> {
        let Doing { counts, error, .. } =
            self.doing.into_inner().unwrap_or_else(PoisonError::into_inner);
        error.map_or(Ok(counts), Err)
    }
}

impl Doing {
    /// Takes what is due by now, and answers when that was and how many misses are new.
    fn look(&mut self, now: Instant) -> (Instant, u64) {
        while let Some(op) = self.traffic.poll(now) {
            self.due.push_back((op, now));
        }
        let missed = std::iter::from_fn(|| self.traffic.missed()).count() as u64;
        self.counts.misses += float(missed);
        (now, missed)
    }

    fn fail(&mut self, result: io::Result<()>) {
        self.error = self.error.take().or(result.err());
    }
}

/// Waits until a thread sleeps, by its line of the system's: the name in brackets, then the state.
fn wait_until_it_sleeps(state: &File) {
    let mut line = [0; 128];
    while let Ok(length) = state.read_at(&mut line, 0) {
        let line = &line[..length];
        let runs = line.iter().rposition(|byte| *byte == b')');
        if !runs.is_some_and(|end| line[end..].starts_with(b") R")) {
            return;
        }
        std::thread::yield_now();
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a read, and misses of a run, are few")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]
mod tests {
    use super::*;
    use disktime_workload::{Extent, Pace, Pattern, Phase, Phases, Spec};

    const READ: u64 = 4096;
    /// Where on the device the file begins.
    const START: u64 = 10 * READ;

    /// A program on a file of so many reads, which reads as many in sequence, again and again, two at a
    /// time, for a span that is longer than any test.
    fn program(reads: u64) -> Program {
        let file = tempfile::tempfile().unwrap();
        file.set_len(reads * READ).unwrap();
        let extent = Extent { start: START, end: START + 4 * READ };
        let spec = Spec::reads(Pattern::Sequential, extent, READ);
        let pace = Pace::Closed { outstanding: 2, think: Duration::ZERO };
        let begin = clock::now();
        let phases = Phases::new(vec![Phase::always(spec, pace)], 1, "test", begin).unwrap();
        let window = Duration::from_secs(3600);
        let times = Times { span: begin..begin + window, window };
        Program::new(file, (START, false), phases.into(), times)
    }

    /// Its counts, once it was stopped after some reads.
    fn run(program: Program) -> io::Result<Counts> {
        std::thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(|| program.run())));
            while program.doing().counts.reads < 100.0 && !program.has_failed() {
                std::thread::yield_now();
            }
            program.stop();
        });
        program.counts()
    }

    #[test]
    fn each_read_of_a_program_is_counted_once_with_its_bytes_and_time() {
        let counts = run(program(4)).unwrap();
        assert!(counts.reads >= 100.0 && counts.seconds > 0.0, "{counts:?}");
        assert!((counts.bytes[0] - counts.reads * float(READ)).abs() < 0.5, "{counts:?}");
    }

    #[test]
    fn a_read_past_the_end_of_the_file_ends_the_program_with_its_error() {
        assert_eq!(run(program(3)).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_thread_that_waits_is_seen_to_sleep() {
        let (wakes, waits) = std::sync::mpsc::channel::<()>();
        let (tells, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                tells.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
                let _woken = waits.recv();
            });
            let thread = told.recv().unwrap();
            let state = File::open(format!("/proc/self/task/{thread}/stat")).unwrap();
            wait_until_it_sleeps(&state);
            drop(wakes);
        });
    }
}
