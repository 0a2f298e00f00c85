//! A daemon takes over from another one: its clients see a pause, and no error.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disktime_client::{Connection, RequestError, Uri};
use disktime_nbd::NbdError;

use crate::needs;
use crate::support::{Daemon, finish, python, run, words};

const DISKS: &str = r#"
state = "DIRECTORY/state"

[[device]]
name = "disk"
back_end = "file:DIRECTORY/disks"
create = true
queue_depth = 8

[[vdisk]]
name = "file"
device = "disk"
size = "64MiB"
bitmaps = ["daily"]
"#;

const BLOCK: usize = 8192;

#[expect(clippy::disallowed_methods, reason = "an end-to-end test measures in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Writes to a part of its own and reads back, until told to stop; answers the longest time that a
/// request took.
fn write_and_compare(daemon: &str, at: u64, stop: &AtomicBool) -> (Duration, u64) {
    let mut client = Connection::open(&daemon.parse::<Uri>().unwrap()).unwrap();
    let (mut longest, mut turn, mut back) = (Duration::ZERO, 0u64, vec![0; BLOCK]);
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let offset = at * (8 << 20) + turn % 64 * BLOCK as u64;
        let data = (turn ^ (at << 56)).to_le_bytes().repeat(BLOCK / 8);
        let begun = now();
        client.write(offset, &data, turn.is_multiple_of(16)).unwrap();
        client.read(offset, &mut back).unwrap();
        longest = longest.max(begun.elapsed());
        assert!(back == data, "client {at}, turn {turn}");
    }
    (longest, turn)
}

/// Stops clients when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A restart ended every connection: libnbd's programs and plain guests failed.
#[test]
fn connections_survive_a_take_over() {
    needs!("connections_survive_a_take_over", "nbdinfo");
    let mut daemon = Daemon::start(DISKS);
    let (uri, stop) = (daemon.uri("file"), AtomicBool::new(false));
    let longest = std::thread::scope(|scope| {
        let (uri, stop) = (&uri, &stop);
        let client = |at| scope.spawn(move || write_and_compare(uri, at, stop));
        let clients: Vec<_> = (0..8).map(client).collect();
        // Clients end also if a take-over fails.
        let _stops = Stops(stop);
        for _ in 0..5 {
            assert!(daemon.take_over(), "the predecessor ends well");
        }
        stop.store(true, Ordering::Relaxed);
        let ended = clients.into_iter().map(|client| client.join().unwrap());
        ended.map(|(longest, turns)| (longest, u64::from(turns > 0))).max().unwrap().0
    });
    println!("5 take-overs with 8 clients, the longest pause: {longest:?}");
    // A busy machine takes longer than the 300 ms that `cargo xtask bench crash` asks for.
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    let info = words(&["nbdinfo", "--json", &daemon.uri("file")]);
    assert!(info.contains("67108864"), "the listener goes on: {info}");
    assert!(daemon.end("TERM").1);
}

/// Other projects' clients, with structured replies, extended headers (QEMU) and neither.
#[test]
fn other_clients_survive_a_take_over() {
    needs!("other_clients_survive_a_take_over", "nbdsh", "qemu-io");
    let mut daemon = Daemon::start(DISKS);
    let script = r"
import nbd, sys
plain, rich = nbd.NBD(), nbd.NBD()
plain.set_request_structured_replies(False)
rich.add_meta_context('base:allocation')
for h in [plain, rich]:
    h.connect_uri(sys.argv[1])
    h.pwrite(b'a' * 100000, 12345)
while rich.pread(1 << 20, 4 << 20) != b'\xab' * (1 << 20):
    pass
print('connected', flush=True)
sys.stdin.readline()
for h in [plain, rich]:
    assert h.pread(100000, 12345) == b'a' * 100000
    h.pwrite(b'b' * 70000, 2 << 20)
    h.flush()
found = []
rich.block_status(64 << 20, 0, lambda c, o, e, err: found.extend(e))
assert sum(found[::2]) == 64 << 20 and 3 in found[1::2], found
for h in [plain, rich]:
    h.shutdown()
";
    let mut client = python(script);
    client.arg(daemon.uri("file")).stdin(std::process::Stdio::piped());
    let mut client = client.stdout(std::process::Stdio::piped()).spawn().unwrap();
    // QEMU has written when the script sees so, and sleeps during the take-over.
    let mut qemu = Command::new("qemu-io");
    for step in [
        "write -P 0xab 4M 1M",
        "sleep 2000",
        "read -P 0xab 4M 1M",
        "write -z 4M 512k",
        "read -P 0 4M 512k",
        "flush",
    ] {
        qemu.args(["-c", step]);
    }
    qemu.args(["-f", "raw", &daemon.uri("file")]).stdout(std::process::Stdio::piped());
    let qemu = qemu.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(client.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
    assert!(daemon.take_over());
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
    let output = qemu.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && !text.contains("rror"), "{text}");
    assert!(!text.contains("failed"), "{text}");
    assert!(daemon.end("TERM").1);
}

/// Negotiates an export in the oldest way that there is; answers the socket.
fn raw_client(daemon: &Daemon) -> UnixStream {
    let mut socket = UnixStream::connect(daemon.socket()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).unwrap();
    socket.write_all(&[0, 0, 0, 3]).unwrap();
    let name = b"file";
    socket.write_all(&[&b"IHAVEOPT\0\0\0\x01\0\0\0\x04"[..], name].concat()).unwrap();
    let mut told = [0; 10];
    socket.read_exact(&mut told).unwrap();
    socket
}

fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(command.to_be_bytes());
    bytes.extend(7u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The bytes of a request that came in part were gone with the predecessor, and its client's stream was
/// out of step from then on.
#[test]
fn a_request_that_came_in_part_goes_on_at_the_successor() {
    let mut daemon = Daemon::start(DISKS);
    let mut client = raw_client(&daemon);
    let write = [request(1, 4096, 1000), vec![0x5A; 1000]].concat();
    client.write_all(&write).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    let read = request(0, 4096, 1000);
    client.write_all(&read[..11]).unwrap();
    assert!(daemon.take_over());
    client.write_all(&read[11..]).unwrap();
    let mut answer = [0; 1016];
    client.read_exact(&mut answer).unwrap();
    assert!(answer[4..8] == [0; 4] && answer[16..].iter().all(|byte| *byte == 0x5A));
    // A refused write's data, half of them still to be skipped.
    let beyond = [request(1, 64 << 20, 1000), vec![1; 400]].concat();
    client.write_all(&beyond).unwrap();
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], 28u32.to_be_bytes(), "no space");
    assert!(daemon.take_over());
    client.write_all(&[vec![1; 600], request(0, 4096, 1000)].concat()).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert!(answer[4..8] == [0; 4] && answer[16..].iter().all(|byte| *byte == 0x5A));
    assert!(daemon.end("TERM").1);
}

/// Clients that hold a hand-over up don't hold the others up for long: one that has sent half of a write,
/// and one in the middle of its handshake.
#[test]
fn clients_that_hold_a_hand_over_up_are_not_waited_for() {
    let mut daemon = Daemon::start(DISKS);
    let mut half = raw_client(&daemon);
    half.write_all(&[request(1, 0, 1 << 20), vec![9; 1000]].concat()).unwrap();
    let mut open = UnixStream::connect(daemon.socket()).unwrap();
    let mut greeting = [0; 18];
    open.read_exact(&mut greeting).unwrap();
    open.write_all(&[0, 0]).unwrap();
    let mut good = raw_client(&daemon);
    let begun = now();
    assert!(daemon.take_over());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    for mut gone in [half, open] {
        gone.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert!(matches!(gone.read(&mut [0; 16]), Ok(0) | Err(_)), "hung up on");
    }
    good.write_all(&request(0, 0, 512)).unwrap();
    let mut answer = [0; 16 + 512];
    good.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], [0; 4]);
    assert!(daemon.end("TERM").1);
}

/// Runs `serve --take-over` with a configuration of its own, which must fail; answers what it said.
fn refused(daemon: &Daemon, text: &str) -> String {
    let path = daemon.path("other.toml");
    let text = text.replace("DIRECTORY", daemon.directory.path().to_str().unwrap());
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let output = finish(command.args(["serve", "--take-over", "--config"]).arg(path));
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A successor with a bad configuration, or one that dies before it says go, changes nothing.
#[test]
fn a_successor_that_fails_changes_nothing() {
    needs!("a_successor_that_fails_changes_nothing", "nbdinfo");
    let daemon = Daemon::start(DISKS);
    let mut client = raw_client(&daemon);
    let server = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{DISKS}");
    let said = refused(&daemon, &server.replace("64MiB", "32MiB"));
    assert!(said.contains("the file is larger"), "{said}");
    let said = refused(&daemon, &server.replace("state = \"DIRECTORY/state\"", ""));
    assert!(said.contains("state"), "{said}");
    // The certificates are missing, which shows only after the predecessor was asked.
    let said = refused(
        &daemon,
        &server.replace("nbd.sock\"]", "nbd.sock\", \"unix:/no/such/dir/a.sock\"]"),
    );
    assert!(said.contains("/no/such/dir"), "{said}");
    // Files and addresses for operators were looked at after the predecessor had gone.
    let control = |keys: &str| server.replace("state = ", &format!("{keys}\nstate = "));
    let said = refused(&daemon, &control("control = \"unix:/no/such/dir/c.sock\""));
    assert!(said.contains("/no/such/dir is no directory"), "{said}");
    let said = refused(&daemon, &control("control = \"tcp:192.0.2.1:7070\"\ntokens = \"/tokens\""));
    assert!(said.contains("TLS"), "{said}");
    let tokens = "control = \"tcp:127.0.0.1:7070\"\ntokens = \"DIRECTORY/other.toml\"";
    let said = refused(&daemon, &control(tokens));
    assert!(said.contains("tokens") && said.contains("other.toml"), "{said}");
    let caller = "import socket, sys, time\n\
                  s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  s.connect(sys.argv[1])\n\
                  s.send(b'ask = \"take-over\"\\nversion = VERSION\\n')\n\
                  print(s.recv(65536).decode())\n";
    let socket = daemon.path("state/daemon.sock");
    let other = run(python(&caller.replace("VERSION", "99")).arg(&socket));
    assert!(other.contains("it hands over in version 2, not 99"), "{other}");
    run(python(&caller.replace("VERSION", "2")).arg(&socket));
    let nonsense = caller.replace("ask = ", "asks = ");
    assert!(run(python(&nonsense).arg(&socket)).contains("error"));
    client.write_all(&request(0, 0, 512)).unwrap();
    let mut answer = [0; 16 + 512];
    client.read_exact(&mut answer).unwrap();
    words(&["nbdinfo", &daemon.uri("file")]);
    assert!(daemon.end("TERM").1);
}

/// A trace was begun only after the predecessor had gone: both ended.
#[test]
fn a_successor_whose_trace_can_not_be_begun_changes_nothing() {
    let daemon = Daemon::start(DISKS);
    let mut client = Connection::open(&daemon.uri("file").parse::<Uri>().unwrap()).unwrap();
    let server = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{DISKS}");
    let recorded = |trace: &str| format!("{server}record = \"{trace}\"\n");
    let said = refused(&daemon, &recorded("/no/such/dir/trace.csv"));
    assert!(said.contains("/no/such/dir"), "{said}");
    std::fs::write(daemon.path("notes.csv"), "someone's notes").unwrap();
    let said = refused(&daemon, &recorded("DIRECTORY/notes.csv"));
    assert!(said.contains("something else than a trace is there"), "{said}");
    client.write(0, &[1; 512], true).unwrap();
    assert!(daemon.end("TERM").1);
}

/// A successor that was stopped before its *go* held up SIGHUP, the control API and SIGTERM for 5 s.
#[test]
fn a_successor_that_is_stopped_holds_nothing_up() {
    let mut daemon = Daemon::start(DISKS);
    let script = "import socket, sys\n\
                  s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  s.connect(sys.argv[1])\n\
                  s.send(b'ask = \"take-over\"\\nversion = 2\\n')\n\
                  while b'offered' not in s.recv(65536): pass\n\
                  print('offered', flush=True)\n\
                  sys.stdin.readline()\n";
    let mut command = python(script);
    command.arg(daemon.path("state/daemon.sock")).stdin(std::process::Stdio::piped());
    let mut stopped = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(stopped.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
    let begun = now();
    let said = daemon.reload(DISKS);
    assert!(said.contains("the configuration is as it was"), "{said}");
    let server = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{DISKS}");
    let said = refused(&daemon, &server);
    assert!(said.contains("another daemon takes over already"), "{said}");
    assert!(daemon.end("TERM").1);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop(stopped.stdin.take());
    stopped.wait().unwrap();
}

/// A daemon that was told to end while its successor made ready was gone when that said go: the successor blamed
/// io_uring, or served at sockets whose files were gone.
#[test]
fn a_successor_of_a_daemon_that_ends_meanwhile_says_so() {
    let directory = tempfile::TempDir::new().unwrap();
    let state = directory.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let text = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{DISKS}");
    let text = text.replace("DIRECTORY", directory.path().to_str().unwrap());
    let path = directory.path().join("disktime.toml");
    std::fs::write(&path, text).unwrap();
    let script = r#"
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen()
print('listens', flush=True)
for end in [b'packet = "ends"\n', None]:
    c = s.accept()[0]
    c.recv(65536)
    c.send(b'done = true\n')
    own = b'packet = "own"\npath = "%s"\n' % sys.argv[1].encode()
    socket.send_fds(c, [own], [s.fileno()])
    c.send(b'packet = "offered"\n')
    if end:
        c.recv(65536)
        c.send(end)
    c.close()
"#;
    let mut command = python(script);
    command.arg(state.join("daemon.sock")).stdout(std::process::Stdio::piped());
    let mut ending = command.spawn().unwrap();
    let mut output = std::io::BufReader::new(ending.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
    for why in ["was told to end meanwhile", "Broken pipe"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        let output = finish(command.args(["serve", "--take-over", "--config"]).arg(&path));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let told = said.contains("was not taken over") && said.contains(why);
        assert!(told && !said.contains("io_uring"), "{said}");
    }
    assert!(ending.wait().unwrap().success());
}

/// An image with a virtual disk, beside [`DISKS`].
const IMAGE: &str = r#"
[[device]]
name = "image"
back_end = "file:DIRECTORY/image"
queue_depth = 8

[[vdisk]]
name = "more"
device = "image"
size = "1MiB"
"#;

/// Makes the image.
fn image(directory: &tempfile::TempDir) -> std::fs::File {
    let image = std::fs::File::create(directory.path().join("image")).unwrap();
    image.set_len(64 << 20).unwrap();
    image
}

/// A device that another server had showed after *go*, and ended both daemons with all connections.
#[test]
fn a_successor_that_can_not_have_a_device_changes_nothing() {
    let directory = tempfile::TempDir::new().unwrap();
    let image = image(&directory);
    let mut daemon = Daemon::start_configured(directory, DISKS);
    let mut client = raw_client(&daemon);
    let disks = [DISKS, IMAGE].concat();
    let server = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{disks}");
    image.lock().unwrap();
    let said = refused(&daemon, &server);
    assert!(said.contains("image: it is mounted, or another server"), "{said}");
    client.write_all(&request(0, 0, 512)).unwrap();
    let mut answer = [0; 16 + 512];
    client.read_exact(&mut answer).unwrap();
    drop(image);
    daemon.configure(&disks);
    // A device that the running daemon has is no reason, under whatever name, also if that daemon took over itself.
    assert!(daemon.take_over());
    daemon.configure(
        &disks
            .replace("name = \"image\"", "name = \"other\"")
            .replace("device = \"image\"", "device = \"other\""),
    );
    assert!(daemon.take_over());
    client.write_all(&request(0, 0, 512)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert!(daemon.end("TERM").1);
}

/// Takes a file system away.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        let _gone_already =
            command.arg("-l").arg(&self.0).stderr(std::process::Stdio::null()).status();
    }
}

/// A layout that could not be recorded, in a full state directory, ended both daemons as well.
#[test]
fn a_successor_that_can_not_record_a_layout_changes_nothing() {
    let directory = tempfile::TempDir::new().unwrap();
    image(&directory);
    let state = directory.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&state);
    if !command.stderr(std::process::Stdio::null()).status().is_ok_and(|it| it.success()) {
        let name = "a_successor_that_can_not_record_a_layout_changes_nothing";
        return crate::support::skip(name, "no file system can be mounted");
    }
    let _mounted = Mounted(state.clone());
    let disks = format!("state = \"DIRECTORY/state\"\n{IMAGE}");
    let mut daemon = Daemon::start_configured(directory, &disks);
    let mut client = Connection::open(&daemon.uri("more").parse::<Uri>().unwrap()).unwrap();
    let mut full = std::fs::File::create(state.join("full")).unwrap();
    while full.write_all(&[0; 512]).is_ok() {}
    let third = "\n[[vdisk]]\nname = \"third\"\ndevice = \"image\"\nsize = \"1MiB\"\n";
    let said =
        refused(&daemon, &format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{disks}{third}"));
    assert!(said.contains("No space left") && said.contains("image.layout.toml"), "{said}");
    client.write(0, &[1; 512], false).unwrap();
    // A successor with nothing new to record needs no room.
    assert!(daemon.take_over());
    client.write(0, &[2; 512], false).unwrap();
    drop(full);
    std::fs::remove_file(state.join("full")).unwrap();
    daemon.configure(&[&disks, third].concat());
    assert!(daemon.take_over());
    client.write(0, &[3; 512], false).unwrap();
    let left = std::fs::read_dir(&state).unwrap().map(|it| it.unwrap().file_name());
    let left: Vec<_> = left.filter(|it| it.to_str().unwrap().contains("take-over")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(daemon.end("TERM").1);
}

/// So did a virtual disk that could not be listed, in a full pool.
#[test]
fn a_successor_that_can_not_list_a_virtual_disk_changes_nothing() {
    let directory = tempfile::TempDir::new().unwrap();
    let pool = directory.path().join("disks");
    std::fs::create_dir(&pool).unwrap();
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&pool);
    if !command.stderr(std::process::Stdio::null()).status().is_ok_and(|it| it.success()) {
        let name = "a_successor_that_can_not_list_a_virtual_disk_changes_nothing";
        return crate::support::skip(name, "no file system can be mounted");
    }
    let _mounted = Mounted(pool.clone());
    let mut daemon = Daemon::start_configured(directory, DISKS);
    let mut client = raw_client(&daemon);
    let mut full = std::fs::File::create(pool.join("full")).unwrap();
    while full.write_all(&[0; 512]).is_ok() {}
    let names = (0..90).map(|number| {
        let name = "n".repeat(50);
        format!("\n[[vdisk]]\nname = \"{name}{number}\"\ndevice = \"disk\"\nsize = \"1MiB\"\n")
    });
    let disks = [DISKS, &names.collect::<String>()].concat();
    let said = refused(&daemon, &format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{disks}"));
    assert!(said.contains("No space left"), "{said}");
    client.write_all(&request(0, 0, 512)).unwrap();
    let mut answer = [0; 16 + 512];
    client.read_exact(&mut answer).unwrap();
    drop(full);
    std::fs::remove_file(pool.join("full")).unwrap();
    daemon.configure(&disks);
    assert!(daemon.take_over());
    client.write_all(&request(0, 0, 512)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert!(daemon.end("TERM").1);
}

/// A port of the control API that another server had ended both daemons, and every connection.
#[test]
fn clients_go_on_without_a_control_api_that_can_not_be_opened() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let control = format!("control = \"tcp:{}\"", taken.local_addr().unwrap());
    let mut daemon = Daemon::start(DISKS);
    let mut client = raw_client(&daemon);
    daemon.configure(&format!("{control}\n{DISKS}"));
    assert!(daemon.take_over());
    client.write_all(&request(0, 0, 512)).unwrap();
    let mut answer = [0; 16 + 512];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], [0; 4]);
    assert!(daemon.line_with("no control API").contains("another server listens there"));
    drop(taken);
    assert!(daemon.take_over());
    client.write_all(&request(0, 0, 512)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert!(daemon.end("TERM").1);
}

/// A socket for missed deadlines that another server had ended both daemons, and every connection.
#[test]
fn clients_go_on_without_a_socket_for_misses_that_can_not_be_had() {
    let mut daemon = Daemon::start(DISKS);
    let taken = std::os::unix::net::UnixDatagram::bind(daemon.path("misses.sock")).unwrap();
    let mut client = raw_client(&daemon);
    daemon.configure(&format!("misses = \"unix:DIRECTORY/misses.sock\"\n{DISKS}"));
    assert!(daemon.take_over());
    client.write_all(&request(0, 0, 512)).unwrap();
    let mut answer = [0; 16 + 512];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], [0; 4]);
    assert!(daemon.line_with("no missed deadlines").contains("another server listens there"));
    drop(taken);
    assert!(daemon.take_over());
    client.write_all(&request(0, 0, 512)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert!(daemon.path("misses.sock").exists());
    assert!(daemon.end("TERM").1);
}

/// A second daemon with the same `state` only warned that commands could not reach it.
#[test]
fn a_state_has_one_daemon() {
    let daemon = Daemon::start(&DISKS.replace("bitmaps", "# bitmaps"));
    let text = format!("[server]\nnbd = [\"unix:DIRECTORY/other.sock\"]\n{DISKS}");
    let text = text.replace("bitmaps", "# bitmaps").replace("/disks", "/other-disks");
    let text = text.replace("DIRECTORY", daemon.directory.path().to_str().unwrap());
    let path = daemon.path("other.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let output = finish(command.args(["serve", "--config"]).arg(path));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/state: another server listens there"), "{said}");
    assert!(daemon.end("TERM").1);
}

#[test]
fn contents_in_memory_are_not_taken_over() {
    let memory = DISKS.replace("\"file:DIRECTORY/disks\"\ncreate = true", "\"memory\"");
    let daemon = Daemon::start(&memory);
    let server = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{memory}");
    let said = refused(&daemon, &server);
    assert!(said.contains("the running daemon stays: device disk: its contents are in"), "{said}");
    assert!(daemon.end("TERM").1);
}

/// A client keeps what it was told: a size that has grown is not its size. One that was told more than is
/// still true would write to a virtual disk that is read-only by now, or to none.
#[test]
fn connections_whose_terms_are_true_no_longer_end_at_a_take_over() {
    let more = |name: &str| {
        format!("\n[[vdisk]]\nname = \"{name}\"\ndevice = \"disk\"\nsize = \"8MiB\"\n")
    };
    let disks = [DISKS, &more("sealed"), &more("gone")].concat();
    let mut daemon = Daemon::start(&disks);
    let open = |daemon: &Daemon, name: &str| {
        Connection::open(&daemon.uri(name).parse::<Uri>().unwrap()).unwrap()
    };
    let [mut grown, mut sealed, mut gone] =
        ["file", "sealed", "gone"].map(|name| open(&daemon, name));
    for client in [&mut grown, &mut sealed, &mut gone] {
        client.write(0, &[1; 512], false).unwrap();
    }
    let path = daemon.path("disktime.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace(&more("gone"), "").replace("64MiB", "65MiB");
    let text = text.replace("name = \"sealed\"", "name = \"sealed\"\nread_only = true");
    std::fs::write(path, text).unwrap();
    assert!(daemon.take_over());
    let mut back = [0; 512];
    grown.read(0, &mut back).unwrap();
    assert_eq!(back, [1; 512]);
    let past = grown.read(64 << 20, &mut back);
    assert_eq!(past, Err(RequestError::Failed(NbdError::Invalid)), "its size is the old one");
    open(&daemon, "file").read(64 << 20, &mut back).unwrap();
    for client in [&mut sealed, &mut gone] {
        let end = client.read(0, &mut back);
        assert!(matches!(end, Err(RequestError::Connection(_))), "{end:?}");
    }
    assert!(open(&daemon, "sealed").write(0, &[2; 512], false).is_err());
    let (directory, ended) = daemon.end("TERM");
    assert!(ended && !directory.path().join("nbd.sock").exists(), "the socket's file is its own");
}

/// A bitmap goes on at the successor; a connection that has chosen it has a number of the predecessor's.
#[test]
fn bitmaps_go_on_at_the_successor_and_their_connections_connect_again() {
    needs!("bitmaps_go_on_at_the_successor_and_their_connections_connect_again", "nbdsh");
    let mut daemon = Daemon::start(DISKS);
    let script = r"
import nbd, sys
def opened():
    h = nbd.NBD()
    h.add_meta_context('qemu:dirty-bitmap:daily')
    h.connect_uri(sys.argv[1])
    return h
def dirty(h):
    found = []
    h.block_status(64 << 20, 0, lambda c, o, e, err: found.extend(zip(e[::2], e[1::2])))
    return sum(length for length, state in found if state)
h = opened()
h.pwrite(b'x' * 512, 1 << 20)
assert dirty(h) == 65536, dirty(h)
print('connected', flush=True)
sys.stdin.readline()
try:
    h.pread(512, 0)
except nbd.Error:
    pass
else:
    raise AssertionError('the connection is another one')
assert dirty(opened()) == 65536
";
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["vdisk", "bitmap", "clear", "file", "daily", "--config"]);
    run(command.arg(daemon.path("disktime.toml")));
    let mut client = python(script);
    client.arg(daemon.uri("file")).stdin(std::process::Stdio::piped());
    let mut client = client.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(client.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut String::new()).unwrap();
    assert!(daemon.take_over());
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
    assert!(daemon.end("TERM").1);
}

/// A successor that began from nothing would probe again, in the pause that its clients see; a device that
/// the predecessor did not have is a new one.
#[test]
fn a_successor_knows_what_the_quick_probe_of_the_predecessor_found() {
    let talkative = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.env("DISKTIME_LOG", "info");
        command
    };
    let disks = DISKS.replace("queue_depth = 8", "queue_depth = 8\nquick_profile = true");
    let daemon = Daemon::start(&disks);
    let mut client = Connection::open(&daemon.uri("file").parse::<Uri>().unwrap()).unwrap();
    for at in 0..64 {
        client.write(at << 20, &vec![7; 1 << 20], at == 63).unwrap();
    }
    let (directory, ended) = daemon.end("TERM");
    assert!(ended);
    let mut daemon = Daemon::start_as(talkative(), directory);
    let found = |line: String| line.split_once(" depth=").map(|(_, found)| found.to_owned());
    let probed = found(daemon.line_with("quick profile"));
    assert!(probed.is_some());
    let other = "\n[[device]]\nname = \"other\"\nback_end = \"memory\"\nquick_profile = true\n\
                 [[vdisk]]\nname = \"more\"\ndevice = \"other\"\nsize = \"1MiB\"\n";
    daemon.configure(&[&disks, other].concat());
    assert!(daemon.take_over_as(talkative()));
    let first = daemon.line_with("quick profile");
    assert!(first.contains("of the predecessor"), "{first}");
    assert_eq!(found(first), probed);
    let second = daemon.line_with("quick profile");
    assert!(second.contains("other"), "{second}");
    assert!(daemon.end("TERM").1);
}
