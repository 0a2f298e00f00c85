//! Looks at the virtual disks that have requests five times a second: what each waits for; and once a
//! second at what all got.
//!
//! Keeps of each one that did something in the last minute what it waited for, rates of ten seconds and
//! response times of five to ten; of each device its [past](crate::history). A virtual disk that does
//! nothing costs a comparison a second and 32 bytes. So do a mount and each stream of one; the past of a
//! device has mounts, but not their streams, of which there may be tens of thousands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use disktime_api::{Figures, Held, History, Latency, Live, LiveDevice, LiveVdisk, Waited};
use disktime_core::{Duration, Instant, Share};
use disktime_server::{
    GuestStreamId, GuestStreamView, MountId, MountView, Server, Snapshot, VdiskId, VdiskStats,
    VdiskView, Watch, WatchedDevice, WatchedVdisk,
};

use crate::history::{Moment, NAMED, Octaves, Past, Portion, named, push, short};

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(200);
/// Looks that are kept of each virtual disk: a minute.
const LOOKS: u32 = 300;
/// Looks between two counts.
const LOOKS_PER_COUNT: u32 = 5;
/// Looks of the rates: ten seconds.
const RATES: usize = 50;
/// Counts that are kept for rates: of ten seconds.
const COUNTS: usize = 11;
/// Counts between two beginnings of a span of response times.
const SPAN: u32 = 5;

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
    /// Reasons that hold back, with their names in [`Held`].
    const NAMES: [(Self, &str); 5] = [
        (Self::OwnDepth, "own_depth"),
        (Self::Device, "device"),
        (Self::Limit, "limit"),
        (Self::Others, "others"),
        (Self::Switching, "switching"),
    ];

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

/// A virtual disk, a mount, or a stream of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Seen {
    /// A virtual disk.
    Vdisk(VdiskId),
    /// A mount.
    Mount(MountId),
    /// A stream of a mount.
    Guest(GuestStreamId),
}

impl From<VdiskId> for Seen {
    fn from(id: VdiskId) -> Self {
        Self::Vdisk(id)
    }
}

impl From<MountId> for Seen {
    fn from(id: MountId) -> Self {
        Self::Mount(id)
    }
}

impl From<GuestStreamId> for Seen {
    fn from(id: GuestStreamId) -> Self {
        Self::Guest(id)
    }
}

/// A virtual disk's totals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    requests: u64,
    bytes: u64,
    charged: u64,
    broken: u64,
}

/// Something that has a virtual disk's totals.
pub trait Counted {
    /// Its identity.
    fn id(&self) -> Seen;
    /// Its name.
    fn name(&self) -> &str;
    /// Its device's name.
    fn device(&self) -> &str;
    /// Its totals.
    fn totals(&self) -> Totals;
    /// Its waiting times and times at the device.
    fn times(&self) -> [Snapshot; 2];
}

impl Counted for VdiskView {
    fn id(&self) -> Seen {
        Seen::Vdisk(self.id())
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> &str {
        &self.device
    }

    fn totals(&self) -> Totals {
        totals(&self.stats)
    }

    fn times(&self) -> [Snapshot; 2] {
        times(&self.stats)
    }
}

/// A mount or a stream of one.
struct OfGuest<'a> {
    id: Seen,
    name: &'a str,
    device: &'a str,
    stats: &'a VdiskStats,
}

impl Counted for OfGuest<'_> {
    fn id(&self) -> Seen {
        self.id
    }

    fn name(&self) -> &str {
        self.name
    }

    fn device(&self) -> &str {
        self.device
    }

    fn totals(&self) -> Totals {
        totals(self.stats)
    }

    fn times(&self) -> [Snapshot; 2] {
        times(self.stats)
    }
}

fn totals(stats: &VdiskStats) -> Totals {
    Totals {
        requests: stats.requests(),
        bytes: stats.bytes(),
        charged: u64::try_from(stats.charged().as_nanos()).unwrap_or(u64::MAX),
        broken: stats.promises_broken(),
    }
}

fn times(stats: &VdiskStats) -> [Snapshot; 2] {
    [stats.queue_time.snapshot(), stats.service_time.snapshot()]
}

/// Times at the last count, and at the beginnings of the last two spans.
#[derive(Default)]
struct Times {
    last: Snapshot,
    spans: [Snapshot; 2],
}

impl Times {
    fn quantile(&self, fraction: f64) -> Option<f64> {
        let time = self.last.since(&self.spans[0]).quantile(fraction)?;
        Some(time.as_secs_f64() * 1e6)
    }
}

/// A virtual disk that did something in the last minute.
#[derive(Default)]
struct Busy {
    /// Its name; nothing until the first count.
    name: Option<Arc<str>>,
    device: String,
    /// The look at which it did something last.
    active: u32,
    reserve: f64,
    waits: VecDeque<Wait>,
    counts: VecDeque<(Instant, Totals)>,
    times: [Times; 2],
}

impl Busy {
    /// The part of the latest looks in which it waited for that, where it was looked at so often.
    fn part(&self, wait: Wait, latest: usize) -> f64 {
        let count = self.waits.iter().rev().take(latest).filter(|it| **it == wait).count();
        count as f64 / latest.max(1) as f64
    }

    /// Rates over the counts from one to the latest.
    fn rates(&self, from: Option<&(Instant, Totals)>) -> [f64; 3] {
        let Some(((from, before), (to, now))) = from.zip(self.counts.back()) else {
            return [0.0; 3];
        };
        let rate = |of: fn(&Totals) -> u64| {
            let seconds = to.since(*from).as_secs_f64();
            if seconds > 0.0 { of(now).saturating_sub(of(before)) as f64 / seconds } else { 0.0 }
        };
        [rate(|it| it.charged) / 1e9, rate(|it| it.requests), rate(|it| it.bytes)]
    }

    /// The share of the last second.
    fn got(&self) -> f64 {
        self.rates(self.counts.iter().rev().nth(1))[0]
    }

    fn held_by(&self) -> Option<String> {
        let parts = Wait::NAMES.map(|(wait, name)| (self.part(wait, RATES), name));
        let most = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        most.filter(|(part, _)| *part > 0.0).map(|(_, name)| name.to_owned())
    }

    fn latency(&self) -> Latency {
        let [queue, service] = &self.times;
        Latency {
            queue_us_p50: queue.quantile(0.5),
            queue_us_p99: queue.quantile(0.99),
            service_us_p50: service.quantile(0.5),
            service_us_p99: service.quantile(0.99),
        }
    }

    fn live(&self) -> LiveVdisk {
        let [utilization, iops, bytes_per_second] = self.rates(self.counts.front());
        LiveVdisk {
            name: self.name.as_deref().unwrap_or_default().to_owned(),
            got: self.got(),
            reserved: self.reserve,
            utilization,
            wanting: 1.0 - self.part(Wait::Idle, RATES.min(self.waits.len())),
            iops,
            bytes_per_second,
            held_by: self.held_by(),
            latency: self.latency(),
        }
    }
}

/// A share as a fraction.
pub fn fraction(share: Share) -> f64 {
    f64::from(share.ppm()) / 1e6
}

/// A virtual disk at its last count.
struct Slot {
    id: Seen,
    requests: u64,
    charged: u64,
    broken: u64,
}

/// A device's times at the last count, and its past.
#[derive(Default)]
struct OneDevice {
    /// Busy, spare and held time.
    times: Option<(Instant, [Duration; 3])>,
    past: Past,
}

/// The findings of a look.
#[derive(Default)]
pub struct News {
    /// Virtual disks whose promises were broken since the last count, and how often.
    pub broken: Vec<(String, u64)>,
    /// The last second, if it is over.
    pub live: Option<Live>,
}

/// The mounts of a device, and their streams.
type Guests = (Vec<Arc<MountView>>, Arc<[Arc<GuestStreamView>]>);

/// All looks that are kept.
#[derive(Default)]
pub struct Sampler {
    looks: u32,
    /// In the order in which the server has them.
    slots: Vec<Slot>,
    /// The same of mounts, and of their streams.
    guest_slots: [Vec<Slot>; 2],
    /// By device, as it answered last: one that does not answer for a moment has not lost its mounts.
    guests: BTreeMap<String, Guests>,
    busy: BTreeMap<Seen, Busy>,
    /// Nanoseconds that virtual disks which ever had requests waited, by [`Wait::NAMES`].
    waited: BTreeMap<Seen, [u64; Wait::NAMES.len()]>,
    /// The last look.
    last: Option<Instant>,
    devices: BTreeMap<String, OneDevice>,
}

impl Sampler {
    /// Looks at a server.
    pub fn look(&mut self, server: &Server, at: Instant, wall_ms: u64) -> News {
        let watched = server.watch(Watch::Busy);
        let configured = &server.config().devices;
        // The past of one that does not answer for a moment stays.
        let stays = |name: &String| configured.iter().any(|it| it.name == *name);
        self.devices.retain(|name, _| stays(name));
        self.guests.retain(|name, _| stays(name));
        let devices = configured.iter().map(|it| it.name.as_str()).zip(watched);
        let devices =
            devices.filter_map(|(name, watched)| Some((name, watched?))).collect::<Vec<_>>();
        self.take((at, wall_ms), &devices, server.vdisks())
    }

    /// Takes a look in.
    fn take(
        &mut self,
        (at, wall_ms): (Instant, u64),
        devices: &[(&str, WatchedDevice)],
        vdisks: &[impl Counted],
    ) -> News {
        self.looks = self.looks.wrapping_add(1);
        let looks = self.looks;
        // A look stands for the time since the one before.
        let span = self.last.replace(at).map_or(0, |last| at.since(last).as_nanos());
        for (id, now, at_device) in devices.iter().flat_map(|(_, device)| {
            let vdisks = device.vdisks.iter().map(|(id, now)| (Seen::from(*id), now));
            let mounts = device.mounts.iter().map(|it| (Seen::from(it.view.id), &it.now));
            let mounts = mounts.filter(|(_, now)| now.waiting + now.in_flight > 0);
            let guests = device.guests_now.iter().map(|(id, now)| (Seen::from(*id), now));
            vdisks.chain(mounts).chain(guests).map(|(id, now)| (id, now, device.in_flight))
        }) {
            let busy = self.busy.entry(id).or_default();
            busy.active = looks;
            busy.reserve = fraction(now.contract.reserve);
            let wait = Wait::of(now, at_device);
            push(&mut busy.waits, wait, LOOKS as usize);
            if let Some(reason) = Wait::NAMES.iter().position(|(it, _)| *it == wait) {
                self.waited.entry(id).or_default()[reason] += span;
            }
        }
        for busy in self.busy.values_mut().filter(|busy| busy.active != looks) {
            push(&mut busy.waits, Wait::Idle, LOOKS as usize);
        }
        if !looks.wrapping_sub(1).is_multiple_of(LOOKS_PER_COUNT) {
            return News::default();
        }
        let mut octaves: BTreeMap<&str, [Octaves; 2]> = BTreeMap::new();
        let mut slots = std::mem::take(&mut self.slots);
        let broken = self.count(at, (&mut slots, vdisks), &mut octaves);
        self.slots = slots;
        let mut guests = std::mem::take(&mut self.guests);
        for (device, now) in devices {
            let mounts = now.mounts.iter().map(|it| Arc::clone(&it.view)).collect();
            guests.insert((*device).to_owned(), (mounts, Arc::clone(&now.guest_streams)));
        }
        let mounts = guests.iter().flat_map(|(device, (mounts, _))| {
            mounts.iter().map(|it| OfGuest {
                id: it.id.into(),
                name: &it.name,
                device,
                stats: &it.stats,
            })
        });
        let streams = guests.iter().flat_map(|(device, (_, streams))| {
            streams.iter().map(|it| OfGuest {
                id: it.id.into(),
                name: &it.name,
                device,
                stats: &it.stats,
            })
        });
        let [of_mounts, of_streams] = [mounts.collect::<Vec<_>>(), streams.collect()];
        let [mut mounts, mut streams] = std::mem::take(&mut self.guest_slots);
        self.count(at, (&mut mounts, &of_mounts), &mut octaves);
        // Its mount has counted the times of a stream.
        self.count(at, (&mut streams, &of_streams), &mut BTreeMap::new());
        self.guest_slots = [mounts, streams];
        self.let_go();
        let devices = devices.iter().map(|(name, device)| {
            let octaves = octaves.get(name).copied().unwrap_or_default();
            self.device((at, wall_ms), name, device, octaves)
        });
        let live = Live { at_ms: wall_ms, devices: devices.collect() };
        drop(octaves);
        self.guests = guests;
        News { broken, live: Some(live) }
    }

    /// Counts what each virtual disk got; answers broken promises.
    fn count<'a>(
        &mut self,
        at: Instant,
        (slots, vdisks): (&mut Vec<Slot>, &'a [impl Counted]),
        octaves: &mut BTreeMap<&'a str, [Octaves; 2]>,
    ) -> Vec<(String, u64)> {
        let aligned = slots.len() == vdisks.len()
            && slots.iter().zip(vdisks).all(|(slot, vdisk)| slot.id == vdisk.id());
        if !aligned {
            self.align(slots, vdisks);
        }
        let mut broken = Vec::new();
        for (slot, vdisk) in slots.iter_mut().zip(vdisks) {
            let totals = vdisk.totals();
            let moved = totals.requests != slot.requests || totals.charged != slot.charged;
            if totals.broken > slot.broken {
                broken.push((vdisk.name().to_owned(), totals.broken - slot.broken));
            }
            (slot.requests, slot.charged, slot.broken) =
                (totals.requests, totals.charged, totals.broken);
            let busy = if moved {
                Some(self.busy.entry(slot.id).or_default())
            } else if self.busy.is_empty() {
                None
            } else {
                self.busy.get_mut(&slot.id)
            };
            let Some(busy) = busy else { continue };
            if moved {
                busy.active = self.looks;
            }
            if busy.name.is_none() {
                busy.name = Some(vdisk.name().into());
                vdisk.device().clone_into(&mut busy.device);
            }
            push(&mut busy.counts, (at, totals), COUNTS);
            if moved {
                let sums = octaves.entry(vdisk.device()).or_default();
                for ((times, now), sums) in busy.times.iter_mut().zip(vdisk.times()).zip(sums) {
                    let new = now.since(&times.last).octaves();
                    sums.iter_mut().zip(new).for_each(|(sum, it)| *sum = sum.saturating_add(it));
                    times.last = now;
                }
            }
        }
        broken
    }

    /// Ends spans of response times, and forgets what did nothing for a minute.
    fn let_go(&mut self) {
        let span_ends = (self.looks / LOOKS_PER_COUNT).is_multiple_of(SPAN);
        let looks = self.looks;
        self.busy.retain(|_, busy| {
            if span_ends {
                for times in &mut busy.times {
                    let [older, newer] = &mut times.spans;
                    *older = std::mem::replace(newer, times.last.clone());
                }
            }
            looks.wrapping_sub(busy.active) < LOOKS
        });
    }

    /// Virtual disks have come or gone.
    fn align(&mut self, slots: &mut Vec<Slot>, vdisks: &[impl Counted]) {
        let known = std::mem::take(slots).into_iter().map(|slot| (slot.id, slot));
        let mut known: BTreeMap<Seen, Slot> = known.collect();
        let slot = |vdisk: &_| {
            let (id, totals) = (Counted::id(vdisk), Counted::totals(vdisk));
            let Totals { broken, .. } = totals;
            known.remove(&id).unwrap_or(Slot { id, requests: 0, charged: 0, broken })
        };
        *slots = vdisks.iter().map(slot).collect();
        self.busy.retain(|id, _| !known.contains_key(id));
        self.waited.retain(|id, _| !known.contains_key(id));
    }

    /// Keeps a second of a device.
    fn device(
        &mut self,
        (at, at_ms): (Instant, u64),
        name: &str,
        now: &WatchedDevice,
        [queue, service]: [Octaves; 2],
    ) -> LiveDevice {
        let (vdisk_portions, vdisks) = self.got(name, |id| matches!(id, Seen::Vdisk(_)));
        let (mount_portions, mounts) = self.got(name, |id| matches!(id, Seen::Mount(_)));
        let device = self.devices.entry(name.to_owned()).or_default();
        let times = [now.busy, now.spare, now.held];
        let before = device.times.replace((at, times));
        let share = |which: usize| {
            let Some((then, before)) = before else { return 0.0 };
            let time = times[which].as_nanos().saturating_sub(before[which].as_nanos());
            time as f64 / (at.since(then).as_nanos().max(1)) as f64
        };
        let [spent, spare, held] = [0, 1, 2].map(share);
        #[expect(clippy::cast_possible_truncation, reason = "four digits are shown")]
        let (spare, held) = (spare as f32, held as f32);
        let (of_vdisks, of_mounts) = (vdisk_portions, mount_portions);
        let moment =
            Moment { at_ms, vdisks: of_vdisks, mounts: of_mounts, spare, held, queue, service };
        device.past.push(moment);
        LiveDevice {
            name: name.to_owned(),
            reserved: now.reserved_ppm as f64 / 1e6,
            busy: spent,
            spare: short(spare),
            held: short(held),
            vdisks,
            mounts,
            queue: queue.to_vec(),
            service: service.to_vec(),
        }
    }

    /// The busy ones of a kind on a device in the last second: for its past, and as they are sent.
    fn got(&self, device: &str, is_kind: fn(&Seen) -> bool) -> (Vec<Portion>, Vec<LiveVdisk>) {
        let of_it = self
            .busy
            .iter()
            .filter(|(id, busy)| is_kind(id) && busy.device == device && busy.name.is_some());
        let mut busy: Vec<(f64, &Busy)> = of_it.map(|(_, busy)| (busy.got(), busy)).collect();
        let portion = |(got, busy): &(f64, &Busy)| {
            #[expect(clippy::cast_possible_truncation, reason = "four digits are shown")]
            let (got, reserved) = (*got as f32, busy.reserve as f32);
            Some(Portion { name: Arc::clone(busy.name.as_ref()?), got, reserved })
        };
        let portions = named(busy.iter().filter_map(portion).collect());
        busy.sort_by(|a, b| b.0.total_cmp(&a.0));
        (portions, busy.iter().take(NAMED).map(|(_, busy)| busy.live()).collect())
    }

    /// Rates of a virtual disk, a mount or a mount's stream over the last ten seconds, into its figures.
    pub fn rates(&self, id: impl Into<Seen>, figures: &mut Figures) {
        let Some(busy) = self.busy.get(&id.into()) else { return };
        let live = busy.live();
        figures.utilization = live.utilization;
        figures.iops = live.iops;
        figures.bytes_per_second = live.bytes_per_second;
        figures.wanting = live.wanting;
        figures.held_by = live.held_by;
        figures.latency = live.latency;
    }

    /// Time for which a virtual disk waited, by reason; nothing if it never had a request.
    pub fn waited(&self, id: impl Into<Seen>) -> Option<Waited> {
        let seconds = self.waited.get(&id.into())?.map(|nanos| nanos as f64 / 1e9);
        let [own_depth, device, limit, others, switching] = seconds;
        Some(Waited { own_depth, device, limit, others, switching })
    }

    /// Reasons that held a virtual disk back over the last so many seconds.
    pub fn held(&self, id: VdiskId, seconds: f64) -> Held {
        let look = LOOK.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 300")]
        let most =
            (seconds / look).clamp(1.0, f64::from(LOOKS.min(self.looks.max(1)))).round() as usize;
        let samples = if self.looks == 0 { 0 } else { most };
        let waited = self.waited(id).unwrap_or_default();
        let nothing = Held { seconds: samples as f64 * look, samples, waited, ..Held::default() };
        let Some(busy) = self.busy.get(&id.into()) else {
            return Held { idle: if samples > 0 { 100.0 } else { 0.0 }, ..nothing };
        };
        let of = |wait| 100.0 * busy.part(wait, most);
        // It sent nothing before it was looked at first.
        let unseen = 100.0 * most.saturating_sub(busy.waits.len()) as f64 / most as f64;
        Held {
            idle: of(Wait::Idle) + unseen,
            own_depth: of(Wait::OwnDepth),
            device: of(Wait::Device),
            limit: of(Wait::Limit),
            others: of(Wait::Others),
            switching: of(Wait::Switching),
            ..nothing
        }
    }

    /// A device's past.
    pub fn history(&self, device: &str, long: bool, after_ms: u64) -> Option<History> {
        self.devices.get(device).map(|it| it.past.history(long, after_ms))
    }
}

#[cfg(test)]
mod tests {
    use disktime_core::Contract;
    use disktime_server::WatchedMount;

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

    struct Disk(VdiskId, Totals);

    impl Counted for Disk {
        fn id(&self) -> Seen {
            self.0.into()
        }

        fn name(&self) -> &str {
            if self.0 == VdiskId(7) { "db" } else { "other" }
        }

        fn device(&self) -> &str {
            "disk"
        }

        fn totals(&self) -> Totals {
            self.1
        }

        fn times(&self) -> [Snapshot; 2] {
            let histogram = disktime_server::Histogram::default();
            (0..self.1.requests.min(1000)).for_each(|_| histogram.record(1_000_000));
            [histogram.snapshot(), Snapshot::default()]
        }
    }

    fn device(vdisks: Vec<(VdiskId, WatchedVdisk)>) -> WatchedDevice {
        let none = Duration::from_nanos(0);
        WatchedDevice {
            busy: none,
            spare: none,
            held: none,
            depth: 1,
            in_flight: 1,
            reserved_ppm: 300_000,
            vdisks,
            guests: 0,
            mounts: Vec::new(),
            guest_streams: Arc::default(),
            guests_now: Vec::new(),
            granted: Vec::new(),
        }
    }

    /// Looks at `db`, which is charged 30 % of the time and waits for its limit in every other second.
    fn looks(sampler: &mut Sampler, seconds: std::ops::Range<u64>) -> u64 {
        let mut broken = 0;
        for second in seconds {
            for _ in 0..LOOKS_PER_COUNT {
                let charged = second * 300_000_000;
                let totals = Totals {
                    requests: second * 10,
                    bytes: charged,
                    charged,
                    broken: charged / 1_000_000_000,
                };
                let disks = [Disk(VdiskId(3), Totals::default()), Disk(VdiskId(7), totals)];
                let waits = (second % 2 == 0).then(|| (VdiskId(7), now(1, 0, false)));
                let devices = [("disk", device(waits.into_iter().collect()))];
                let at = Instant::from_nanos(second * 1_000_000_000);
                let news = sampler.take((at, second * 1000), &devices, &disks);
                broken += news.broken.iter().map(|it| it.1).sum::<u64>();
            }
        }
        broken
    }

    #[test]
    fn rates_are_of_ten_seconds_and_parts_add_up() {
        let mut sampler = Sampler::default();
        assert_eq!(looks(&mut sampler, 0..20), 5, "of 5.7 s charged");
        let mut figures = Figures::default();
        sampler.rates(VdiskId(7), &mut figures);
        assert!((figures.utilization - 0.3).abs() < 1e-9, "{figures:?}");
        assert!((figures.iops - 10.0).abs() < 1e-9 && (figures.wanting - 0.5).abs() < 1e-9);
        assert_eq!(figures.held_by.as_deref(), Some("limit"));
        let p99 = figures.latency.queue_us_p99.unwrap();
        assert!((1000.0..1250.0).contains(&p99), "{p99}");
        let held = sampler.held(VdiskId(7), 10.0);
        assert_eq!((held.samples, held.limit, held.idle), (50, 50.0, 50.0));
        // A second of waiting in every other one of 19: looks that found nothing count for nothing.
        assert_eq!(held.waited, Waited { limit: 9.0, ..Waited::default() });
        let Held { idle, own_depth, device, limit, others, switching, .. } = held;
        assert_eq!(idle + own_depth + device + limit + others + switching, 100.0);
        let history = sampler.history("disk", false, 15_000).unwrap();
        assert_eq!((history.at_ms.len(), history.vdisks.len()), (4, 1));
        assert!((history.vdisks[0].got[0] - 0.3).abs() < 1e-9, "{history:?}");
        assert_eq!(history.queue[0].iter().sum::<u32>(), 10);
        assert!(sampler.history("nowhere", false, 0).is_none());
    }

    /// A mount's stream was in no figure but its own mount's, and a mount in no past.
    #[test]
    fn mounts_and_their_streams_have_figures_and_a_past_beside_virtual_disks() {
        let id = GuestStreamId { guest: 1, nth: 1 };
        let mount = Arc::new(MountView::new(MountId(1), "/mnt".into()));
        let view = GuestStreamView {
            id,
            mount: Arc::clone(&mount),
            stream: 0,
            name: "film".to_owned(),
            stats: Arc::default(),
        };
        let streams: Arc<[_]> = [Arc::new(view)].into();
        let mut sampler = Sampler::default();
        for second in 0..20 {
            for _ in 0..LOOKS_PER_COUNT {
                let mut device = device(Vec::new());
                device.guest_streams = Arc::clone(&streams);
                device.guests_now = vec![(id, now(1, 1, true))];
                let reserve = Share::from_percent(30).unwrap();
                let contract = Contract { reserve, ..Contract::default() };
                let now = WatchedVdisk { contract, ..now(1, 1, true) };
                let (view, streams) = (Arc::clone(&mount), BTreeMap::new());
                device.mounts = vec![WatchedMount { view, streams, now }];
                let at = Instant::from_nanos(second * 1_000_000_000);
                let news = sampler.take((at, second * 1000), &[("disk", device)], &[] as &[Disk]);
                let of_disk = news.live.map(|mut live| live.devices.remove(0));
                if let Some(LiveDevice { vdisks, mounts, .. }) = of_disk {
                    assert_eq!((vdisks.len(), mounts.len()), (0, 1), "its streams are left out");
                    assert_eq!((&*mounts[0].name, mounts[0].reserved), ("/mnt", 0.3));
                }
            }
        }
        for seen in [Seen::from(id), Seen::from(mount.id)] {
            let mut figures = Figures::default();
            sampler.rates(seen, &mut figures);
            assert_eq!((figures.wanting, figures.held_by.as_deref()), (1.0, Some("device")));
            assert_eq!(sampler.waited(seen).unwrap().device, 19.0);
        }
        let History { vdisks, mounts, .. } = sampler.history("disk", false, 0).unwrap();
        assert!(vdisks.is_empty());
        assert_eq!((mounts.len(), &*mounts[0].name, mounts[0].reserved[0]), (1, "/mnt", Some(0.3)));
        let mut look = |seconds: u64, devices: &[(&str, WatchedDevice)]| {
            for _ in 0..LOOKS_PER_COUNT {
                let at = Instant::from_nanos(seconds * 1_000_000_000);
                sampler.take((at, seconds * 1000), devices, &[] as &[Disk]);
            }
            let past = sampler.history("disk", false, 0).map_or(0, |it| it.at_ms.len());
            (sampler.busy.len(), sampler.waited.len(), past)
        };
        // A device that did not answer for a second lost its past, and its mounts their sums. Mounts of others
        // are seen meanwhile.
        let mut other = device(Vec::new());
        let (view, streams) =
            (Arc::new(MountView::new(MountId(2), "/srv".into())), BTreeMap::new());
        other.mounts = vec![WatchedMount { view, streams, now: now(1, 1, true) }];
        assert_eq!(look(20, &[("other", other)]), (3, 3, 19));
        assert_eq!(look(21, &[("disk", device(Vec::new()))]), (1, 1, 20), "it is gone");
        assert_eq!(sampler.history("other", false, 0).unwrap().mounts.len(), 1);
    }

    #[test]
    fn a_virtual_disk_that_does_nothing_for_a_minute_is_let_go_and_was_idle() {
        let mut sampler = Sampler::default();
        looks(&mut sampler, 0..5);
        assert_eq!(sampler.busy.len(), 1);
        let rest = [("disk", device(Vec::new()))];
        for second in 5..70 {
            let at = Instant::from_nanos(second * 1_000_000_000);
            let totals = Totals { requests: 40, bytes: 0, charged: 1_200_000_000, broken: 1 };
            let disks = [Disk(VdiskId(3), Totals::default()), Disk(VdiskId(7), totals)];
            for _ in 0..LOOKS_PER_COUNT {
                sampler.take((at, second * 1000), &rest, &disks);
            }
        }
        assert_eq!(sampler.busy.len(), 0);
        let held = sampler.held(VdiskId(7), 10.0);
        assert_eq!(held.waited.limit, 2.0, "it is kept for as long as the virtual disk is there");
        assert_eq!((held.idle, held.samples), (100.0, 50));
        sampler.take((Instant::from_nanos(71_000_000_000), 71_000), &rest, &[] as &[Disk]);
        assert_eq!((sampler.slots.len(), sampler.waited.len()), (0, 0));
    }
}
