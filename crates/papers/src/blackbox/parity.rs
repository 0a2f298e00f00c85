//! Parity RAID: what a small write costs is four operations on two members, which nobody tells.

use super::{ALONE, Case, Load, REPORTED, judged, load};
use crate::experiment::{Experiment, Sample};
use disktime_model::parity::Level;
use disktime_model::{Device, preset};
use disktime_workload::Pattern;

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "blackbox-parity",
    title: "RAID 5 and 4 of four disks: a sequential and a random stream, small reads and small writes",
    claim: "Ours: what RAID 5 and 4 cost (shown, without bars)",
    note: "Reported, without bars. A small write reads and writes data and parity; on level 4 every \
           write waits for the one parity disk.",
    reason: "",
    open: &[],
    measure,
};

fn measure(seed: u64) -> Sample {
    let raid = |level, name| {
        move |seed| -> Box<dyn Device> { Box::new(preset::parity(level, name, 4, 64 << 10, seed)) }
    };
    let (five, four) = (raid(Level::Five, "deskstar-34gxp"), raid(Level::Four, "deskstar-34gxp"));
    let deep = raid(Level::Five, "nearline-7200");
    let reads = |outstanding| {
        [
            load("sequential 128 KiB", 30, Pattern::Sequential, 128, outstanding),
            load("random 4 KiB", 70, Pattern::Random, 4, outstanding),
        ]
    };
    let writes = |outstanding| {
        let small = load("random 4 KiB writes", 50, Pattern::Random, 4, outstanding);
        [load("random 4 KiB", 50, Pattern::Random, 4, outstanding), Load { reads: false, ..small }]
    };
    let (reads, writes, many) = (reads(8), writes(8), writes(16));
    let case = |name, device, depth, loads| Case {
        name,
        device,
        depth,
        loads,
        seconds: 300,
        alone: ALONE,
        window: 30,
        mean: REPORTED,
        p01: REPORTED,
        points: None,
    };
    judged(
        &[
            case("RAID 5", &five, 4, &reads),
            case("RAID 5, writes", &five, 4, &writes),
            case("RAID 4, writes", &four, 4, &writes),
            case("RAID 5, write caches and queues of 31, writes", &deep, 31, &many),
        ],
        seed,
    )
}
