//! A disk behind a cache of reads: what a request costs depends on what was asked for before.

use super::{ALONE, Case, Load, judged, load};
use crate::experiment::{Experiment, Sample};
use disktime_model::disk::Disk;
use disktime_model::flash::Flash;
use disktime_model::tiered::{Cached, Tiered};
use disktime_model::{Device, preset};
use disktime_workload::Pattern;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "blackbox-cached",
    title: "A nearline disk behind 1 GiB of flash that caches reads: hits, misses and writes",
    claim: "Ours: insulation behind a cache of flash",
    note: "Our own bars: mean 0.95, first percentile over 10 s 0.9, shares within 3 \
           points. The cache holds all of one stream's \
           data, and next to nothing of the others'; writes go through. A stream of which the cache \
           holds some, and less if others use it, can't be as fast as alone. The device does not \
           tell hits from misses.",
    reason: "",
    open: &[],
    measure,
};

/// The unit of the cache.
const LINE: u64 = 64 << 10;
const LINES: usize = 16_384;
/// A working set that is warm after some seconds.
const SMALL: u64 = 32 << 20;
/// A working set of which the cache never holds a hundredth.
const LARGE: u64 = 256 << 30;

fn measure(seed: u64) -> Sample {
    let cached = |seed| -> Box<dyn Device> {
        let fast = Box::new(Flash::new(preset::flash_generic()));
        let slow = Box::new(Disk::new(preset::nearline_7200(), seed));
        Box::new(Tiered::new(fast, slow, Box::new(Cached::new(LINES, LINE))).untold())
    };
    let hits = Load { region: SMALL, ..load("hits", 50, Pattern::Random, 4, 32) };
    let misses = Load { region: LARGE, ..load("misses", 50, Pattern::Random, 4, 16) };
    let writes = load("random 64 KiB writes", 50, Pattern::Random, 64, 16);
    let three = [
        Load { percent: 20, ..hits },
        Load { percent: 30, ..misses },
        Load { reads: false, ..writes },
    ];
    let case = Case {
        name: "hits and misses",
        device: &cached,
        depth: 31,
        loads: &[hits, misses],
        seconds: 60,
        alone: ALONE,
        window: 10,
        mean: 0.95,
        p01: 0.9,
        points: Some(3.0),
    };
    judged(&[case, Case { name: "and writes", loads: &three, ..case }], seed)
}
