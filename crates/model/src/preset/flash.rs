//! Flash drives.

use crate::flash::{Duplex, Firmware, FlashSpec, Link, Page, Suspend, Wait};
use disktime_core::Duration;

/// A flash drive of no particular make.
///
/// - 8 channels of 4 dies, pages of 16 KiB, 60/600/3000 µs to read, program and erase, 800 MB/s a
///   channel: usual figures of TLC flash `[E]`.
/// - 18.5 µs of firmware for a read and a link of 3.2 GB/s each way `[E]`, calibrated: 85 µs for a 4 KiB
///   read at depth 1. 32 dies of 60 µs give up to 533,000 reads/s.
/// - Suspending a program within 100 µs, 1 MiB of write buffer, 10 µs of firmware for a write, 256
///   pages a block, 256 GB, 7 % spare `[E]`.
#[must_use]
pub fn flash_generic() -> FlashSpec {
    FlashSpec {
        capacity_bytes: 256_000_000_000,
        spare_permille: 70,
        channels: 8,
        dies_per_channel: 4,
        page: Page { bytes: 16 << 10, per_block: 256, unit_bytes: 4096 },
        read: Duration::from_micros(60),
        program: Duration::from_micros(600),
        erase: Duration::from_micros(3000),
        suspend: Suspend::within(Duration::from_micros(100)),
        channel_bytes_per_second: 800_000_000,
        link: Link { bytes_per_second: 3_200_000_000, duplex: Duplex::Full },
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
/// - A write buffer of two pages a die, 1 MiB `[S]`; no suspending, and reads take their turn at the dies,
///   as NVMeVirt has it `[S]`; 256 pages a block `[E]`.
/// - PCIe moves both directions at once; NVMeVirt, calibrated with reads and writes apart, has one lane
///   for both.
#[must_use]
pub fn nvme_970pro() -> FlashSpec {
    FlashSpec {
        capacity_bytes: 512_110_190_592,
        spare_permille: 70,
        channels: 8,
        dies_per_channel: 2,
        page: Page { bytes: 32 << 10, per_block: 256, unit_bytes: 4096 },
        read: Duration::from_micros(36),
        program: Duration::from_micros(185),
        erase: Duration::ZERO,
        suspend: Suspend::NEVER,
        channel_bytes_per_second: 800_000_000,
        link: Link { bytes_per_second: 3_360_000_000, duplex: Duplex::Full },
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

/// An NVMe drive of MLC flash as MQSim models it, whose results its authors compare with four real
/// drives (Tavakkol et al., "MQSim", FAST 2018, and the configurations that come with it).
///
/// - 8 channels at 333 MB/s of 4 chips of 2 dies, each of 2 planes with pages of 8 KiB mapped by page,
///   256 pages a block, 75/750/3800 us to read, program and erase, 7 % spare, 256 MiB of cache that
///   acknowledges writes, four lanes of PCIe at 1 GB/s `[S]`.
/// - Programs of 750 us are those of MQSim's own defaults and of the experiments of its paper
///   (`Flash_Parameter_Set.cpp`, `fast18/*/ssdconfig-*.xml`) `[S]`. Earlier configurations in its
///   repository have 75 us, as long as a read.
/// - Erases are suspended for reads within 700 us, programs are not; reads go before programs that have
///   not begun `[S]`.
/// - Both planes of a die read and program together; 8 us of firmware for a read and 6 us for a
///   write; 128 GB of the 512 `[E]`, so that a simulation can fill it.
#[must_use]
pub fn flash_mqsim() -> FlashSpec {
    FlashSpec {
        capacity_bytes: 128_000_000_000 / 8192 * 8192,
        spare_permille: 70,
        channels: 8,
        dies_per_channel: 8,
        page: Page { bytes: 16 << 10, per_block: 256, unit_bytes: 8 << 10 },
        read: Duration::from_micros(75),
        program: Duration::from_micros(750),
        erase: Duration::from_micros(3800),
        suspend: Suspend {
            program: Wait::ForUnderWay,
            erase: Wait::Within(Duration::from_micros(700)),
        },
        channel_bytes_per_second: 333_000_000,
        link: Link { bytes_per_second: 4_000_000_000, duplex: Duplex::Full },
        firmware: Firmware {
            read: Duration::from_micros(8),
            write: Duration::from_micros(6),
            write_each: Duration::ZERO,
        },
        write_buffer_bytes: 256 << 20,
        queue_depth: 1024,
        later: None,
    }
}
