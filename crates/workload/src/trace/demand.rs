//! A trace's demand on a device, second by second: the disk time of its requests by the caller's
//! costs.
//!
//! A request is sequential if it begins within 100 sectors of where the one before of its stream
//! ended (zygaria §3); a stream's first is not. Does not know: what requests cost, how the device
//! took them when the trace was recorded, and how a closed loop would change if it were slower.

use super::{TraceError, TraceFault, TraceReader, TraceRecord};
use crate::spec::IoOp;
use disktime_core::{Duration, Instant, Kind};
use std::collections::BTreeMap;

/// The span that demand is added up over: the period of reservations (zygaria §2.1).
pub const PERIOD: Duration = Duration::from_secs(1);
/// As near counts as in sequence: 100 sectors.
const NEAR_BYTES: u64 = 100 * 512;
/// Most streams that are told apart; more count as one.
const STREAMS_MAX: usize = 65_536;
/// Most periods with requests in them: half a year.
const PERIODS_MAX: usize = 1 << 24;

/// The demand of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Reads and writes.
    pub requests: u64,
    /// Writes among them.
    pub writes: u64,
    /// Requests that continue the one before.
    pub sequential: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Requests of other kinds, which cost nothing here.
    pub others: u64,
    /// From the first to the last.
    pub span: Duration,
    /// Disk time of all, in nanoseconds.
    pub total_ns: u128,
    /// Disk time asked for in each period that has any, in nanoseconds.
    periods: Vec<u64>,
    /// Periods from the first request to the last.
    count: u64,
}

impl Demand {
    /// Adds up a trace, of one stream or of all, by what each request costs: its operation, and
    /// whether it continues the one before.
    ///
    /// # Errors
    /// Says what is wrong with the file, and where; or that there is nothing to add up.
    pub fn of(
        reader: &mut TraceReader,
        stream: Option<u64>,
        mut cost: impl FnMut(IoOp, bool) -> Duration,
    ) -> Result<Self, TraceError> {
        let mut demand = Self::default();
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        let mut first: Option<Instant> = None;
        let mut current = None;
        while let Some(TraceRecord { at, op, stream: of }) = reader.read()? {
            if stream.is_some_and(|stream| stream != of) {
                continue;
            }
            if !matches!(op.kind, Kind::Read | Kind::Write) {
                demand.others += 1;
                continue;
            }
            let begin = *first.get_or_insert(at);
            let of = if ends.len() < STREAMS_MAX || ends.contains_key(&of) { of } else { u64::MAX };
            let last = ends.insert(of, op.offset.saturating_add(op.bytes));
            let sequential = last.is_some_and(|end| end.abs_diff(op.offset) < NEAR_BYTES);
            let nanos = cost(op, sequential).as_nanos();
            demand.requests += 1;
            demand.writes += u64::from(op.kind == Kind::Write);
            demand.sequential += u64::from(sequential);
            demand.bytes = demand.bytes.saturating_add(op.bytes);
            demand.total_ns += u128::from(nanos);
            demand.span = at.since(begin);
            let period = demand.span.as_nanos() / PERIOD.as_nanos();
            demand.count = period.saturating_add(1);
            if current == Some(period) {
                if let Some(sum) = demand.periods.last_mut() {
                    *sum = sum.saturating_add(nanos);
                }
            } else {
                if demand.periods.len() == PERIODS_MAX {
                    return Err(reader.error_of_file(TraceFault::TooLong { periods: PERIODS_MAX }));
                }
                current = Some(period);
                demand.periods.push(nanos);
            }
        }
        if demand.requests == 0 {
            return Err(reader.error_of_file(TraceFault::Empty));
        }
        demand.periods.sort_unstable();
        Ok(demand)
    }

    /// The disk time of the mean period.
    #[must_use]
    pub fn mean(&self) -> Duration {
        let nanos = self.total_ns / u128::from(self.count.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The disk time that so many per million of all periods stay within, those without requests
    /// included.
    #[must_use]
    pub fn within(&self, ppm: u32) -> Duration {
        let rank = (u128::from(self.count) * u128::from(ppm)).div_ceil(1_000_000).max(1);
        let idle = u128::from(self.count) - self.periods.len() as u128;
        let at = rank.checked_sub(idle + 1).and_then(|at| usize::try_from(at).ok());
        let nanos = at.and_then(|at| self.periods.get(at).or(self.periods.last()));
        Duration::from_nanos(nanos.copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TraceReader {
        TraceReader::new(std::io::Cursor::new(text.to_owned()), "t", None).unwrap()
    }

    /// Three seconds: two sequential reads behind a random one, nothing, and a write.
    const TRACE: &str = "time_ns,op,offset,bytes,stream\n\
        0,read,0,4096,1\n1000,read,4096,4096,1\n2000,read,8192,4096,1\n3000,flush,0,0,1\n\
        2500000000,write,1000000,8192,2\n";

    fn cost(op: IoOp, sequential: bool) -> Duration {
        Duration::from_micros(if sequential { 1 } else { 100 * op.bytes / 4096 })
    }

    #[test]
    fn each_period_has_its_requests_costs() {
        let demand = Demand::of(&mut read(TRACE), None, cost).unwrap();
        assert_eq!((demand.requests, demand.writes, demand.sequential), (4, 1, 2));
        assert_eq!((demand.others, demand.bytes), (1, 20_480));
        assert_eq!(demand.total_ns, 302_000);
        assert_eq!(demand.mean(), Duration::from_nanos(302_000 / 3));
        // 0, 102 and 200 µs.
        let at = |percent: u32| demand.within(percent * 10_000).as_nanos() / 1_000;
        assert_eq!([1, 33, 34, 66, 67, 95, 100].map(at), [0, 0, 102, 102, 200, 200, 200]);
        let one = Demand::of(&mut read(TRACE), Some(2), cost).unwrap();
        assert_eq!((one.requests, one.mean()), (1, Duration::from_micros(200)));
    }

    #[test]
    fn nothing_and_times_that_are_far_apart_are_no_trouble() {
        let error = Demand::of(&mut read(TRACE), Some(9), cost).unwrap_err();
        assert_eq!(error.fault, TraceFault::Empty);
        let far = format!("{}{},read,0,4096,1\n", TRACE, u64::MAX);
        let demand = Demand::of(&mut read(&far), None, |_, _| Duration::MAX).unwrap();
        assert_eq!(demand.within(950_000), Duration::ZERO);
        assert_eq!(demand.within(1_000_000), Duration::MAX);
        assert!(demand.mean() > Duration::ZERO);
    }
}
