//! The past of each device, for charts: a moment a second for ten minutes, one in ten seconds for six
//! hours.
//!
//! Does not know: where the figures come from.

use std::collections::VecDeque;
use std::sync::Arc;

use disktime_api::{History, Track};
use disktime_server::Snapshot;

/// Moments of a second that are kept: ten minutes.
const FINE: usize = 600;
/// Moments of ten seconds that are kept: six hours.
const COARSE: usize = 2160;
/// Seconds of a long moment.
const LONG: usize = 10;
/// Virtual disks of a device in a moment, and mounts; those beyond are one, named `others`.
pub const NAMED: usize = 32;

/// Counts by octave of time.
pub type Octaves = [u32; Snapshot::OCTAVES];

/// The share of a virtual disk or of a mount in a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Portion {
    /// Its name.
    pub name: Arc<str>,
    /// Share of the device's time that it got.
    pub got: f32,
    /// Share that it had reserved.
    pub reserved: f32,
}

/// A moment of a device.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Its end, in milliseconds since 1970.
    pub at_ms: u64,
    /// Virtual disks that got something.
    pub vdisks: Vec<Portion>,
    /// Mounts that got something.
    pub mounts: Vec<Portion>,
    /// Share of the time that is charged to no stream.
    pub spare: f32,
    /// Share of the time held idle for a stream.
    pub held: f32,
    /// Requests by the time that they waited.
    pub queue: Octaves,
    /// Requests by their time at the device.
    pub service: Octaves,
}

/// The kept moments of a device.
#[derive(Default, Debug)]
pub struct Past {
    fine: VecDeque<Moment>,
    coarse: VecDeque<Moment>,
    since_coarse: usize,
}

/// The first ones by what they got, and the others as one.
pub fn named(mut portions: Vec<Portion>) -> Vec<Portion> {
    portions.sort_by(|a, b| b.got.total_cmp(&a.got).then_with(|| a.name.cmp(&b.name)));
    if portions.len() > NAMED {
        let rest = portions.split_off(NAMED - 1);
        let sum = |of: fn(&Portion) -> f32| rest.iter().map(of).sum();
        let (got, reserved) = (sum(|it| it.got), sum(|it| it.reserved));
        portions.push(Portion { name: "others".into(), got, reserved });
    }
    portions
}

impl Past {
    /// Keeps another second.
    pub fn push(&mut self, moment: Moment) {
        if let Some(last) = self.fine.back().map(|it| it.at_ms).filter(|at| *at >= moment.at_ms) {
            // The clock was set back: what was before stays before.
            let back = last + 1000 - moment.at_ms;
            let kept = self.fine.iter_mut().chain(&mut self.coarse);
            kept.for_each(|it| it.at_ms = it.at_ms.saturating_sub(back));
        }
        push(&mut self.fine, moment, FINE);
        self.since_coarse += 1;
        if self.since_coarse == LONG {
            self.since_coarse = 0;
            let last: Vec<&Moment> = self.fine.iter().rev().take(LONG).collect();
            if let Some(long) = together(&last) {
                push(&mut self.coarse, long, COARSE);
            }
        }
    }

    /// The moments after one, of ten seconds each or of one.
    pub fn history(&self, long: bool, after_ms: u64) -> History {
        let (moments, step_seconds) = if long { (&self.coarse, 10) } else { (&self.fine, 1) };
        let moments: Vec<&Moment> = moments.iter().filter(|it| it.at_ms > after_ms).collect();
        let edges = Snapshot::edges().map(|edge| edge.as_secs_f64() * 1e6);
        History {
            step_seconds,
            at_ms: moments.iter().map(|it| it.at_ms).collect(),
            vdisks: tracks(&moments, |it| &it.vdisks),
            mounts: tracks(&moments, |it| &it.mounts),
            spare: moments.iter().map(|it| short(it.spare)).collect(),
            held: moments.iter().map(|it| short(it.held)).collect(),
            edges_us: edges.to_vec(),
            queue: moments.iter().map(|it| it.queue.to_vec()).collect(),
            service: moments.iter().map(|it| it.service.to_vec()).collect(),
        }
    }
}

/// The portions of moments by name.
fn tracks(moments: &[&Moment], portions: fn(&Moment) -> &[Portion]) -> Vec<Track> {
    let mut names: Vec<&Arc<str>> = Vec::new();
    for portion in moments.iter().flat_map(|it| portions(it)) {
        if let Err(at) = names.binary_search(&&portion.name) {
            names.insert(at, &portion.name);
        }
    }
    let track = |name: &Arc<str>| {
        let of = |moment: &&Moment| portions(moment).iter().find(|it| it.name == *name).cloned();
        let portions: Vec<Option<Portion>> = moments.iter().map(of).collect();
        Track {
            name: name.to_string(),
            got: portions.iter().map(|it| it.as_ref().map_or(0.0, |it| short(it.got))).collect(),
            reserved: portions.iter().map(|it| Some(short(it.as_ref()?.reserved))).collect(),
        }
    };
    names.into_iter().map(track).collect()
}

/// The portions of several moments as those of one.
fn mean_of(moments: &[&Moment], portions: fn(&Moment) -> &[Portion]) -> Vec<Portion> {
    let mut all: Vec<Portion> = Vec::new();
    for portion in moments.iter().flat_map(|it| portions(it)) {
        match all.iter_mut().find(|it| it.name == portion.name) {
            Some(sum) => sum.got += portion.got,
            None => all.push(portion.clone()),
        }
    }
    let count = moments.len() as f32;
    all.iter_mut().for_each(|it| it.got /= count);
    named(all)
}

/// Several moments as one, the latest first.
fn together(moments: &[&Moment]) -> Option<Moment> {
    let latest = moments.first()?;
    let count = moments.len() as f32;
    let (mut queue, mut service) = (Octaves::default(), Octaves::default());
    for moment in moments {
        for (sums, counts) in [(&mut queue, &moment.queue), (&mut service, &moment.service)] {
            sums.iter_mut().zip(counts).for_each(|(sum, it)| *sum = sum.saturating_add(*it));
        }
    }
    let [vdisks, mounts] = [mean_of(moments, |it| &it.vdisks), mean_of(moments, |it| &it.mounts)];
    let mean = |of: fn(&Moment) -> f32| moments.iter().map(|it| of(it)).sum::<f32>() / count;
    let (spare, held) = (mean(|it| it.spare), mean(|it| it.held));
    Some(Moment { at_ms: latest.at_ms, vdisks, mounts, spare, held, queue, service })
}

/// Four digits are enough for a chart.
pub fn short(share: f32) -> f64 {
    (f64::from(share) * 1e4).round() / 1e4
}

pub(crate) fn push<T>(ring: &mut VecDeque<T>, new: T, most: usize) {
    if ring.len() >= most {
        ring.pop_front();
    }
    ring.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: u64, got: f32) -> Moment {
        let portion = |name: &str, got| Portion { name: name.into(), got, reserved: 0.3 };
        let (mut queue, service) = (Octaves::default(), Octaves::default());
        queue[3] = 2;
        let vdisks = vec![portion("db", got), portion("web", 0.1)];
        let mounts = vec![portion("/mnt/media", got / 3.0)];
        Moment { at_ms: second * 1000, vdisks, mounts, spare: 0.2, held: 0.0, queue, service }
    }

    #[test]
    fn seconds_are_kept_for_ten_minutes_and_tens_of_seconds_longer() {
        let mut past = Past::default();
        (1..=1000).for_each(|second| past.push(moment(second, (second % 10) as f32 / 10.0)));
        let fine = past.history(false, 0);
        assert_eq!((fine.at_ms.len(), fine.at_ms[0], fine.step_seconds), (FINE, 401_000, 1));
        let coarse = past.history(true, 500_000);
        assert_eq!((coarse.at_ms.len(), coarse.at_ms[0], coarse.step_seconds), (50, 510_000, 10));
        let db = &coarse.vdisks[0];
        assert_eq!((db.name.as_str(), db.got[0], db.reserved[0]), ("db", 0.45, Some(0.3)));
        assert_eq!((coarse.queue[0][3], coarse.spare[0]), (20, 0.2));
        let names = |tracks: &[Track]| tracks.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&coarse.vdisks), ["db", "web"]);
        for history in [&fine, &coarse] {
            assert_eq!(names(&history.mounts), ["/mnt/media"], "mounts are beside virtual disks");
        }
        assert_eq!((coarse.mounts[0].got[0], coarse.mounts[0].reserved[0]), (0.15, Some(0.3)));
    }

    /// The page ignored each second until the clock was where it had been.
    #[test]
    fn moments_stay_in_order_if_the_clock_is_set_back() {
        let mut past = Past::default();
        (3601..=3620).for_each(|second| past.push(moment(second, 0.5)));
        past.push(moment(100, 0.5));
        let times = |long| past.history(long, 0).at_ms;
        assert_eq!(times(false)[18..], [98_000, 99_000, 100_000]);
        assert_eq!(times(true), [89_000, 99_000]);
    }

    #[test]
    fn a_virtual_disk_that_comes_late_has_nothing_before() {
        let mut past = Past::default();
        past.push(Moment { vdisks: Vec::new(), ..moment(1, 0.0) });
        past.push(moment(2, 0.5));
        let history = past.history(false, 0);
        assert_eq!(history.vdisks[0].got, [0.0, 0.5]);
        assert_eq!(history.vdisks[0].reserved, [None, Some(0.3)]);
    }

    #[test]
    fn the_smallest_portions_are_one() {
        let portion = |at: u16| Portion {
            name: format!("v{at:03}").into(),
            got: f32::from(at) / 1000.0,
            reserved: 0.001,
        };
        let few = named((0..100).map(portion).collect());
        assert_eq!(few.len(), NAMED);
        assert_eq!(&*few[0].name, "v099");
        let others = &few[NAMED - 1];
        assert_eq!(&*others.name, "others");
        assert!((others.got - (0..69_u16).map(f32::from).sum::<f32>() / 1000.0).abs() < 1e-4);
    }
}
