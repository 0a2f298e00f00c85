//! Other projects' tools see which parts of a virtual disk were never written, and zero and trim long
//! ranges.

use crate::needs;
use crate::support::{DISKS, Daemon, python, run, words};

const MIB: usize = 1 << 20;

/// Writes 1 MiB at 2 MiB and at 40 MiB of an export.
fn write_some(uri: &str) {
    let script = "
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
for at in [2, 40]:
    h.pwrite(b'x' * (1 << 20), at << 20)
h.flush()
h.shutdown()
";
    run(python(script).arg(uri));
}

const EXTENTS: [(u64, &str); 5] =
    [(2, "hole,zero"), (1, "data"), (37, "hole,zero"), (1, "data"), (23, "hole,zero")];

/// Devices on one image, on stripes over two, on two tiers, and on another export of the same daemon's
/// like.
const MORE: &str = r#"
[[device]]
name = "image"
back_end = "file:DIRECTORY/image"

[[device]]
name = "stripes"
back_end = "raid0:DIRECTORY/m0,DIRECTORY/m1"

[[device]]
name = "tiers"
back_end = "tiered:DIRECTORY/fast,DIRECTORY/slow"
promotion = "0%"

[[vdisk]]
name = "tiered"
device = "tiers"
size = "64MiB"

[[vdisk]]
name = "first"
device = "image"
size = "1MiB"

[[vdisk]]
name = "second"
device = "image"
size = "64MiB"

[[vdisk]]
name = "striped"
device = "stripes"
size = "64MiB"
"#;

fn daemon() -> Daemon {
    let directory = tempfile::TempDir::new().unwrap();
    for (name, mib) in [("image", 80), ("m0", 40), ("m1", 40), ("fast", 8), ("slow", 80)] {
        let image = std::fs::File::create(directory.path().join(name)).unwrap();
        image.set_len(mib * MIB as u64).unwrap();
    }
    Daemon::start_configured(directory, &format!("{DISKS}{MORE}"))
}

#[test]
fn nbdinfo_maps_what_was_written() {
    needs!("nbdinfo_maps_what_was_written", "nbdinfo", "nbdsh");
    let daemon = daemon();
    for export in ["mem", "file", "second", "striped", "tiered"] {
        let uri = daemon.uri(export);
        write_some(&uri);
        let map = words(&["nbdinfo", "--map", &uri]);
        let lines: Vec<Vec<&str>> =
            map.lines().map(|line| line.split_whitespace().collect()).collect();
        let extents: Vec<_> =
            lines.iter().map(|it| (it[1].parse::<u64>().unwrap() >> 20, it[3])).collect();
        assert_eq!(extents, EXTENTS, "{export}: {map}");
        let totals = words(&["nbdinfo", "--map", "--totals", &uri]);
        assert!(totals.contains("2097152") && totals.contains("65011712"), "{totals}");
    }
}

/// A device on another server's export passes that server's holes on.
#[test]
fn holes_of_another_server_are_passed_on() {
    needs!("holes_of_another_server_are_passed_on", "nbdinfo", "nbdsh");
    let below = Daemon::start(DISKS);
    let back_end = format!("nbd+unix:///file?socket={}", below.path("nbd.sock").display());
    let above = Daemon::start(&format!(
        "state = \"DIRECTORY\"\n[[device]]\nname = \"far\"\nback_end = \"{back_end}\"\n\
         [[vdisk]]\nname = \"far\"\ndevice = \"far\"\nsize = \"64MiB\"\n"
    ));
    write_some(&above.uri("far"));
    let map = words(&["nbdinfo", "--map", &above.uri("far")]);
    assert_eq!(map.lines().count(), EXTENTS.len(), "{map}");
    assert_eq!(map, words(&["nbdinfo", "--map", &below.uri("file")]));
}

/// nbdcopy read all of an empty virtual disk, because nothing said that it was empty.
#[test]
fn nbdcopy_copies_only_what_is_there() {
    needs!("nbdcopy_copies_only_what_is_there", "nbdcopy", "nbdsh", "nbdinfo");
    let daemon = daemon();
    for export in ["mem", "file", "second", "striped"] {
        let uri = daemon.uri(export);
        write_some(&uri);
        let copy = daemon.path("copy");
        let _none = std::fs::remove_file(&copy);
        words(&["nbdcopy", &uri, copy.to_str().unwrap()]);
        let data = std::fs::read(&copy).unwrap();
        assert_eq!(data.len(), 64 * MIB);
        assert!(data.iter().filter(|byte| **byte == b'x').count() == 2 * MIB);
        let held = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&copy).unwrap()) * 512;
        assert!(held <= 3 * MIB as u64, "{export}: the copy holds {held} bytes");
        // And back, over data that must go.
        let fill = "import nbd, sys\nh = nbd.NBD()\nh.connect_uri(sys.argv[1])\nfor at in \
                    range(0, 64 << 20, 32 << 20): h.pwrite(b'y' * (32 << 20), at)\nh.shutdown()\n";
        run(python(fill).arg(&uri));
        words(&["nbdcopy", copy.to_str().unwrap(), &uri]);
        assert_eq!(words(&["nbdinfo", "--map", &uri]).lines().count(), EXTENTS.len(), "{export}");
    }
}

/// QEMU negotiates extended headers where libnbd before 1.18 does not.
#[test]
fn qemu_maps_zeroes_and_trims_with_extended_headers() {
    needs!("qemu_maps_zeroes_and_trims_with_extended_headers", "qemu-img", "qemu-io", "nbdsh");
    let daemon = daemon();
    for export in ["mem", "file", "second", "striped"] {
        let uri = daemon.uri(export);
        write_some(&uri);
        let map = words(&["qemu-img", "map", "-f", "raw", "--output=json", &uri]);
        assert_eq!(map.matches("\"data\": true").count(), 2, "{map}");
        let done = words(&[
            "qemu-io",
            "-f",
            "raw",
            "-c",
            "read -P 120 2M 1M",
            "-c",
            "write -P 5 3M 5M",
            "-c",
            "read -P 5 3M 5M",
            "-c",
            "write -z 0 64M",
            "-c",
            "discard 0 64M",
            "-c",
            "read -P 0 0 64M",
            "-c",
            "write -z -u 0 64M",
            "-c",
            "flush",
            &uri,
        ]);
        assert!(!done.contains("failed") && !done.contains("rror"), "{done}");
        let map = words(&["qemu-img", "map", "-f", "raw", "--output=json", &uri]);
        assert_eq!(map.matches("\"data\": true").count(), 0, "{map}");
    }
}

/// Zeroes and trims of more than 32 MiB were refused.
#[test]
fn zeroes_and_trims_are_as_long_as_the_export() {
    needs!("zeroes_and_trims_are_as_long_as_the_export", "nbdsh");
    let daemon = daemon();
    let script = r#"
import nbd, sys
h = nbd.NBD()
h.add_meta_context("base:allocation")
h.connect_uri(sys.argv[1])
h.set_strict_mode(0)
size = h.get_size()
assert size == 64 << 20
assert h.can_fast_zero() and h.can_df() and h.can_meta_context("base:allocation")
h.pwrite(b"x" * (32 << 20), 16 << 20)
h.zero(size, 0, nbd.CMD_FLAG_FAST_ZERO)
assert h.pread(32 << 20, 16 << 20) == bytes(32 << 20)
h.pwrite(b"x" * (32 << 20), 16 << 20)
h.trim(size - 65536, 65536)
assert h.pread(32 << 20, 16 << 20) == bytes(32 << 20)
# One data chunk for a read of many parts, if the client wants that.
h.pwrite(b"z" * (8 << 20), 1)
for flags, most in [(0, 1000), (nbd.CMD_FLAG_DF, 1)]:
    chunks = []
    data = h.pread_structured(8 << 20, 1, lambda b, o, s, e: chunks.append(o), flags)
    assert data == b"z" * (8 << 20) and 1 <= len(chunks) <= most, (flags, chunks)
# One extent, and one that ends inside the range.
for flags, count in [(nbd.CMD_FLAG_REQ_ONE, 1), (0, 2)]:
    seen = []
    h.block_status(size, 0, lambda c, o, e, err: seen.append((c, o, e)) and 0, flags)
    (context, offset, entries), = seen
    assert context == "base:allocation" and offset == 0, seen
    assert len(entries) == 2 * count and entries[1] == 0, (flags, entries)
h.shutdown()
"#;
    for export in ["mem", "file", "second", "striped"] {
        run(python(script).arg(daemon.uri(export)));
    }
}
