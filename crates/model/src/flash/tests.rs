//! Drives small enough to fill many times over.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const UNIT_BYTES: u64 = 4096;

fn spec() -> FlashSpec {
    FlashSpec {
        capacity_bytes: 64 << 20,
        spare_permille: 250,
        channels: 2,
        dies_per_channel: 2,
        page: Page { bytes: 16 << 10, per_block: 16, unit_bytes: UNIT_BYTES },
        read: Duration::from_micros(60),
        program: Duration::from_micros(600),
        erase: Duration::from_micros(3000),
        suspend: Suspend::NEVER,
        channel_bytes_per_second: 800_000_000,
        link: Link { bytes_per_second: 3_200_000_000, duplex: Duplex::Full },
        firmware: Firmware {
            read: Duration::from_micros(10),
            write: Duration::from_micros(5),
            write_each: Duration::from_micros(1),
        },
        write_buffer_bytes: 64 << 10,
        queue_depth: 64,
        later: None,
    }
}

struct Client {
    flash: Flash,
    now: Instant,
}

impl Client {
    fn new(spec: FlashSpec) -> Self {
        Self { flash: Flash::new(spec), now: Instant::ZERO }
    }

    fn run(&mut self, kind: Kind, offset: u64, bytes: u64) -> Duration {
        let begin = self.now;
        self.flash.submit(begin, 0, Op { kind, offset, bytes, fua: false });
        self.now = self.flash.next_completion().unwrap();
        self.flash.advance(self.now, &mut Vec::new());
        self.now.since(begin)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time in a test is positive and small"
)]
fn micros(micros: f64) -> Duration {
    Duration::from_nanos((micros * 1e3).round() as u64)
}

#[test]
fn a_read_is_the_sum_of_its_parts() {
    let mut client = Client::new(spec());
    // Firmware, page, 4096 bytes on the channel and on the link.
    assert_eq!(client.run(Kind::Read, 0, 4096), micros(10.0 + 60.0 + 5.12 + 1.28));
    // Two pages on two dies and two channels: only the link is shared.
    assert_eq!(client.run(Kind::Read, 12 << 10, 8192), micros(10.0 + 60.0 + 5.12 + 2.56));
}

#[test]
fn a_write_is_done_when_the_buffer_has_it() {
    let mut client = Client::new(spec());
    assert_eq!(client.run(Kind::Write, 0, 4096), micros(5.0 + 1.0 + 1.28));
    // The flush programs the page that isn't full: 16 KiB on the channel take 20.48 µs.
    assert_eq!(client.run(Kind::Flush, 0, 0), micros(10.0 + 20.48 + 600.0));
    assert_eq!(client.run(Kind::Flush, 0, 0), micros(10.0));
}

#[test]
fn a_full_buffer_waits_for_the_dies() {
    let mut client = Client::new(spec());
    let count = 4000;
    for index in 0..count {
        client.run(Kind::Write, index * 4096, 4096);
    }
    // Four dies program 16 KiB in 600 µs and 20.48 on the channel of each pair at most.
    let rate = (count * 4096) as f64 / client.now.since(Instant::ZERO).as_secs_f64();
    let programs = 4.0 * 16384.0 / 600e-6;
    assert!((0.9..=1.02).contains(&(rate / programs)), "{rate} of {programs}");
}

/// The room of a page was given as soon as one write had waited for a part of it: of 64 writes of 4 KiB a full
/// buffer took all but every fourth at once.
#[test]
fn a_full_buffer_takes_no_more_than_dies_have_programmed() {
    let mut flash = Flash::new(spec());
    for tag in 0..64 {
        let offset = tag * UNIT_BYTES;
        flash.submit(
            Instant::ZERO,
            tag,
            Op { kind: Kind::Write, offset, bytes: UNIT_BYTES, fua: false },
        );
    }
    let mut done = Vec::new();
    flash.advance(Instant::ZERO + micros(1e6), &mut done);
    for (count, completion) in (1..).zip(&done) {
        // Each of four dies programs a page in 600 us.
        let programmed = completion.at.as_nanos() / 600_000 * 4 * (16 << 10);
        assert!(count * UNIT_BYTES <= (64 << 10) + programmed, "{count}: {completion:?}");
    }
    assert_eq!(done.len(), 64);
}

#[test]
fn a_drive_that_is_worn_from_a_time_on_programs_more_slowly_from_then() {
    let later = Some(Later { after: Duration::from_secs(1), program: Duration::from_micros(1200) });
    let mut client = Client::new(FlashSpec { later, ..spec() });
    let mut written = |until: u64| {
        let (begin, mut count) = (client.now, 0_u64);
        while client.now < Instant::ZERO + Duration::from_millis(until) {
            client.run(Kind::Write, count % 4000 * 4096, 4096);
            count += 1;
        }
        count as f64 / client.now.since(begin).as_secs_f64()
    };
    let before = written(1000);
    let after = written(3000);
    assert!((1.9..2.3).contains(&(before / after)), "{before} {after}");
}

#[test]
fn a_suspended_program_lets_a_read_in_and_ends_later() {
    let within = Suspend::within(Duration::from_micros(100));
    for (suspend, wait) in [(Suspend::NEVER, 600.0 - 10.0), (within, 100.0)] {
        let mut client = Client::new(FlashSpec { suspend, ..spec() });
        client.run(Kind::Write, 0, 16 << 10);
        client.now = client.now + micros(20.48);
        // On the die that now programs.
        let read = client.run(Kind::Read, 0, 4096);
        assert_eq!(read, micros(10.0 + wait + 60.0 + 5.12 + 1.28));
    }
}

#[test]
fn uniform_random_writes_are_amplified_as_the_spare_says() {
    let mut client = Client::new(spec());
    let units = client.flash.spec.capacity_bytes / UNIT_BYTES;
    let mut random = Pcg64::seed_from_u64(1);
    for unit in 0..units {
        client.run(Kind::Write, unit * UNIT_BYTES, UNIT_BYTES);
    }
    assert_eq!(client.flash.amplification_permille(), 1000);
    for _ in 0..12 * units {
        client.run(Kind::Write, random.random_range(0..units) * UNIT_BYTES, UNIT_BYTES);
    }
    // About (1 + r) / 2r.
    let amplification = client.flash.amplification_permille() as f64 / 1000.0;
    eprintln!("amplification {amplification:.2}, (1+r)/2r = {:.2}", 1.25 / 0.5);
    assert!((2.2..2.8).contains(&amplification), "{amplification}");
}

#[test]
fn overwriting_in_order_and_trimming_cost_no_copies() {
    let mut client = Client::new(spec());
    let chunk = 1 << 20;
    for round in 0..5 {
        for index in 0..64 {
            client.run(Kind::Write, index * chunk, chunk);
        }
        if round % 2 == 0 {
            client.run(Kind::Trim, 0, 64 << 20);
        }
    }
    assert_eq!(client.flash.amplification_permille(), 1000);
}

/// Copies, the reads for them and erases were noticed by no test of their own if they took no time.
#[test]
fn collection_takes_the_time_of_its_reads_programs_and_erases() {
    // Random writes on a drive that was written three times: their time in us, host pages and copies.
    let filled = |spec: FlashSpec| {
        let mut client = Client::new(spec);
        let units = spec.capacity_bytes / UNIT_BYTES;
        let mut random = Pcg64::seed_from_u64(1);
        let mut write = |client: &mut Client, count: u64| {
            for _ in 0..count {
                client.run(Kind::Write, random.random_range(0..units) * UNIT_BYTES, UNIT_BYTES);
            }
        };
        write(&mut client, 3 * units);
        let (begin, host) = (client.now, client.flash.map.host_pages);
        let copied = client.flash.map.copied_pages;
        write(&mut client, 2 * units);
        let took = client.now.since(begin).as_secs_f64() * 1e6;
        let map = &client.flash.map;
        (took, (map.host_pages - host) as f64, (map.copied_pages - copied) as f64)
    };
    let instant = Duration::from_nanos(1);
    let (all, host, copied) = filled(spec());
    let (without_erase, ..) = filled(FlashSpec { erase: Duration::ZERO, ..spec() });
    let (without_read, ..) = filled(FlashSpec { read: instant, ..spec() });
    let neither = FlashSpec { erase: Duration::ZERO, read: instant, ..spec() };
    let (programs, ..) = filled(neither);
    // Lines of 64 pages, which all dies erase at once.
    let erase = (all - without_erase) / ((host + copied) / 64.0 * 3000.0);
    // A page that is copied is read from up to four, beside programs on other dies.
    let read = (all - without_read) / (copied * 60.0);
    // Four dies; a copy is programmed on one once it was read from another, which may be busy.
    let programs = programs / ((host + copied) * 600.0 / 4.0);
    eprintln!(
        "{host} pages, {copied} copies: erase {erase:.3}, read {read:.3}, programs {programs:.3}"
    );
    assert!((0.8..1.2).contains(&erase), "{erase}");
    assert!((0.5..4.0).contains(&read), "{read}");
    assert!((1.0..2.5).contains(&programs), "{programs}");
}

/// Flushes close pages early, so that collection has to make up for what they waste.
#[test]
fn collection_keeps_ahead_of_any_mix() {
    for spare_permille in [1, 70, 250] {
        let mut client = Client::new(FlashSpec { spare_permille, ..spec() });
        let units = client.flash.spec.capacity_bytes / UNIT_BYTES;
        let mut random = Pcg64::seed_from_u64(u64::from(spare_permille));
        for _ in 0..60_000 {
            let unit = random.random_range(0..units);
            let length = random.random_range(1..=(units - unit).min(16));
            let (offset, bytes) = (unit * UNIT_BYTES, length * UNIT_BYTES);
            match random.random_range(0..20_u32) {
                0 => client.run(Kind::Trim, offset, bytes),
                1..5 => client.run(Kind::Flush, 0, 0),
                _ => client.run(Kind::Write, offset, bytes),
            };
        }
        eprintln!("{spare_permille} ‰: {} ‰", client.flash.amplification_permille());
    }
}

/// Where a line has few pages and there is little spare, each line that was collected took as many pages as it
/// freed: a write was never over.
#[test]
fn collection_gains_on_writes_wherever_a_drive_can_be_made() {
    let (mut made, mut refused) = (0, 0);
    for (per_block, dies) in [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (8, 1), (16, 1), (64, 1)] {
        for (capacity_bytes, spare_permille) in
            [(4 << 20, 1), (4 << 20, 20), (4 << 20, 400), (1 << 16, 1)]
        {
            let page = Page { bytes: 16 << 10, per_block, unit_bytes: UNIT_BYTES };
            let spec = FlashSpec { capacity_bytes, spare_permille, page, ..spec() };
            let spec = FlashSpec { channels: dies, dies_per_channel: 1, ..spec };
            if !spec.can_collect() {
                refused += 1;
                continue;
            }
            made += 1;
            let mut client = Client::new(spec);
            let units = capacity_bytes / UNIT_BYTES;
            let mut random = Pcg64::seed_from_u64(1);
            for count in 0..units + 20_000 {
                let unit = if count < units { count } else { random.random_range(0..units) };
                client.run(Kind::Write, unit * UNIT_BYTES, UNIT_BYTES);
                if random.random_range(0..50_u32) == 0 {
                    client.run(Kind::Flush, 0, 0);
                }
            }
        }
    }
    assert!(made >= 10 && refused >= 10, "{made} {refused}");
}

/// A unit of 8 KiB, as MQSim's page is mapped.
fn coarse() -> FlashSpec {
    let page = Page { unit_bytes: 8 << 10, ..spec().page };
    FlashSpec { page, ..spec() }
}

/// Sub-page writes cost as much as whole ones: a drive that maps by 8 KiB took two writes of 4 KiB
/// where it had to write 16.
#[test]
fn a_write_of_part_of_a_unit_reads_the_rest_and_writes_all_of_it() {
    let mut client = Client::new(coarse());
    // Nothing was written: nothing is read, and 4 KiB fill a unit of the buffer.
    client.run(Kind::Write, 0, 4096);
    assert_eq!(client.flash.buffer.filling_bytes, 8 << 10);
    assert_eq!(client.flash.buffer.merged_at, Instant::ZERO);
    client.run(Kind::Flush, 0, 0);
    let flushed = client.now;
    client.run(Kind::Write, 4096, 4096);
    // 5 of firmware, 1 for 4 KiB, the link; then the page is read, and 8 KiB take the channel.
    let merged = flushed + micros(5.0 + 1.0 + 1.28 + 60.0 + 10.24);
    assert_eq!(client.flash.buffer.merged_at, merged);
    assert_eq!(
        client.run(Kind::Flush, 0, 0),
        (merged + micros(20.48 + 600.0)).since(flushed + micros(7.28))
    );
    // A whole unit takes nothing over.
    client.run(Kind::Write, 0, 8 << 10);
    assert_eq!(client.flash.buffer.merged_at, merged);
}

#[test]
fn writes_of_half_a_unit_have_half_the_bytes_a_second() {
    let rate = |bytes: u64| {
        let mut client = Client::new(coarse());
        for index in 0..64 {
            client.run(Kind::Write, index << 20, 1 << 20);
        }
        let (begin, mut random) = (client.now, Pcg64::seed_from_u64(1));
        let count = 20_000_u64;
        for _ in 0..count {
            client.run(Kind::Write, random.random_range(0..8192_u64) * 8192, bytes);
        }
        (count * bytes) as f64 / client.now.since(begin).as_secs_f64()
    };
    let part = rate(4096) / rate(8192);
    // Each page of two units waits for two reads on top of its program.
    let expected = 0.5 * 600.0 / (600.0 + 2.0 * 60.0);
    assert!((part / expected - 1.0).abs() < 0.1, "{part}, expected about {expected}");
}

/// An erase of 3.8 ms can be suspended within .7 ms and a program not at all, as MQSim has it.
#[test]
fn a_read_waits_for_a_whole_program_and_for_the_suspending_of_an_erase() {
    let erase = Wait::Within(Duration::from_micros(700));
    let suspend = Suspend { program: Wait::ForAll, erase };
    let mut flash = Flash::new(FlashSpec { suspend, ..spec() });
    let read = |flash: &mut Flash, from: u64| {
        let at = Instant::ZERO + Duration::from_micros(from);
        flash.sense(at, 0).since(at)
    };
    let until = |us: u64| Instant::ZERO + Duration::from_micros(us);
    flash.dies[0].until = until(600);
    assert_eq!(read(&mut flash, 100), Duration::from_micros(500 + 60));
    (flash.dies[0].until, flash.dies[0].erasing_until) = (until(13_000), until(13_000));
    assert_eq!(read(&mut flash, 10_000), Duration::from_micros(700 + 60));
    // The erase takes up again behind the read.
    assert_eq!(flash.dies[0].until, until(13_060));
}

/// With 256 MiB of cache a read waited for hundreds of programs that its die was given before it, 190 ms
/// where MQSim's waits for one.
#[test]
fn reads_go_before_programs_that_have_not_begun() {
    let us = Duration::from_micros;
    for (program, wait) in [(Wait::ForAll, 5900), (Wait::ForUnderWay, 500)] {
        let suspend = Suspend { program, erase: Wait::ForAll };
        let mut flash = Flash::new(FlashSpec { suspend, ..spec() });
        let at = Instant::ZERO + us(100);
        // Ten programs.
        flash.dies[0].until = Instant::ZERO + us(6000);
        assert_eq!(flash.sense(at, 0).since(at), us(wait + 60));
        // Programs that had not begun come behind the read, and a second read follows the first.
        assert_eq!(flash.dies[0].until, Instant::ZERO + us(6060));
        assert_eq!(flash.sense(at, 0).since(at), us(wait + 120));
    }
}

/// Reads and writes together had half of the link each, where PCI Express has all of it for each.
#[test]
fn reads_and_writes_pass_each_other_on_a_full_duplex_link() {
    for (duplex, together) in [(Duplex::Half, 2.0), (Duplex::Full, 1.0)] {
        // A link of 100 MB/s is what limits a read of 64 KiB and a write of the same size: 655 us each.
        let link = Link { bytes_per_second: 100_000_000, duplex };
        let mut flash = Flash::new(FlashSpec { link, ..spec() });
        for (tag, kind) in [(0, Kind::Read), (1, Kind::Write)] {
            flash.submit(Instant::ZERO, tag, Op { kind, offset: 0, bytes: 64 << 10, fua: false });
        }
        let mut done = Vec::new();
        flash.advance(Instant::MAX, &mut done);
        let last = done[1].at.since(Instant::ZERO).as_secs_f64() * 1e6;
        assert!(
            (together * 655.4..together * 655.4 + 100.0).contains(&last),
            "{duplex:?}: {last} us"
        );
    }
}

/// A read that waited for its die held up all that came after it on the channel and the link.
#[test]
fn what_waits_for_its_die_holds_nothing_up() {
    let mut client = Client::new(spec());
    client.flash.dies[0].until = Instant::ZERO + Duration::from_millis(5);
    // The die of page 2 is on the channel of the die of page 0.
    for (tag, page) in [(0, 0), (1, 2)] {
        let op = Op { kind: Kind::Read, offset: page << 14, bytes: 4096, fua: false };
        client.flash.submit(Instant::ZERO, tag, op);
    }
    let mut done = Vec::new();
    client.flash.advance(Instant::MAX, &mut done);
    let times: Vec<_> = done.iter().map(|it| (it.tag, it.at.since(Instant::ZERO))).collect();
    assert_eq!(times, [(1, micros(10.0 + 66.4)), (0, micros(5000.0 + 66.4))]);
}

#[test]
fn a_lane_fills_its_gaps_in_the_order_in_which_data_is_ready() {
    let mut lane = Lane::default();
    let us = Duration::from_micros;
    let at = |micros: u64| Instant::ZERO + us(micros);
    let zero = Instant::ZERO;
    assert_eq!(lane.take(zero, at(10), us(10)), at(20));
    assert_eq!(lane.take(zero, at(40), us(10)), at(50));
    // All of the gap, which then is none.
    assert_eq!(lane.take(zero, at(20), us(20)), at(40));
    assert_eq!(lane.take(zero, at(15), us(5)), at(55));
    // Half of it before the span, half behind.
    assert_eq!(lane.take(zero, at(5), us(10)), at(60));
    assert_eq!(lane.take(at(100), at(100), us(1)), at(101));
}
