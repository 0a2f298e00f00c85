//! Looks at all virtual disks five times a second: what each waits for, and once a second what it got.
//! Keeps rates of ten seconds, what held it back for a minute, and ten minutes of shares.

use std::collections::{BTreeMap, VecDeque};

use disktime_api::{Figures, Held, Sample};
use disktime_core::{Duration, Instant};
use disktime_server::{Server, VdiskId, WatchedVdisk};

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(200);
/// Looks that are kept of each virtual disk: a minute.
const LOOKS: usize = 300;
/// Looks between two counts.
const LOOKS_PER_COUNT: u32 = 5;
/// Counts that are kept for rates: of ten seconds.
const COUNTS: usize = 11;
/// Shares that are kept of each device: of ten minutes.
const SHARES: usize = 600;
/// Virtual disks of a device in a sample of shares; those beyond are one, named `others`.
const NAMED: usize = 32;

/// The thing that a virtual disk waited for at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    Idle,
    OwnDepth,
    Device,
    Limit,
    Others,
    Switching,
}

impl Wait {
    /// By the engine's state, where the device has so many pieces.
    fn of(now: &WatchedVdisk, at_device: u32) -> Self {
        match (now.waiting > 0, now.in_flight > 0) {
            (false, false) => Self::Idle,
            (false, true) => Self::OwnDepth,
            (true, true) => Self::Device,
            (true, false) if !now.ready => Self::Limit,
            (true, false) if at_device > 0 => Self::Others,
            (true, false) => Self::Switching,
        }
    }
}

#[derive(Clone, Copy)]
struct Count {
    at: Instant,
    requests: u64,
    bytes: u64,
    charged: u64,
}

struct Seen {
    name: String,
    waits: VecDeque<Wait>,
    counts: VecDeque<Count>,
}

/// Virtual disks of a device, each with what it waits for.
type Waits = Vec<(VdiskId, WatchedVdisk)>;

/// The findings of a look.
pub struct Look {
    /// Each device's name, pieces there, and virtual disks.
    devices: Vec<(String, u32, Waits)>,
    /// Counts of virtual disks, if they are due.
    counts: Option<Vec<(VdiskId, String, Count, u64)>>,
}

impl Look {
    /// Looks at a server.
    pub fn at(server: &Server, at: Instant, counts: bool) -> Self {
        let watched = server.watch();
        let devices = server.config().devices.iter().zip(watched);
        let devices = devices.filter_map(|(device, watched)| {
            let watched = watched?;
            Some((device.name.clone(), watched.in_flight, watched.vdisks))
        });
        let count = |view: &disktime_server::VdiskView| {
            let stats = &view.stats;
            let charged = u64::try_from(stats.charged().as_nanos()).unwrap_or(u64::MAX);
            let count = Count { at, requests: stats.requests(), bytes: stats.bytes(), charged };
            (view.id(), view.name.clone(), count, stats.promises_broken())
        };
        let counts = counts.then(|| server.vdisks().iter().map(count).collect());
        Self { devices: devices.collect(), counts }
    }
}

/// All looks that are kept.
#[derive(Default)]
pub struct Sampler {
    looks: u32,
    by_id: BTreeMap<VdiskId, Seen>,
    by_name: BTreeMap<String, VdiskId>,
    shares: BTreeMap<String, VecDeque<Sample>>,
    broken: BTreeMap<VdiskId, u64>,
}

impl Sampler {
    /// Whether counts are due at the next look.
    pub fn counts_next(&self) -> bool {
        self.looks.is_multiple_of(LOOKS_PER_COUNT)
    }

    /// Takes a look in; answers the virtual disks whose promises were broken since the last counts.
    pub fn take(&mut self, look: Look, wall_ms: u64) -> Vec<(String, u64)> {
        self.looks = self.looks.wrapping_add(1);
        let broken = look.counts.map_or_else(Vec::new, |counts| self.count(counts));
        let counted = self.looks.wrapping_sub(1).is_multiple_of(LOOKS_PER_COUNT);
        for (device, at_device, vdisks) in &look.devices {
            for (id, now) in vdisks {
                let Some(seen) = self.by_id.get_mut(id) else { continue };
                push(&mut seen.waits, Wait::of(now, *at_device), LOOKS);
            }
            if counted {
                self.share(device, vdisks.iter().map(|(id, _)| *id), wall_ms);
            }
        }
        if counted {
            let there = |device: &String| look.devices.iter().any(|(name, ..)| name == device);
            self.shares.retain(|device, _| there(device));
        }
        broken
    }

    fn count(&mut self, counts: Vec<(VdiskId, String, Count, u64)>) -> Vec<(String, u64)> {
        let mut broken = Vec::new();
        let mut gone = std::mem::take(&mut self.by_id);
        self.by_name.clear();
        for (id, name, count, promises) in counts {
            let new =
                || Seen { name: name.clone(), waits: VecDeque::new(), counts: VecDeque::new() };
            let mut seen = gone.remove(&id).unwrap_or_else(new);
            push(&mut seen.counts, count, COUNTS);
            let before = self.broken.insert(id, promises).unwrap_or(promises);
            if promises > before {
                broken.push((name.clone(), promises - before));
            }
            self.by_name.insert(name, id);
            self.by_id.insert(id, seen);
        }
        self.broken.retain(|id, _| self.by_id.contains_key(id));
        broken
    }

    /// Notes the shares of a device's virtual disks over the last second.
    fn share(&mut self, device: &str, ids: impl Iterator<Item = VdiskId>, at_ms: u64) {
        let share = |id: VdiskId| {
            let seen = self.by_id.get(&id)?;
            let (to, from) = (seen.counts.back()?, seen.counts.iter().rev().nth(1)?);
            Some((seen.name.clone(), rate(to.at, from.at, to.charged - from.charged) / 1e9))
        };
        let mut shares: Vec<(String, f64)> = ids.filter_map(share).collect();
        if shares.len() > NAMED {
            shares.sort_by(|a, b| b.1.total_cmp(&a.1));
            let rest = shares.split_off(NAMED - 1);
            shares.push(("others".to_owned(), rest.iter().map(|(_, share)| share).sum()));
        }
        let samples = self.shares.entry(device.to_owned()).or_default();
        push(samples, Sample { at_ms, shares }, SHARES);
    }

    /// Rates of a virtual disk over the last ten seconds, into its figures.
    pub fn rates(&self, name: &str, figures: &mut Figures) {
        let seen = self.by_name.get(name).and_then(|id| self.by_id.get(id));
        let Some((from, to)) = seen.and_then(|seen| seen.counts.front().zip(seen.counts.back()))
        else {
            return;
        };
        figures.utilization = rate(to.at, from.at, to.charged - from.charged) / 1e9;
        figures.iops = rate(to.at, from.at, to.requests - from.requests);
        figures.bytes_per_second = rate(to.at, from.at, to.bytes - from.bytes);
    }

    /// Reasons that held a virtual disk back over the last so many seconds.
    pub fn held(&self, name: &str, seconds: f64) -> Option<Held> {
        let seen = self.by_name.get(name).and_then(|id| self.by_id.get(id))?;
        let look = LOOK.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 300")]
        let most = (seconds / look).clamp(1.0, LOOKS as f64).round() as usize;
        let waits: Vec<Wait> = seen.waits.iter().rev().take(most).copied().collect();
        let of = |wait: Wait| {
            let count = waits.iter().filter(|it| **it == wait).count();
            100.0 * count as f64 / waits.len().max(1) as f64
        };
        Some(Held {
            seconds: waits.len() as f64 * look,
            samples: waits.len(),
            idle: of(Wait::Idle),
            own_depth: of(Wait::OwnDepth),
            device: of(Wait::Device),
            limit: of(Wait::Limit),
            others: of(Wait::Others),
            switching: of(Wait::Switching),
        })
    }

    /// The shares of a device's virtual disks, second by second, from a moment on.
    pub fn history(&self, device: &str, after_ms: u64) -> Vec<Sample> {
        let samples = self.shares.get(device).into_iter().flatten();
        samples.filter(|sample| sample.at_ms > after_ms).cloned().collect()
    }
}

fn push<T>(ring: &mut VecDeque<T>, new: T, most: usize) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(new);
}

fn rate(to: Instant, from: Instant, count: u64) -> f64 {
    let seconds = to.since(from).as_secs_f64();
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use disktime_core::Contract;

    use super::*;

    fn now(waiting: u32, in_flight: u32, ready: bool) -> WatchedVdisk {
        WatchedVdisk { contract: Contract::default(), waiting, in_flight, ready }
    }

    #[test]
    fn a_wait_has_the_reason_that_the_engine_shows() {
        for (state, at_device, expected) in [
            (now(0, 0, false), 3, Wait::Idle),
            (now(0, 1, false), 1, Wait::OwnDepth),
            (now(2, 1, true), 1, Wait::Device),
            (now(2, 0, false), 1, Wait::Limit),
            (now(2, 0, true), 1, Wait::Others),
            (now(2, 0, true), 0, Wait::Switching),
        ] {
            assert_eq!(Wait::of(&state, at_device), expected, "{state:?}");
        }
    }

    fn look(at: u64, state: WatchedVdisk, charged: u64) -> Look {
        let at = Instant::from_nanos(at);
        let count = Count { at, requests: charged / 1000, bytes: charged, charged };
        Look {
            devices: vec![("disk".to_owned(), 1, vec![(VdiskId(7), state)])],
            counts: Some(vec![(VdiskId(7), "db".to_owned(), count, charged / 1_000_000_000)]),
        }
    }

    #[test]
    fn rates_are_of_ten_seconds_and_parts_add_up() {
        let mut sampler = Sampler::default();
        let mut broken = 0;
        for second in 0..20 {
            for _ in 0..LOOKS_PER_COUNT {
                let state = now(u32::from(second % 2 == 0), 0, false);
                let mut look = look(second * 1_000_000_000, state, second * 300_000_000);
                if !sampler.counts_next() {
                    look.counts = None;
                }
                broken += sampler.take(look, second * 1000).iter().map(|it| it.1).sum::<u64>();
            }
        }
        let mut figures = Figures::default();
        sampler.rates("db", &mut figures);
        assert!((figures.utilization - 0.3).abs() < 1e-9, "{figures:?}");
        assert_eq!(broken, 5, "of 5.7 s charged");
        let held = sampler.held("db", 10.0).unwrap();
        assert_eq!((held.samples, held.limit, held.idle), (50, 50.0, 50.0));
        let Held { idle, own_depth, device, limit, others, switching, .. } = held;
        assert_eq!(idle + own_depth + device + limit + others + switching, 100.0);
        let history = sampler.history("disk", 15_000);
        assert_eq!(history.len(), 4);
        assert!((history[0].shares[0].1 - 0.3).abs() < 1e-9, "{history:?}");
        assert_eq!(sampler.held("nobody", 10.0), None);
    }
}
