//! All mutants with what became of them, and how many of each.

use std::fmt;

use super::trial::{Fate, Row};

#[derive(Default)]
pub(super) struct Table<'a>(Vec<Row<'a>>);

impl<'a> Table<'a> {
    pub(super) fn push(&mut self, row: Row<'a>) {
        self.0.push(row);
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|row| row.mutant.name.len()).max().unwrap_or(0).max(6);
        writeln!(f, "{:<width$}  {:>7}  killed by", "mutant", "seconds")?;
        for row in &self.0 {
            let (name, test) = (&row.mutant.name, &row.mutant.expected);
            write!(f, "{name:<width$}  {:>7.1}  ", row.took.as_secs_f64())?;
            match &row.fate {
                Fate::Killed | Fate::Known => writeln!(f, "{test}")?,
                Fate::Survived => writeln!(f, "NOTHING: survives {test}")?,
                Fate::NotBuilt(_) => writeln!(f, "NOTHING: does not build")?,
            }
        }
        let count = |is: fn(&Fate) -> bool| self.0.iter().filter(|row| is(&row.fate)).count();
        let killed = count(|fate| *fate == Fate::Killed);
        let survived = count(|fate| *fate == Fate::Survived);
        let known = count(|fate| *fate == Fate::Known);
        let broken = count(|fate| matches!(fate, Fate::NotBuilt(_)));
        write!(
            f,
            "{killed} killed, {survived} survived, {known} known to survive, {broken} not built"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::list::{Expected, Killer, Mutant};
    use super::*;

    fn mutant(name: &str, expected: Expected) -> Mutant {
        let [file, text, replacement] = [(); 3].map(|()| String::new());
        Mutant { line: 1, name: name.to_owned(), file, text, replacement, expected }
    }

    #[test]
    fn every_mutant_has_its_line_and_each_fate_its_count() {
        let [binary, test] = ["core::all", "good"].map(str::to_owned);
        let killer = Killer { binary, test, selector: Vec::new() };
        let killed = mutant("killed", Expected::Killed(killer));
        let known = mutant("known", Expected::Survives("rounding".to_owned()));
        let mut table = Table::default();
        let took = Duration::from_millis(5_250);
        for fate in [Fate::Killed, Fate::Survived, Fate::NotBuilt("error".to_owned())] {
            table.push(Row { mutant: &killed, fate, took });
        }
        table.push(Row { mutant: &known, fate: Fate::Known, took: Duration::ZERO });
        assert_eq!(
            table.to_string(),
            "mutant  seconds  killed by\n\
             killed      5.2  core::all good\n\
             killed      5.2  NOTHING: survives core::all good\n\
             killed      5.2  NOTHING: does not build\n\
             known       0.0  - (rounding)\n\
             1 killed, 1 survived, 1 known to survive, 1 not built"
        );
    }
}
