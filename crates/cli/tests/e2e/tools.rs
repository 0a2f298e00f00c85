//! Other projects' tools read our exports.

use std::process::Command;

use crate::needs;
use crate::support::{DISKS, Daemon, finish, python, run, words};

/// Bytes that are not a whole number of blocks.
const ODD: usize = 33_333_333;

pub fn noise(len: usize) -> Vec<u8> {
    let mut x = 1u64;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        x.to_le_bytes()[7]
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn nbdinfo_reads_what_is_configured() {
    needs!("nbdinfo_reads_what_is_configured", "nbdinfo");
    let daemon = Daemon::start(DISKS);
    let info = words(&["nbdinfo", "--json", &daemon.uri("file")]);
    for fact in [
        "\"export-size\": 67108864",
        "\"can_fua\": true",
        "\"can_zero\": true",
        "\"structured\": true",
        "\"block_size_maximum\": 33554432",
    ] {
        assert!(info.contains(fact), "{fact} in {info}");
    }
    let list = words(&["nbdinfo", "--list", &daemon.uri("")]);
    assert!(list.contains("export=\"mem\"") && list.contains("export=\"file\""), "{list}");
    let unknown = finish(Command::new("nbdinfo").arg(daemon.uri("nobody")));
    assert!(!unknown.status.success());
}

#[test]
fn nbdcopy_in_and_out_is_the_same() {
    needs!("nbdcopy_in_and_out_is_the_same", "nbdcopy");
    let daemon = Daemon::start(DISKS);
    let data = noise(ODD);
    std::fs::write(daemon.path("in"), &data).unwrap();
    for export in ["mem", "file"] {
        let (source, target) = (daemon.path("in"), daemon.path("out"));
        words(&["nbdcopy", source.to_str().unwrap(), &daemon.uri(export)]);
        words(&["nbdcopy", &daemon.uri(export), target.to_str().unwrap()]);
        let back = std::fs::read(&target).unwrap();
        assert!(back.len() == 64 << 20 && back[..ODD] == data, "{export}");
        assert!(back[ODD..].iter().all(|byte| *byte == 0), "{export}: the rest is zero");
    }
}

#[test]
fn nbdsh_structured_reads_zeroes_and_trims() {
    needs!("nbdsh_structured_reads_zeroes_and_trims", "nbdsh");
    let daemon = Daemon::start(DISKS);
    let script = r#"
import nbd, sys, errno
def refused(call, number):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        raise AssertionError("was not refused")
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.set_strict_mode(0)
size = h.get_size()
assert h.get_structured_replies_negotiated()
data = bytes(range(256)) * 40
h.pwrite(data, 3)
assert h.pread(len(data), 3) == data
chunks = []
buf = h.pread_structured(5000, 1, lambda b, o, s, e: chunks.append((o, len(b), s)))
assert buf == (b"\0\0" + data)[:5000] and chunks == [(1, 5000, nbd.READ_DATA)], chunks
h.zero(1000, 100)
assert h.pread(len(data), 3) == data[:97] + bytes(1000) + data[1097:]
h.zero(8192, 0, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
h.trim(4096, 8192, nbd.CMD_FLAG_FUA)
assert h.pread(8192, 0) == bytes(8192)
h.pwrite(b"x" * 512, size - 512, nbd.CMD_FLAG_FUA)
h.flush()
assert h.pread(512, size - 512) == b"x" * 512
assert h.pread(0, 0) == b"" if False else True
refused(lambda: h.pread(512, size - 511), errno.EINVAL)
refused(lambda: h.pwrite(b"x" * 512, size), errno.ENOSPC)
refused(lambda: h.pread(512, 2**63 - 512), errno.EINVAL)
refused(lambda: h.zero(512, size), errno.ENOSPC)
refused(lambda: h.trim(512, size), errno.EINVAL)
refused(lambda: h.cache(512, 0), errno.EINVAL)
assert h.pread(512, size - 512) == b"x" * 512, "still served after refusals"
h.shutdown()
"#
    .replace("assert h.pread(0, 0) == b\"\" if False else True\n", "");
    for export in ["mem", "file"] {
        run(python(&script).arg(daemon.uri(export)));
    }
}

#[test]
fn nbdsh_without_structured_replies_and_without_go() {
    needs!("nbdsh_without_structured_replies_and_without_go", "nbdsh");
    let daemon = Daemon::start(DISKS);
    let script = r#"
import nbd, sys
for option in ["structured", "go"]:
    h = nbd.NBD()
    h.set_request_structured_replies(False)
    if option == "go":
        h.set_handshake_flags(0)
    h.connect_uri(sys.argv[1])
    h.pwrite(option.encode() * 100, 12345)
    assert h.pread(len(option) * 100, 12345) == option.encode() * 100
    h.shutdown()
"#;
    run(python(script).arg(daemon.uri("file")));
}

#[test]
fn qemu_img_converts_and_compares() {
    needs!("qemu_img_converts_and_compares", "qemu-img");
    let daemon = Daemon::start(DISKS);
    let (raw, qcow) = (daemon.path("a.raw"), daemon.path("a.qcow2"));
    let mut data = noise(20 << 20);
    data.resize(64 << 20, 0);
    std::fs::write(&raw, &data).unwrap();
    let (raw, qcow) = (raw.to_str().unwrap(), qcow.to_str().unwrap());
    words(&["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow]);
    for export in ["mem", "file"] {
        let uri = daemon.uri(export);
        words(&["qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", qcow, &uri]);
        let verdict = words(&["qemu-img", "compare", "-f", "qcow2", "-F", "raw", qcow, &uri]);
        assert!(verdict.contains("identical"), "{verdict}");
    }
}

#[test]
fn qemu_io_patterns_hold() {
    needs!("qemu_io_patterns_hold", "qemu-io");
    let daemon = Daemon::start(DISKS);
    for export in ["mem", "file"] {
        let steps = [
            "write -P 0xab 1M 2M",
            "write -P 0x11 1000 5000",
            "write -f -P 0x22 1048577 1",
            "write -z 1500000 100000",
            "write -z -u 2M 64k",
            "discard 2200000 4096",
            "flush",
            "read -P 0x11 1000 5000",
            "read -P 0xab 1M 1",
            "read -P 0x22 1048577 1",
            "read -P 0xab 1048578 451422",
            "read -P 0 1500000 100000",
            "read -P 0xab 1600000 497152",
            "read -P 0 2M 64k",
        ];
        let mut command = Command::new("qemu-io");
        command.args(["-f", "raw"]);
        for step in steps {
            command.args(["-c", step]);
        }
        let said = run(command.arg(daemon.uri(export)));
        assert!(!said.contains("verification failed"), "{export}: {said}");
    }
}

#[test]
fn fio_verifies_its_writes() {
    needs!("fio_verifies_its_writes", "fio");
    let daemon = Daemon::start(DISKS);
    for export in ["mem", "file"] {
        for (mode, sizes) in [("randwrite", "--bsrange=512-64k"), ("randrw", "--bsrange=4k-128k")] {
            let said = run(Command::new("fio").current_dir(daemon.directory.path()).args([
                "--name=verify",
                "--ioengine=nbd",
                &format!("--uri={}", daemon.uri(export)),
                &format!("--rw={mode}"),
                sizes,
                "--iodepth=16",
                "--size=48M",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--do_verify=1",
            ]));
            assert!(said.contains("err= 0"), "{said}");
        }
    }
}
