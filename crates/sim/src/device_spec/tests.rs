//! Descriptions: what they build, and an error for each way to get one wrong.

use disktime_core::{Duration, Instant, Kind};
use disktime_model::Op;
use disktime_model::disk::{BusStart, Destage, Prefetch, ReadAhead, WriteBack};
use disktime_model::preset::{PRESETS, Parameters};
use proptest::prelude::*;

use super::*;

const DISK: &str = r#"
kind = "disk"
rpm = 7200
heads = 2
zones = [
    { cylinders = 100, sectors_per_track = 50, track_skew = 5, cylinder_skew = 10 },
    { cylinders = 100, sectors_per_track = 40 },
]
capacity = "8MB"
seek = { table = [[1, "1ms"], [50, "3ms"], [199, "8ms"]] }
head_switch = "1ms"
write_settle = "500us"
overhead = { media = "500us", hit = "70us", accept = "90us" }
bus = "100MB/s"
bus_start = "last-sector"
read_ahead = { segments = { count = 4, size = "64KiB", prefetch = "after-sequence" } }
write_back = { buffer = { size = "128KiB", extents = 8, read_hits = false, destage = "oldest" } }
queue_depth = 4
order = { satf = { aging = "6%" } }
"#;

const FLASH: &str = r#"
kind = "flash"
capacity = "16MiB"
spare = "25%"
channels = 2
dies_per_channel = 2
page = { size = "16KiB", unit = "8KiB" }
pages_per_block = 4
suspend = { each = { program = "under-way", erase = "700us" } }
link = { rate = "1GB/s", duplex = "half" }
firmware = { read = "10us", write = "5us" }
write_buffer = "64KiB"
later = { after = "5ms", program = "2ms" }
"#;

const RAID: &str = r#"
kind = "raid0"
chunk = "64KiB"
members = ["deskstar-34gxp", { kind = "exponential", mean = "5ms" }]
"#;

const PARITY: &str = r#"
kind = "raid5"
chunk = "64KiB"
members = ["deskstar-34gxp", "deskstar-34gxp", { kind = "exponential", mean = "5ms" }]
"#;

const TIERED: &str = r#"
kind = "tiered"
fast = { kind = "exponential", mean = "100us", service = "constant", queue_depth = 8 }
slow = "deskstar-34gxp"
hits = { lru = { size = "1GiB", line = "64KiB" } }
"#;

const CLOUD: &str = r#"
kind = "cloud"
capacity = "1GiB"
queue_depth = 16
operation = "64KiB"
iops = { base = 300, burst = 3000, credit = 5400 }
bandwidth = { base = "100MB/s", burst = "200MB/s", credit = "1GB" }
read = "500us"
write = "700us"
jitter = "50%"
day = { length = "24h", amplitude = "25%" }
"#;

fn spec(text: &str) -> DeviceSpec {
    toml::from_str(text).expect("a description")
}

/// Runs operations drawn from the seed: when each completes.
fn run(device: &mut dyn Device, seed: u64, count: u64) -> Vec<Instant> {
    let mut state = seed | 1;
    let mut below = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % end
    };
    let sectors = device.capacity_bytes() / 512;
    let (mut now, mut done, mut inside) = (Instant::ZERO, Vec::new(), 0);
    for tag in 0..count {
        while inside == device.queue_depth().min(8) {
            now = device.next_completion().expect("something is inside");
            let before = done.len();
            device.advance(now, &mut done);
            inside -= u32::try_from(done.len() - before).expect("few are inside");
        }
        let first = below(sectors);
        let length = 1 + below((sectors - first).min(64));
        let kind = match below(8) {
            0..4 => Kind::Read,
            4..6 => Kind::Write,
            6 => Kind::Trim,
            _ => Kind::Flush,
        };
        device.submit(now, tag, Op { kind, offset: first * 512, bytes: length * 512, fua: false });
        inside += 1;
    }
    done.iter().map(|completion| completion.at).collect()
}

fn same(described: &str, preset: &Preset) {
    let mut device = spec(described).build(7).expect(described);
    let mut known = (preset.build)(7);
    assert_eq!(device.capacity_bytes(), known.capacity_bytes(), "{described}");
    assert_eq!(device.queue_depth(), known.queue_depth(), "{described}");
    assert_eq!(run(&mut *device, 1, 300), run(&mut *known, 1, 300), "{described}");
}

#[test]
fn a_description_based_on_a_preset_is_that_preset() {
    for preset in PRESETS {
        let name = preset.name;
        same(&format!("kind = \"preset\"\npreset = \"{name}\""), preset);
        match preset.parameters {
            Parameters::Disk(spec) => {
                let rpm = 60_000_000_000 / spec().geometry.revolution_ns();
                let text = format!("kind = \"disk\"\nbased_on = \"{name}\"\nrpm = {rpm}");
                same(&text, preset);
            }
            Parameters::Flash(_) => {
                same(&format!("kind = \"flash\"\nbased_on = \"{name}\""), preset);
            }
            Parameters::Cloud(_) => {
                same(&format!("kind = \"cloud\"\nbased_on = \"{name}\""), preset);
            }
            Parameters::Other => {}
        }
    }
}

#[test]
fn compositions_of_presets_are_the_presets_composed_of_them() {
    let raid = "kind = \"raid0\"\nchunk = \"64KiB\"\nmembers = [\"nearline-7200\", \
                \"nearline-7200\", \"nearline-7200\", \"nearline-7200\"]";
    same(raid, preset::find("raid0-nearline").expect("a preset"));
    let parity = raid.replace("raid0", "raid5");
    same(&parity, preset::find("raid5-nearline").expect("a preset"));
    let tiered = "kind = \"tiered\"\nfast = \"flash-generic\"\nslow = \"nearline-7200\"\n\
                  hits = { ratio = \"50%\" }";
    same(tiered, preset::find("tiered").expect("a preset"));
    let exponential = "kind = \"exponential\"\nmean = \"10ms\"";
    same(exponential, preset::find("exp").expect("a preset"));
}

#[test]
fn numbers_reach_the_device() {
    let capacity = |text: &str| spec(text).build(1).expect(text).capacity_bytes();
    assert_eq!(capacity(DISK), 8_000_000 / 512 * 512);
    assert_eq!(capacity(&DISK.replace("capacity = \"8MB\"\n", "")), 2 * 100 * 90 * 512);
    assert_eq!(capacity(FLASH), 16 << 20);
    // The smallest member counts, and a third of it all is parity.
    let disk = capacity("kind = \"preset\"\npreset = \"deskstar-34gxp\"");
    assert_eq!(capacity(PARITY), disk / (64 << 10) * (64 << 10) * 2);
    assert_eq!(capacity(&PARITY.replace("raid5", "raid4")), capacity(PARITY));
    assert_eq!(capacity(TIERED), capacity("kind = \"preset\"\npreset = \"deskstar-34gxp\""));
    let faster = "kind = \"disk\"\nbased_on = \"deskstar-34gxp\"\nrpm = 15000";
    let Ok(Model::Disk(disk)) = spec(faster).check() else { panic!("a disk") };
    assert_eq!(disk.geometry.revolution_ns(), 4_000_000);
    assert_eq!(disk.seek.time(100), preset::deskstar_34gxp().seek.time(100));
    let Ok(Model::Disk(disk)) = spec(DISK).check() else { panic!("a disk") };
    assert_eq!(disk.seek.time(50), Duration::from_millis(3));
    assert_eq!((disk.read_ahead.segments, disk.write_back.dirty_bytes), (4, 128 << 10));
}

/// A scenario could state neither a measured seek table with an outlier nor the times of a drive
/// after a write, so measured drives could not be described.
#[test]
fn a_measured_drive_can_be_described() {
    let known = preset::cheetah9lp();
    let told = "kind = \"disk\"\nbased_on = \"ibm18es\"\n\
        overhead = { media = \"284us\", media_after_write = \"87us\", hit = \"66us\", \
        hit_after_write = \"250us\", write_media = \"907us\", write_media_after_write = \"896us\", \
        accept = \"700us\", accept_continuing = \"458us\" }\n\
        bus_start = \"last-sector\"\n\
        read_ahead = { segments = { count = 3, size = \"280.5KiB\", prefetch = \"never\" } }\n\
        write_back = { buffer = { size = \"280.5KiB\", extents = 1, destage = \"oldest\" } }\n\
        seek = { table = [[1, \"1062us\"], [9, \"1749us\"], [10, \"1020us\"], [12, \"1823us\"]] }";
    let told = told.replace("280.5KiB", "287232B");
    let Ok(Model::Disk(disk)) = spec(&told).check() else { panic!("a disk") };
    assert_eq!(disk.overhead, known.overhead);
    assert_eq!(disk.bus_start, BusStart::LastSector);
    let prefetch = Prefetch::Never;
    assert_eq!(disk.read_ahead, ReadAhead { prefetch, ..known.read_ahead });
    let destage = Destage::Oldest;
    assert_eq!(disk.write_back, WriteBack { extents: 1, destage, ..known.write_back });
    assert_eq!(disk.seek.time(10), Duration::from_micros(1020));
}

#[test]
fn each_error_names_field_value_and_what_is_allowed() {
    let cases = [
        (DISK, "rpm = 7200", "rpm = 0", "rpm: 0; 1 to 100000 is needed"),
        (DISK, "rpm = 7200", "", "rpm: missing; it is needed unless `based_on` names a disk"),
        (DISK, "heads = 2", "heads = 0", "heads: 0; 1 to 256 is needed"),
        (DISK, "heads = 2", "heads = -1", "heads: -1; 1 to 256"),
        (DISK, "cylinders = 100", "cylinders = 0", "zones[0].cylinders: 0; 1 to 10000000"),
        (DISK, "per_track = 40", "per_track = 0", "zones[1].sectors_per_track: 0; 1 to 100000"),
        (DISK, "track_skew = 5", "track_skew = 50", "zones[0].track_skew: 50; 0 to 49 is needed"),
        (DISK, "\"8MB\"", "\"1GB\"", "capacity: 1000000000B; at most the 9216000B that the zones"),
        (DISK, "[50, \"3ms\"]", "[1, \"3ms\"]", "seek.table[1]: 1; 2 to 1000000000 is needed"),
        (DISK, "[50, \"3ms\"]", "[50, \"0us\"]", "seek.table[1]: `0us`; 1 ns to 1h"),
        (DISK, "hit = \"70us\"", "hit = \"0us\"", "overhead.hit: `0us`; 1 ns to 1h is needed"),
        (DISK, "\"90us\"", "\"0us\"", "overhead.accept: `0us`; 1 ns to 1h is needed"),
        (DISK, "100MB/s", "0MB/s", "bus: `0MB/s`; 1kB/s to 1TB/s is needed"),
        (DISK, "count = 4", "count = 0", "read_ahead.segments.count: 0; 1 to 4096 is needed"),
        (DISK, "64KiB", "100B", "read_ahead.segments.size: `100B`; a multiple of 512B from 512B"),
        (DISK, "extents = 8", "extents = 0", "write_back.buffer.extents: 0; 1 to 65536"),
        (DISK, "depth = 4", "depth = 0", "queue_depth: 0; 1 to 65536 is needed"),
        (DISK, "6%", "106%", "order.satf.aging: `106%`; a ratio is 0% to 100%"),
        (FLASH, "25%", "0%", "spare: `0%`; 0.1% to 100% is needed"),
        (FLASH, "channels = 2", "channels = 0", "channels: 0; 1 to 1024 is needed"),
        (FLASH, "16KiB", "5KiB", "page.size: `5KiB`; a multiple of 8192B"),
        (FLASH, "\"8KiB\"", "\"5KiB\"", "page.unit: `5KiB`; a multiple of 4096B"),
        (FLASH, "16MiB", "16388KiB", "capacity: 16781312B; a multiple of the map's 8192B"),
        (FLASH, "\"half\"", "\"both\"", "link.duplex: `both`; `half` or `full` is needed"),
        (FLASH, "1GB/s", "0B/s", "link.rate: `0B/s`; 1kB/s to 1TB/s is needed"),
        (FLASH, "under-way", "99h", "suspend.each.program: `99h`; 0 ns to 1h is needed"),
        (FLASH, "700us", "99h", "suspend.each.erase: `99h`; 0 ns to 1h is needed"),
        (FLASH, "\"64KiB\"", "\"8KiB\"", "write_buffer: 8192B; at least a page of 16384B"),
        (
            FLASH,
            "16MiB\"\nspare = \"25%",
            "1GiB\"\nspare = \"6.6%",
            "spare: 6.6%; with 16 pages in a block of every die 6.7% is needed",
        ),
        (FLASH, "16MiB", "900TB", "capacity: 1125000000000000B with the spare; at most"),
        (FLASH, "\"10us\"", "\"10\"", "firmware.read: `10`; a time is a whole number and a unit"),
        (FLASH, "\"5ms\"", "\"99h\"", "later.after: `99h`; 0 ns to 1h is needed"),
        (FLASH, "\"2ms\"", "\"0ms\"", "later.program: `0ms`; 1 ns to 1h is needed"),
        (RAID, "64KiB", "0B", "chunk: `0B`; a multiple of 512B from 512B"),
        (RAID, "64KiB", "64GiB", "chunk: `64GiB`; 512B to the smallest member's 20"),
        (RAID, "deskstar-34gxp", "nodisk", "members[0].preset: `nodisk`; not known; there are: "),
        (RAID, "5ms", "5", "members[1].mean: `5`; a time is"),
        (PARITY, "\"deskstar-34gxp\", ", "", "members: 2; 3 to 64 of them are needed"),
        (PARITY, "64KiB", "100B", "chunk: `100B`; a multiple of 512B from 512B"),
        (PARITY, "5ms", "0ms", "members[2].mean: `0ms`; 1 ns to 1h is needed"),
        (TIERED, "100us", "0us", "fast.mean: `0us`; 1 ns to 1h is needed"),
        (CLOUD, "base = 300", "base = 0", "iops.base: 0; 1 to 1000000000 is needed"),
        (CLOUD, "burst = 3000", "burst = 299", "iops.burst: 299; 300 to 1000000000 is needed"),
        (
            CLOUD,
            "200MB/s",
            "99MB/s",
            "bandwidth.burst: `99MB/s`; at least the base of 100000000B/s",
        ),
        (CLOUD, "24h", "200h", "day.length: `200h`; 1s to 168h is needed"),
        (CLOUD, "64KiB", "1B", "operation: `1B`; a multiple of 512B"),
        (TIERED, "64KiB", "100B", "hits.lru.line: `100B`; a multiple of 512B"),
        (TIERED, "1GiB", "1KiB", "hits.lru.size: `1KiB`; a multiple of 65536B"),
    ];
    for (good, from, to, says) in cases {
        assert!(good.contains(from), "{from}");
        let error = spec(&good.replacen(from, to, 1)).build(1).err().map(|it| it.to_string());
        assert!(error.as_ref().is_some_and(|it| it.starts_with(says)), "{to}: {error:?}");
    }
    let ratio = "kind = \"tiered\"\nfast = \"exp\"\nslow = \"exp\"\nhits = { ratio = \"101%\" }";
    let error = spec(ratio).build(1).err().map(|it| it.to_string()).unwrap_or_default();
    assert!(error.starts_with("hits.ratio: `101%`; a ratio is 0% to 100%"), "{error}");
    let based = "kind = \"disk\"\nbased_on = \"exp\"";
    let error = spec(based).build(1).err().map(|it| it.to_string());
    assert_eq!(error.as_deref(), Some("based_on: `exp`; a disk's preset is needed"));
}

#[test]
fn unknown_keys_and_kinds_are_refused() {
    for (text, says) in [
        (DISK.replace("bus", "buss"), "unknown field `buss`"),
        (
            DISK.replace("\"disk\"", "\"disc\""),
            "kind: \"disc\" is not known; there are: preset, disk",
        ),
        (
            FLASH.replace("spare", "spares"),
            "unknown field `spares`, expected one of `based_on`, `cap",
        ),
        (RAID.replace("chunk", "chunks"), "unknown field `chunks`"),
        (PARITY.replace("chunk", "stripe"), "unknown field `stripe`"),
        (PARITY.replace("raid5", "raid6"), "kind: \"raid6\" is not known; there are: "),
        (DISK.replace("7200", "\"fast\""), "in `rpm`"),
        (RAID.replace("mean = \"5ms\"", "mean = 5"), "in `mean`"),
        (RAID.replace("members = [", "members = [1, "), "a preset's name, or a table with `kind`"),
    ] {
        let error = toml::from_str::<DeviceSpec>(&text).err().map(|it| it.to_string());
        assert!(error.as_ref().is_some_and(|it| it.contains(says)), "{says}: {error:?}");
    }
}

/// The keys are read one by one: a key that went to another's place would be complained of as that.
#[test]
fn each_key_of_a_flash_drive_is_read_as_itself() {
    let numbers = ["channels", "dies_per_channel", "pages_per_block", "queue_depth"];
    let texts = [
        "based_on",
        "capacity",
        "spare",
        "page",
        "read",
        "program",
        "erase",
        "channel",
        "link",
        "write_buffer",
    ];
    let tables = [
        ("suspend.within", "suspend = { within = \"x\" }"),
        ("firmware.write", "firmware = { read = \"10us\", write = \"x\" }"),
        ("later.after", "later = { after = \"x\", program = \"2ms\" }"),
    ];
    let wrong = (numbers.iter().map(|key| (*key, format!("{key} = -7"))))
        .chain(texts.iter().map(|key| (*key, format!("{key} = \"x\""))))
        .chain(tables.map(|(key, line)| (key, line.to_owned())));
    for (key, line) in wrong {
        let built = spec(&format!("kind = \"flash\"\n{line}")).build(1);
        let error = built.err().map(|it| it.to_string()).unwrap_or_default();
        assert!(error.starts_with(&format!("{key}: ")), "{line}: {error}");
    }
}

/// A value of any sort: mostly one that is possible.
fn any_value() -> impl Strategy<Value = String> {
    let numbers = [-1, 0, 1, 1, 2, 2, 3, 4, 7, 8, 64, 1024, 65_536, i64::from(u32::MAX), i64::MAX];
    let numbers = numbers.map(|number| number.to_string());
    let texts = [
        "",
        "0B",
        "1B",
        "512B",
        "4KiB",
        "8KiB",
        "64KiB",
        "1MiB",
        "16MiB",
        "64MiB",
        "900TB",
        "0ms",
        "1ns",
        "10us",
        "1ms",
        "1h",
        "99h",
        "0%",
        "0.1%",
        "50%",
        "100%",
        "101%",
        "0B/s",
        "1kB/s",
        "1MB/s",
        "1TB/s",
        "deskstar-34gxp",
        "exp",
    ];
    let texts = texts.map(|text| format!("\"{text}\""));
    proptest::sample::select([numbers.as_slice(), texts.as_slice()].concat())
}

/// One of the descriptions above with values and lines replaced by others.
fn any_description() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), any_value(), 0..8_u32);
    let changes = proptest::collection::vec(change, 0..4);
    (proptest::sample::select(vec![DISK, FLASH, RAID, PARITY, TIERED, CLOUD]), changes).prop_map(
        |(text, changes)| {
            let mut text = text.to_owned();
            for (index, value, how) in changes {
                let values: Vec<(usize, usize)> = value_spans(&text);
                if values.is_empty() {
                    break;
                }
                let (start, end) = values[index.index(values.len())];
                // A number stays a number: else most descriptions would be no more than misread.
                let quoted = text[start..].starts_with('"');
                if quoted == value.starts_with('"') {
                    text.replace_range(start..end, &value);
                } else if how == 0 {
                    let lines: Vec<&str> = text.lines().collect();
                    if lines.len() <= 2 {
                        break;
                    }
                    let left_out = 2 + index.index(lines.len() - 2);
                    text = [&lines[..left_out], &lines[left_out + 1..]].concat().join("\n") + "\n";
                }
            }
            text
        },
    )
}

/// Where the strings and numbers to the right of an equals sign, or in a list, are.
fn value_spans(text: &str) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        let rest = &text[at..];
        let length = match byte {
            b'"' => rest[1..].find('"').map_or(1, |end| end + 2),
            b'0'..=b'9' | b'-' if text[..at].ends_with([' ', '[']) => {
                rest.find(|it: char| !it.is_ascii_digit() && it != '-').unwrap_or(rest.len())
            }
            _ => 0,
        };
        if length > 0 {
            spans.push((at, at + length));
        }
        at += length.max(1);
    }
    spans
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_description_is_built_and_runs_or_is_refused(text in any_description(), seed: u64) {
        let Ok(spec) = toml::from_str::<DeviceSpec>(&text) else { return Ok(()) };
        match spec.build(seed) {
            Ok(mut device) => {
                run(&mut *device, seed, 200);
            }
            Err(error) => prop_assert!(!error.field.is_empty() && !error.allowed.is_empty()),
        }
    }
}
