//! Rounds: every contender is started, its streams alone, then all together, and stopped.

use std::time::Duration;

use disktime_client::{Load, LoadError, LoadSpec, Options};

use super::live_row::{self, LiveRow};
use super::measured::{Round, Together};
use super::scene::{Scene, name_of};
use super::simulated::insulation;
use super::world::{Alone, Contender, NotStarted, Place, Served, Step, Stopped, World};
use disktime_workload::Extent;

/// How often the counters are looked at: how exact the longest gap is.
const TICK: Duration = Duration::from_millis(10);
/// Spells that a measurement is made of; windows are 20 of them, each 5 after the one before.
const SPELLS: u32 = 40;

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long all are on a device, each round; longer where it is slow.
    pub together: Duration,
    /// How often every contender has its turn, at least once; where it is slow, once.
    pub rounds: usize,
    /// Decides every load's requests.
    pub seed: u64,
}

impl Settings {
    /// Time before anything counts: connections are made, and the second of credit that an idle
    /// daemon has saved up is spent.
    pub const SETTLE: Duration = Duration::from_secs(2);

    /// How long a stream is alone: half of the time together.
    fn alone(self, scene: &Scene) -> Duration {
        scene.together(self.together) / 2
    }

    /// How long a scene takes with so many contenders.
    #[must_use]
    pub fn length(self, scene: &Scene, contenders: usize) -> Duration {
        let alone = u32::try_from(scene.tenants.len()).unwrap_or(u32::MAX);
        let settle = self.settle() * (alone + 1);
        let round = scene.together(self.together) + self.alone(scene) * alone + settle;
        let turns = contenders * scene.rounds(self.rounds);
        round * u32::try_from(turns).unwrap_or(u32::MAX)
    }

    fn settle(self) -> Duration {
        Self::SETTLE.min(self.together)
    }
}

/// Why a bench came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Somebody wanted it to end.
    #[error("stopped")]
    Stopped,
    /// A contender that should have served does not.
    #[error("{policy} on {device}: {reason}")]
    Server {
        /// The contender.
        policy: &'static str,
        /// Where.
        device: &'static str,
        /// Why.
        reason: String,
    },
    /// A load can't be started.
    #[error("{policy} on {device}: {load}: {error}")]
    Load {
        /// The contender.
        policy: &'static str,
        /// Where.
        device: &'static str,
        /// The stream's load.
        load: &'static str,
        /// Why.
        error: LoadError,
    },
    /// A load has lost its connection, got errors for answers, or got nothing done.
    #[error("{policy} on {device}: {load}: {reason}")]
    Broken {
        /// The contender.
        policy: &'static str,
        /// Where.
        device: &'static str,
        /// The stream's load.
        load: &'static str,
        /// The reason.
        reason: String,
    },
}

/// Measures contenders on a scene, one after another, round after round, every second round
/// backwards: rows by contender, in the order given, then stream. A contender that is unavailable,
/// or is not ours and fails, is left out.
///
/// # Errors
/// If one of ours fails, or somebody wants it to end.
pub fn run(
    scene: &Scene,
    contenders: &[Box<dyn Contender>],
    settings: Settings,
    world: &dyn World,
) -> Result<Vec<LiveRow>, LiveError> {
    let mut rounds: Vec<Option<Vec<Round>>> = contenders.iter().map(|_| Some(Vec::new())).collect();
    for round in 1..=scene.rounds(settings.rounds).max(1) {
        let mut order: Vec<usize> = (0..contenders.len()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for place in order {
            let policy = contenders[place].policy();
            let Some(of_contender) = &mut rounds[place] else { continue };
            let turn = Turn { scene, policy, settings, round, world };
            match turn.run(contenders[place].as_ref()) {
                Ok(measured) => of_contender.push(measured),
                Err(Ended::Broken(error)) if contenders[place].cost_model().is_some() => {
                    return Err(error);
                }
                Err(Ended::Broken(error @ LiveError::Stopped)) => return Err(error),
                Err(ended) => {
                    let reason = match ended {
                        Ended::Unavailable(reason) => reason,
                        Ended::Broken(error) => error.to_string(),
                    };
                    world.tell(&Step::LeftOut { scene, policy, reason: &reason });
                    rounds[place] = None;
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (contender, rounds) in contenders.iter().zip(rounds) {
        let Some(rounds) = rounds else { continue };
        let mut own = live_row::rows(scene, contender.policy(), &rounds);
        if let Some(cost_model) = contender.cost_model() {
            let simulated = insulation(scene, contender.policy(), cost_model, settings.seed);
            for (row, simulated) in own.iter_mut().zip(simulated.into_iter().flatten()) {
                row.simulated = Some(simulated);
            }
        }
        rows.extend(own);
    }
    live_row::compare(&mut rows, scene.tenants.len());
    Ok(rows)
}

/// The reason that a measurement ends before its time.
enum Ended {
    Unavailable(String),
    Broken(LiveError),
}

impl From<Stopped> for Ended {
    fn from(_: Stopped) -> Self {
        Self::Broken(LiveError::Stopped)
    }
}

struct Turn<'a> {
    scene: &'a Scene,
    policy: &'static str,
    settings: Settings,
    round: usize,
    world: &'a dyn World,
}

impl Turn<'_> {
    fn run(&self, contender: &dyn Contender) -> Result<Round, Ended> {
        let mut served = contender.start().map_err(|why| self.not_started(why))?;
        let mut alone = Vec::new();
        for stream in 0..self.scene.tenants.len() {
            self.begins(Some(stream));
            let length = self.settings.alone(self.scene);
            let measured = self.measure(served.as_ref(), &[stream], length)?;
            let (per_second, p99_us) = (measured.per_second(0), measured.p99_us[0]);
            if per_second == 0.0 {
                return Err(self.broken(stream, "alone it gets nothing done".to_owned()));
            }
            alone.push(Alone { per_second, p99_us });
        }
        served.limit(&alone).map_err(|why| self.not_started(why))?;
        self.begins(None);
        let all: Vec<usize> = (0..self.scene.tenants.len()).collect();
        let (had, foreign) = self.world.cpu(&served.processes());
        let length = self.scene.together(self.settings.together);
        let together = self.measure(served.as_ref(), &all, length)?;
        let (have, others) = self.world.cpu(&served.processes());
        let foreign_cpu = ((others - foreign) / (have - had).max(1e-9)).clamp(0.0, 1.0);
        Ok(Round { alone, together, foreign_cpu })
    }

    /// Loads these streams, and counts once they are settled.
    fn measure(
        &self,
        served: &dyn Served,
        streams: &[usize],
        length: Duration,
    ) -> Result<Together, Ended> {
        let loads = streams.iter().map(|stream| self.load(*stream, &served.places()[*stream]));
        let loads = loads.collect::<Result<Vec<_>, _>>()?;
        self.world.wait(self.world.now() + self.settings.settle())?;
        let counted = Counting::new(streams, &loads, served, self.world.now());
        let counted = counted.run(length, self.world);
        let mut p99_us = Vec::new();
        for (stream, load) in streams.iter().zip(loads) {
            let report = load.stop();
            if let Some(error) = report.lost {
                return Err(self.broken(*stream, format!("the connection broke: {error}")));
            }
            if report.counters.failed > 0 {
                let failed = format!("{} requests failed", report.counters.failed);
                return Err(self.broken(*stream, failed));
            }
            p99_us.push(report.latency.p99_us);
        }
        Ok(Together { p99_us, ..counted? })
    }

    fn load(&self, stream: usize, place: &Place) -> Result<Load, Ended> {
        let load = &self.scene.tenants[stream].load;
        let Extent { start, end } = load.spec.extent;
        let extent = Extent { start: place.base + start, end: place.base + end };
        let spec = LoadSpec {
            name: name_of(stream),
            workload: disktime_workload::Spec { extent, ..load.spec.clone() },
            pace: load.pace(),
            seed: self.settings.seed,
            options: Options::default(),
        };
        Load::start(&place.uri, spec).map_err(|error| {
            let (policy, device) = (self.policy, self.scene.device.name());
            Ended::Broken(LiveError::Load { policy, device, load: load.name, error })
        })
    }

    fn begins(&self, stream: Option<usize>) {
        let Self { scene, policy, round, .. } = *self;
        self.world.tell(&Step::Begins { scene, policy, stream, round });
    }

    fn not_started(&self, why: NotStarted) -> Ended {
        let (policy, device) = (self.policy, self.scene.device.name());
        match why {
            NotStarted::Unavailable(reason) => Ended::Unavailable(reason),
            NotStarted::Failed(reason) => {
                Ended::Broken(LiveError::Server { policy, device, reason })
            }
        }
    }

    fn broken(&self, stream: usize, reason: String) -> Ended {
        let (policy, device) = (self.policy, self.scene.device.name());
        let load = self.scene.tenants[stream].load.name;
        Ended::Broken(LiveError::Broken { policy, device, load, reason })
    }
}

/// Loads being counted.
struct Counting<'a> {
    loads: &'a [Load],
    streams: &'a [usize],
    served: &'a dyn Served,
    begin: Duration,
    /// By load: completions seen, and when the last of them was.
    seen: Vec<(u64, Duration)>,
    gaps: Vec<Duration>,
}

impl<'a> Counting<'a> {
    fn new(
        streams: &'a [usize],
        loads: &'a [Load],
        served: &'a dyn Served,
        begin: Duration,
    ) -> Self {
        let seen = loads.iter().map(|load| (load.counters().completed, begin)).collect();
        Self { loads, streams, served, begin, seen, gaps: vec![Duration::ZERO; loads.len()] }
    }

    /// Answers everything but response times.
    fn run(mut self, length: Duration, world: &dyn World) -> Result<Together, Stopped> {
        let spell = length / SPELLS;
        let mut done = vec![Vec::new(); self.loads.len()];
        let mut charged = vec![Some(Vec::new()); self.loads.len()];
        let (mut last, mut since) = (self.state(), self.begin);
        for place in 1..=SPELLS {
            let end = self.begin + spell * place;
            loop {
                let now = world.now();
                self.look(now);
                if now >= end {
                    break;
                }
                world.wait((now + TICK).min(end))?;
            }
            // A look that is late belongs to the time that it saw.
            let (state, now) = (self.state(), world.now());
            let scale = spell.as_secs_f64() / (now - since).as_secs_f64().max(1e-9);
            for (load, (was, is)) in last.iter().zip(&state).enumerate() {
                done[load].push((is.0 - was.0) as f64 * scale);
                match (&mut charged[load], was.1, is.1) {
                    (Some(spells), Some(was), Some(is)) => {
                        spells.push((is - was).as_secs_f64() * scale);
                    }
                    (none, ..) => *none = None,
                }
            }
            (last, since) = (state, now);
        }
        self.gaps_end(since);
        let gap_ms = self.gaps.iter().map(|gap| gap.as_secs_f64() * 1e3).collect();
        let spell_secs = spell.as_secs_f64();
        Ok(Together { spell_secs, done, charged, gap_ms, p99_us: Vec::new() })
    }

    /// By load: requests done and time charged so far.
    fn state(&self) -> Vec<(u64, Option<Duration>)> {
        let of = |(load, stream): (&Load, &usize)| {
            (load.counters().completed, self.served.charged(*stream))
        };
        self.loads.iter().zip(self.streams).map(of).collect()
    }

    fn look(&mut self, now: Duration) {
        for (load, (seen, gap)) in self.loads.iter().zip(self.seen.iter_mut().zip(&mut self.gaps)) {
            let completed = load.counters().completed;
            if completed > seen.0 {
                *gap = (*gap).max(now - seen.1);
                *seen = (completed, now);
            }
        }
    }

    /// A gap that lasts at the end counts, too.
    fn gaps_end(&mut self, now: Duration) {
        for (seen, gap) in self.seen.iter().zip(&mut self.gaps) {
            *gap = (*gap).max(now - seen.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A world without time: every wait is over at once.
    #[derive(Default)]
    struct Still {
        now: Cell<Duration>,
        told: RefCell<Vec<String>>,
    }

    impl World for Still {
        fn now(&self) -> Duration {
            self.now.get()
        }

        fn wait(&self, until: Duration) -> Result<(), Stopped> {
            self.now.set(until);
            Ok(())
        }

        fn cpu(&self, _own: &[u32]) -> (f64, f64) {
            (self.now.get().as_secs_f64(), 0.0)
        }

        fn tell(&self, step: &Step<'_>) {
            let said = match step {
                Step::Begins { policy, round, .. } => format!("{policy} {round}"),
                Step::LeftOut { policy, reason, .. } => format!("without {policy}: {reason}"),
            };
            self.told.borrow_mut().push(said);
        }
    }

    /// A server that can't be had; or that is told to listen where nobody does.
    struct Absent(&'static str, Option<NotStarted>, Option<&'static str>);

    impl Contender for Absent {
        fn policy(&self) -> &'static str {
            self.0
        }

        fn cost_model(&self) -> Option<&str> {
            self.2
        }

        fn start(&self) -> Result<Box<dyn Served>, NotStarted> {
            let uri = "nbd+unix:///disk?socket=/no/such/socket".parse().expect("a URI");
            let nowhere = || Box::new(Nowhere(Place { uri, base: 0 })) as Box<dyn Served>;
            self.1.clone().map_or_else(|| Ok(nowhere()), Err)
        }
    }

    struct Nowhere(Place);

    impl Served for Nowhere {
        fn places(&self) -> &[Place] {
            std::slice::from_ref(&self.0)
        }

        fn charged(&self, _stream: usize) -> Option<Duration> {
            None
        }

        fn limit(&mut self, _alone: &[Alone]) -> Result<(), NotStarted> {
            Ok(())
        }

        fn processes(&self) -> Vec<u32> {
            Vec::new()
        }
    }

    const SETTINGS: Settings = Settings { together: Duration::from_secs(20), rounds: 3, seed: 1 };

    fn run_all(contenders: Vec<Absent>, world: &Still) -> Result<Vec<LiveRow>, LiveError> {
        let boxed = |it| Box::new(it) as Box<dyn Contender>;
        let contenders: Vec<_> = contenders.into_iter().map(boxed).collect();
        run(&Scene::on_file(1 << 30)[0], &contenders, SETTINGS, world)
    }

    #[test]
    fn an_unavailable_contender_is_left_out_once_and_aloud() {
        let world = Still::default();
        let lacking = Some(NotStarted::Unavailable("not here".to_owned()));
        let all = vec![Absent("a", lacking.clone(), Some("fixed")), Absent("b", lacking, None)];
        assert!(run_all(all, &world).expect("nothing failed").is_empty());
        assert_eq!(*world.told.borrow(), ["without a: not here", "without b: not here"]);
    }

    #[test]
    fn our_server_failing_ends_the_bench_and_a_peer_is_left_out() {
        let failed = Absent("a", Some(NotStarted::Failed("no ring".to_owned())), Some("fixed"));
        let error = run_all(vec![failed], &Still::default()).expect_err("it failed");
        assert_eq!(error.to_string(), "a on live-file: no ring");
        let world = Still::default();
        let error = run_all(vec![Absent("a", None, Some("fixed"))], &world);
        let error = error.expect_err("nobody listens");
        let said = error.to_string();
        assert!(said.starts_with("a on live-file: random-4k-deep: "), "{said}");
        assert!(said.contains("/no/such/socket"), "{said}");
        assert_eq!(*world.told.borrow(), ["a 1"]);
        let world = Still::default();
        let rows = run_all(vec![Absent("b", None, None)], &world).expect("it is another's");
        assert!(rows.is_empty() && world.told.borrow()[1].starts_with("without b: b on live-file"));
    }

    #[test]
    fn a_length_counts_every_turn_and_a_slow_device_has_one() {
        let file = &Scene::on_file(1 << 30)[0];
        // Two alone for 10 s, both for 20, each after 2.
        assert_eq!(SETTINGS.length(file, 4), Duration::from_secs(46 * 4 * 3));
        let cell = super::super::scene::tests::emulated(Scene::emulated_chosen()[0]);
        let slow = cell.expect("can be live");
        assert_eq!(SETTINGS.length(&slow, 1), Duration::from_secs(50 + 50 + 100 + 6));
    }
}
