//! The throughput that is due to each stream of a cell, by what it does alone.

use super::alone::{busy, own_disk, rhythmic};
use super::cells::{Cell, Tenant};
use super::loads::Rhythm;

/// A stream's figures alone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Alone {
    /// Requests per second alone: of a load that arrives by itself as a closed loop of the device's
    /// depth.
    pub(super) per_second: f64,
    /// Requests per second with as many at once as the device takes, if that was measured.
    pub(super) saturated: Option<f64>,
    /// Requests per second that are due to it.
    pub(super) due: f64,
    /// The 99th percentile of its response times on a disk of its own, `share` times as fast, in
    /// milliseconds; none of a load that no such disk could serve.
    pub(super) p99_own_disk_ms: Option<f64>,
    /// The bound on its response times that its contract states, in milliseconds.
    pub(super) latency_ms: Option<f64>,
}

/// A place for figures alone: runs of the same cells find them there.
pub trait AloneStore: Sync {
    /// The text that was kept under this key.
    fn load(&self, key: &str) -> Option<String>;
    /// Keeps a text under this key, if it can.
    fn save(&self, key: &str, text: &str);
}

/// A store that keeps nothing.
pub struct NoStore;

impl AloneStore for NoStore {
    fn load(&self, _: &str) -> Option<String> {
        None
    }

    fn save(&self, _: &str, _: &str) {}
}

/// Every stream's of a cell, from the store if it has them.
pub(super) fn alone(cell: &Cell, store: &dyn AloneStore) -> Vec<Alone> {
    let key = key(cell);
    // A text that was cut short may end within a figure, which reads as another one.
    let whole = store.load(&key).filter(|text| text.ends_with('\n'));
    let kept = whole.and_then(|text| text.lines().map(Alone::read).collect());
    if let Some(kept) = kept.filter(|kept: &Vec<Alone>| kept.len() == cell.tenants.len()) {
        return kept;
    }
    let measured = measure(cell);
    store.save(&key, &measured.iter().map(|it| it.line() + "\n").collect::<String>());
    measured
}

impl Alone {
    /// The figures to the last bit, so that what was kept makes the same rows.
    fn line(&self) -> String {
        let Self { per_second, saturated, due, p99_own_disk_ms, latency_ms } = *self;
        let figures = [Some(per_second), saturated, Some(due), p99_own_disk_ms, latency_ms];
        let bits = |it: Option<f64>| it.map_or("-".to_owned(), |it| format!("{:x}", it.to_bits()));
        figures.map(bits).join(" ")
    }

    /// The figures of a line.
    fn read(line: &str) -> Option<Self> {
        let bits = |word: &str| match word {
            "-" => Some(None),
            _ => u64::from_str_radix(word, 16).ok().map(|bits| Some(f64::from_bits(bits))),
        };
        let figures: Vec<Option<f64>> = line.split(' ').map(bits).collect::<Option<_>>()?;
        let [per_second, saturated, due, p99_own_disk_ms, latency_ms] = figures[..] else {
            return None;
        };
        let (per_second, due) = (per_second?, due?);
        Some(Self { per_second, saturated, due, p99_own_disk_ms, latency_ms })
    }
}

/// A name for all that figures alone depend on, but for the models themselves.
fn key(cell: &Cell) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{} {:?} {cell:?}", Cell::WARMS, cell.warm()).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{}-{}-{hash:016x}", cell.id.seed, cell.id.number)
}

pub(super) fn measure(cell: &Cell) -> Vec<Alone> {
    cell.tenants.iter().zip(cell.shares()).map(|(tenant, share)| of(cell, tenant, share)).collect()
}

/// - A stream that is always busy is due its share of what it does alone.
/// - A stream that offers more than its share is due its share of what the device does when it is
///   full of the stream's requests.
/// - Any other is due what it would get on a disk of its own that is as fast as its share.
fn of(cell: &Cell, tenant: &Tenant, share: f64) -> Alone {
    let Tenant { load, .. } = tenant;
    let full = load.is_open() || cell.prices_are_told();
    let saturated = full.then(|| busy(cell, tenant, cell.depth));
    let ms = |own: disktime_core::Duration| own.as_secs_f64() * 1e3 / share;
    let figures = |per_second, due, p99_own_disk_ms| {
        let saturated = saturated.map(|solo| solo.per_second);
        let latency_ms = tenant.latency.zip(p99_own_disk_ms);
        // No shorter than twice what its requests take alone: no order could keep that.
        let latency_ms = latency_ms.map(|(factor, p99)| p99 * factor.max(2.0 * share));
        Alone { per_second, saturated, due, p99_own_disk_ms, latency_ms }
    };
    match (load.rhythm, saturated) {
        (Rhythm::Poisson(part), Some(full)) if part >= 1.0 => {
            figures(full.per_second, share * full.per_second, None)
        }
        (Rhythm::Poisson(_) | Rhythm::OnOff(..), Some(full)) => {
            let rate = share * full.per_second;
            let own = own_disk(cell, tenant, rate, share);
            let due = share * own.per_second.min(full.per_second);
            figures(full.per_second, due, Some(ms(own.p99)))
        }
        (Rhythm::Think(_) | Rhythm::Bursts(..), _) => {
            let own = own_disk(cell, tenant, 1.0, share);
            let alone = rhythmic(cell, tenant);
            figures(alone.per_second, share * own.per_second, Some(ms(own.p99)))
        }
        (Rhythm::Busy | Rhythm::Poisson(_) | Rhythm::OnOff(..), _) => {
            let alone = busy(cell, tenant, load.outstanding);
            figures(alone.per_second, share * alone.per_second, Some(ms(alone.p99)))
        }
    }
}

#[cfg(test)]
mod tests {
    use disktime_core::Duration;
    use disktime_workload::Spans;

    use super::super::loads::Load;
    use super::super::runs::row;
    use super::super::samples::{busy, cell, with};
    use super::*;

    /// 20 µs for each read, one after another: 50,000 a second.
    fn server(loads: Vec<(Load, u32)>) -> Cell {
        cell("flash-one-server", 1, loads)
    }

    fn near(measured: f64, expected: f64, part: f64) -> bool {
        (measured / expected - 1.0).abs() <= part
    }

    #[test]
    fn two_equal_streams_get_what_is_due_if_each_is_served_half_of_the_time() {
        let cell = cell("exp", 1, vec![(busy(4), 50), (busy(4), 50)]);
        let alone = measure(&cell);
        assert!(near(alone[0].due, 50.0, 0.05), "half of 100 a second: {alone:?}");
        let row = row("zygaria", &cell, &alone);
        for stream in &row.streams {
            assert!(near(stream.throughput.insulation, 1.0, 0.05), "{stream:?}");
            assert!(near(stream.utilization, 0.5, 0.05), "{stream:?}");
        }
        assert!(near(row.work_conservation, 1.0, 0.05), "{row:?}");
    }

    #[test]
    fn a_stream_that_thinks_is_due_what_a_slower_disk_of_its_own_would_do() {
        let think = Rhythm::Think(Duration::from_micros(60));
        let alone = measure(&server(vec![(with(think), 25), (busy(1), 75)]));
        assert!(near(alone[0].per_second, 12_500.0, 0.01), "20 + 60 µs each: {alone:?}");
        assert!(near(alone[0].due, 1e6 / 140.0, 0.01), "80 + 60 µs each: {alone:?}");
        assert!(near(alone[0].p99_own_disk_ms.unwrap_or(0.0), 0.080, 0.02), "{alone:?}");
        assert!(near(alone[1].due, 37_500.0, 0.01), "{alone:?}");
    }

    #[test]
    fn a_light_stream_is_due_what_it_offers_and_one_above_its_share_its_share() {
        let loads = vec![(with(Rhythm::Poisson(0.5)), 40), (with(Rhythm::Poisson(2.0)), 60)];
        let cell = server(loads);
        let alone = measure(&cell);
        assert!(near(alone[0].due, 0.5 * 0.4 * 50_000.0, 0.05), "{alone:?}");
        assert!(near(alone[1].due, 0.6 * 50_000.0, 0.01), "{alone:?}");
        assert_eq!(alone[1].p99_own_disk_ms, None, "its queue grows on any such disk");
        let row = row("zygaria", &cell, &alone);
        // The very same arrivals were counted on its own disk.
        assert!(near(row.streams[0].throughput.insulation, 1.0, 0.001), "{:?}", row.streams[0]);
        assert!(row.streams[0].light && !row.streams[1].light);
    }

    #[test]
    fn an_on_off_stream_is_due_its_mean() {
        let ms = Duration::from_millis;
        let rhythm = Rhythm::OnOff(0.5, ms(20), ms(60), Spans::Fixed);
        let alone = measure(&server(vec![(with(rhythm), 50), (busy(1), 50)]));
        assert!(near(alone[0].due, 0.5 * 0.5 * 50_000.0, 0.02), "{alone:?}");
    }

    #[test]
    fn a_limit_and_what_nobody_reserved_are_part_of_a_share() {
        let mut cell = server(vec![(busy(1), 20), (busy(1), 20)]);
        assert_eq!(cell.shares(), [0.5, 0.5], "each has half of what nobody reserved");
        cell.tenants[1].limit_percent = Some(30);
        let alone = measure(&cell);
        assert!(near(alone[0].due, 25_000.0, 0.01), "{alone:?}");
        assert!(near(alone[1].due, 15_000.0, 0.01), "{alone:?}");
    }

    #[test]
    fn figures_of_a_cell_are_kept_and_found_again_and_not_for_another() {
        use std::sync::Mutex;
        #[derive(Default)]
        struct Kept(Mutex<std::collections::BTreeMap<String, String>>);
        impl AloneStore for Kept {
            fn load(&self, key: &str) -> Option<String> {
                self.0.lock().ok()?.get(key).cloned()
            }
            fn save(&self, key: &str, text: &str) {
                if let Ok(mut kept) = self.0.lock() {
                    kept.insert(key.to_owned(), text.to_owned());
                }
            }
        }
        let store = Kept::default();
        // JSON lost the last bit once: a run from the cache had other rows.
        let cell = server(vec![(busy(1), 33), (with(Rhythm::Poisson(0.3)), 67)]);
        let first = alone(&cell, &store);
        assert_eq!(alone(&cell, &store), first);
        // A copy that was cut short ended within the last figure, and was believed.
        let whole = store.load(&key(&cell)).expect("it was kept");
        for length in [whole.len() - 1, whole.len() - 4, whole.len() / 2, 0] {
            store.save(&key(&cell), &whole[..length]);
            assert_eq!(alone(&cell, &store), first, "of {length} bytes");
            assert_eq!(store.load(&key(&cell)).as_ref(), Some(&whole), "it is kept anew");
        }
        let other = server(vec![(busy(1), 51)]);
        assert_ne!(key(&cell), key(&other));
    }
}
