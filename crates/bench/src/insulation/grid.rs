//! Rows side by side: a line for each cell, a column for each policy, and their picture.

use disktime_report::heatmap::{self, Line};

use super::bars::OWN;
use super::cells::Cell;
use super::insulation_row::Row;

/// By how much a policy has to be better for a mark: what two seeds differ by.
const BETTER: f64 = 0.01;

/// The rows of several policies, side by side by cell.
pub(super) struct Grid<'a> {
    pub(super) policies: Vec<&'static str>,
    /// By cell, in order: the row of each policy that has one.
    pub(super) lines: Vec<(Cell, Vec<Option<&'a Row>>)>,
}

impl<'a> Grid<'a> {
    pub(super) fn new(rows: &'a [Row]) -> Self {
        let mut policies: Vec<&'static str> = Vec::new();
        let mut cells: Vec<Cell> = rows.iter().map(|row| row.cell).collect();
        for row in rows {
            if !policies.contains(&row.policy) {
                policies.push(row.policy);
            }
        }
        cells.sort_unstable();
        cells.dedup();
        let line = |cell: Cell| {
            let of = |policy: &&str| rows.iter().find(|it| it.policy == *policy && it.cell == cell);
            (cell, policies.iter().map(of).collect())
        };
        let lines = cells.into_iter().map(line).collect();
        Self { policies, lines }
    }

    /// The rivals in a line that are better than policy [`OWN`]. None where the antagonist rests:
    /// what is due to it then isn't what it reserves.
    pub(super) fn better(line: &[Option<&'a Row>]) -> Vec<&'a Row> {
        let line = line.iter().flatten().filter(|row| row.cell.antagonist.is_backlogged());
        let own = line.clone().find(|row| row.policy == OWN);
        let rivals =
            line.filter(|row| own.is_some_and(|own| row.worse_off() >= own.worse_off() + BETTER));
        rivals.copied().collect()
    }
}

/// The rows' picture, with the rivals marked that are better.
pub(super) fn svg(rows: &[Row]) -> String {
    let grid = Grid::new(rows);
    let line = |(cell, line): &(Cell, Vec<Option<&Row>>)| {
        let Cell { victim, antagonist, share_percent, .. } = cell;
        let better = Grid::better(line);
        let tile = |row: &Option<&Row>| row.map(|row| (row.insulation_mean, better.contains(&row)));
        Line {
            device: cell.device.name(),
            label: format!("{} at {share_percent} % beside {}", victim.name(), antagonist.name()),
            tiles: line.iter().map(tile).collect(),
        }
    };
    let lines: Vec<Line> = grid.lines.iter().map(line).collect();
    heatmap::svg(&grid.policies, &lines, Some(&format!("a rival better than {OWN}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insulation::bars::tests::row;

    #[test]
    fn a_rival_is_better_if_the_worse_off_is_better_off() {
        let cell = "deskstar-34gxp/random-4k/random-4k/50";
        let at = |policy, insulation_mean, work_conservation| Row {
            work_conservation,
            ..row(policy, cell, insulation_mean)
        };
        let own = at(OWN, 0.95, 0.95);
        // The antagonists have what is left of the work: 2·work - the victim's.
        let rows = [own, at("even", 0.97, 0.97), at("greedy", 1.2, 0.95), at("same", 0.955, 0.955)];
        let grid = Grid::new(&rows);
        let better: Vec<_> = Grid::better(&grid.lines[0].1).iter().map(|row| row.policy).collect();
        assert_eq!(better, ["even"]);
        let svg = svg(&rows);
        assert_eq!(svg.matches("<circle").count(), 2, "one in the legend, one in a tile");
    }
}
