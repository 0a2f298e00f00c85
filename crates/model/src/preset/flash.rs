//! Flash drives.

use crate::flash::{Firmware, FlashSpec};
use disktime_core::Duration;

/// A flash drive of no particular make.
///
/// - 8 channels of 4 dies, pages of 16 KiB, 60/600/3000 µs to read, program and erase, 800 MB/s a
///   channel: usual figures of TLC flash `[E]`.
/// - 18.5 µs of firmware for a read and a link of 3.2 GB/s `[E]`, calibrated: 85 µs for a 4 KiB read at
///   depth 1. 32 dies of 60 µs give up to 533,000 reads/s.
/// - Suspending a program within 100 µs, 1 MiB of write buffer, 10 µs of firmware for a write, 256
///   pages a block, 256 GB, 7 % spare `[E]`.
#[must_use]
pub fn flash_generic() -> FlashSpec {
    FlashSpec {
        capacity_bytes: 256_000_000_000,
        spare_permille: 70,
        channels: 8,
        dies_per_channel: 4,
        page_bytes: 16 << 10,
        pages_per_block: 256,
        read: Duration::from_micros(60),
        program: Duration::from_micros(600),
        erase: Duration::from_micros(3000),
        suspend: Some(Duration::from_micros(100)),
        channel_bytes_per_second: 800_000_000,
        link_bytes_per_second: 3_200_000_000,
        firmware: Firmware {
            read: Duration::from_nanos(18_500),
            write: Duration::from_micros(10),
            write_each: Duration::ZERO,
        },
        write_buffer_bytes: 1 << 20,
        queue_depth: 1024,
        later: None,
    }
}

/// Samsung 970 PRO, 512 GB, as NVMeVirt calibrates it.
///
/// - 8 channels of 2 dies, pages of 32 KiB, 36/185/0 µs to read, program and erase, 800 MB/s a channel,
///   3360 MB/s of PCIe, 21.5 µs of firmware for a read, 4 + .46 µs (each 4 KiB) for a write that is
///   done when it is in the buffer, 7 % spare `[S]`.
/// - A write buffer of two pages a die, 1 MiB `[S]`; no suspending; 256 pages a block `[E]`.
#[must_use]
pub fn nvme_970pro() -> FlashSpec {
    FlashSpec {
        capacity_bytes: 512_110_190_592,
        spare_permille: 70,
        channels: 8,
        dies_per_channel: 2,
        page_bytes: 32 << 10,
        pages_per_block: 256,
        read: Duration::from_micros(36),
        program: Duration::from_micros(185),
        erase: Duration::ZERO,
        suspend: None,
        channel_bytes_per_second: 800_000_000,
        link_bytes_per_second: 3_360_000_000,
        firmware: Firmware {
            read: Duration::from_nanos(21_500),
            write: Duration::from_micros(4),
            write_each: Duration::from_nanos(460),
        },
        write_buffer_bytes: 1 << 20,
        queue_depth: 1024,
        later: None,
    }
}
