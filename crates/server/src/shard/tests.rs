//! A shard worked by hand, its clients on socket pairs, its device behind a gate.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use crossbeam_channel::TryRecvError;
use disktime_core::{Change, Class, Config, Kind, Limits, Share, StreamId, StreamSpec};
use disktime_nbd::reply::ReplyStyle;
use disktime_nbd::{BlockSizes, ExportInfo, Session, TransmissionFlags};

use super::vdisks::VdiskError;
use super::*;
use crate::backend::{Abilities, Job, MemoryBackEnd, Step};
use crate::bitmap::GRANULARITY;
use crate::memory::Budget;
use crate::ring::Payload;
use crate::seats::Seat;
use crate::stats::VdiskStats;
use crate::tls::Channel;

mod carried;
mod guests;
mod holds;
mod replies_in_store;

const MIB: u64 = 1 << 20;
/// Bytes of each read and write.
const BYTES: usize = 512;
/// The protocol's error of a write past the end.
const NO_SPACE: u32 = 28;
/// The protocol's error of work that a removal has refused.
const SHUTDOWN: u32 = 108;

type Outcome = Receiver<Result<(), VdiskError>>;

/// Disks in memory whose jobs end while the gate is open, and fail if the device is broken.
struct Gated {
    inner: MemoryBackEnd,
    shut: Rc<Cell<bool>>,
    broken: Rc<Cell<bool>>,
    /// The device has lost what it held.
    loses: Rc<Cell<bool>>,
    waiting: VecDeque<u32>,
}

impl BackEnd for Gated {
    fn start(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        if self.broken.get() {
            return Step::Done(Err(DeviceError(libc::EIO)));
        }
        if !self.shut.get() {
            return self.inner.start(id, job, io);
        }
        self.waiting.push_back(id);
        Step::Pending
    }

    fn finished(&mut self, _: u32, _: u32, _: &mut Job, _: (Keep, i32), _: &mut Io<'_>) -> Step {
        unreachable!("memory has no operations on the ring")
    }

    fn unblocked(&mut self) -> Option<u32> {
        if self.shut.get() { None } else { self.waiting.pop_front() }
    }

    fn resume(&mut self, id: u32, job: &mut Job, io: &mut Io<'_>) -> Step {
        self.start(id, job, io)
    }

    fn add_disk(&mut self, disk: u32, extent: Range<u64>) -> Result<(), DeviceError> {
        self.inner.add_disk(disk, extent)
    }

    fn grow_disk(&mut self, disk: u32, bytes: u64) -> Result<(), DeviceError> {
        self.inner.grow_disk(disk, bytes)
    }

    fn remove_disk(&mut self, disk: u32) {
        self.inner.remove_disk(disk);
    }

    fn lend(&self, disk: u32, extent: &Range<u64>) -> Option<Payload> {
        self.inner.lend(disk, extent)
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn lost(&mut self) -> Option<u32> {
        self.loses.take().then_some(0)
    }

    fn begins_anew(&self, _: &Job) -> bool {
        !self.waiting.is_empty()
    }
}

struct Rig {
    shard: Shard,
    handle: ShardHandle,
    shut: Rc<Cell<bool>>,
    broken: Rc<Cell<bool>>,
    loses: Rc<Cell<bool>>,
    budget: Arc<Budget>,
    finished: Vec<Finished>,
}

/// A device of depth 1 with these virtual disks, and with the stream of migration after them.
fn rig(ids: &[u64]) -> Rig {
    rig_with(ids, PieceMax::REMOTE)
}

fn rig_with(ids: &[u64], piece_max: PieceMax) -> Rig {
    rig_of(ids, piece_max, 0)
}

/// The same with carriers, which are threads of their own.
fn rig_of(ids: &[u64], piece_max: PieceMax, carriers: u32) -> Rig {
    let (handle, messages, wakeup) = ShardHandle::new().unwrap();
    let limits = Limits { depth: 1, ..Limits::default() };
    let mut engine = Engine::new(&Config { limits, ..Config::default() }).unwrap();
    for stream in (0..).map(StreamId).take(ids.len() + 1) {
        engine.handle_change(clock::now(), Change::AddStream(stream, spec())).unwrap();
    }
    let inner = MemoryBackEnd::new(&vec![MIB; ids.len()]);
    let shut = Rc::new(Cell::new(false));
    let broken = Rc::new(Cell::new(false));
    let loses = Rc::new(Cell::new(false));
    let [shut_too, broken_too, loses_too] = [&shut, &broken, &loses].map(Rc::clone);
    let waiting = VecDeque::new();
    let back_end = Gated { inner, shut: shut_too, broken: broken_too, loses: loses_too, waiting };
    let parts = Parts {
        engine,
        back_end: Box::new(back_end),
        emulator: None,
        vdisks: ids.iter().map(|id| (VdiskId(*id), vdisk(*id))).collect(),
        migration: Some(Vdisk::migration()),
        depths: None,
        piece_max,
        idle_timeout: None,
        flushes_at_end: false,
        carriers,
        stats: Arc::default(),
        messages,
        wakeup,
    };
    let shard = Shard::new(parts).unwrap();
    Rig { shard, handle, shut, broken, loses, budget: Budget::new(1 << 30), finished: Vec::new() }
}

fn spec() -> StreamSpec {
    StreamSpec::default()
}

fn vdisk(id: u64) -> Vdisk {
    Vdisk::new(format!("v{id}"), id * MIB, Arc::new(VdiskStats::of(MIB)), None)
}

impl Rig {
    /// Has the shard work until that is so.
    fn until(&mut self, so: impl Fn(&Shard) -> bool) {
        for _ in 0..10_000 {
            if so(&self.shard) {
                return;
            }
            self.go_round();
        }
        panic!("it never comes to be so");
    }

    fn go_round(&mut self) {
        self.handle.wake();
        self.shard.go_round(&mut self.finished).unwrap();
    }

    /// Sends a message and has the shard take it.
    fn tell(&mut self, message: Message) {
        self.handle.tell(message);
        self.until(|shard| shard.inbox.messages.is_empty());
    }

    fn add(&mut self, id: u64, spec: StreamSpec) -> Outcome {
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let (vdisk, id) = (vdisk(id), VdiskId(id));
        self.tell(Message::AddVdisk(Box::new(NewVdisk {
            id,
            vdisk,
            bytes: MIB,
            file: None,
            parent: None,
            spec,
            answer,
        })));
        outcome
    }

    fn remove(&mut self, id: u64) -> Outcome {
        let (answer, outcome) = crossbeam_channel::bounded(1);
        self.tell(Message::RemoveVdisk(VdiskId(id), answer));
        outcome
    }

    fn change(&mut self, contracts: &[(u64, Contract)]) -> Result<(), VdiskError> {
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let contracts = contracts.iter().map(|(id, contract)| (VdiskId(*id), *contract)).collect();
        self.tell(Message::Change(contracts, answer));
        outcome.try_recv().unwrap()
    }

    /// A step of the bitmap `daily`, or none; answers how many bytes are dirty.
    fn bitmap(&mut self, id: u64, step: Option<BitmapStep>) -> u64 {
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let step = step.map(|step| ("daily".to_owned(), step));
        self.tell(Message::Bitmap { vdisk: VdiskId(id), step, answer });
        outcome.try_recv().unwrap().unwrap()[0].dirty
    }

    /// Gives a virtual disk the bitmap `daily`, with nothing dirty.
    fn clean_bitmap(&mut self, id: u64) {
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let spec = BitmapSpec { id: 1, name: "daily".to_owned(), granularity: GRANULARITY };
        self.tell(Message::Bitmaps(VdiskId(id), vec![spec], answer));
        assert_eq!(outcome.try_recv(), Ok(Ok(())));
        assert_eq!(self.bitmap(id, None), MIB, "of a new one all is dirty");
        assert_eq!(self.bitmap(id, Some(BitmapStep::Clear)), 0);
    }

    fn stream(&self, id: u64) -> Option<StreamId> {
        self.shard.vdisks.find(VdiskId(id)).ok()
    }

    /// A client of a virtual disk that has sent so much with its handshake's end.
    fn client(&mut self, id: u64, unread: &[Vec<u8>]) -> UnixStream {
        self.client_under(id, unread, None)
    }

    fn client_under(
        &mut self,
        id: u64,
        unread: &[Vec<u8>],
        tls: Option<Box<Channel>>,
    ) -> UnixStream {
        let (near, client) = self.accepted(unread, tls);
        self.tell(Message::Client { client, vdisk: VdiskId(id) });
        near
    }

    /// A client whose handshake is over, and of which the shard has not heard.
    fn accepted(&self, unread: &[Vec<u8>], tls: Option<Box<Channel>>) -> (UnixStream, Accepted) {
        let (near, far) = UnixStream::pair().unwrap();
        let stats: Arc<VdiskStats> = Arc::default();
        let export = ExportInfo {
            name: String::new(),
            description: String::new(),
            size_bytes: MIB,
            flags: TransmissionFlags::FLUSH.with(TransmissionFlags::TRIM),
            block_sizes: BlockSizes::new(1, 4096, 32 << 20).unwrap(),
        };
        let session = Session { export, style: ReplyStyle::Simple, contexts: Vec::new() };
        let seat = Seat::take(&stats, &self.budget).unwrap();
        near.set_nonblocking(true).unwrap();
        let unread = unread.concat();
        (near, Accepted { socket: far.into(), session, seat, unread, skip: 0, tls })
    }

    /// The device goes on.
    fn open(&mut self) {
        self.shut.set(false);
        self.shard.go_on();
    }
}

fn request(command: u16, cookie: u64, offset: u64) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    let length = if command > 1 { 0 } else { u32::try_from(BYTES).unwrap() };
    bytes.extend(length.to_be_bytes());
    bytes
}

fn trim(cookie: u64, length: u32) -> Vec<u8> {
    let mut bytes = request(4, cookie, 0);
    bytes.truncate(24);
    bytes.extend(length.to_be_bytes());
    bytes
}

fn read(cookie: u64) -> Vec<u8> {
    request(0, cookie, 0)
}

fn flush(cookie: u64) -> Vec<u8> {
    request(3, cookie, 0)
}

fn write(cookie: u64, byte: u8) -> Vec<u8> {
    [request(1, cookie, 0), vec![byte; BYTES]].concat()
}

/// The cookies and errors of all replies that came to requests without data; whether the connection
/// has ended.
fn replies(rig: &mut Rig, client: &mut UnixStream) -> (Vec<(u64, u32)>, bool) {
    // Replies that gathered in a turn are sent with the next.
    for _ in 0..10 {
        rig.go_round();
    }
    let mut bytes = Vec::new();
    let ended = client.read_to_end(&mut bytes).is_ok();
    let reply = |reply: &[u8]| {
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        (u64::from_be_bytes(reply[8..].try_into().unwrap()), error)
    };
    (bytes.chunks(16).map(reply).collect(), ended)
}

/// The data of a read's reply.
fn data(rig: &mut Rig, client: &mut UnixStream) -> [u8; BYTES] {
    for _ in 0..10 {
        rig.go_round();
    }
    let mut reply = [0; 16 + BYTES];
    client.read_exact(&mut reply).unwrap();
    reply[16..].try_into().unwrap()
}

/// A virtual disk was its place in the device's list: one that came later could not be named, and
/// answers by place counted the stream of migration among virtual disks.
#[test]
fn a_virtual_disk_that_is_added_is_served_under_its_identity() {
    let mut rig = rig(&[7]);
    let added = rig.add(3, spec());
    assert_eq!(added.try_recv(), Ok(Ok(())));
    assert_eq!((rig.stream(7), rig.stream(3)), (Some(StreamId(0)), Some(StreamId(2))));
    assert_eq!(rig.add(3, spec()).try_recv(), Ok(Err(VdiskError::InUse(VdiskId(3)))));

    let mut old = rig.client(7, &[write(1, 0x77)]);
    let mut new = rig.client(3, &[write(2, 0x33), flush(4)]);
    rig.until(|shard| shard.vdisks[2].stats.requests() == 2);
    assert_eq!(replies(&mut rig, &mut old), (vec![(1, 0)], false));
    assert_eq!(replies(&mut rig, &mut new), (vec![(2, 0), (4, 0)], false));
    new.write_all(&read(5)).unwrap();
    rig.until(|shard| shard.vdisks[2].stats.requests() == 3);
    assert_eq!(data(&mut rig, &mut new), [0x33; BYTES], "its own bytes, not the other one's");

    let (answer, estimates) = crossbeam_channel::bounded(1);
    rig.tell(Message::Estimates(answer));
    assert_eq!(estimates.try_recv().unwrap().len(), 2, "an answer for each virtual disk");

    // An impossible contract is refused, and leaves nothing behind.
    let contract = Contract { limit: Share::ZERO, ..Contract::default() };
    let refused = rig.add(4, StreamSpec { contract, ..spec() }).try_recv().unwrap();
    assert!(matches!(refused, Err(VdiskError::Refused(_))), "{refused:?}");
    assert_eq!(rig.add(4, spec()).try_recv(), Ok(Ok(())));
    rig.tell(Message::Drain);
    assert_eq!(rig.add(5, spec()).try_recv(), Ok(Err(VdiskError::Ends)));
}

/// A stream that is given away while a piece of its last holder is at the device would have the next
/// virtual disk pay for that piece, and answer to clients that are not its own.
#[test]
fn a_removal_refuses_what_is_queued_and_waits_for_the_device() {
    let mut rig = rig(&[7, 8]);
    rig.shut.set(true);
    let mut client = rig.client(7, &[flush(1), flush(2), flush(3)]);
    // Half of a write: its data will never come.
    let mut writer = rig.client(7, &[write(9, 1)[..100].to_vec()]);
    let mut neighbour = rig.client(8, &[flush(4)]);
    rig.until(|shard| shard.device.flights.len() == 1 && shard.operations.len() == 6);

    let removed = rig.remove(7);
    rig.until(|shard| shard.operations.len() == 3);
    assert_eq!(replies(&mut rig, &mut client), (vec![(2, SHUTDOWN), (3, SHUTDOWN)], false));
    rig.until(|shard| shard.clients.len() == 2);
    assert_eq!(replies(&mut rig, &mut writer), (vec![(9, SHUTDOWN)], true));

    // While a piece of it is at the device its stream and its identity stay taken.
    assert_eq!(removed.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(rig.remove(7).try_recv(), Ok(Err(VdiskError::Unknown(VdiskId(7)))));
    assert_eq!(rig.add(7, spec()).try_recv(), Ok(Err(VdiskError::InUse(VdiskId(7)))));
    assert_eq!(rig.add(9, spec()).try_recv(), Ok(Ok(())));
    assert_eq!(rig.stream(9), Some(StreamId(3)));
    let mut late = rig.client(7, &[flush(5)]);
    assert_eq!(replies(&mut rig, &mut late), (vec![], true));

    rig.open();
    rig.until(|shard| shard.clients.len() == 1);
    assert_eq!(replies(&mut rig, &mut client), (vec![(1, 0)], true), "the device had begun it");
    assert_eq!(removed.try_recv(), Ok(Ok(())));
    rig.until(|shard| shard.vdisks[1].stats.requests() == 1);
    assert_eq!(replies(&mut rig, &mut neighbour), (vec![(4, 0)], false));
    rig.shard.engine.assert_conserved();

    // A client that has asked for nothing is let go at once, but not before its socket is closed.
    let mut idle = rig.client(9, &[]);
    rig.until(|shard| shard.clients.len() == 2);
    let removed = rig.remove(9);
    assert_eq!(replies(&mut rig, &mut idle), (vec![], true));
    assert_eq!(removed.try_recv(), Ok(Ok(())));

    // The stream now belongs to the next virtual disk, which has nothing of the old one.
    assert_eq!(rig.add(10, spec()).try_recv(), Ok(Ok(())));
    let stream = rig.stream(10).unwrap();
    assert!([0, 3].contains(&stream.0), "{stream:?} was given back");
    assert_eq!(rig.shard.engine.stream(stream).unwrap().counters().arrived, 0);
}

/// A client that reads no reply, or a device that does not answer, would keep a removal's clients
/// connected for ever.
#[test]
fn a_removal_waits_for_no_client_for_long() {
    let mut rig = rig(&[7]);
    rig.shut.set(true);
    let mut client = rig.client(7, &[flush(1)]);
    rig.until(|shard| shard.device.flights.len() == 1);
    let removed = rig.remove(7);
    let (until, stream) = rig.shard.vdisks.removing[0];
    assert!(until > clock::now() && stream == StreamId(0));
    rig.shard.vdisks.removing[0].0 = Instant::ZERO;
    rig.until(|shard| shard.vdisks.removing.is_empty());
    assert_eq!(replies(&mut rig, &mut client), (vec![], true));
    assert_eq!(removed.try_recv(), Err(TryRecvError::Empty), "the device has it yet");
    rig.open();
    rig.until(|shard| shard.clients.is_empty());
    assert_eq!(removed.try_recv(), Ok(Ok(())));
}

/// Tables by stream remember: losses that nobody was told of would fail the first flush of the next
/// virtual disk, and its first reads would show the last one's data.
#[test]
fn a_virtual_disk_inherits_nothing_with_its_stream() {
    let mut rig = rig(&[7]);
    let writer = rig.client(7, &[write(1, 1)]);
    rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
    let job = Job::new(0, Kind::Flush, 0, 0);
    rig.shard.device.flushes.fail(&job, DeviceError(libc::EIO));
    drop(writer);
    rig.until(|shard| shard.clients.is_empty());
    assert_eq!(rig.remove(7).try_recv(), Ok(Ok(())));
    assert_eq!(rig.add(8, spec()).try_recv(), Ok(Ok(())));
    assert_eq!(rig.stream(8), Some(StreamId(0)));
    let mut client = rig.client(8, &[flush(2)]);
    rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
    assert_eq!(replies(&mut rig, &mut client), (vec![(2, 0)], false));
    let mut reader = rig.client(8, &[read(3)]);
    rig.until(|shard| shard.vdisks[0].stats.requests() == 2);
    assert_eq!(data(&mut rig, &mut reader), [0; BYTES]);
}

/// Contracts came for all virtual disks of a device or for none: a change of one alone took the
/// others for unbounded, and their requests were cut into parts of 1 MiB beside a latency bound.
#[test]
fn a_change_concerns_the_virtual_disks_that_it_names() {
    let mut rig = rig(&[7, 8]);
    let [usual, bounded] = [false, true].map(|bounded| PieceMax::REMOTE.beside(bounded));
    let tight =
        Contract { latency: Some(disktime_core::Duration::from_millis(50)), ..Contract::default() };
    assert_eq!(rig.shard.part_max(), usual);
    assert_eq!(rig.change(&[(7, tight)]), Ok(()));
    assert_eq!(rig.shard.part_max(), bounded);
    let heavy = Contract { weight: 200, ..Contract::default() };
    assert_eq!(rig.change(&[(8, heavy)]), Ok(()));
    assert_eq!(rig.shard.part_max(), bounded);
    assert_eq!(rig.shard.engine.stream(StreamId(1)).unwrap().contract().weight, 200);
    let unknown = rig.change(&[(8, tight), (9, tight)]);
    assert_eq!(unknown, Err(VdiskError::Unknown(VdiskId(9))));
    assert_eq!(rig.shard.engine.stream(StreamId(1)).unwrap().contract(), heavy);
    let rated = Contract { class: Class::GuaranteedRate, ..Contract::default() };
    assert!(matches!(rig.change(&[(7, rated)]), Err(VdiskError::Refused(_))));
    assert_eq!(rig.shard.part_max(), bounded, "what is refused changes nothing");
    assert_eq!(rig.remove(7).try_recv(), Ok(Ok(())));
    assert_eq!(rig.shard.part_max(), usual);
    assert_eq!(rig.add(9, StreamSpec { contract: tight, ..spec() }).try_recv(), Ok(Ok(())));
    assert_eq!(rig.shard.part_max(), bounded);
}

/// A virtual disk that was added while its device served had pieces of the device's longest part: of
/// 1 MiB also on a device whose work the shard does itself. No test noticed.
#[test]
fn an_added_virtual_disk_has_pieces_as_long_as_its_device_allows() {
    let mut rig = rig_with(&[7], PieceMax::ON_THE_SHARD);
    let allowed = u64::from(PieceMax::ON_THE_SHARD.beside(false));
    assert_eq!(rig.add(8, spec()).try_recv(), Ok(Ok(())));
    rig.shut.set(true);
    let _client = rig.client(8, &[trim(1, 1 << 20)]);
    rig.until(|shard| !shard.device.flights.is_empty());
    let pieces: Vec<_> = rig.shard.device.flights.iter().map(|(_, it)| it.job.bytes).collect();
    assert_eq!(pieces, [allowed]);
}

/// Nothing noticed when a client was copied for whose virtual disk had nothing left in the turn, nor
/// when such a client was forgotten.
#[test]
fn a_client_of_a_virtual_disk_that_has_copied_enough_waits_for_the_next_turn() {
    let mut rig = rig(&[7]);
    rig.shut.set(true);
    let mut client = rig.client(7, &[flush(1)]);
    rig.until(|shard| !shard.device.flights.is_empty());
    rig.open();
    rig.shard.pump(Instant::MAX, Instant::MAX);
    *rig.shard.copies.left(0) = 0;
    rig.shard.serve(0);
    assert!(rig.shard.copies.waits());
    rig.shard.ring.submit().unwrap();
    let nothing = client.read(&mut [0; 16]).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(replies(&mut rig, &mut client).0, [(1, 0)]);
}

/// Requests that are refused or ask for nothing were taken until 512 replies had gathered, and were charged
/// to nobody: fifteen clients that sent them left another one a fifth of what it had.
#[test]
fn requests_that_need_no_device_count_in_a_visit_and_are_charged() {
    for it in [request(99, 1, 0), trim(1, 0)] {
        let mut rig = rig(&[7]);
        let (mut near, client) = rig.accepted(&vec![it; 80], None);
        rig.shard.welcome(client, VdiskId(7));
        rig.shard.copies.begin_turn();
        for visit in 1..=3 {
            rig.shard.serve(0);
            rig.shard.ring.submit().unwrap();
            let came = near.read(&mut [0; 2048]).unwrap();
            assert_eq!(came / 16, if visit < 3 { 32 } else { 16 });
        }
        let moved = rig.shard.turns.own_time.moved_here()[0].1;
        assert!(moved >= 80 * (8 << 10), "{moved} bytes");
        assert!(replies(&mut rig, &mut near).0.is_empty());
        rig.shard.engine.assert_conserved();
    }
}

/// A visit ended before the data of a refused write that lay in the input were skipped. More was received
/// behind them, and the device's thread panicked.
#[test]
fn the_data_of_the_last_write_of_a_visit_are_skipped_if_it_is_refused() {
    let refused = [request(1, 2, MIB), vec![9; BYTES]].concat();
    let first = vec![request(99, 1, 0); 31];
    let mut rig = rig(&[7]);
    let mut client = rig.client(7, &[first, vec![refused, flush(3)]].concat());
    assert_eq!(replies(&mut rig, &mut client).0[31..], [(2, NO_SPACE), (3, 0)]);
}

/// The rest of the data was not received: the daemon waited for it for as long as a drain may take.
#[test]
fn a_write_that_was_begun_is_finished_by_a_drain() {
    let mut rig = rig(&[7]);
    let (begun, rest) = (write(1, 1)[..100].to_vec(), write(1, 1)[100..].to_vec());
    let mut client = rig.client(7, &[begun]);
    rig.until(|shard| shard.operations.len() == 2);
    rig.tell(Message::Drain);
    client.write_all(&rest).unwrap();
    assert_eq!(replies(&mut rig, &mut client), (vec![(1, 0)], true));
    assert!(rig.shard.drained());
}

/// A turn went on for as long as the engine had something to dispatch: a flood of flushes on a device
/// in memory kept the shard from hearing anybody else for milliseconds.
#[test]
fn a_turn_ends_at_its_time_whatever_is_left() {
    let mut rig = rig(&[7]);
    rig.shut.set(true);
    let _client = rig.client(7, &[flush(1), flush(2), flush(3)]);
    rig.until(|shard| !shard.device.flights.is_empty());
    rig.open();
    assert!(!rig.shard.pump(Instant::ZERO, Instant::ZERO), "there is something left");
    assert_eq!(rig.shard.device.flights.len() + rig.shard.device.landed.len(), 0);
    assert!(rig.shard.pump(Instant::MAX, Instant::MAX), "all is done");
}

/// A turn gave the device's work all of its time while a client waited for the thread: one with four requests
/// at once had .4 beside a flood of trims of what it had beside an ordinary neighbour.
#[test]
fn a_turn_is_short_while_a_client_waits() {
    let mut rig = rig(&[7]);
    rig.shut.set(true);
    let mut client = rig.client(7, &[flush(1), flush(2), flush(3)]);
    rig.until(|shard| !shard.device.flights.is_empty());
    rig.open();
    assert!(!rig.shard.pump(Instant::ZERO, Instant::MAX), "it has replies to send");
    while rig.shard.touched.pop().is_some() {}
    rig.shard.clients[0].touched = false;
    rig.shard.ring.submit().unwrap();
    client.write_all(&flush(4)).unwrap();
    assert!(!rig.shard.pump(Instant::ZERO, Instant::MAX), "it has sent something");
}

/// A block that was marked when its write went to the device was forgotten by a backup that began, read
/// the old bytes and was done while the write was under way.
#[test]
fn a_write_that_a_backup_overtakes_stays_dirty() {
    let mut rig = rig(&[7]);
    rig.clean_bitmap(7);
    rig.shut.set(true);
    let mut client = rig.client(7, &[write(1, 0x77)]);
    rig.until(|shard| shard.device.flights.len() == 1);
    rig.bitmap(7, Some(BitmapStep::Begin));
    rig.open();
    rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
    assert_eq!(replies(&mut rig, &mut client), (vec![(1, 0)], false));
    assert_eq!(rig.bitmap(7, Some(BitmapStep::Done)), GRANULARITY);
}

/// A flush that failed took written blocks back to what they were, after a backup had read them.
#[test]
fn a_loss_makes_everything_dirty() {
    let mut rig = rig(&[7, 8]);
    rig.clean_bitmap(7);
    let mut client = rig.client(7, &[write(1, 0x77)]);
    rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
    assert_eq!(replies(&mut rig, &mut client), (vec![(1, 0)], false));
    rig.bitmap(7, Some(BitmapStep::Begin));
    assert_eq!(rig.bitmap(7, Some(BitmapStep::Done)), 0);
    rig.shard.tell_loss(0, &"it is gone");
    assert_eq!(rig.bitmap(7, None), MIB);
}

/// Nobody knows how much of it reached the device.
#[test]
fn a_write_that_fails_makes_its_blocks_dirty() {
    let mut rig = rig(&[7]);
    rig.clean_bitmap(7);
    rig.broken.set(true);
    let mut client = rig.client(7, &[write(1, 0x77)]);
    let told = (0..100).map(|_| replies(&mut rig, &mut client).0).find(|it| !it.is_empty());
    assert_eq!(told, Some(vec![(1, 5)]));
    assert_eq!(rig.bitmap(7, None), GRANULARITY);
}

/// A bitmap that is kept over a restart says that what it calls clean is on the device.
#[test]
fn bitmaps_of_data_that_may_be_lost_are_not_left() {
    let left = |broken: bool, loses: bool, drain_until: Instant| {
        let mut rig = rig(&[7]);
        rig.clean_bitmap(7);
        rig.broken.set(broken);
        rig.loses.set(loses);
        rig.shard.turns.drain_until = Some(drain_until);
        rig.shard.leave_bitmaps(&mut rig.finished).len()
    };
    let soon = || clock::now() + DRAIN;
    assert_eq!(left(false, false, soon()), 1);
    assert_eq!(left(true, false, soon()), 0, "the last flush has failed");
    assert_eq!(left(false, true, soon()), 0, "it flushed what a server that was restarted has");
    assert_eq!(left(false, false, Instant::MAX), 0, "the drain was given up");
}

/// Another server was restarted. A write that was asked for again failed the next flush, as if a part of it
/// could be lost.
#[test]
fn a_write_that_begins_anew_after_a_loss_has_lost_nothing() {
    let mut rig = rig(&[7]);
    rig.shut.set(true);
    let mut client = rig.client(7, &[write(1, 0x77)]);
    rig.loses.set(true);
    rig.shard.flushes_lost();
    rig.open();
    rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
    client.write_all(&flush(2)).unwrap();
    rig.until(|shard| shard.vdisks[0].stats.requests() == 2);
    assert_eq!(replies(&mut rig, &mut client), (vec![(1, 0), (2, 0)], false));
}

/// A client that went on at a successor would never have heard of a loss that this daemon knows of.
#[test]
fn a_client_that_was_not_told_of_a_loss_is_hung_up_on_at_a_hand_over() {
    let mut rig = rig(&[7]);
    let mut told = rig.client(7, &[write(1, 0x77)]);
    let mut other = rig.client(7, &[write(2, 0x78)]);
    rig.until(|shard| shard.vdisks[0].stats.requests() == 2);
    rig.shard.tell_loss(0, &"it is gone");
    told.write_all(&flush(3)).unwrap();
    rig.until(|shard| shard.vdisks[0].stats.requests() == 3);
    assert_eq!(replies(&mut rig, &mut told), (vec![(1, 0), (3, 5)], false));
    let (to, left) = crossbeam_channel::unbounded();
    rig.tell(Message::HandOver(to));
    let (_, other_ended) = replies(&mut rig, &mut other);
    let left: Vec<_> = left.try_iter().collect();
    assert!(other_ended && matches!(left[..], [Leaving::Client(_)]));
    assert_eq!(replies(&mut rig, &mut told), (Vec::new(), false), "its socket is handed over");
}

/// The things that shards leave to a successor: each client by the name of its virtual disk, and each loss.
fn left_behind(left: &Receiver<Leaving>) -> [Vec<String>; 2] {
    let (mut clients, mut lost) = (Vec::new(), Vec::new());
    for leaving in left.try_iter() {
        match leaving {
            Leaving::Client(client) => clients.push(client.session.export.name),
            Leaving::Lost(vdisk) => lost.push(vdisk),
        }
    }
    [clients, lost]
}

/// A client with acknowledged writes left at once. A neighbour's flush then failed and took these writes with
/// it: the client went on at the successor, and its next flush succeeded.
#[test]
fn a_loss_during_a_hand_over_is_told_of_clients_that_have_left() {
    let mut rig = rig(&[7, 8]);
    let _idle = rig.client(7, &[write(1, 0x77)]);
    rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
    rig.shut.set(true);
    let _flushes = rig.client(8, &[flush(2)]);
    rig.until(|shard| shard.device.flights.len() == 1);
    let (to, left) = crossbeam_channel::unbounded();
    rig.tell(Message::HandOver(to));
    rig.until(|shard| shard.clients.len() == 1);
    rig.broken.set(true);
    rig.open();
    rig.until(|shard| shard.clients.is_empty());
    let [clients, lost] = left_behind(&left);
    assert_eq!((clients.len(), lost), (2, vec!["v7".to_owned()]));
}

/// A part of a write may be lost by a failure beside it. Its client left before it flushed.
#[test]
fn a_write_that_straddles_a_loss_is_told_of_at_a_hand_over() {
    let mut rig = rig(&[7]);
    rig.shut.set(true);
    let _writes = rig.client(7, &[write(1, 0x77)]);
    rig.until(|shard| shard.device.flights.len() == 1);
    let (to, left) = crossbeam_channel::unbounded();
    rig.tell(Message::HandOver(to));
    rig.shard.tell_loss(0, &"it is gone");
    rig.open();
    rig.until(|shard| shard.clients.is_empty());
    let [clients, lost] = left_behind(&left);
    assert_eq!((clients.len(), lost), (1, vec!["v7".to_owned()]));
}

/// A request hung at another server for longer than a drain lasts: nothing was flushed, and a client that had left
/// went on at the successor.
#[test]
fn a_drain_that_is_given_up_before_its_last_flush_is_told_at_a_hand_over() {
    for (flushes_at_end, told) in [(true, 2), (false, 0)] {
        let mut rig = rig(&[7, 8]);
        rig.shard.turns.flushes_at_end = flushes_at_end;
        let _idle = rig.client(7, &[write(1, 0x77)]);
        rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
        rig.shut.set(true);
        let _hangs = rig.client(8, &[read(2)]);
        rig.until(|shard| shard.device.flights.len() == 1);
        let (to, left) = crossbeam_channel::unbounded();
        rig.tell(Message::HandOver(to));
        rig.until(|shard| shard.clients.len() == 1);
        rig.shard.turns.drain_until = Some(Instant::ZERO);
        rig.go_round();
        assert!(rig.shard.drained());
        assert!(rig.shard.leave_bitmaps(&mut rig.finished).is_empty());
        let [clients, lost] = left_behind(&left);
        assert_eq!((clients.len(), lost.len()), (1, told));
    }
}

/// A client kept the name that it had chosen: after a rename the successor gave it the new virtual disk of that
/// name.
#[test]
fn a_client_leaves_under_the_present_name_of_its_virtual_disk() {
    let mut rig = rig(&[7]);
    let _client = rig.client(7, &[]);
    rig.tell(Message::Rename(VdiskId(7), "new".to_owned()));
    let (to, left) = crossbeam_channel::unbounded();
    rig.tell(Message::HandOver(to));
    rig.until(|shard| shard.clients.is_empty());
    assert_eq!(left_behind(&left)[0], ["new"]);
}

/// The last flush is made when the clients have gone already.
#[test]
fn a_last_flush_that_fails_is_told_at_a_hand_over() {
    let lost = |broken: bool| {
        let mut rig = rig(&[7]);
        rig.clean_bitmap(7);
        rig.broken.set(broken);
        let (to, left) = crossbeam_channel::unbounded();
        rig.tell(Message::HandOver(to));
        rig.shard.leave_bitmaps(&mut rig.finished);
        left.try_iter().count()
    };
    assert_eq!((lost(true), lost(false)), (1, 0));
}

/// Linux tells a failed write-back once. A client of a neighbour on the medium went on at the successor, where
/// its flush succeeded over lost data.
#[test]
fn a_last_flush_that_fails_concerns_all_of_its_medium() {
    let mut rig = rig(&[7, 8]);
    rig.clean_bitmap(7);
    let _idle = rig.client(8, &[write(1, 0x77)]);
    rig.until(|shard| shard.vdisks[1].stats.requests() == 1);
    let (to, left) = crossbeam_channel::unbounded();
    rig.tell(Message::HandOver(to));
    rig.until(|shard| shard.clients.is_empty());
    rig.broken.set(true);
    rig.shard.leave_bitmaps(&mut rig.finished);
    assert!(left_behind(&left)[1].contains(&"v8".to_owned()));
}

/// A client that said by the end of its socket that it asks for nothing more got no replies to what it had asked.
#[test]
fn a_client_that_only_sends_no_more_gets_its_replies() {
    let mut rig = rig(&[7]);
    rig.shut.set(true);
    let mut half = rig.client(7, &[flush(1), write(2, 0x77), flush(3)]);
    let whole = rig.client(7, &[flush(4), flush(5)]);
    // One more is migration's own.
    rig.until(|shard| shard.operations.len() == 6);
    half.shutdown(Shutdown::Write).unwrap();
    // One that is gone as a whole has no use for replies: what the device has not begun is dropped.
    drop(whole);
    rig.until(|shard| shard.operations.len() < 6);
    assert_eq!(replies(&mut rig, &mut half), (Vec::new(), false));
    assert_eq!(rig.shard.operations.len(), 4);
    rig.open();
    let (mut came, ended) = replies(&mut rig, &mut half);
    came.sort_unstable();
    assert_eq!((came, ended), (vec![(1, 0), (2, 0), (3, 0)], true));
    rig.until(|shard| shard.clients.is_empty());
    assert_eq!((rig.shard.vdisks[0].clients, rig.budget.used()), (0, 0));
    rig.shard.engine.assert_conserved();
}

/// A write of which the data never come is no reason to wait.
#[test]
fn a_client_that_ends_within_a_write_is_let_go() {
    let mut rig = rig(&[7]);
    let mut client = rig.client(7, &[write(1, 0x77)[..100].to_vec()]);
    rig.until(|shard| shard.operations.len() == 2);
    client.shutdown(Shutdown::Write).unwrap();
    rig.until(|shard| shard.clients.is_empty());
    assert_eq!(replies(&mut rig, &mut client), (Vec::new(), true));
    assert_eq!(rig.budget.used(), 0);
}
