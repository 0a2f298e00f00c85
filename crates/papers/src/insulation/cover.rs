//! The matrix: which cells are run.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::cells::{Antagonist, Cell, Device, Victim};

/// Cells of the matrix at most.
pub const CELLS_MAX: usize = 250;

/// The matrix, in order: every combination on the Deskstar with an antagonist that is there all the
/// time, and as few others as make every pair of values of any two of device, victim, antagonist
/// and share occur. Of cells that add as many pairs the one with the fewest requests is taken, so
/// that the matrix takes minutes.
#[must_use]
pub fn cover() -> Vec<Cell> {
    let mut cells: Vec<Cell> = Cell::all().filter(|cell| is_fixed(*cell)).collect();
    let mut open: BTreeSet<Pair> = Cell::all().flat_map(pairs).collect();
    cells.iter().flat_map(|cell| pairs(*cell)).for_each(|pair| {
        open.remove(&pair);
    });
    while !open.is_empty() {
        let adds = |cell: Cell| pairs(cell).into_iter().filter(|pair| open.contains(pair)).count();
        let best = Cell::all().max_by_key(|cell| (adds(*cell), Reverse((effort(*cell), *cell))));
        let best = best.expect("there are cells");
        pairs(best).into_iter().for_each(|pair| {
            open.remove(&pair);
        });
        cells.push(best);
    }
    cells.sort_unstable();
    cells
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

fn is_fixed(cell: Cell) -> bool {
    let passing = matches!(cell.antagonist, Antagonist::OnOff | Antagonist::LateJoiner);
    cell.device == Device::Deskstar && !passing
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
    let streams =
        matches!(cell.victim, Victim::Random | Victim::SequentialLarge | Victim::HalfWrites);
    let victim = if streams { slow } else { fast } * u64::from(cell.share_percent) / 100;
    (victim + slow) * seconds
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
