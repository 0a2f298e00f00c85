//! Rounds: in each one the servers of a store take turns under one load.

use std::time::Duration;

use super::servers::OURS;
use super::{Figures, Generator, NbdError, Peer, Row, Store, WORKS, Work};
use crate::live::World;

/// Times that a round is measured before it counts as not judged.
const ATTEMPTS: u32 = 3;

/// The extent of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time for each figure.
    pub length: Duration,
    /// Rounds.
    pub rounds: u32,
    /// The programs that put loads on.
    pub generators: Vec<Generator>,
    /// Words of which one must be in a load's full name, `store/generator/work`; none for all loads.
    pub only: Vec<String>,
}

impl Settings {
    /// Whether a load is to be measured.
    #[must_use]
    pub fn wants(&self, store: Store, generator: Generator, work: &Work) -> bool {
        let name = format!("{}/{}/{}", store.name(), generator.name(), work.name);
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether a store's servers are needed.
    #[must_use]
    pub fn needs(&self, store: Store) -> bool {
        let wants =
            |generator: &Generator| WORKS.iter().any(|it| self.wants(store, *generator, it));
        self.generators.iter().any(wants)
    }

    /// Measurements of these servers, if none is repeated.
    #[must_use]
    pub fn measurements(&self, peers: &[Peer]) -> u32 {
        let of_peer = |peer: &Peer| {
            let store = peer.server.store;
            let generators = self.generators.iter().filter(|it| peer.takes(**it));
            let wanted =
                |generator| WORKS.iter().filter(move |it| self.wants(store, generator, it));
            u32::try_from(generators.flat_map(|it| wanted(*it)).count()).unwrap_or(u32::MAX)
        };
        self.rounds * peers.iter().map(of_peer).sum::<u32>()
    }
}

/// Measures every load on every server that runs, and answers a row for each round. `tell` is told
/// what comes next.
///
/// # Errors
/// If a server can't be measured, or somebody wants the bench to end.
pub fn run(
    settings: &Settings,
    peers: &[Peer],
    world: &dyn World,
    tell: &dyn Fn(&str),
) -> Result<Vec<Row>, NbdError> {
    let mut rows = Vec::new();
    for round in 1..=settings.rounds {
        for store in Store::ALL {
            for generator in &settings.generators {
                for work in WORKS.iter().filter(|work| settings.wants(store, *generator, work)) {
                    let takes = |peer: &&Peer| peer.server.store == store && peer.takes(*generator);
                    let turn: Vec<&Peer> = peers.iter().filter(takes).collect();
                    let name = format!("{}, {}: {}", store.name(), generator.name(), work.name);
                    let measure = |peer: &Peer| {
                        tell(&format!("round {round}: {name}: {}", peer.server.name));
                        match peer.measure(work, *generator, settings.length, world) {
                            // Another project's server that fails ends no bench.
                            Err(error) if peer.server.name != OURS && error.is_of_server() => {
                                tell(&format!("left out of {name}: {error}"));
                                Ok(None)
                            }
                            figures => figures.map(Some),
                        }
                    };
                    let (figures, judged) = quiet(&turned(&turn, round), measure)?;
                    rows.extend(figures.into_iter().map(|(peer, figures)| Row {
                        server: peer.server.name,
                        store,
                        workload: work.name,
                        generator: *generator,
                        round,
                        judged,
                        figures,
                    }));
                }
            }
        }
    }
    Ok(rows)
}

/// The same, with another one first in each round.
fn turned<T: Copy>(all: &[T], round: u32) -> Vec<T> {
    let mut turned = all.to_vec();
    turned.rotate_left(round as usize % all.len().max(1));
    turned
}

/// Figures, each with its owner.
type Measured<'a, T> = Vec<(&'a T, Figures)>;

/// A measurement of each that can be measured, repeated until nobody disturbed any; and whether that came
/// about.
fn quiet<'a, T, E>(
    all: &[&'a T],
    measure: impl Fn(&'a T) -> Result<Option<Figures>, E>,
) -> Result<(Measured<'a, T>, bool), E> {
    let mut attempt = 1;
    loop {
        let figures = all.iter().map(|it| Ok(Some(*it).zip(measure(it)?)));
        let measured = figures.filter_map(Result::transpose).collect::<Result<Vec<_>, E>>()?;
        let judged = measured.iter().all(|(_, figures)| figures.is_quiet());
        if judged || attempt == ATTEMPTS {
            return Ok((measured, judged));
        }
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn settings(only: &[&str]) -> Settings {
        Settings {
            length: Duration::ZERO,
            rounds: 1,
            generators: vec![Generator::Disktime],
            only: only.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    #[test]
    fn a_round_in_which_others_had_the_processor_is_repeated() {
        for (busy_until, judged, runs) in [(0, true, 1), (2, true, 3), (9, false, 3)] {
            let count = Cell::new(0);
            let measure = |_: &()| -> Result<Option<Figures>, ()> {
                count.set(count.get() + 1);
                let foreign_cpu = if count.get() <= busy_until { 0.06 } else { 0.04 };
                Ok(Some(Figures { foreign_cpu, ..Figures::default() }))
            };
            let (measured, quiet) = quiet(&[&()], measure).unwrap();
            assert_eq!((measured.len(), quiet, count.get()), (1, judged, runs), "{busy_until}");
        }
    }

    #[test]
    fn a_server_that_fails_is_left_out_and_an_end_of_the_bench_is_not() {
        let measure = |at: &u8| match at {
            0 => Ok(None),
            1 => Ok(Some(Figures::default())),
            _ => Err("stopped"),
        };
        let (measured, _) = quiet(&[&0, &1], measure).unwrap();
        assert_eq!(measured.iter().map(|(at, _)| **at).collect::<Vec<_>>(), [1]);
        assert_eq!(quiet(&[&0, &2], measure).unwrap_err(), "stopped");
    }

    #[test]
    fn each_round_begins_with_another_server() {
        assert_eq!(turned(&[1, 2, 3], 1), [2, 3, 1]);
        assert_eq!(turned(&[1, 2, 3], 3), [1, 2, 3]);
        assert!(turned::<u8>(&[], 1).is_empty());
    }

    #[test]
    fn words_choose_loads_by_their_full_names() {
        let of = |only: &[&str]| {
            let settings = settings(only);
            let wanted = |store| {
                let wants = |work: &&Work| settings.wants(store, Generator::Fio, work);
                WORKS.iter().filter(wants).count()
            };
            [wanted(Store::File), wanted(Store::Memory)]
        };
        assert_eq!(of(&[]), [WORKS.len(); 2]);
        assert_eq!(of(&["file/fio/random read 4 KiB x 32", "memory/disktime"]), [1, 0]);
        assert_eq!(of(&["x 1", "memory/fio/sequential"]), [2, 6]);
        assert!(settings(&["memory/"]).needs(Store::Memory));
        assert!(!settings(&["memory/", "file/fio"]).needs(Store::File));
    }
}
