//! Rate-monotonic (Liu & Layland 1973): streams with a rate go by their cycle, shorter first.
//!
//! A stream's place is fixed by its contract, whatever the deadlines of its requests. A rate whose
//! cycle is not stated counts as one of the longest cycle; streams without a rate come last, in the
//! order of arrival.
//!
//! Guarantees: nothing by itself. On a preemptible processor the best of all fixed orders: it meets
//! every cycle's end while the work stays below n·(2^(1/n) - 1) of the time, 69 % for many streams,
//! where deadlines would allow 100 %. Here pieces at the device come on top. Where the engine itself
//! puts guaranteed rates first, only what such streams ask for as best effort is ordered here.

use alloc::boxed::Box;

use disktime_core::policy::{Currency, PolicyEntry, Ranked};
use disktime_core::{Instant, Rate, StreamView};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "rate-monotonic",
    doc: "streams with a rate by their cycle, shorter first; the others last, as they arrive",
    source: "Liu and Layland 1973, in the survey of quality of service for storage",
    currency: Currency::Time,
    keeps_reservations: false,
    reorders: false,
    holds: false,
    build: || Box::new(Ranked::by(|stream, head| (cycle_end(stream), head.sequence))),
};

/// Where a cycle that began at the epoch would end: shorter ones first, none last.
fn cycle_end(stream: StreamView<'_>) -> Instant {
    let cycle = stream.contract().rate.map(|rate| rate.cycle.unwrap_or(Rate::CYCLE_MAX));
    cycle.map_or(Instant::MAX, |cycle| Instant::ZERO + cycle)
}
