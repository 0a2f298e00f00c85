//! How many requests a device with carriers serves: a closed network of queues, event by event.
//!
//! A request goes to its client's carrier, to the thread that decides, and to the carrier again; then the
//! client sends the next one. Each thread has a core of its own and works on one request at a time, in the
//! order in which they came. Times are those that were measured, the same for every request.
//!
//! Does not know: what else costs something beside many cores: memory that several of them share, the clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Clients, and the requests that each has under way.
const CLIENTS: usize = 16;
const OUTSTANDING: usize = 8;
/// Requests that are served, of which the first tenth does not count.
const REQUESTS: u64 = 100_000;

/// Processor time of a request, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// At the thread that decides.
    pub decides: u64,
    /// At a carrier: half of it before the thread that decides, half of it afterwards.
    pub carries: u64,
}

/// The place that a request comes to next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Received,
    Decided,
    Sent,
}

/// Requests per second with so many carriers.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn throughput(costs: Costs, carriers: usize) -> f64 {
    assert!(carriers > 0, "somebody carries the bytes");
    let mut free_at = vec![0; carriers + 1];
    let mut coming = BinaryHeap::new();
    let requests = CLIENTS * OUTSTANDING;
    coming.extend((0..requests).map(|request| Reverse((0, request, Step::Received))));
    let (mut sent, mut begin, mut now) = (0, 0, 0);
    while sent < REQUESTS {
        let Some(Reverse((at, request, step))) = coming.pop() else { break };
        let carrier = 1 + request % CLIENTS % carriers;
        let (place, takes, next) = match step {
            Step::Received => (carrier, costs.carries / 2, Step::Decided),
            Step::Decided => (0, costs.decides, Step::Sent),
            Step::Sent => (carrier, costs.carries - costs.carries / 2, Step::Received),
        };
        let over = free_at[place].max(at) + takes;
        free_at[place] = over;
        coming.push(Reverse((over, request, next)));
        if step == Step::Sent {
            (sent, now) = (sent + 1, now.max(over));
            begin = if sent == REQUESTS / 10 { now } else { begin };
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let (count, ns) = ((REQUESTS - REQUESTS / 10) as f64, (now - begin) as f64);
    count * 1e9 / ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(figure: f64, expected: f64) -> bool {
        (figure / expected - 1.0).abs() < 0.02
    }

    #[test]
    fn carriers_help_until_the_thread_that_decides_is_full() {
        let costs = Costs { decides: 1000, carries: 3000 };
        let figures: Vec<f64> = (1..=8).map(|carriers| throughput(costs, carriers)).collect();
        assert!(about(figures[0], 1e9 / 3000.0), "{figures:?}");
        assert!(about(figures[1], 2e9 / 3000.0), "{figures:?}");
        assert!(figures[3..].iter().all(|it| about(*it, 1e6)), "{figures:?}");
    }

    #[test]
    fn a_thread_that_decides_for_longer_than_a_carrier_carries_is_the_limit_at_once() {
        let costs = Costs { decides: 2000, carries: 1000 };
        assert!((1..=8).all(|carriers| about(throughput(costs, carriers), 5e5)));
    }

    /// Clients stay with their carrier: of twice as many carriers as clients half have none.
    #[test]
    fn clients_stay_with_their_carrier() {
        let costs = Costs { decides: 1, carries: 3000 };
        let most = throughput(costs, CLIENTS);
        assert!(about(most, 16e9 / 3000.0), "{most}");
        assert!(about(throughput(costs, 2 * CLIENTS), most));
        assert_eq!(throughput(costs, CLIENTS), most, "the same every time");
    }
}
