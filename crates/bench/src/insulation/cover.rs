//! The matrix: which cells are run.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::cells::{Antagonist, Cell, Device, Victim};

/// Cells of the matrix at most.
pub const CELLS_MAX: usize = 250;

/// Requests of a cell at most, where there is a choice: twenty seconds of a processor.
const EFFORT_MAX: u64 = 30_000_000;

/// The matrix, in order: on the Deskstar all that stays, a few plain ones elsewhere, and as few
/// other cells as make every pair of values of any two of device, victim, antagonist and share
/// occur. Among cells that add as many pairs the one with the fewest requests is taken, and none
/// with very many: the matrix shall take minutes.
#[must_use]
pub fn cover() -> Vec<Cell> {
    let mut cells: Vec<Cell> = Cell::all().filter(|cell| is_fixed(*cell)).collect();
    let mut open = uncovered(&cells);
    let affordable = || Cell::all().filter(|cell| effort(*cell) <= EFFORT_MAX);
    while !open.is_empty() {
        let adds = |cell: Cell| pairs(cell).into_iter().filter(|pair| open.contains(pair)).count();
        let best = affordable().max_by_key(|cell| (adds(*cell), Reverse((effort(*cell), *cell))));
        let best = best.expect("there are cells");
        pairs(best).into_iter().for_each(|pair| {
            open.remove(&pair);
        });
        cells.push(best);
    }
    cells.sort_unstable();
    cells
}

/// Every combination on the Deskstar with an antagonist that is there all the time; and beside the
/// two plainest antagonists, at two shares, the two plainest victims on the other hard disks.
fn is_fixed(cell: Cell) -> bool {
    let Cell { device, victim, antagonist, share_percent } = cell;
    let plain = matches!(victim, Victim::Random | Victim::SequentialLarge)
        && matches!(antagonist, Antagonist::Random | Antagonist::SequentialLarge)
        && matches!(share_percent, 10 | 50);
    match device {
        Device::Deskstar => !matches!(antagonist, Antagonist::OnOff | Antagonist::LateJoiner),
        Device::Nearline | Device::Raid0 => plain,
        Device::Flash => false,
    }
}

/// The pairs that occur in none of them.
fn uncovered(cells: &[Cell]) -> BTreeSet<Pair> {
    let mut open: BTreeSet<Pair> = Cell::all().flat_map(pairs).collect();
    cells.iter().flat_map(|cell| pairs(*cell)).for_each(|pair| {
        open.remove(&pair);
    });
    open
}

/// The sixteen cells of a quick look: small and large requests, random and sequential, with and
/// without writes, small and even shares.
#[must_use]
pub fn quick() -> Vec<Cell> {
    let victims = [Victim::Random, Victim::Sequential, Victim::SequentialLarge, Victim::HalfWrites];
    let antagonists = [Antagonist::Random, Antagonist::SequentialLarge];
    let wanted = |cell: &Cell| {
        cell.device == Device::Deskstar
            && victims.contains(&cell.victim)
            && antagonists.contains(&cell.antagonist)
            && [10, 50].contains(&cell.share_percent)
    };
    Cell::all().filter(wanted).collect()
}

/// Two dimensions and a value of each.
type Pair = ((u8, u32), (u8, u32));

fn pairs(cell: Cell) -> Vec<Pair> {
    let values = [
        (0, cell.device as u32),
        (1, cell.victim as u32),
        (2, cell.antagonist as u32),
        (3, cell.share_percent),
    ];
    let later =
        |first: usize| values[first + 1..].iter().map(move |second| (values[first], *second));
    (0..values.len()).flat_map(later).collect()
}

/// Roughly how many requests a second a cell makes the simulator work through, and for how long.
pub(super) fn effort(cell: Cell) -> u64 {
    let (fast, slow, seconds) = match cell.device {
        Device::Deskstar => (5_000, 80, 1600),
        Device::Raid0 => (6_000, 120, 1600),
        Device::Nearline => (45_000, 150, 1600),
        Device::Flash => (400_000, 400_000, 30),
    };
    let slow_victim =
        matches!(cell.victim, Victim::Random | Victim::SequentialLarge | Victim::HalfWrites);
    let victim = if slow_victim { slow } else { fast } * busy_percent(cell) / 100;
    (victim + slow) * seconds
}

/// In how much of the time a victim is served, roughly: also while nobody else asks.
fn busy_percent(cell: Cell) -> u64 {
    let share = u64::from(cell.share_percent);
    match cell.antagonist {
        Antagonist::OnOff => u64::midpoint(share, 100),
        // Half as long again, and that alone.
        Antagonist::LateJoiner => share + 50,
        _ => share,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insulation::cells::SHARES;

    #[test]
    fn every_pair_of_values_occurs_and_no_cell_twice() {
        let cells = cover();
        assert!(cells.len() <= CELLS_MAX, "{} cells", cells.len());
        assert!(cells.windows(2).all(|pair| pair[0] < pair[1]));
        let any = |test: &dyn Fn(&Cell) -> bool| cells.iter().any(test);
        for device in Device::ALL {
            for victim in Victim::ALL {
                assert!(any(&|cell| cell.device == device && cell.victim == victim));
            }
            for antagonist in Antagonist::ALL {
                assert!(any(&|cell| cell.device == device && cell.antagonist == antagonist));
            }
            for share in SHARES {
                assert!(any(&|cell| cell.device == device && cell.share_percent == share));
            }
        }
        for victim in Victim::ALL {
            for antagonist in Antagonist::ALL {
                assert!(any(&|cell| cell.victim == victim && cell.antagonist == antagonist));
            }
            for share in SHARES {
                assert!(any(&|cell| cell.victim == victim && cell.share_percent == share));
            }
        }
        for antagonist in Antagonist::ALL {
            for share in SHARES {
                assert!(any(&|cell| cell.antagonist == antagonist && cell.share_percent == share));
            }
        }
    }

    #[test]
    fn the_quick_look_is_sixteen_cells_of_the_matrix() {
        let (cells, all) = (quick(), cover());
        assert_eq!(cells.len(), 16);
        assert!(cells.iter().all(|cell| all.contains(cell)));
    }
}
