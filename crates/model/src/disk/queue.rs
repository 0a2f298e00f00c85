//! Which of the operations inside a disk goes next.
//!
//! A new order is a variant of [`Order`] and an arm of [`Order::pick`].
//!
//! Does not know: geometry or the arm. The disk tells it how far each operation is, and the
//! elevators go by sector numbers.

use super::geometry::Extent;
use disktime_core::{Instant, Kind};

/// How a disk orders the operations inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// First come, first served.
    Fcfs,
    /// Shortest seek time first: the fewest cylinders away.
    Sstf,
    /// The elevator: the next sector in the direction of travel, turning round at the last.
    Scan,
    /// One-way elevator: the next sector inwards, from the last back to the outermost.
    CScan,
    /// Shortest access time first: the least seek and rotation together.
    Satf {
        /// Access time forgiven per thousand of time waited, so that nothing starves: at 10, an
        /// operation that has waited 400 ms counts as 4 ms nearer than it is.
        aging_permille: u32,
    },
}

/// Facts about an operation that an order may ask of the disk.
pub(crate) trait Sight {
    /// When its data would begin to move if it were chosen now.
    fn begins(&self, waiting: &Waiting) -> Instant;
    /// How many cylinders away it is; none if it needs no arm.
    fn cylinders_away(&self, waiting: &Waiting) -> u32;
}

/// Where the elevators are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    /// Behind the last sector served.
    position: u64,
    outwards: bool,
}

/// An operation that waits inside the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) tag: u64,
    pub(crate) kind: Kind,
    pub(crate) fua: bool,
    /// Empty for a flush.
    pub(crate) extent: Extent,
    pub(crate) arrived: Instant,
}

impl Order {
    /// Index of the operation to serve next, of a queue in order of arrival. The earliest arrived
    /// wins a tie.
    pub(crate) fn pick(
        self,
        sweep: &mut Sweep,
        now: Instant,
        queue: &[Waiting],
        sight: &impl Sight,
    ) -> Option<usize> {
        match self {
            Self::Fcfs => (!queue.is_empty()).then_some(0),
            Self::Sstf => nearest(queue, |waiting| sight.cylinders_away(waiting)),
            Self::Scan => sweep.pick(queue, true),
            Self::CScan => sweep.pick(queue, false),
            Self::Satf { aging_permille } => shortest(queue, now, aging_permille, sight),
        }
    }

    /// Whether which one is picked depends on how far the reading ahead has got.
    pub(crate) fn looks_at_the_head(self) -> bool {
        matches!(self, Self::Sstf | Self::Satf { .. })
    }
}

impl Sweep {
    fn pick(&mut self, queue: &[Waiting], turns_round: bool) -> Option<usize> {
        let picked = self.ahead(queue).or_else(|| {
            if turns_round {
                self.outwards = !self.outwards;
            } else {
                self.position = 0;
            }
            self.ahead(queue)
        })?;
        if !queue[picked].extent.is_empty() {
            self.position = queue[picked].extent.end;
        }
        Some(picked)
    }

    /// The next in the direction of travel. One without sectors is wherever the arm is.
    fn ahead(&self, queue: &[Waiting]) -> Option<usize> {
        let away = |waiting: &Waiting| match (waiting.extent.is_empty(), self.outwards) {
            (true, _) => Some(0),
            (false, false) => waiting.extent.first.checked_sub(self.position),
            (false, true) => self.position.checked_sub(waiting.extent.first),
        };
        let ahead = queue.iter().enumerate();
        ahead
            .filter_map(|(index, waiting)| away(waiting).map(|distance| (distance, index)))
            .min()
            .map(|(_, index)| index)
    }
}

fn nearest<Key: Ord>(queue: &[Waiting], key: impl Fn(&Waiting) -> Key) -> Option<usize> {
    (0..queue.len()).min_by_key(|&index| key(&queue[index]))
}

/// The least access time less aging, in thousandths of a nanosecond; of equals the first.
fn shortest(
    queue: &[Waiting],
    now: Instant,
    aging_permille: u32,
    sight: &impl Sight,
) -> Option<usize> {
    let mut best: Option<(i128, usize)> = None;
    for (index, waiting) in queue.iter().enumerate() {
        let waited = i128::from(now.since(waiting.arrived).as_nanos()) * i128::from(aging_permille);
        // Access takes no less than no time: where that loses, there is no need to reckon it.
        if best.is_some_and(|(least, _)| least <= -waited) {
            continue;
        }
        let access = i128::from(sight.begins(waiting).since(now).as_nanos());
        let key = access * 1000 - waited;
        if best.is_none_or(|(least, _)| key < least) {
            best = Some((key, index));
        }
    }
    best.map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disktime_core::Duration;

    /// An operation that arrived at so many ms and is so many ms, cylinders and sectors away.
    fn waiting(arrived_ms: u64, away: u64) -> Waiting {
        let arrived = Instant::ZERO + Duration::from_millis(arrived_ms);
        let extent = Extent { first: away, end: away + 1 };
        Waiting { tag: away, kind: Kind::Read, fua: false, extent, arrived }
    }

    const NOW: Instant = Instant::from_nanos(500_000_000);

    struct Away;

    impl Sight for Away {
        fn begins(&self, waiting: &Waiting) -> Instant {
            NOW + Duration::from_millis(waiting.tag)
        }

        fn cylinders_away(&self, waiting: &Waiting) -> u32 {
            u32::try_from(waiting.tag).unwrap()
        }
    }

    fn pick(order: Order, queue: &[Waiting]) -> Option<usize> {
        order.pick(&mut Sweep::default(), NOW, queue, &Away)
    }

    /// The sectors in the order in which they are served.
    fn served(order: Order, position: u64, sectors: &[u64]) -> Vec<u64> {
        let mut sweep = Sweep { position, outwards: false };
        let mut queue: Vec<Waiting> = sectors.iter().map(|&sector| waiting(0, sector)).collect();
        let mut served = Vec::new();
        while let Some(index) = order.pick(&mut sweep, NOW, &queue, &Away) {
            served.push(queue.remove(index).extent.first);
        }
        served
    }

    #[test]
    fn fcfs_takes_the_first() {
        assert_eq!(pick(Order::Fcfs, &[]), None);
        assert_eq!(pick(Order::Fcfs, &[waiting(0, 9), waiting(1, 2)]), Some(0));
    }

    #[test]
    fn sstf_takes_the_nearest_cylinder_and_the_earlier_of_two() {
        assert_eq!(pick(Order::Sstf, &[]), None);
        let queue = [waiting(0, 9), waiting(1, 2), waiting(2, 2)];
        assert_eq!(pick(Order::Sstf, &queue), Some(1));
    }

    #[test]
    fn elevators_sweep() {
        assert_eq!(served(Order::Scan, 40, &[10, 90, 30, 50]), [50, 90, 30, 10]);
        assert_eq!(served(Order::CScan, 40, &[10, 90, 30, 50]), [50, 90, 10, 30]);
        assert_eq!(served(Order::CScan, 95, &[10, 90]), [10, 90]);
    }

    #[test]
    fn a_flush_holds_no_elevator_up() {
        let flush = Waiting { kind: Kind::Flush, extent: Extent::EMPTY, ..waiting(0, 0) };
        let mut sweep = Sweep { position: 40, outwards: false };
        let queue = [waiting(0, 50), flush];
        assert_eq!(Order::Scan.pick(&mut sweep, NOW, &queue, &Away), Some(1));
        assert_eq!(sweep.position, 40);
    }

    #[test]
    fn satf_takes_the_nearest_until_another_has_waited_long() {
        let satf = |aging_permille| Order::Satf { aging_permille };
        assert_eq!(pick(satf(0), &[]), None);
        let queue = [waiting(100, 9), waiting(500, 6), waiting(500, 6)];
        assert_eq!(pick(satf(0), &queue), Some(1));
        // 400 ms of waiting are worth 2 ms, then 4 ms of the 3 ms that it is farther away.
        assert_eq!(pick(satf(5), &queue), Some(1));
        assert_eq!(pick(satf(10), &queue), Some(0));
    }
}
