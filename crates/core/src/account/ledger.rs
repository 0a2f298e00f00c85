//! The device's account of time: what was busy, and how it is divided.
//!
//! *Busy* is time with a piece at the device, including the moment between a completion and the
//! dispatch that follows it at once. Busy time is cut into windows: at depth 1 at every completion
//! (a charge is exactly c_i - c_(i-1), or c_i - r_i after idleness; zygaria §2.1), deeper every
//! 100 ms and when the device goes idle. A window without completions carries over.
//!
//! Does not know: streams' accounts. It says how much a window has to divide; postings divide it.

use alloc::vec::Vec;

use super::posting::{Span, Why};
use crate::types::ids::StreamId;
use crate::types::time::{Duration, Instant};

/// A device that does nothing for longer than this, and than eight times what is likely, has stalled:
/// the rest is nobody's.
const STALL: Duration = Duration::from_millis(100);

/// The longest that a device takes for what is likely to take that long, unless it has stalled.
pub(crate) fn longest(likely: Duration) -> Duration {
    STALL.max(Duration::from_nanos(likely.as_nanos().saturating_mul(8)))
}

/// Sums of disk time since the engine was made.
///
/// `charged = busy - spare - open + held`, always: open is busy time that no window has divided
/// yet (carried over).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceTime {
    /// Time with at least one piece at the device.
    pub busy: Duration,
    /// Busy time that nobody is charged for: the device could have done more.
    pub spare: Duration,
    /// Busy time not divided yet.
    pub open: Duration,
    /// Time held idle for a stream.
    pub held: Duration,
    /// Time charged to streams, removed ones included.
    pub charged: Duration,
}

/// The ratio that recent windows charged per nanosecond of modelled cost.
///
/// Windows give pieces a part of their busy time, which is far from the modelled cost when the
/// model is wrong throughout (a disk's price list on flash). Until its window closes a piece is
/// debited what it is likely to be charged: were it debited what the model says, a tenfold price
/// would exhaust every bucket within the window, and neither reservations nor limits would hold.
pub(crate) struct ChargeRate {
    /// Charged and modelled, of the last windows, each half as heavy as the next.
    charged: u64,
    modelled: u64,
    /// Their quotient in 2^-RATE_BITS.
    rate: u64,
}

const RATE_BITS: u32 = 24;

impl Default for ChargeRate {
    fn default() -> Self {
        Self { charged: 0, modelled: 0, rate: 1 << RATE_BITS }
    }
}

impl ChargeRate {
    fn note(&mut self, charged: u64, modelled: u64) {
        self.charged = (self.charged / 2).saturating_add(charged);
        self.modelled = (self.modelled / 2).saturating_add(modelled);
        let rate = (u128::from(self.charged) << RATE_BITS) / u128::from(self.modelled.max(1));
        self.rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
    }

    /// Rounded down, at least 1 ns.
    pub(crate) fn of(&self, modelled: Duration) -> Duration {
        let product = u128::from(modelled.as_nanos()) * u128::from(self.rate);
        let nanos = u64::try_from(product >> RATE_BITS).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos.max(1))
    }
}

/// The window that is not divided yet.
#[derive(Default)]
struct Window {
    /// Up to here busy time is divided.
    mark: Instant,
    cut_at: Instant,
    /// Eligible work has waited for room ever since the window opened.
    saturated: bool,
    /// Pieces that completed in it.
    pieces: u32,
    modelled: u64,
    touched: Vec<StreamId>,
}

#[derive(Default)]
pub(crate) struct Ledger {
    /// The length of windows.
    span: Duration,
    /// Learns each piece's likely charge, so that one that takes far longer is recognized as a
    /// stall.
    sees_stalls: bool,
    /// Since when the device is busy.
    busy_since: Option<Instant>,
    /// Busy periods that have ended.
    busy_ended: Duration,
    last_completion: Instant,
    window: Window,
    divided: Duration,
    spare: Duration,
    /// The charge that a piece of some modelled cost is likely to get when its window closes.
    pub(crate) rate: ChargeRate,
    held: Duration,
    charged: Duration,
}

impl Ledger {
    pub(crate) fn new(span: Duration, sees_stalls: bool) -> Self {
        Self { span, sees_stalls, ..Self::default() }
    }

    /// A piece goes out.
    pub(crate) fn dispatched(&mut self, now: Instant) {
        if self.busy_since.is_none() {
            self.busy_since = Some(now);
            self.open(now);
        }
    }

    fn open(&mut self, mark: Instant) {
        self.window.mark = mark;
        self.window.cut_at = mark + self.span;
        self.window.saturated = true;
    }

    /// A piece came back; `first` if its stream had none in this window.
    pub(crate) fn completed(&mut self, now: Instant, stream: StreamId, modelled: u64, first: bool) {
        self.last_completion = now;
        self.window.pieces += 1;
        self.window.modelled += modelled;
        if first {
            self.window.touched.push(stream);
        }
    }

    /// No eligible work waits for room any more, or never did.
    pub(crate) fn unsaturated(&mut self) {
        self.window.saturated = false;
    }

    /// The device has nothing to do, and no window is open: the busy period ended with the last completion.
    pub(crate) fn idle(&mut self) {
        let Some(since) = self.busy_since.take() else { return };
        self.busy_ended += self.last_completion.since(since);
        debug_assert!(self.window.mark == self.last_completion, "time left undivided");
    }

    /// Time charged to streams so far.
    pub(crate) fn charged(&self) -> Duration {
        self.charged
    }

    /// Pieces that completed in the open window.
    pub(crate) fn pieces(&self) -> u32 {
        self.window.pieces
    }

    /// When the device finished something last.
    pub(crate) fn last_completion(&self) -> Instant {
        self.last_completion
    }

    /// When the open window is to be closed, if anything completed in it.
    pub(crate) fn cut_at(&self) -> Option<Instant> {
        (self.busy_since.is_some() && self.window.pieces > 0).then_some(self.window.cut_at)
    }

    /// A piece came back that had the device to itself since the mark. Answers how long that is, to the last
    /// ns; a window begins.
    pub(crate) fn completed_alone(&mut self, now: Instant) -> Duration {
        debug_assert!(self.window.pieces == 0, "a window that others completed in is divided");
        self.last_completion = now;
        let busy = now.since(self.window.mark);
        self.divided += busy;
        self.open(now);
        busy
    }

    /// Time is charged, or not.
    pub(crate) fn post(&mut self, time: Duration, why: &Why<'_>) {
        match why {
            Why::Service(_) | Why::WriteBack { .. } => self.charged += time,
            Why::Hold => {
                self.charged += time;
                self.held += time;
            }
            Why::Stall | Why::Spare => self.spare += time,
        }
    }

    /// For how long the device has had work and nothing came back.
    pub(crate) fn silent(&self, now: Instant) -> Duration {
        self.busy_since.map_or(Duration::ZERO, |since| now.since(since.max(self.last_completion)))
    }

    /// The device did nothing before it went on with a piece that is likely to take so long: all of that
    /// time is as if it had not been. Answers what no window has divided of it, and how long it was.
    pub(crate) fn skip_stall(&mut self, now: Instant, likely: Duration) -> (Duration, Duration) {
        let stalled = self.silent(now).saturating_sub(likely);
        self.last_completion = now - likely;
        let open = self.last_completion.since(self.window.mark).min(stalled);
        self.window.mark = self.window.mark + open;
        self.window.cut_at = self.window.cut_at + open;
        self.divided += open;
        (open, stalled)
    }

    /// Closes the window at `end`, in which pieces of that `cost` came back. The time for which the device
    /// stalled in it is not to be divided: that beyond what is likely, and beyond what the touched streams have
    /// `room` for. While work waited for the device, the rest is a stall.
    pub(crate) fn close(
        &mut self,
        end: Instant,
        cost: u64,
        room: impl FnOnce() -> Duration,
    ) -> Span {
        assert!(self.window.pieces > 0, "a window without completions carries over");
        let (busy, modelled) = (end.since(self.window.mark), self.window.modelled);
        self.divided += busy;
        let likely = self.rate.of(Duration::from_nanos(modelled));
        let most = if self.sees_stalls { longest(likely).as_nanos() } else { u64::MAX };
        let most = if busy.as_nanos() > most { most.max(room().as_nanos()) } else { most };
        let most = if self.window.saturated { most } else { most.min(cost) };
        let rest = if self.window.saturated { Why::Stall } else { Why::Spare };
        let divide = busy.as_nanos().min(most);
        self.rate.note(divide, modelled);
        (self.window.pieces, self.window.modelled) = (0, 0);
        self.open(end);
        Span { busy, divide, rest }
    }

    /// The streams whose pieces came back in the open window; to be given back with
    /// [`recycle`](Self::recycle).
    pub(crate) fn touched(&mut self) -> Vec<StreamId> {
        core::mem::take(&mut self.window.touched)
    }

    /// How long the open window would be if it ended then.
    pub(crate) fn busy(&self, end: Instant) -> Duration {
        end.since(self.window.mark)
    }

    /// Gives the list back for the next window, so that windows do not allocate.
    pub(crate) fn recycle(&mut self, mut touched: Vec<StreamId>) {
        touched.clear();
        self.window.touched = touched;
    }

    /// The sums; `now` must not be before the last event.
    pub(crate) fn device_time(&self, now: Instant, at_work: bool) -> DeviceTime {
        let end = if at_work { now } else { self.last_completion };
        let running = self.busy_since.map_or(Duration::ZERO, |since| end.since(since));
        let open = self.busy_since.map_or(Duration::ZERO, |_| end.since(self.window.mark));
        DeviceTime {
            busy: self.busy_ended + running,
            spare: self.spare,
            open,
            held: self.held,
            charged: self.charged,
        }
    }

    /// Busy time measured by its edges is busy time divided by windows.
    pub(crate) fn assert_conserved(&self, now: Instant, at_work: bool) {
        let time = self.device_time(now, at_work);
        assert_eq!(time.busy, self.divided + time.open, "busy time is divided once");
        assert_eq!(
            time.charged + time.spare + time.open,
            time.busy + time.held,
            "charged = busy - spare - open + held"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// A device that is busy from the beginning.
    fn busy(sees_stalls: bool) -> Ledger {
        let mut ledger = Ledger::new(ms(100), sees_stalls);
        ledger.dispatched(at(0));
        ledger
    }

    fn completed(ledger: &mut Ledger, millis: u64, modelled: Duration) {
        ledger.completed(at(millis), StreamId(0), modelled.as_nanos(), false);
    }

    /// A window of 100 ms in which the device stalls for 990 ends as much later.
    #[test]
    fn a_stall_but_for_the_time_of_its_piece_is_as_if_it_had_not_been() {
        let mut ledger = busy(true);
        completed(&mut ledger, 50, ms(10));
        let (undivided, stalled) = ledger.skip_stall(at(1_050), ms(10));
        assert_eq!((undivided, stalled), (ms(990), ms(990)));
        completed(&mut ledger, 1_050, ms(10));
        assert_eq!(ledger.cut_at(), Some(at(100 + 990)));
        assert_eq!(ledger.busy(at(1_050)), ms(50 + 10));
    }

    /// Pieces that are likely to take 20 ms have 160 ms, and no less than 100 ms, of a window that takes longer, or
    /// as much as there is room for.
    #[test]
    fn a_window_divides_no_more_than_eight_times_what_is_likely_where_stalls_are_seen() {
        let windows = [
            (true, 20, 0, 160),
            (true, 10, 0, 100),
            (true, 10, 99, 100),
            (true, 10, 300, 300),
            (true, 10, 2_000, 1_000),
            (false, 10, 0, 1_000),
        ];
        for (sees_stalls, likely, room, divided) in windows {
            let mut ledger = busy(sees_stalls);
            completed(&mut ledger, 1_000, ms(likely));
            let span = ledger.close(at(1_000), u64::MAX, || ms(room));
            assert_eq!((span.busy, span.divide), (ms(1_000), ms(divided).as_nanos()));
            assert_eq!(span.rest, Why::Stall);
        }
    }

    #[test]
    fn a_window_without_work_that_waited_divides_no_more_than_its_pieces_cost() {
        for (saturated, divided) in [(true, 100), (false, 30)] {
            let mut ledger = busy(true);
            completed(&mut ledger, 100, ms(30));
            if !saturated {
                ledger.unsaturated();
            }
            let span = ledger.close(at(100), ms(30).as_nanos(), || Duration::ZERO);
            assert_eq!(span.divide, ms(divided).as_nanos());
            assert_eq!(span.rest == Why::Spare, !saturated, "no work waited");
        }
    }
}
