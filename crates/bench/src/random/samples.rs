//! Cells that tests of several modules look at.

use disktime_workload::{Pattern, SizeWeight};

use super::cells::{Cell, CellId, Costs, Presence, Tenant};
use super::devices::DEVICES;
use super::loads::{Load, Rhythm};

/// Random reads of 4 KiB, so many at a time.
pub(super) fn busy(outstanding: u32) -> Load {
    Load {
        pattern: Pattern::Random,
        sizes: vec![SizeWeight { bytes: 4096, weight: 1 }],
        reads_permille: 1000,
        trims_permille: 0,
        flush_after: None,
        hot: false,
        outstanding,
        rhythm: Rhythm::Busy,
    }
}

/// One such read at a time, in this rhythm.
pub(super) fn with(rhythm: Rhythm) -> Load {
    Load { rhythm, ..busy(1) }
}

/// A cell of these loads with these reservations, side by side.
pub(super) fn cell(device: &str, depth: u32, loads: Vec<(Load, u32)>) -> Cell {
    let tenant = |(place, (load, reserve_percent))| Tenant {
        name: format!("s{place}"),
        load,
        reserve_percent,
        weight: 100,
        limit_percent: None,
        latency: None,
        presence: Presence::Always,
        base: (place as u64) << 30,
        bytes: 1 << 30,
    };
    Cell {
        id: CellId { seed: 1, number: 0 },
        device: DEVICES.iter().find(|it| it.name == device).expect("a device's name"),
        depth,
        costs: Costs::Learned,
        tenants: loads.into_iter().enumerate().map(tenant).collect(),
    }
}
