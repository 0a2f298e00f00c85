//! The scheduler's thread worked by hand, with turns that a test gives.

use std::collections::VecDeque;
use std::sync::Mutex;

use crossbeam_channel::{TryRecvError, unbounded};
use disktime_core::{DeviceTime, Instant, StreamCounters};

use super::*;
use crate::file_system::{Answer, Inode};
use crate::nodes::Nodes;
use crate::scheduler::Work;
use crate::scheduler::turns::{Figures, StreamFigures};
use crate::scheduler::workers::{Action, Moved};
use crate::transfer::{USED_MAX, Waiting};

/// The turns that a test gives, and the names of those that have ended.
#[derive(Default)]
struct Script {
    turns: VecDeque<Turn>,
    over: VecDeque<Over>,
    lost: VecDeque<(StreamId, Refused)>,
    streams: Vec<StreamId>,
    /// It was told that there is no daemon.
    gone: bool,
    ended: Vec<(u64, Outcome)>,
    /// Its device is not emulated.
    is_real: bool,
}

fn figures_of(stream: &StreamId) -> StreamFigures {
    let (contract, counters) = (Contract::default(), StreamCounters::default());
    StreamFigures { stream: *stream, contract, counters, waiting: 0, promise: None, broken: 0 }
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Turns for Scripted {
    fn add(&mut self, stream: StreamId, _: Contract, _: &str) -> Result<(), Refused> {
        lock(&self.0).streams.push(stream);
        Ok(())
    }

    fn set(&mut self, _: StreamId, _: Contract) -> Result<(), Refused> {
        Ok(())
    }

    fn remove(&mut self, stream: StreamId) {
        lock(&self.0).streams.retain(|it| *it != stream);
    }

    fn late(&mut self, _: StreamId) -> bool {
        true
    }

    fn set_device(&mut self, _: DeviceParameter) -> Result<(), String> {
        Ok(())
    }

    fn arrive(&mut self, _: Request) -> Result<(), String> {
        Ok(())
    }

    fn next(&mut self) -> Option<Turn> {
        lock(&self.0).turns.pop_front()
    }

    fn ended(&mut self, turn: u64, outcome: Outcome) {
        lock(&self.0).ended.push((turn, outcome));
    }

    fn over(&mut self) -> Option<Over> {
        lock(&self.0).over.pop_front()
    }

    fn modelled_at(&self) -> Option<Instant> {
        None
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn timed(&mut self) {}

    fn news(&self) -> Receiver<News> {
        never()
    }

    fn hear(&mut self, news: News) {
        lock(&self.0).gone |= matches!(news, News::Gone);
    }

    fn keeps_time(&self) -> bool {
        !lock(&self.0).is_real
    }

    fn lost(&mut self) -> Option<(StreamId, Refused)> {
        lock(&self.0).lost.pop_front()
    }

    fn figures(&mut self) -> Option<Figures> {
        Some(Figures {
            streams: lock(&self.0).streams.iter().map(figures_of).collect(),
            device: DeviceTime::default(),
            depth: 1,
            in_flight: 0,
            headroom: Share::ZERO,
            reserved_ppm: 0,
            slack: 0,
        })
    }
}

struct Rig {
    dispatcher: Dispatcher,
    script: Scripted,
    jobs: Receiver<Job>,
    landed: Sender<Landed>,
    file: Arc<OpenFile>,
}

/// Gives a file a stream of its own.
fn give(rig: &mut Rig, file: &Arc<OpenFile>) -> StreamId {
    let (to, answer) = unbounded();
    let contract = Contract { weight: 5, ..Contract::default() };
    rig.dispatcher.handle(Message::Contract(Arc::clone(file), contract, to));
    assert_eq!(answer.try_recv().unwrap(), Ok(()));
    file.stream().unwrap()
}

/// The answers that a program has got.
type Answers = Receiver<Answer<Vec<u8>>>;

const BYTES: usize = 1000;
const FIRST: RequestId = RequestId(0);

impl Rig {
    fn new() -> Self {
        let (to, jobs) = unbounded();
        let (landed, moved) = unbounded();
        let outside = Outside {
            jobs: to,
            moved,
            buffers: Arc::new(Buffers::default()),
            classed: Arc::default(),
        };
        let script = Scripted::default();
        let dispatcher = Dispatcher::new(Box::new(script.clone()), None, outside).unwrap();
        let open = || tempfile::tempfile().unwrap();
        let stat = rustix::fs::fstat(open()).unwrap();
        let node = Nodes::new(open().into(), &stat).get(Inode::ROOT).unwrap();
        let mut file = OpenFile::new(open().into(), node);
        // All its pieces are for workers.
        file.is_direct = true;
        Self { dispatcher, script, jobs, landed, file: Arc::new(file) }
    }

    /// The file has this, and the system has it in its cache.
    fn fill(&mut self, bytes: &[u8]) {
        let file = Arc::get_mut(&mut self.file).unwrap();
        file.is_direct = false;
        assert_eq!(rustix::io::pwrite(&file.descriptor, bytes, 0), Ok(bytes.len()));
    }

    /// A program reads the first bytes.
    fn read(&mut self) -> Answers {
        let (to, answers) = unbounded();
        let reply = move |answer: Answer<&[u8]>| to.send(answer.map(<[u8]>::to_vec)).unwrap();
        self.arrives(Work::Read(BYTES, Box::new(reply)));
        answers
    }

    /// Begins what has a turn; whether this thread has moved a piece.
    fn dispatch(&mut self) -> bool {
        self.dispatcher.dispatch()
    }

    /// A program writes them: the answer is as long as what was written.
    fn write(&mut self) -> Answers {
        self.write_of(Some(0))
    }

    /// A user writes them, or else the kernel from its cache.
    fn write_of(&mut self, user: Option<u32>) -> Answers {
        let (to, answers) = unbounded();
        let reply =
            move |answer: Answer<u32>| to.send(answer.map(|it| vec![0; it as usize])).unwrap();
        let data = Arc::new(Arc::new(Waiting::new()).take(user, &[7; BYTES]));
        self.arrives(Work::Write(data, Box::new(reply)));
        answers
    }

    fn transfer(&self, work: Work) -> Message {
        let (file, bytes) = (Arc::clone(&self.file), BYTES as u64);
        let transfer = Transfer { file, offset: 0, bytes, length: bytes, place: Some(0), work };
        Message::Transfer(Box::new(transfer))
    }

    fn arrives(&mut self, work: Work) {
        let message = self.transfer(work);
        self.dispatcher.handle(message);
        self.dispatch();
    }

    /// The first request has a turn for a range.
    fn turn(&mut self, name: u64, range: std::ops::Range<usize>, anew: bool) {
        let (offset, bytes) = (range.start as u64, range.len() as u64);
        let turn = Turn { name, request: FIRST, offset, bytes, flush: false, anew };
        lock(&self.script.0).turns.push_back(turn);
        self.dispatch();
    }

    /// The piece that was begun first is moved: with these bytes, or an error.
    fn moved(&mut self, with: Answer<u8>) {
        let Job { flight, action, .. } = self.jobs.try_recv().unwrap();
        let moved = with.map(|byte| match action {
            Action::Read(bytes) => {
                let mut buffer = self.dispatcher.outside.buffers.take();
                buffer.first(bytes).fill(byte);
                Moved::Read(buffer, bytes)
            }
            Action::ReadAll(bytes, reply) => {
                reply(Ok(&vec![byte; bytes]));
                Moved::Answered
            }
            Action::Write(_, range, _) => Moved::Written(range.len()),
        });
        self.dispatcher.moved((flight, moved));
        self.dispatch();
    }

    /// The first request has had all its turns.
    fn over(&mut self) {
        lock(&self.script.0).over.push_back(Over { request: FIRST, taken: true });
        self.dispatch();
    }

    fn ended(&self) -> Vec<u64> {
        lock(&self.script.0).ended.iter().map(|(name, _)| *name).collect()
    }
}

/// Parts of before were kept: the answer ended where the first of them did, which a program takes for the
/// end of the file.
#[test]
fn a_read_that_begins_anew_answers_what_was_read_since() {
    let mut rig = Rig::new();
    let answers = rig.read();
    rig.turn(1, 0..400, false);
    rig.moved(Ok(1));
    rig.turn(2, 0..BYTES, true);
    rig.moved(Ok(2));
    assert!(answers.is_empty());
    rig.over();
    assert_eq!(answers.try_recv().unwrap(), Ok(vec![2; BYTES]));
    // A write that begins anew has written each byte once.
    let answers = rig.write();
    rig.turn(3, 0..400, false);
    rig.moved(Ok(0));
    rig.turn(4, 0..600, true);
    rig.moved(Ok(0));
    rig.turn(5, 600..BYTES, false);
    rig.moved(Ok(0));
    rig.over();
    assert_eq!(answers.try_recv().unwrap().map(|it| it.len()), Ok(BYTES));
    assert_eq!(rig.ended(), [1, 2, 3, 4, 5]);
}

/// Bytes that were moved before a piece that failed were the answer: the kernel took them for the whole file, and
/// for all that was in its cache.
#[test]
fn a_request_fails_with_one_of_its_pieces_unless_a_program_writes_on() {
    let outcome = |begin: fn(&mut Rig) -> Answers| {
        let mut rig = Rig::new();
        let answers = begin(&mut rig);
        rig.turn(1, 0..400, false);
        rig.moved(Ok(0));
        rig.turn(2, 400..BYTES, false);
        rig.moved(Err(Errno::NOSPC));
        rig.over();
        answers.try_recv().unwrap().map(|it| it.len())
    };
    assert_eq!(outcome(Rig::read), Err(Errno::NOSPC));
    assert_eq!(outcome(|rig| rig.write_of(None)), Err(Errno::NOSPC));
    assert_eq!(outcome(Rig::write), Ok(400), "its next write says why");
}

/// The engine held the device idle for a stream that ended with its last answer, and was asked for no more turns: a
/// request of another stream waited for an hour.
#[test]
fn turns_are_asked_for_again_once_a_stream_or_a_piece_has_ended() {
    let mut rig = Rig::new();
    let file = Arc::clone(&rig.file);
    let stream = give(&mut rig, &file);
    let answers = rig.read();
    rig.turn(1, 0..BYTES, false);
    rig.moved(Ok(1));
    rig.dispatcher.handle(Message::Released(stream));
    assert!(!rig.dispatch(), "it has a request");
    lock(&rig.script.0).over.push_back(Over { request: FIRST, taken: true });
    assert!(rig.dispatch());
    assert_eq!(answers.try_recv().unwrap(), Ok(vec![1; BYTES]));
    assert!(lock(&rig.script.0).streams.iter().all(|it| *it == SHARED));
    assert!(!rig.dispatch());
    // A turn of a request that is gone.
    let turn = Turn { name: 2, request: FIRST, offset: 0, bytes: 1, flush: false, anew: false };
    lock(&rig.script.0).turns.push_back(turn);
    assert!(rig.dispatch());
    assert!(!rig.dispatch());
    assert_eq!(rig.ended(), [1, 2]);
}

#[test]
fn an_error_of_before_is_no_answer_to_a_request_that_began_anew() {
    let mut rig = Rig::new();
    let answers = rig.write();
    rig.turn(1, 0..BYTES, false);
    rig.moved(Err(Errno::IO));
    rig.turn(2, 0..BYTES, true);
    rig.moved(Err(Errno::NOSPC));
    rig.over();
    assert_eq!(answers.try_recv().unwrap(), Err(Errno::NOSPC));
    // And the error of now is one.
    let answers = rig.read();
    rig.turn(3, 0..BYTES, false);
    rig.moved(Err(Errno::IO));
    rig.turn(4, 0..BYTES, true);
    rig.moved(Ok(4));
    rig.over();
    assert_eq!(answers.try_recv().unwrap(), Ok(vec![4; BYTES]));
}

/// A write that began anew was answered while its first piece was on its way: it could bring its bytes after
/// those of the program's next write.
#[test]
fn a_request_begins_anew_once_its_earlier_pieces_have_been_moved() {
    let mut rig = Rig::new();
    let answers = rig.write();
    rig.turn(1, 0..400, false);
    rig.turn(2, 400..BYTES, false);
    rig.turn(3, 0..500, true);
    rig.turn(4, 500..BYTES, false);
    assert_eq!(rig.jobs.len(), 2);
    rig.moved(Ok(0));
    assert_eq!(rig.jobs.len(), 1, "one is on its way yet");
    rig.moved(Ok(0));
    assert_eq!(rig.jobs.len(), 2);
    // All its turns may be taken back meanwhile.
    rig.over();
    assert!(answers.is_empty());
    rig.moved(Ok(0));
    rig.moved(Ok(0));
    assert_eq!(answers.try_recv().unwrap().map(|it| it.len()), Ok(BYTES));
    assert_eq!(rig.ended(), [1, 2, 3, 4]);
}

/// The engine's thread copied all data that were read, and gave no turns meanwhile: a sequential read had half
/// of a plain pass-through's speed.
#[test]
fn a_read_in_one_piece_is_answered_by_its_worker_unless_a_device_is_emulated() {
    for is_real in [false, true] {
        let mut rig = Rig::new();
        lock(&rig.script.0).is_real = is_real;
        let answers = rig.read();
        rig.turn(1, 0..BYTES, false);
        rig.moved(Ok(5));
        assert_eq!(answers.len(), usize::from(is_real), "an emulated device says when");
        // It is answered, and does not begin anew.
        if is_real {
            rig.turn(2, 0..BYTES, true);
            assert!(rig.jobs.is_empty());
        }
        rig.over();
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), [Ok(vec![5; BYTES])]);
        assert!(rig.dispatcher.operations.is_empty());
    }
    // One in two pieces is answered with both.
    let mut rig = Rig::new();
    lock(&rig.script.0).is_real = true;
    let answers = rig.read();
    for (name, range) in [(1, 0..400), (2, 400..BYTES)] {
        rig.turn(name, range, false);
        rig.moved(Ok(6));
    }
    assert!(answers.is_empty());
    rig.over();
    assert_eq!(answers.try_recv().unwrap(), Ok(vec![6; BYTES]));
}

/// A contract that a successor does not grant was shown as if it were kept.
#[test]
fn a_file_whose_contract_is_taken_away_says_so() {
    let mut rig = Rig::new();
    let contract = Contract::reserving(Share::from_ppm(300_000).unwrap());
    let (answer, _) = unbounded();
    rig.dispatcher.handle(Message::Contract(Arc::clone(&rig.file), contract, answer));
    *lock(&rig.file.contract) = contract;
    assert_eq!(rig.dispatcher.outside.classed.load(Ordering::Relaxed), 1);
    let why = Refused::because(crate::abi::Reason::Overbooked);
    lock(&rig.script.0).lost.push_back((rig.file.stream().unwrap(), why));
    rig.dispatcher.note_lost();
    assert_eq!((*lock(&rig.file.contract), *lock(&rig.file.refused)), (USUAL, why));
    assert_eq!(rig.dispatcher.outside.classed.load(Ordering::Relaxed), 0);
}

/// A sleep until an emulated device's time ended late: a fast sequential stream had 10 % less.
#[test]
fn a_sleep_until_a_modelled_time_ends_before_it() {
    let at = |micros: u64| Instant::from_nanos(micros * 1000);
    let micros = |sleep: Option<Duration>| sleep.map(|it| it.as_nanos() / 1000);
    for (wake_at, modelled, expected) in [
        (Some(at(1000)), true, Some(900 - 80)),
        (Some(at(1000)), false, Some(900)),
        (Some(at(150)), true, Some(0)),
        (Some(at(50)), false, Some(0)),
        (None, false, None),
    ] {
        assert_eq!(
            micros(asleep_for(at(100), (wake_at, modelled))),
            expected,
            "{wake_at:?} {modelled}"
        );
    }
    // A message ends it, and what is far away is slept for.
    let (now, looks) = (clock::now(), std::cell::Cell::new(0));
    let idle = || {
        looks.set(looks.get() + 1);
        looks.get() < 3
    };
    stay_awake(Some(now + Duration::from_millis(60_000)), idle);
    assert_eq!(looks.get(), 0, "it is far away");
    stay_awake(Some(now + Duration::from_micros(60)), || false);
    let near = clock::now() + Duration::from_micros(70);
    stay_awake(Some(near), || true);
    assert!(clock::now() >= near);
}

/// The end of a piece waited behind the requests that had come before it, some 10 ms with thousands of them:
/// the device was idle for so long, or a daemon had another wait for the mount's turn.
#[test]
fn the_end_of_a_piece_is_heard_before_the_requests_that_came_before_it() {
    // A thread that hears both in any order would have it right every other time.
    for _ in 0..20 {
        let mut rig = Rig::new();
        let _answers = rig.read();
        rig.turn(1, 0..BYTES, false);
        let Job { flight, .. } = rig.jobs.try_recv().unwrap();
        let (to, messages) = unbounded();
        for _ in 0..300 {
            to.send(rig.transfer(Work::Read(BYTES, Box::new(|_| ())))).unwrap();
        }
        rig.landed.send((flight, Err(Errno::IO))).unwrap();
        let mut news = never();
        rig.dispatcher.round((&messages, &mut news)).unwrap();
        assert_eq!(rig.ended(), [1]);
        assert!(messages.len() >= 300 - 1 - MESSAGES_AT_ONCE, "{}", messages.len());
        // A round without one hears some requests, and all are heard in the end.
        while !messages.is_empty() {
            let before = messages.len();
            rig.dispatcher.round((&messages, &mut news)).unwrap();
            assert!((1..=1 + MESSAGES_AT_ONCE).contains(&(before - messages.len())));
        }
        to.send(Message::Stop).unwrap();
        assert!(rig.dispatcher.round((&messages, &mut news)).is_none());
    }
}

/// A worker was woken for each of them, and the engine's thread when it had read: a sequential read had half of
/// a plain pass-through's speed.
#[test]
fn what_is_cached_is_read_by_the_engines_thread_and_all_else_by_workers() {
    for (is_real, is_direct) in [(true, false), (true, true), (false, false)] {
        let mut rig = Rig::new();
        rig.fill(&[3; BYTES]);
        Arc::get_mut(&mut rig.file).unwrap().is_direct = is_direct;
        lock(&rig.script.0).is_real = is_real;
        let answers = rig.read();
        rig.turn(1, 0..BYTES, false);
        let own = is_real && !is_direct;
        assert_eq!((answers.len(), rig.jobs.len()), (usize::from(own), usize::from(!own)));
        assert!(!own || answers.try_recv().unwrap() == Ok(vec![3; BYTES]));
        assert_eq!(rig.ended().len(), usize::from(own));
    }
    // A worker reads one of two pieces meanwhile. Then more may begin at once: nobody else says so.
    let mut rig = Rig::new();
    rig.fill(&[3; BYTES]);
    lock(&rig.script.0).is_real = true;
    let answers = rig.read();
    for (name, range) in [(1, 0..400), (2, 400..BYTES)] {
        let (offset, bytes) = (range.start as u64, range.len() as u64);
        let turn = Turn { name, request: FIRST, offset, bytes, flush: false, anew: false };
        lock(&rig.script.0).turns.push_back(turn);
    }
    assert!(rig.dispatch());
    assert_eq!((rig.jobs.len(), rig.ended()), (1, vec![2]));
    assert!(!rig.dispatch(), "nothing was left");
    rig.moved(Ok(3));
    rig.over();
    assert_eq!(answers.try_recv().unwrap(), Ok(vec![3; BYTES]));
    // And writes are for workers.
    let answers = rig.write();
    rig.turn(3, 0..BYTES, false);
    assert_eq!((answers.len(), rig.jobs.len()), (0, 1));
}

/// Reads that waited for their second turn kept what they had: 1,500 of one user's took 3 GB.
#[test]
fn a_read_that_waits_for_turns_keeps_nothing_while_buffers_are_scarce() {
    let mut rig = Rig::new();
    let buffers = Arc::clone(&rig.dispatcher.outside.buffers);
    let answers = rig.read();
    rig.turn(1, 0..200, false);
    rig.moved(Ok(1));
    rig.turn(2, 200..400, false);
    let many: Vec<_> = (0..USED_MAX).map(|_| buffers.take()).collect();
    assert!(buffers.are_scarce());
    rig.moved(Ok(2));
    assert!(!buffers.are_scarce(), "both are given back");
    // One that was begun before the last one, and ends after it.
    rig.turn(3, 400..600, false);
    rig.turn(4, 600..BYTES, false);
    let early = rig.jobs.try_recv().unwrap().flight;
    let last = rig.jobs.try_recv().unwrap();
    assert!(matches!(last.action, Action::Read(BYTES)), "the last one reads all");
    assert_eq!(last.offset, 0);
    let mut buffer = buffers.take();
    buffer.first(BYTES).fill(4);
    rig.dispatcher.moved((last.flight, Ok(Moved::Read(buffer, BYTES))));
    let mut buffer = buffers.take();
    buffer.first(200).fill(3);
    rig.dispatcher.moved((early, Ok(Moved::Read(buffer, 200))));
    rig.over();
    assert_eq!(answers.try_recv().unwrap(), Ok(vec![4; BYTES]));
    assert_eq!(rig.ended(), [1, 2, 4, 3]);
    many.into_iter().for_each(|buffer| buffers.give_back(buffer));
    assert_eq!(buffers.used(), 0);
}

/// A channel that nobody sends to any more was heard from again and again, for as long as a mount was left with files
/// open.
#[test]
fn a_daemon_that_says_nothing_more_is_heard_once() {
    let mut rig = Rig::new();
    let (to, mut news) = unbounded::<News>();
    drop(to);
    let (stop, messages) = unbounded();
    assert!(rig.dispatcher.round((&messages, &mut news)).is_some());
    assert!(lock(&rig.script.0).gone);
    assert_eq!(news.try_recv().err(), Some(TryRecvError::Empty));
    stop.send(Message::Stop).unwrap();
    assert!(rig.dispatcher.round((&messages, &mut news)).is_none());
}

/// Figures of 18,500 streams, asked for without a pause, kept a reservation waiting 160 ms.
#[test]
fn figures_are_answered_again_until_they_are_old() {
    let mut rig = Rig::new();
    let ask = |rig: &mut Rig| {
        let (to, answer) = unbounded();
        rig.dispatcher.handle(Message::Report(to));
        answer.try_recv().unwrap()
    };
    let first = ask(&mut rig);
    let until = |rig: &mut Rig, until| rig.dispatcher.kept.as_mut().unwrap().1 = until;
    until(&mut rig, Instant::from_nanos(u64::MAX));
    assert!(Arc::ptr_eq(&first, &ask(&mut rig)));
    until(&mut rig, Instant::ZERO);
    assert!(!Arc::ptr_eq(&first, &ask(&mut rig)));
}

/// A new file's figures were those of a closed one, for as long as a report was kept.
#[test]
fn a_file_has_no_figures_of_one_that_had_its_stream_before() {
    let mut rig = Rig::new();
    let report = |rig: &mut Rig| {
        let (to, answer) = unbounded();
        rig.dispatcher.handle(Message::Report(to));
        answer.try_recv().unwrap()
    };
    let first = Arc::clone(&rig.file);
    let stream = give(&mut rig, &first);
    assert_eq!(report(&mut rig).of(&first).map(|it| it.stream), Some(stream));
    rig.dispatcher.kept.as_mut().unwrap().1 = Instant::from_nanos(u64::MAX);
    rig.dispatcher.handle(Message::Released(stream));
    let descriptor = tempfile::tempfile().unwrap().into();
    let second = Arc::new(OpenFile::new(descriptor, Arc::clone(&first.node)));
    assert_eq!(give(&mut rig, &second), stream);
    assert!(report(&mut rig).of(&second).is_none());
    rig.dispatcher.kept.as_mut().unwrap().1 = Instant::ZERO;
    assert_eq!(report(&mut rig).of(&second).map(|it| it.stream), Some(stream));
}
