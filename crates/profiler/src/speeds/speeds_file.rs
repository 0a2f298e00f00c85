//! Speeds as a profile file says them: integers with their units in the keys.

use super::{CONFIDENCES, Caches, Cell, Speeds, Switching, Work, WorkSpeed};
use disktime_core::Duration;
use disktime_core::cost::{Price, PriceList};
use serde::{Deserialize, Serialize};

/// Most kinds and cells that a file may have.
const CELLS_MAX: usize = 64;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpeedsFile {
    kinds: Vec<KindRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    switching_ns: Option<SwitchingRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache: Option<CacheRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindRow {
    kind: Work,
    best_depth: u32,
    parallelism_permille: u64,
    cells: Vec<CellRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellRow {
    bytes: u64,
    depth: u32,
    requests: u64,
    each_ns: u64,
    /// By per cent of the batches of 20: what a request took in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batches_ns: Option<[u64; CONFIDENCES.len()]>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchingRow {
    streams: u64,
    kinds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_write: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheRow {
    read_first_ns: u64,
    read_again_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_burst_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    write_burst_bytes: Option<u64>,
}

/// The price list in a file, under the key `prices`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricesFile {
    sequential_read: PriceRow,
    random_read: PriceRow,
    sequential_write: PriceRow,
    random_write: PriceRow,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    each_ns: u64,
    per_mib_ns: u64,
}

impl From<Speeds> for SpeedsFile {
    fn from(speeds: Speeds) -> Self {
        let nanos = |span: Duration| span.as_nanos();
        let cell = |cell: Cell| CellRow {
            bytes: cell.bytes,
            depth: cell.depth,
            requests: cell.requests,
            each_ns: nanos(cell.each),
            batches_ns: cell.batches.map(|batches| batches.map(nanos)),
        };
        let kind = |of: WorkSpeed| KindRow {
            kind: of.work,
            best_depth: of.best_depth,
            parallelism_permille: of.parallelism_permille,
            cells: of.cells.into_iter().map(cell).collect(),
        };
        Self {
            kinds: speeds.works.into_iter().map(kind).collect(),
            switching_ns: speeds.switching.map(|switching| SwitchingRow {
                streams: nanos(switching.streams),
                kinds: nanos(switching.kinds),
                read_write: switching.read_write.map(nanos),
            }),
            cache: speeds.cache.map(|cache| CacheRow {
                read_first_ns: nanos(cache.read_first),
                read_again_ns: nanos(cache.read_again),
                write_burst_ns: cache.write_burst.map(nanos),
                write_burst_bytes: cache.write_burst_bytes,
            }),
        }
    }
}

impl TryFrom<SpeedsFile> for Speeds {
    type Error = String;

    /// # Errors
    /// Says what is wrong, by key.
    fn try_from(file: SpeedsFile) -> Result<Self, String> {
        let span = Duration::from_nanos;
        if file.kinds.is_empty() || file.kinds.len() > Work::ALL.len() {
            return Err(format!("speeds.kinds: {}; 1 to 4 are possible", file.kinds.len()));
        }
        let mut works: Vec<WorkSpeed> = Vec::with_capacity(file.kinds.len());
        for row in file.kinds {
            let name = row.kind.name();
            if works.iter().any(|of| of.work == row.kind) {
                return Err(format!("speeds.kinds: {name} twice; each kind is there once"));
            }
            if row.best_depth == 0 || row.cells.is_empty() || row.cells.len() > CELLS_MAX {
                return Err(format!(
                    "speeds.kinds: {name}: a depth of {}, {} cells; at least 1, and 1 to {CELLS_MAX} \
                     are possible",
                    row.best_depth,
                    row.cells.len()
                ));
            }
            let broken = |row: &&CellRow| row.bytes == 0 || row.depth == 0 || row.each_ns == 0;
            if let Some(CellRow { bytes, depth, each_ns, .. }) = row.cells.iter().find(broken) {
                return Err(format!(
                    "speeds.kinds: {name}: {bytes} bytes at depth {depth} in {each_ns} ns; each is \
                     at least 1"
                ));
            }
            let cell = |row: CellRow| Cell {
                bytes: row.bytes,
                depth: row.depth,
                requests: row.requests,
                each: span(row.each_ns),
                batches: row.batches_ns.map(|batches| batches.map(span)),
            };
            works.push(WorkSpeed {
                work: row.kind,
                best_depth: row.best_depth,
                parallelism_permille: row.parallelism_permille,
                cells: row.cells.into_iter().map(cell).collect(),
            });
        }
        Ok(Self {
            works,
            switching: file.switching_ns.map(|row| Switching {
                streams: span(row.streams),
                kinds: span(row.kinds),
                read_write: row.read_write.map(span),
            }),
            cache: file.cache.map(|row| Caches {
                read_first: span(row.read_first_ns),
                read_again: span(row.read_again_ns),
                write_burst: row.write_burst_ns.map(span),
                write_burst_bytes: row.write_burst_bytes,
            }),
        })
    }
}

impl From<&PriceList> for PricesFile {
    fn from(prices: &PriceList) -> Self {
        let row = |price: Price| PriceRow {
            each_ns: price.each.as_nanos(),
            per_mib_ns: price.per_mib.as_nanos(),
        };
        Self {
            sequential_read: row(prices.sequential_read),
            random_read: row(prices.random_read),
            sequential_write: row(prices.sequential_write),
            random_write: row(prices.random_write),
        }
    }
}

impl From<&PricesFile> for PriceList {
    fn from(row: &PricesFile) -> Self {
        let price = |row: &PriceRow| Price {
            each: Duration::from_nanos(row.each_ns),
            per_mib: Duration::from_nanos(row.per_mib_ns),
        };
        Self {
            sequential_read: price(&row.sequential_read),
            random_read: price(&row.random_read),
            sequential_write: price(&row.sequential_write),
            random_write: price(&row.random_write),
        }
    }
}
