//! A daemon's engine: the mount is a guest of one of its devices.
//!
//! If the daemon ends, the requests that it had begin anew and go straight to the source, as do all that
//! come later, until the mount ends as well: what a program has written is not lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use disktime_core::{
    Contract, DeviceTime, Duration, Instant, Outcome, Request, RequestId, Share, StreamCounters,
    StreamId,
};
use disktime_server::guest_messages::{self, Ask, Call, DeviceFigures, NotGranted, Told};
use disktime_server::guests::GuestLine;

use super::{DeviceParameter, Figures, Over, StreamFigures, Turn, Turns};
use crate::abi::{Reason, Refused};
use crate::scheduler::spawn;

/// How long the daemon may take to answer a question, after which it counts as gone: its own commands wait
/// 5 s for it.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Turns that the mount gives itself have names from here on: the daemon counts its own from 1.
const FREE: u64 = 1 << 63;

/// Something from the daemon.
pub(in crate::scheduler) enum News {
    Told(Told),
    /// It is gone.
    Gone,
}

/// A request that is not over.
struct Asked {
    offset: u64,
    bytes: u64,
}

/// The daemon's engine.
pub(in crate::scheduler) struct Daemon {
    line: Arc<GuestLine>,
    news: Receiver<News>,
    listener: Option<JoinHandle<()>>,
    turns: VecDeque<Turn>,
    over: VecDeque<Over>,
    asked: BTreeMap<u32, Asked>,
    contracts: BTreeMap<StreamId, Contract>,
    last_call: u32,
    gone: Arc<AtomicBool>,
    /// Once it is gone: turns that the mount has given itself, each with its request.
    free: BTreeMap<u64, RequestId>,
}

impl Daemon {
    /// Listens to the daemon from now on. `gone` is set when it has gone.
    pub(in crate::scheduler) fn new(
        line: GuestLine,
        gone: Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let line = Arc::new(line);
        let (to, news) = unbounded();
        let listening = Arc::clone(&line);
        let listener = Some(spawn("daemon", move || listen(&listening, &to))?);
        let (turns, over, asked, contracts, free) = Default::default();
        Ok(Self { line, news, listener, turns, over, asked, contracts, last_call: 0, gone, free })
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn say(&mut self, ask: &Ask) {
        // The thread that listens hears of its end as well.
        if !self.is_gone() && self.line.say(ask).is_err() {
            self.line.end();
        }
    }

    /// Asks, and waits for the answer; none if the daemon has gone.
    fn ask<T>(
        &mut self,
        stream: StreamId,
        ask: impl FnOnce(Call) -> Ask,
        mut answered: impl FnMut(u32, &Told) -> Option<T>,
    ) -> Option<T> {
        if self.is_gone() {
            return None;
        }
        self.last_call = self.last_call.wrapping_add(1);
        let call = self.last_call;
        self.say(&ask(Call { call, stream: stream.0 }));
        loop {
            let Ok(News::Told(told)) = self.news.recv_timeout(TIMEOUT) else {
                self.line.end();
                self.is_left();
                return None;
            };
            if let Some(answer) = answered(call, &told) {
                return Some(answer);
            }
            self.told(&told);
        }
    }

    fn contract(
        &mut self,
        stream: StreamId,
        contract: Contract,
        ask: impl FnOnce(Call) -> Ask,
    ) -> Result<(), Refused> {
        match self.ask(stream, ask, outcome) {
            Some(Ok(())) => {
                self.contracts.insert(stream, contract);
                Ok(())
            }
            Some(Err(why)) => Err(refused(why, &contract)),
            // Nothing can be promised without it.
            None => Err(Refused::because(Reason::Overbooked)),
        }
    }

    fn told(&mut self, told: &Told) {
        match *told {
            Told::Turn(guest_messages::Turn { turn: name, request, offset, bytes, flush }) => {
                let request = RequestId(request);
                self.turns.push_back(Turn { name, request, offset, bytes, flush, anew: false });
            }
            Told::Over { request, taken } => {
                self.asked.remove(&request);
                self.over.push_back(Over { request: RequestId(request), taken });
            }
            // An answer after its time.
            Told::Welcome(_) | Told::Answer(..) | Told::Streams(_) | Told::Report(..) => {}
        }
    }

    /// The daemon is gone: what it had goes on without it.
    fn is_left(&mut self) {
        if self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!(requests = self.asked.len(), "the daemon has ended: files go on without it");
        self.turns.clear();
        for (request, Asked { offset, bytes }) in std::mem::take(&mut self.asked) {
            self.give_turn(RequestId(request), offset, bytes);
        }
    }

    fn give_turn(&mut self, request: RequestId, offset: u64, bytes: u64) {
        let name = FREE | u64::from(request.0);
        let flush = false;
        self.turns.push_back(Turn { name, request, offset, bytes, flush, anew: true });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.line.end();
        if self.listener.take().is_some_and(|it| it.join().is_err()) {
            tracing::error!("the thread that listens to the daemon panicked");
        }
    }
}

fn listen(line: &GuestLine, to: &Sender<News>) {
    loop {
        let news = line.hear().map_or(News::Gone, News::Told);
        let over = matches!(news, News::Gone);
        if to.send(news).is_err() || over {
            return;
        }
    }
}

impl Turns for Daemon {
    fn add(&mut self, stream: StreamId, contract: Contract, name: &str) -> Result<(), Refused> {
        let name = guest_messages::short_name(name);
        self.contract(stream, contract, |call| Ask::Add(call, contract, name))
    }

    fn set(&mut self, stream: StreamId, contract: Contract) -> Result<(), Refused> {
        self.contract(stream, contract, |call| Ask::Set(call, contract))
    }

    fn remove(&mut self, stream: StreamId) {
        self.contracts.remove(&stream);
        if self.ask(stream, Ask::Remove, outcome).is_some_and(|it| it.is_err()) {
            tracing::error!(%stream, "the daemon keeps a stream that has ended");
        }
    }

    fn late(&mut self, stream: StreamId) -> bool {
        self.ask(stream, Ask::Late, outcome).is_some_and(|it| it.is_ok())
    }

    fn set_device(&mut self, parameter: DeviceParameter) -> Result<(), String> {
        let what = match parameter {
            DeviceParameter::Depth(_) => "queue_depth",
            DeviceParameter::Headroom(_) => "headroom",
        };
        Err(format!("{what} is the daemon's: change it in the daemon's configuration"))
    }

    fn arrive(&mut self, request: Request) -> Result<(), String> {
        let Request { id: RequestId(id), stream, kind, offset, bytes, .. } = request;
        if self.is_gone() {
            self.give_turn(request.id, offset, bytes);
            return Ok(());
        }
        self.asked.insert(id, Asked { offset, bytes });
        self.say(&Ask::Request { request: id, stream: stream.0, kind, offset, bytes });
        Ok(())
    }

    fn next(&mut self) -> Option<Turn> {
        // As many as it would have had at the device at most: that many jobs can wait.
        if self.is_gone() && self.free.len() >= self.line.facts().depth_max as usize {
            return None;
        }
        let turn = self.turns.pop_front()?;
        if turn.anew {
            self.free.insert(turn.name, turn.request);
        }
        Some(turn)
    }

    fn ended(&mut self, turn: u64, outcome: Outcome) {
        if self.is_gone() {
            if let Some(request) = self.free.remove(&turn) {
                self.over.push_back(Over { request, taken: true });
            }
            return;
        }
        self.say(&Ask::Ended { turn, done: outcome == Outcome::Done });
    }

    fn over(&mut self) -> Option<Over> {
        self.over.pop_front()
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn timed(&mut self) {}

    fn news(&self) -> Receiver<News> {
        self.news.clone()
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Told(told) if !self.is_gone() => self.told(&told),
            News::Told(_) => {}
            News::Gone => self.is_left(),
        }
    }

    fn figures(&mut self) -> Option<Figures> {
        let mut streams = Vec::new();
        let device = self.ask(StreamId(0), Ask::Report, |call, told| match told {
            Told::Streams(some) => {
                streams.extend_from_slice(some);
                None
            }
            Told::Report(of, device) if *of == call => Some(*device),
            _ => None,
        })?;
        let of_stream = |it: guest_messages::StreamFigures| {
            let stream = StreamId(it.stream);
            let contract = *self.contracts.get(&stream)?;
            let reserve = Share::from_ppm(it.reserve_ppm)?;
            Some(StreamFigures {
                stream,
                contract: Contract { reserve, ..contract },
                counters: counters(&it),
                waiting: it.waiting,
                promise: (it.promise_ns > 0).then(|| Duration::from_nanos(it.promise_ns)),
                broken: it.broken,
            })
        };
        let streams = streams.into_iter().filter_map(of_stream).collect();
        let DeviceFigures { depth, in_flight, headroom_ppm, reserved_ppm, slack_ns, .. } = device;
        Some(Figures {
            streams,
            device: DeviceTime {
                busy: Duration::from_nanos(device.busy_ns),
                spare: Duration::from_nanos(device.spare_ns),
                open: Duration::ZERO,
                held: Duration::from_nanos(device.held_ns),
                charged: Duration::from_nanos(device.charged_ns),
            },
            depth,
            in_flight,
            headroom: Share::from_ppm(headroom_ppm).unwrap_or(Share::ZERO),
            reserved_ppm: reserved_ppm.into(),
            slack: slack_ns,
        })
    }
}

fn counters(it: &guest_messages::StreamFigures) -> StreamCounters {
    StreamCounters {
        completed: it.completed,
        failed: it.failed,
        bytes_read: it.bytes_read,
        bytes_written: it.bytes_written,
        charged: Duration::from_nanos(it.charged_ns),
        held: Duration::from_nanos(it.held_ns),
        cycles: it.cycles,
        cycles_missed: it.cycles_missed,
        ..StreamCounters::default()
    }
}

/// The answer to a question about a stream, if it is one.
fn outcome(call: u32, told: &Told) -> Option<Result<(), NotGranted>> {
    match told {
        Told::Answer(of, outcome) if *of == call => Some(*outcome),
        _ => None,
    }
}

/// The daemon's refusal of a contract, as a program gets it.
fn refused(why: NotGranted, asked: &Contract) -> Refused {
    match why {
        NotGranted::Overbooked(asked_ppm, available) => {
            Refused::overbooked(asked_ppm, available, asked)
        }
        NotGranted::Rate(fits_rate) => Refused { fits_rate, ..Refused::because(Reason::Rate) },
        NotGranted::Latency(fits) => {
            let fits_latency = Duration::from_nanos(fits);
            Refused { fits_latency, ..Refused::because(Reason::Latency) }
        }
        NotGranted::NoProfile => Refused::because(Reason::NoProfile),
        NotGranted::Streams => Refused::because(Reason::Streams),
        NotGranted::Invalid => Refused::because(Reason::Invalid),
    }
}
