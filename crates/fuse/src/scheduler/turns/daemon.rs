//! A daemon's engine: the mount is a guest of one of its devices.
//!
//! If the connection ends and a daemon is there, which may be one that has taken over, the mount becomes
//! its guest: streams come with the contracts that they had, and requests that were not over begin anew.
//! If no daemon is there, requests begin anew and go straight to the source, as do all that come later,
//! until the mount ends as well: what a program has written is not lost.

mod listener;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use disktime_core::{
    Contract, DeviceTime, Duration, Instant, Outcome, Request, RequestId, Share, StreamCounters,
    StreamId,
};
use disktime_server::guest_messages::{self, Ask, Call, DeviceFigures, NotGranted, Told};
use disktime_server::guests::GuestLine;

use super::{DeviceParameter, Figures, Over, StreamFigures, Turn, Turns};
use crate::abi::{Reason, Refused};
use listener::Listener;
pub(in crate::scheduler) use listener::News;

/// How long the daemon may take to answer a question, after which it counts as gone: its own commands wait
/// 5 s for it.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// A request that is not over.
struct Asked {
    request: Request,
    /// Its next turn is the first one of a new beginning.
    anew: bool,
}

/// The giver of a turn.
enum Giver {
    /// The daemon, under this name.
    Daemon(u64),
    /// A daemon that is gone, or a connection to it.
    Former,
    /// The mount itself: the request is over with it.
    Own(RequestId),
}

/// The daemon's engine.
pub(in crate::scheduler) struct Daemon {
    line: Arc<GuestLine>,
    listener: Listener,
    /// The connection has ended, and another one is looked for.
    is_away: bool,
    /// Turns that may begin.
    turns: VecDeque<(Turn, Giver)>,
    /// Turns that have begun.
    begun: BTreeMap<u64, Giver>,
    /// The name of the last one that has begun.
    last_turn: u64,
    over: VecDeque<Over>,
    asked: BTreeMap<u32, Asked>,
    /// Requests of them that wait until the daemon takes more.
    untold: VecDeque<u32>,
    /// How many the daemon has.
    told: u32,
    /// The streams' contracts and names.
    streams: BTreeMap<StreamId, (Contract, String)>,
    lost: VecDeque<(StreamId, Refused)>,
    last_call: u32,
    gone: Arc<AtomicBool>,
}

/// Why there is no answer.
enum NoAnswer {
    /// The connection has ended, and this is the next one.
    Back(Arc<GuestLine>),
    /// No daemon is there.
    Gone,
}

impl Daemon {
    /// Listens to the daemon from now on. `gone` is set when it has gone.
    pub(in crate::scheduler) fn new(
        line: GuestLine,
        gone: Arc<AtomicBool>,
    ) -> std::io::Result<Self> {
        let line = Arc::new(line);
        let listener = Listener::start(Arc::clone(&line))?;
        let (turns, begun, over, asked, untold, streams, lost) = Default::default();
        Ok(Self {
            line,
            listener,
            is_away: false,
            turns,
            begun,
            last_turn: 0,
            over,
            asked,
            untold,
            told: 0,
            streams,
            lost,
            last_call: 0,
            gone,
        })
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

    /// Asks, and waits for the answer; none if the daemon has gone. A question to a daemon that is taken over
    /// meanwhile is put to its successor.
    fn ask<T>(
        &mut self,
        stream: StreamId,
        ask: impl Fn(Call) -> Ask,
        mut answered: impl FnMut(u32, &Told) -> Option<T>,
    ) -> Option<T> {
        while !self.is_gone() {
            match self.ask_once(stream, &ask, &mut answered) {
                Ok(answer) => return Some(answer),
                Err(NoAnswer::Back(line)) => self.is_back(line),
                Err(NoAnswer::Gone) => self.is_left(),
            }
        }
        None
    }

    fn ask_once<T>(
        &mut self,
        stream: StreamId,
        ask: impl Fn(Call) -> Ask,
        mut answered: impl FnMut(u32, &Told) -> Option<T>,
    ) -> Result<T, NoAnswer> {
        self.last_call = self.last_call.wrapping_add(1);
        let call = self.last_call;
        self.say(&ask(Call { call, stream: stream.0 }));
        loop {
            match self.listener.news.recv_timeout(TIMEOUT) {
                Ok(News::Told(told)) => match answered(call, &told) {
                    Some(answer) => return Ok(answer),
                    None => self.hear_told(&told),
                },
                Ok(News::Away) => self.is_away = true,
                Ok(News::Back(line)) => return Err(NoAnswer::Back(line)),
                // How that ends is told.
                Err(RecvTimeoutError::Timeout) if self.is_away => {}
                Ok(News::Gone) | Err(_) => return Err(NoAnswer::Gone),
            }
        }
    }

    fn contract(
        &mut self,
        stream: StreamId,
        (contract, name): (Contract, String),
        ask: impl Fn(Call) -> Ask,
    ) -> Result<(), Refused> {
        match self.ask(stream, ask, outcome) {
            Some(Ok(())) => {
                self.streams.insert(stream, (contract, name));
                Ok(())
            }
            Some(Err(why)) => Err(refused(why, &contract)),
            // Nothing can be promised without it.
            None => Err(Refused::because(Reason::Overbooked)),
        }
    }

    fn hear_told(&mut self, told: &Told) {
        match *told {
            Told::Turn(guest_messages::Turn { turn, request, offset, bytes, flush }) => {
                let asked = self.asked.get_mut(&request);
                let anew = asked.is_some_and(|it| std::mem::take(&mut it.anew));
                let request = RequestId(request);
                let of_it = Turn { name: 0, request, offset, bytes, flush, anew };
                self.turns.push_back((of_it, Giver::Daemon(turn)));
            }
            Told::Over { request, taken } => {
                if self.asked.remove(&request).is_some() {
                    self.told -= 1;
                    self.over.push_back(Over { request: RequestId(request), taken });
                }
                self.tell_more();
            }
            // An answer after its time.
            Told::Welcome(_) | Told::Answer(..) | Told::Streams(_) | Told::Report(..) => {}
        }
    }

    /// Tells the daemon of requests, as many as it takes.
    fn tell_more(&mut self) {
        while self.told < self.line.facts().requests_max && !self.is_gone() {
            let Some(request) = self.untold.pop_front() else { return };
            let Some(Asked { request, .. }) = self.asked.get(&request) else { continue };
            let Request { id: RequestId(request), stream, kind, offset, bytes, .. } = *request;
            let ask = Ask::Request { request, stream: stream.0, kind, offset, bytes };
            self.told += 1;
            self.say(&ask);
        }
    }

    /// The turns that a daemon gave count no longer.
    fn forget_turns(&mut self) {
        self.turns.clear();
        for giver in self.begun.values_mut().filter(|it| matches!(it, Giver::Daemon(_))) {
            *giver = Giver::Former;
        }
    }

    /// Another connection is there, perhaps to another daemon: streams come with the contracts that they
    /// had, or with none if they don't fit any more, and requests begin anew.
    fn is_back(&mut self, line: Arc<GuestLine>) {
        let mut next = Some(line);
        while let Some(line) = next.take() {
            (self.line, self.is_away) = (line, false);
            self.forget_turns();
            match self.come_again() {
                Ok(()) => {}
                Err(NoAnswer::Back(line)) => next = Some(line),
                Err(NoAnswer::Gone) => return self.is_left(),
            }
        }
        tracing::info!(
            streams = self.streams.len(),
            requests = self.asked.len(),
            "the device's daemon has the mount again: what was not over begins anew"
        );
        self.told = 0;
        self.asked.values_mut().for_each(|asked| asked.anew = true);
        self.untold = self.asked.keys().copied().collect();
        self.tell_more();
    }

    fn come_again(&mut self) -> Result<(), NoAnswer> {
        for (stream, (contract, name)) in self.streams.clone() {
            let add = |contract: Contract| {
                let name = name.clone();
                move |call| Ask::Add(call, contract, name.clone())
            };
            let Err(why) = self.ask_once(stream, add(contract), outcome)? else { continue };
            let why = refused(why, &contract);
            tracing::warn!(%stream, name, %why, "a contract is not granted again");
            self.lost.push_back((stream, why));
            let usual = Contract::default();
            self.streams.insert(stream, (usual, name.clone()));
            if self.ask_once(stream, add(usual), outcome)?.is_err() {
                return Err(NoAnswer::Gone);
            }
        }
        Ok(())
    }

    /// The daemon is gone: what it had goes on without it.
    fn is_left(&mut self) {
        if self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        tracing::warn!(requests = self.asked.len(), "the daemon has ended: files go on without it");
        self.listener.stop();
        self.forget_turns();
        self.untold.clear();
        for Asked { request, .. } in std::mem::take(&mut self.asked).into_values() {
            self.give_turn(&request);
        }
    }

    fn give_turn(&mut self, &Request { id: request, offset, bytes, .. }: &Request) {
        let turn = Turn { name: 0, request, offset, bytes, flush: false, anew: true };
        self.turns.push_back((turn, Giver::Own(request)));
    }
}

impl Turns for Daemon {
    fn add(&mut self, stream: StreamId, contract: Contract, name: &str) -> Result<(), Refused> {
        let name = guest_messages::short_name(name);
        let of_it = (contract, name.clone());
        self.contract(stream, of_it, |call| Ask::Add(call, contract, name.clone()))
    }

    fn set(&mut self, stream: StreamId, contract: Contract) -> Result<(), Refused> {
        let name = self.streams.get(&stream).map(|(_, name)| name.clone()).unwrap_or_default();
        self.contract(stream, (contract, name), |call| Ask::Set(call, contract))?;
        self.lost.retain(|(lost, _)| *lost != stream);
        Ok(())
    }

    fn remove(&mut self, stream: StreamId) {
        if self.ask(stream, Ask::Remove, outcome).is_some_and(|it| it.is_err()) {
            tracing::error!(%stream, "the daemon keeps a stream that has ended");
        }
        self.streams.remove(&stream);
        self.lost.retain(|(lost, _)| *lost != stream);
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
        if self.is_gone() {
            self.give_turn(&request);
            return Ok(());
        }
        let RequestId(id) = request.id;
        self.asked.insert(id, Asked { request, anew: false });
        self.untold.push_back(id);
        self.tell_more();
        Ok(())
    }

    fn next(&mut self) -> Option<Turn> {
        // No more than there can be jobs for, those of turns among them that a daemon has taken back.
        if self.begun.len() >= self.listener.depth_max() {
            return None;
        }
        let (turn, giver) = self.turns.pop_front()?;
        self.last_turn += 1;
        self.begun.insert(self.last_turn, giver);
        Some(Turn { name: self.last_turn, ..turn })
    }

    fn ended(&mut self, turn: u64, outcome: Outcome) {
        match self.begun.remove(&turn) {
            Some(Giver::Daemon(turn)) => {
                self.say(&Ask::Ended { turn, done: outcome == Outcome::Done });
            }
            Some(Giver::Own(request)) => self.over.push_back(Over { request, taken: true }),
            Some(Giver::Former) | None => {}
        }
    }

    fn over(&mut self) -> Option<Over> {
        self.over.pop_front()
    }

    fn wake_at(&self) -> Option<Instant> {
        None
    }

    fn modelled_at(&self) -> Option<Instant> {
        None
    }

    fn timed(&mut self) {}

    fn news(&self) -> Receiver<News> {
        self.listener.news.clone()
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Told(told) if !self.is_gone() => self.hear_told(&told),
            News::Away if !self.is_gone() => self.is_away = true,
            News::Back(line) if !self.is_gone() => self.is_back(line),
            News::Told(_) | News::Away | News::Back(_) => {}
            News::Gone => self.is_left(),
        }
    }

    fn keeps_time(&self) -> bool {
        self.line.facts().capacity.is_some()
    }

    fn lost(&mut self) -> Option<(StreamId, Refused)> {
        self.lost.pop_front()
    }

    fn figures(&mut self) -> Option<Figures> {
        let mut streams: Vec<guest_messages::StreamFigures> = Vec::new();
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
            let (contract, _) = *self.streams.get(&stream)?;
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

#[cfg(test)]
mod tests;
