//! Dirty bitmaps: other projects' tools see exactly what has changed, and incremental backups lose
//! nothing.

use std::process::Command;

use crate::needs;
use crate::support::{Daemon, finish, python, run, with_bitmaps, words};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;

/// The bitmaps of both virtual disks.
const BITMAPS: &str = r#"["daily", "weekly"]"#;

/// A step of a bitmap by the command.
fn step(daemon: &Daemon, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["vdisk", "bitmap"]).args(words).args(["--json", "--config"]);
    run(command.arg(daemon.path("disktime.toml")))
}

/// Bytes that are dirty in a bitmap.
fn dirty(daemon: &Daemon, vdisk: &str, bitmap: &str) -> u64 {
    let shown: serde_json::Value = serde_json::from_str(&step(daemon, &["show", vdisk])).unwrap();
    let of = |it: &&serde_json::Value| it["name"] == bitmap;
    shown.as_array().unwrap().iter().find(of).unwrap()["dirty_bytes"].as_u64().unwrap()
}

/// Functions of a script: an export's handle with contexts, and a context's extents.
const PYTHON: &str = "
import nbd, random, subprocess, sys, threading
BLOCK = 65536
DAILY = 'qemu:dirty-bitmap:daily'
def opened(uri, contexts=[]):
    h = nbd.NBD()
    for context in contexts:
        h.add_meta_context(context)
    h.connect_uri(uri)
    for context in contexts:
        assert h.can_meta_context(context), context
    return h
def extents(h, wanted, size, at=0, flags=0):
    found = []
    def told(context, offset, entries, error):
        if context == wanted:
            found.extend(zip(entries[::2], entries[1::2]))
    while at < size:
        before = len(found)
        h.block_status(size - at, at, told, flags)
        assert len(found) > before
        at += sum(length for length, _ in found[before:])
    return found
def dirty(h, wanted, size):
    blocks, at = set(), 0
    for length, state in extents(h, wanted, size):
        if state & 1:
            blocks |= set(range(at // BLOCK, (at + length + BLOCK - 1) // BLOCK))
        at += length
    assert at == size, at
    return blocks
";

#[test]
fn bitmaps_tell_exactly_which_blocks_have_changed() {
    needs!("bitmaps_tell_exactly_which_blocks_have_changed", "nbdsh", "nbdinfo", "qemu-img");
    let daemon = Daemon::start(&with_bitmaps(BITMAPS));
    let script = "
uri, size = sys.argv[1], 64 << 20
h = opened(uri, [DAILY, 'base:allocation', 'qemu:dirty-bitmap:weekly'])
assert dirty(h, DAILY, size) == set()
assert len(dirty(h, 'qemu:dirty-bitmap:weekly', size)) == size // BLOCK, 'never backed up'
model, draw = set(), random.Random(7)
for turn in range(300):
    kind = draw.randrange(4)
    length = draw.choice([1, 512, 4096, 65536, 200000, 3000000])
    at = draw.randrange(size - length) if draw.randrange(2) else draw.randrange(size // BLOCK - 50) * BLOCK
    if kind == 0:
        h.pread(length, at)
        continue
    if turn > 30 and turn % 7:
        continue
    [None, lambda: h.pwrite(b'x' * length, at), lambda: h.zero(length, at), lambda: h.trim(length, at)][kind]()
    model |= set(range(at // BLOCK, (at + length + BLOCK - 1) // BLOCK))
    assert dirty(h, DAILY, size) == model, (turn, kind, at, length)
assert 0 < len(model) < size // BLOCK
one = extents(h, DAILY, 1 << 20, 0, nbd.CMD_FLAG_REQ_ONE)
print(sorted(model)[0])
";
    for export in ["mem", "file"] {
        step(&daemon, &["begin", export, "daily"]);
        step(&daemon, &["done", export, "daily"]);
        run(python(&format!("{PYTHON}{script}")).arg(daemon.uri(export)));
        // Other tools agree.
        let changed = dirty(&daemon, export, "daily");
        let map =
            words(&["nbdinfo", "--map=qemu:dirty-bitmap:daily", "--totals", &daemon.uri(export)]);
        let line = map.lines().find(|line| line.ends_with("dirty")).unwrap();
        assert_eq!(line.split_whitespace().next().unwrap(), changed.to_string(), "{map}");
        // QEMU shows dirty bytes as no data.
        let options = format!(
            "driver=nbd,server.type=unix,server.path={},export={export},\
             x-dirty-bitmap=qemu:dirty-bitmap:daily",
            daemon.socket().display()
        );
        let map = words(&["qemu-img", "map", "--output=json", "--image-opts", &options]);
        let map: serde_json::Value = serde_json::from_str(&map).unwrap();
        let map = map.as_array().unwrap().iter().filter(|extent| extent["data"] == false);
        assert_eq!(map.map(|extent| extent["length"].as_u64().unwrap()).sum::<u64>(), changed);
    }
    assert!(daemon.end("TERM").1);
}

/// A client writes without a pause while backups begin, copy what is dirty, and are done; one of them
/// fails half-way. The last one has all.
#[test]
fn incremental_backups_beside_a_writer_lose_nothing() {
    needs!("incremental_backups_beside_a_writer_lose_nothing", "nbdsh");
    let daemon = Daemon::start(&with_bitmaps(BITMAPS));
    let script = "
uri, disktime, config, size = sys.argv[1], sys.argv[2], sys.argv[3], 64 << 20
def step(*words):
    subprocess.run([disktime, 'vdisk', 'bitmap', *words, 'file', 'daily', '--config', config], check=True, stdout=subprocess.DEVNULL)
backup, over, written = bytearray(size), threading.Event(), [0]
def write():
    h, draw = opened(uri), random.Random(3)
    while not over.is_set():
        length = draw.choice([512, 5000, 100000])
        at = draw.randrange(8 << 20) + draw.randrange(8) * (8 << 20) - length
        h.pwrite(draw.randbytes(length), max(at, 0))
        written[0] += 1
    h.flush()
    h.shutdown()
def copy(only=None):
    h = opened(uri, [DAILY])
    blocks = sorted(dirty(h, DAILY, size))
    for block in blocks[:only]:
        backup[block * BLOCK:(block + 1) * BLOCK] = h.pread(BLOCK, block * BLOCK)
    h.shutdown()
    return len(blocks)
writer = threading.Thread(target=write)
writer.start()
copied = []
for turn in range(8):
    step('begin')
    if turn == 4:
        copy(3)
        continue
    copied.append(copy())
    step('done')
over.set()
writer.join()
step('begin')
copied.append(copy())
step('done')
h = opened(uri, [DAILY])
assert dirty(h, DAILY, size) == set()
now = b''.join(h.pread(1 << 20, at) for at in range(0, size, 1 << 20))
assert bytes(backup) == now, [at for at in range(0, size, BLOCK) if backup[at:at + BLOCK] != now[at:at + BLOCK]]
assert copied[0] == size // BLOCK and written[0] > 20, (copied, written)
";
    let mut command = python(&format!("{PYTHON}{script}"));
    command.arg(daemon.uri("file")).arg(env!("CARGO_BIN_EXE_disktime"));
    run(command.arg(daemon.path("disktime.toml")));
    assert!(daemon.end("TERM").1);
}

/// A bitmap that was kept across a crash said that blocks were clean which had been written.
#[test]
fn bitmaps_last_over_a_restart_and_are_dirty_after_a_crash() {
    needs!("bitmaps_last_over_a_restart_and_are_dirty_after_a_crash", "nbdsh");
    let write = |daemon: &Daemon, vdisk: &str| {
        let script = "h = opened(sys.argv[1])\nh.pwrite(b'x' * 512, 1 << 20)\nh.shutdown()\n";
        run(python(&format!("{PYTHON}{script}")).arg(daemon.uri(vdisk)));
    };
    let daemon = Daemon::start(&with_bitmaps(BITMAPS));
    for vdisk in ["mem", "file"] {
        step(&daemon, &["clear", vdisk, "daily"]);
        write(&daemon, vdisk);
    }
    let (directory, ended) = daemon.end("TERM");
    assert!(ended);
    let kept = directory.path().join("state/file.bitmaps");
    assert!(kept.exists());
    let daemon = Daemon::start_in(directory);
    assert!(!kept.exists(), "true no longer from the first write on");
    assert_eq!(dirty(&daemon, "file", "daily"), 64 << 10);
    assert_eq!(dirty(&daemon, "file", "weekly"), SIZE);
    assert_eq!(dirty(&daemon, "mem", "daily"), SIZE, "its contents are gone");
    let (directory, _) = daemon.end("KILL");
    let daemon = Daemon::start_in(directory);
    assert_eq!(dirty(&daemon, "file", "daily"), SIZE);
    assert!(daemon.end("TERM").1);
}

/// A file that was made shorter while no daemon ran, and longer again by the next start, had lost data in blocks that
/// a bitmap said were clean: an incremental backup kept the old ones.
#[test]
fn bitmaps_of_a_file_that_was_shorter_meanwhile_are_dirty() {
    let daemon = Daemon::start(&with_bitmaps(BITMAPS));
    step(&daemon, &["clear", "file", "daily"]);
    assert_eq!(dirty(&daemon, "file", "daily"), 0);
    let (directory, _) = daemon.end("TERM");
    let daemon = Daemon::start_in(directory);
    assert_eq!(dirty(&daemon, "file", "daily"), 0, "nothing has happened to it");
    let (directory, ended) = daemon.end("TERM");
    assert!(ended);
    let mut shrink = Command::new(env!("CARGO_BIN_EXE_disktime"));
    shrink.args(["device", "shrink"]).arg(directory.path().join("disks"));
    run(shrink.args(["--vdisk", "file", "--size", "32MiB", "--yes"]));
    let daemon = Daemon::start_in(directory);
    assert_eq!(dirty(&daemon, "file", "daily"), SIZE);
    // So are those of one whose file was given up.
    step(&daemon, &["clear", "file", "daily"]);
    let (directory, _) = daemon.end("TERM");
    std::fs::remove_dir_all(directory.path().join("disks")).unwrap();
    std::fs::remove_file(directory.path().join("state/disk.layout.toml")).unwrap();
    let daemon = Daemon::start_in(directory);
    assert_eq!(dirty(&daemon, "file", "daily"), SIZE);
    assert!(daemon.end("TERM").1);
}

#[test]
fn bitmaps_come_and_go_while_the_daemon_runs() {
    needs!("bitmaps_come_and_go_while_the_daemon_runs", "nbdsh", "nbdinfo");
    let mut daemon = Daemon::start(&with_bitmaps(BITMAPS));
    step(&daemon, &["clear", "file", "daily"]);
    step(&daemon, &["clear", "file", "weekly"]);
    let larger = with_bitmaps(BITMAPS).replace(
        "size = \"64MiB\"\nbitmaps = [\"daily\"",
        "size = \"65MiB\"\nbitmaps = [\"daily\"",
    );
    let said = daemon.reload(&larger.replace("\"weekly\"]", "\"new\"]"));
    assert!(said.contains("size 64MiB -> 65MiB"), "{said}");
    assert_eq!(dirty(&daemon, "file", "daily"), MIB, "the new bytes");
    assert_eq!(dirty(&daemon, "file", "new"), SIZE + MIB);
    let list = words(&["nbdinfo", "--json", &daemon.uri("file")]);
    assert!(list.contains("qemu:dirty-bitmap:new") && !list.contains("weekly"), "{list}");
    // An answer without bitmaps was taken for the end of the connection.
    let said = daemon.reload(&larger.replace("bitmaps = [\"daily\", \"weekly\"]", ""));
    if !said.contains("file: bitmaps daily, new -> nothing") {
        daemon.line_with("file: bitmaps daily, new -> nothing");
    }
    assert_eq!(step(&daemon, &["show", "file"]).trim(), "[]");
    let mut said = daemon.reload(&larger.replace("\"weekly\"]", "\"new\"]"));
    while !said.contains("file: bitmaps nothing -> daily, new") {
        said = daemon.error_line();
    }
    step(&daemon, &["clear", "file", "daily"]);
    for (words, says) in [
        (["begin", "file", "weekly"], "vdisk file: no bitmap weekly; there are: daily, new"),
        // A script that forgot to begin looked successful.
        (["done", "file", "daily"], "vdisk file: bitmap daily: no backup was begun"),
        (["done", "nobody", "daily"], "no virtual disk nobody; there are: file, mem"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(["vdisk", "bitmap"]).args(words).arg("--config");
        let output = finish(command.arg(daemon.path("disktime.toml")));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(says), "{said}");
    }
    // A bitmap that goes while a client has it is dirty from then on: a backup copies too much.
    let script = "
h = opened(sys.argv[1], [DAILY])
assert len(dirty(h, DAILY, 64 << 20)) == 0
print('opened', flush=True)
sys.stdin.readline()
assert len(dirty(h, DAILY, 64 << 20)) == 1024
";
    let mut client = python(&format!("{PYTHON}{script}"));
    client.arg(daemon.uri("file")).stdin(std::process::Stdio::piped());
    let mut client = client.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(client.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
    let mut said = daemon.reload(&larger.replace("[\"daily\", \"weekly\"]", "[\"new\"]"));
    while !said.contains("file: bitmaps daily, new -> new") {
        said = daemon.error_line();
    }
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
    let (directory, _) = daemon.end("TERM");
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["vdisk", "bitmap", "show", "file", "--config"]);
    let output = finish(command.arg(directory.path().join("disktime.toml")));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("no daemon listens"), "{said}");
}
