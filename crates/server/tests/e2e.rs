//! The server through its clients: hostile ones, broken ones, and others that must not notice.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use disktime_client::{Connection, RequestError, Uri};
use disktime_core::Kind;
use disktime_nbd::NbdError;
use disktime_server::Server;
use disktime_server::backend::DeviceError;
use disktime_server::backend::faulty::Fault;
use tempfile::TempDir;

mod shards;

const GREETING: usize = 18;
const REQUEST: u32 = 0x2560_9513;

struct Fixture {
    server: Server,
    directory: TempDir,
}

impl Fixture {
    /// Virtual disks `a` (1 MiB) and `b` (64 MiB) on one device.
    fn new(device: &str, faults: &[Fault]) -> Self {
        Self::with_server("", device, faults)
    }

    fn with_server(server: &str, device: &str, faults: &[Fault]) -> Self {
        let directory = TempDir::new().unwrap();
        let text = format!(
            r#"
[server]
nbd = ["unix:{path}/nbd.sock", "tcp:127.0.0.1:0"]
{server}
[[device]]
name = "d"
{device}
[[vdisk]]
name = "a"
device = "d"
size = "1MiB"
reserve = "30%"
[[vdisk]]
name = "b"
device = "d"
size = "64MiB"
reserve = "70%"
"#,
            path = directory.path().display()
        );
        let text = text.replace("DIRECTORY", directory.path().to_str().unwrap());
        for (name, mib) in [("image", 66), ("m0", 33), ("m1", 34)] {
            let image = std::fs::File::create(directory.path().join(name)).unwrap();
            image.set_len(mib << 20).unwrap();
        }
        let faults: Vec<_> = faults.iter().map(|fault| (0, fault.clone())).collect();
        let server = Server::start_with_faults(shards::parse(&text).unwrap(), &faults).unwrap();
        Self { server, directory }
    }

    fn connect(&self, export: &str) -> Connection {
        let vdisk = self.server.vdisks().iter().find(|vdisk| vdisk.name == export).unwrap();
        Connection::open(&vdisk.uris()[0].parse::<Uri>().unwrap()).unwrap()
    }

    fn try_raw(&self) -> Option<UnixStream> {
        UnixStream::connect(self.directory.path().join("nbd.sock")).ok()
    }

    fn raw(&self) -> UnixStream {
        let socket = UnixStream::connect(self.directory.path().join("nbd.sock")).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        socket
    }

    /// A socket in its transmission phase on an export, without structured replies.
    fn transmission(&self, export: &str) -> UnixStream {
        for _ in 0..2000 {
            if let Some(socket) = self.try_transmission(export) {
                return socket;
            }
            nap();
        }
        panic!("there is never a place on {export}");
    }

    /// `None` if the server has not yet noticed that earlier clients are gone: all places are taken.
    fn try_transmission(&self, export: &str) -> Option<UnixStream> {
        let mut socket = self.raw();
        socket.read_exact(&mut [0; GREETING]).unwrap();
        let mut bytes = vec![0, 0, 0, 3];
        bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01");
        bytes.extend_from_slice(&u32::try_from(export.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(export.as_bytes());
        socket.write_all(&bytes).unwrap();
        socket.read_exact(&mut [0; 10]).ok().map(|()| socket)
    }

    fn connections(&self) -> u64 {
        self.server.vdisks().iter().map(|vdisk| vdisk.stats.connections()).sum()
    }

    /// Waits until all clients are gone: nothing of them may stay behind.
    fn wait_for_nobody(&self) {
        for _ in 0..2000 {
            if self.connections() == 0 {
                return;
            }
            nap();
        }
        panic!("{} connections stay", self.connections());
    }
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test waits in real time")]
fn nap() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}

const MEMORY: &str = "back_end = \"memory\"";
const FILE: &str = "back_end = \"file:DIRECTORY/disks\"\ncreate = true\nqueue_depth = 8";
/// Extents of stripes, and of one file.
const STRIPES: &str = "back_end = \"raid0:DIRECTORY/m0,DIRECTORY/m1\"\nqueue_depth = 8";
const EXTENTS: &str = "back_end = \"file:DIRECTORY/image\"\nqueue_depth = 8";

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn simple_reply(socket: &mut UnixStream) -> (u32, u64) {
    let mut bytes = [0; 16];
    socket.read_exact(&mut bytes).unwrap();
    let error = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    (error, u64::from_be_bytes(bytes[8..].try_into().unwrap()))
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A good client works while `hostile` runs; it must never fail.
fn beside_a_good_client(fixture: &Fixture, hostile: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let good = scope.spawn(|| {
            let mut client = fixture.connect("b");
            let (mut rounds, mut back) = (0u8, vec![0; 100_000]);
            while !done.load(Ordering::Relaxed) || rounds < 3 {
                let data = vec![rounds; 100_000];
                client.write(777, &data, false).unwrap();
                client.read(777, &mut back).unwrap();
                assert!(back == data);
                rounds = rounds.wrapping_add(1);
            }
            client.disconnect().unwrap();
        });
        // Also when `hostile` panics: the scope waits for the good client.
        let finish = SetOnDrop(&done);
        hostile();
        drop(finish);
        good.join().unwrap();
    });
    fixture.wait_for_nobody();
}

/// The options of a client that asks for structured replies, `base:allocation` and the export `a`.
fn with_allocation() -> Vec<u8> {
    let option = |number: u32, data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap();
        [b"IHAVEOPT", &number.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
    };
    let name = [0, 0, 0, 1, b'a'];
    let query = [&name[..], &[0, 0, 0, 1, 0, 0, 0, 15], b"base:allocation"].concat();
    let go = [&name[..], &[0, 0]].concat();
    [vec![0, 0, 0, 3], option(8, &[]), option(10, &query), option(7, &go)].concat()
}

/// A client that asks for the state of its disk again and again, past its end too, and reads nothing,
/// waits for itself: its answers are in its account as a read's data are.
#[test]
fn a_flood_of_block_status_waits_for_itself() {
    for device in [MEMORY, FILE, EXTENTS, STRIPES] {
        let fixture = Fixture::new(device, &[]);
        beside_a_good_client(&fixture, || {
            let mut socket = fixture.raw();
            socket.read_exact(&mut [0; GREETING]).unwrap();
            socket.write_all(&with_allocation()).unwrap();
            // Three acknowledgements, a context with its name, the export's size and its block sizes.
            socket.read_exact(&mut [0; 3 * 20 + 39 + 32 + 34]).unwrap();
            let mut writer = socket.try_clone().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for cookie in 0..4000 {
                        let (offset, length) = match cookie % 4 {
                            0 => (0, 1 << 20),
                            1 => (1, 1),
                            2 => (1 << 20, 1),
                            _ => (u64::MAX, u32::MAX),
                        };
                        writer.write_all(&request(7, cookie, offset, length)).unwrap();
                    }
                });
                nap();
                let mut seen = std::collections::BTreeSet::new();
                for _ in 0..4000 {
                    let mut header = [0; 20];
                    socket.read_exact(&mut header).unwrap();
                    let cookie = u64::from_be_bytes(header[8..16].try_into().unwrap());
                    let length = u32::from_be_bytes(header[16..].try_into().unwrap());
                    let mut data = vec![0; length as usize];
                    socket.read_exact(&mut data).unwrap();
                    let is_error = header[6] == 0x80;
                    assert_eq!(is_error, cookie % 4 > 1, "{header:?}");
                    if is_error {
                        assert_eq!(data[..4], 22_u32.to_be_bytes(), "EINVAL");
                    } else {
                        assert_eq!((header[7], (length - 4) % 8), (5, 0));
                        let lengths = data[4..].chunks(8);
                        let lengths =
                            lengths.map(|it| u32::from_be_bytes(it[..4].try_into().unwrap()));
                        assert!(lengths.sum::<u32>() <= 1 << 20);
                    }
                    assert!(seen.insert(cookie), "each is answered once");
                }
            });
        });
    }
}

#[test]
fn garbage_and_truncation_in_any_state_harm_nobody() {
    for device in [MEMORY, FILE, EXTENTS, STRIPES] {
        let fixture = Fixture::new(device, &[]);
        beside_a_good_client(&fixture, || {
            let mut random = Random(7);
            for round in 0..60usize {
                // In the handshake.
                let mut socket = fixture.raw();
                let garbage = random.bytes(round * 37 % 2000);
                let _closed = socket.write_all(&garbage);
                drop(socket);
                // In the transmission phase: noise, and requests cut off at any byte.
                let mut socket = fixture.transmission("a");
                let _closed = socket.write_all(&random.bytes(300));
                drop(socket);
                let mut socket = fixture.transmission("a");
                let mut bytes = request(1, 1, 0, 4096);
                bytes.extend_from_slice(&[9; 4096]);
                // Turned away if the server has not yet noticed that earlier ones are gone.
                let _closed = socket.write_all(&bytes[..round * 69 % bytes.len()]);
            }
        });
    }
}

#[test]
fn requests_that_ask_too_much_get_their_error_and_the_connection_goes_on() {
    let fixture = Fixture::new(FILE, &[]);
    let mut socket = fixture.transmission("a");
    let mib = 1 << 20;
    for (command, offset, length, error) in [
        (0, mib, 1, 22),        // past the end
        (0, u64::MAX, 512, 22), // overflows
        (0, mib - 10, 11, 22),  // ends past the end
        (0, 0, u32::MAX, 22),   // longer than the longest
        (6, mib, 512, 28),      // zeroes past the end
        (4, mib, 512, 22),      // trim past the end
        (3, 5, 0, 22),          // a flush with an offset
        (77, 0, 512, 22),       // no such command
        (5, 0, 512, 22),        // cache is not offered
        (7, 0, 512, 22),        // block status is not offered
        (0, 13, 0, 0),          // nothing: fine
    ] {
        socket.write_all(&request(command, offset, offset, length)).unwrap();
        assert_eq!(simple_reply(&mut socket), (error, offset), "command {command} at {offset}");
    }
    // A refused write's data are skipped, whatever they hold.
    let mut write = request(1, 5, mib - 100, 200);
    write.extend_from_slice(&request(0, 66, 0, 512).repeat(8)[..200]);
    socket.write_all(&write).unwrap();
    assert_eq!(simple_reply(&mut socket), (28, 5));
    socket.write_all(&request(3, 9, 0, 0)).unwrap();
    assert_eq!(simple_reply(&mut socket), (0, 9));
    // A write longer than the longest can't be skipped: the connection ends, others don't.
    socket.write_all(&request(1, 6, 0, u32::MAX)).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0);
    fixture.wait_for_nobody();
    fixture.connect("a").flush().unwrap();
}

#[test]
fn clients_that_vanish_with_work_under_way_leave_nothing_behind() {
    let emulated = format!("{FILE}\nemulate = \"deskstar-34gxp\"")
        .replace("queue_depth = 8", "queue_depth = 1");
    for device in [MEMORY, FILE, EXTENTS, emulated.as_str()] {
        let fixture = Fixture::new(device, &[]);
        beside_a_good_client(&fixture, || {
            for round in 0..10u64 {
                let mut socket = fixture.transmission("a");
                for cookie in 0..100 {
                    let bytes = request(0, cookie, cookie * 8192 % (1 << 20), 4096);
                    let _turned_away = socket.write_all(&bytes);
                }
                if round % 2 == 0 {
                    // Half a write, then gone.
                    let _turned_away = socket.write_all(&request(1, 200, 0, 1 << 20));
                    let _turned_away = socket.write_all(&vec![1; 300_000]);
                }
                let _gone = socket.shutdown(std::net::Shutdown::Both);
            }
        });
    }
}

#[test]
fn a_client_that_never_reads_waits_for_itself_alone() {
    let fixture = Fixture::new(MEMORY, &[]);
    let mut deaf = fixture.transmission("a");
    deaf.set_nonblocking(true).unwrap();
    // Asks until the server stops listening to it: its bounds are reached.
    let bytes = request(0, 1, 0, 1 << 20);
    let mut sent = 0;
    beside_a_good_client_while_connected(&fixture, || {
        for _ in 0..200_000 {
            match deaf.write(&bytes) {
                Ok(count) => sent += count,
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                    return;
                }
            }
        }
        panic!("{sent} bytes of requests were taken from a client that reads nothing");
    });
    drop(deaf);
    fixture.wait_for_nobody();
}

fn beside_a_good_client_while_connected(fixture: &Fixture, hostile: impl FnOnce()) {
    let mut client = fixture.connect("b");
    client.write(0, &[1; 4096], true).unwrap();
    hostile();
    for offset in 0..200 {
        client.write(offset, &[2; 4096], false).unwrap();
        client.read(offset, &mut [0; 4096]).unwrap();
    }
}

#[test]
fn errors_of_the_device_reach_the_client_that_caused_them_and_no_other() {
    let fault = |disk, kind, extent, error| Fault {
        disk,
        kind,
        extent,
        every: 1,
        error: DeviceError(error),
    };
    let faults = [
        fault(0, Kind::Read, 8192..12288, 5),
        fault(0, Kind::Write, 0..4096, 28),
        fault(0, Kind::Flush, 0..0, 5),
    ];
    for device in [MEMORY, FILE, EXTENTS, STRIPES] {
        let fixture = Fixture::new(device, &faults);
        let (mut a, mut b) = (fixture.connect("a"), fixture.connect("b"));
        let error = |result: Result<(), RequestError>| match result {
            Err(RequestError::Failed(error)) => error,
            other => panic!("{other:?}"),
        };
        assert_eq!(error(a.read(4096, &mut [0; 8192])), NbdError::Io);
        assert_eq!(error(a.write(100, &[0; 10], false)), NbdError::NoSpace);
        assert_eq!(error(a.flush()), NbdError::Io);
        a.write(4096, &[3; 100], false).unwrap();
        b.write(0, &[4; 8192], true).unwrap();
        b.read(8192, &mut [0; 4096]).unwrap();
        b.flush().unwrap();
        let stats = &fixture.server.vdisks()[0].stats;
        assert_eq!((stats.failed(), stats.requests()), (3, 4));
    }
}

/// Two clients write neighbouring bytes of the same blocks, over and over: without range locks one
/// read-modify-write brings back bytes from before the other's.
#[test]
fn overlapping_unaligned_writers_keep_each_others_bytes() {
    let fixture = Fixture::new(FILE, &[]);
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = fixture.connect("b");
                let base = 4096 * 3 - 500 + writer * 1000;
                for round in 0..400u64 {
                    let value = round.to_le_bytes()[0] ^ 0x55;
                    client.write(base, &[value; 1000], false).unwrap();
                    let mut back = [0; 1000];
                    client.read(base, &mut back).unwrap();
                    assert!(
                        back.iter().all(|byte| *byte == value),
                        "writer {writer}, round {round}"
                    );
                }
            });
        }
    });
}

#[test]
fn unaligned_requests_of_every_shape_read_back() {
    for device in [MEMORY, FILE, EXTENTS, STRIPES] {
        let fixture = Fixture::new(device, &[]);
        let mut client = fixture.connect("a");
        let mut model = vec![0u8; 1 << 20];
        let mut random = Random(11);
        let mut scratch = vec![0; 40_000];
        for _ in 0..600 {
            let offset = usize::try_from(random.next()).unwrap() % (model.len() - 40_000);
            let len =
                1 + usize::try_from(random.next()).unwrap() % [9, 600, 4096, 39_999][offset % 4];
            let (at, length) = (offset as u64, u32::try_from(len).unwrap());
            match random.next() % 5 {
                0 => {
                    client.trim(at, length).unwrap();
                    client.zeroes(at, length, disktime_nbd::CommandFlags::NO_HOLE).unwrap();
                    model[offset..offset + len].fill(0);
                }
                1 => {
                    client.zeroes(at, length, disktime_nbd::CommandFlags::FUA).unwrap();
                    model[offset..offset + len].fill(0);
                }
                2 => {
                    client.read(at, &mut scratch[..len]).unwrap();
                    assert!(scratch[..len] == model[offset..offset + len], "{offset} + {len}");
                }
                _ => {
                    let data = random.bytes(len);
                    client.write(at, &data, len % 2 == 0).unwrap();
                    model[offset..offset + len].copy_from_slice(&data);
                }
            }
        }
        let mut all = vec![0; 1 << 20];
        client.read(0, &mut all).unwrap();
        assert!(all == model);
    }
}

#[test]
fn unknown_exports_and_crowds_are_turned_away() {
    let fixture = Fixture::new(MEMORY, &[]);
    let uri = fixture.server.vdisks()[0].uris()[0].replace("/a?", "/nobody?");
    assert!(Connection::open(&uri.parse::<Uri>().unwrap()).is_err());
    let tcp = fixture.server.vdisks()[1].uris()[1].parse::<Uri>().unwrap();
    let mut over_tcp = Connection::open(&tcp).unwrap();
    over_tcp.write(5, b"over tcp", true).unwrap();
    let crowd: Vec<_> = (0..16).map(|_| fixture.connect("a")).collect();
    let uri = fixture.server.vdisks()[0].uris()[0].parse::<Uri>().unwrap();
    let refused = Connection::open(&uri).err().unwrap().to_string();
    assert!(refused.contains("16 clients are connected to this virtual disk"), "{refused}");
    drop(crowd);
    // Slow handshakes fill the desk, and others are served all the same.
    let slow: Vec<_> = (0..100).map(|_| fixture.raw()).collect();
    fixture.connect("b").flush().unwrap();
    drop(slow);
}

/// A whole cycle of 8 MB/s for 4 s, and the next one behind it, on one connection,
/// are all at the engine at once: the last one waits there for almost as long as everything takes.
#[test]
fn two_cycles_of_a_rate_are_in_flight_on_one_connection() {
    let emulated = format!("{MEMORY}\nemulate = \"nearline-7200\"");
    let fixture = Fixture::new(&emulated, &[]);
    let mut player = fixture.transmission("b");
    let bytes = 128 << 10;
    let requests: Vec<_> =
        (0..512).flat_map(|at| request(0, at, at % 500 * u64::from(bytes), bytes)).collect();
    let start = disktime_server::clock::now();
    player.write_all(&requests).unwrap();
    let mut data = vec![0; bytes as usize];
    for _ in 0..512 {
        assert_eq!(simple_reply(&mut player).0, 0);
        player.read_exact(&mut data).unwrap();
    }
    let took = disktime_server::clock::now().since(start).as_secs_f64();
    let longest = fixture.server.vdisks()[1].stats.queue_time.quantile(1.0).unwrap();
    assert!(longest.as_secs_f64() > 0.8 * took, "{longest:?} of {took} s");
    drop(player);
    fixture.wait_for_nobody();
}

/// Reads and writes longer than a part, by a client with structured replies and by one without, beside
/// small ones of the same connection.
#[test]
fn requests_of_many_parts_are_one_to_their_client() {
    for device in [MEMORY, FILE, EXTENTS, STRIPES] {
        let fixture = Fixture::new(device, &[]);
        let mut client = fixture.connect("b");
        let len = 32 << 20;
        let (mut random, offset) = (Random(3), 5_000_001);
        let data = random.bytes(len);
        client.write(offset, &data, true).unwrap();
        let mut back = vec![0; len];
        client.read(offset, &mut back).unwrap();
        assert!(back == data, "structured replies");
        let mut simple = fixture.transmission("b");
        let length = u32::try_from(len).unwrap();
        let mut requests = request(0, 1, 0, 512);
        requests.extend(request(0, 2, offset, length));
        requests.extend(request(0, 3, offset, 3 << 20));
        requests.extend(request(3, 4, 0, 0));
        requests.extend(request(0, 5, offset, 512));
        simple.write_all(&requests).unwrap();
        let mut seen = Vec::new();
        for _ in 0..5 {
            let (error, cookie) = simple_reply(&mut simple);
            assert_eq!(error, 0);
            let bytes = [0, 512, len, 3 << 20, 0, 512][usize::try_from(cookie).unwrap()];
            simple.read_exact(&mut back[..bytes]).unwrap();
            assert!(cookie == 1 || back[..bytes] == data[..bytes], "a simple reply, {cookie}");
            seen.push(cookie);
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        let stats = &fixture.server.vdisks()[1].stats;
        assert_eq!(stats.requests(), 7, "parts are not requests of their own");
        drop((client, simple));
        fixture.wait_for_nobody();
        assert_eq!(fixture.server.memory().used(), 0);
    }
}

/// An error in the middle of a long read: told where that can be told, else the connection ends.
#[test]
fn an_error_in_a_part_is_the_requests() {
    let fault = Fault {
        disk: 1,
        kind: Kind::Read,
        extent: 20 << 20..(20 << 20) + 1,
        every: 1,
        error: DeviceError(5),
    };
    for device in [MEMORY, FILE] {
        let fixture = Fixture::new(device, std::slice::from_ref(&fault));
        let mut client = fixture.connect("b");
        let failed = client.read(0, &mut vec![0; 32 << 20]);
        assert!(matches!(failed, Err(RequestError::Failed(NbdError::Io))), "{failed:?}");
        client.read(0, &mut vec![0; 8 << 20]).unwrap();
        let mut simple = fixture.transmission("b");
        simple.write_all(&request(0, 7, 0, 32 << 20)).unwrap();
        assert_eq!(simple_reply(&mut simple), (5, 7), "nothing was said yet");
        simple.write_all(&request(0, 8, 0, 512)).unwrap();
        assert_eq!(simple_reply(&mut simple), (0, 8), "the connection goes on");
        drop((client, simple));
        fixture.wait_for_nobody();
        assert_eq!(fixture.server.memory().used(), 0);
        // With little memory the first parts go ahead, and only the connection's end can tell.
        let fault = [fault.clone()];
        let fixture = Fixture::with_server("memory = \"20MiB\"", device, &fault);
        let mut simple = fixture.transmission("b");
        simple.write_all(&request(0, 7, 0, 32 << 20)).unwrap();
        assert_eq!(simple_reply(&mut simple), (0, 7), "the first part is good");
        let mut data = Vec::new();
        let _reset = simple.read_to_end(&mut data);
        assert!(data.len() < 32 << 20, "the rest never comes");
        let mut simple = fixture.transmission("b");
        simple.write_all(&request(0, 9, 21 << 20, 20 << 20)).unwrap();
        assert_eq!(simple_reply(&mut simple), (0, 9));
        simple.read_exact(&mut vec![0; 20 << 20]).unwrap();
        drop(simple);
        fixture.wait_for_nobody();
        assert_eq!(fixture.server.memory().used(), 0);
    }
}

/// Sixteen clients that ask for gigabytes and read nothing: what they hold is bounded, a client that
/// reads is served, and all comes back when they go.
#[test]
fn clients_that_read_nothing_hold_no_more_than_the_budget() {
    let fixture = Fixture::with_server("memory = \"48MiB\"", MEMORY, &[]);
    let deaf: Vec<_> = (0..15).map(|_| fixture.transmission("a")).collect();
    let mut also = fixture.connect("b");
    for (round, mut socket) in deaf.iter().enumerate() {
        // Long ones are asked for with structured replies elsewhere; these are parts of 1 MiB and less.
        let length = [1 << 20, 900_000, 64 << 10][round % 3];
        let asks: Vec<u8> = (0..100).flat_map(|at| request(0, at, 0, length)).collect();
        socket.write_all(&asks).unwrap();
    }
    also.write(0, &vec![7; 20 << 20], false).unwrap();
    let mut back = vec![0; 20 << 20];
    also.read(0, &mut back).unwrap();
    assert!(back.iter().all(|byte| *byte == 7));
    let memory = fixture.server.memory();
    assert!(memory.used() <= memory.total(), "{memory:?}");
    drop((deaf, also));
    fixture.wait_for_nobody();
    assert_eq!(fixture.server.memory().used(), 0);
}

/// A client that dies in the middle of a write's data left its buffer with the ring, for ever.
#[test]
fn clients_that_die_in_the_middle_of_a_write_leave_no_memory_behind() {
    let fixture = Fixture::new(MEMORY, &[]);
    for round in 0..200 {
        let mut socket = fixture.transmission("a");
        let _turned_away = socket.write_all(&request(1, 1, 0, 4096 + ((round % 2) << 18)));
        let _turned_away = socket.write_all(&[1; 1000]);
        drop(socket);
        if round % 10 == 0 {
            fixture.wait_for_nobody();
        }
    }
    fixture.wait_for_nobody();
    assert_eq!(fixture.server.memory().used(), 0);
}

#[test]
fn idle_clients_are_let_go_where_that_is_asked_for() {
    let fixture = Fixture::with_server("idle_timeout = \"1s\"", MEMORY, &[]);
    let idle: Vec<_> = (0..3).map(|_| fixture.transmission("a")).collect();
    let mut busy = fixture.connect("b");
    for _ in 0..1000 {
        busy.flush().unwrap();
        if fixture.connections() == 1 {
            drop(idle);
            return;
        }
        nap();
    }
    panic!("{} clients stay", fixture.connections());
}

/// One source floods the desk with connections that say nothing, and another one's clients still get
/// through their handshakes.
#[test]
fn newcomers_get_in_beside_a_flood() {
    let fixture = Fixture::new(MEMORY, &[]);
    let silent: Vec<_> = (0..900).filter_map(|_| fixture.try_raw()).collect();
    assert!(silent.len() > 100, "{}", silent.len());
    for _ in 0..20 {
        fixture.connect("b").flush().unwrap();
    }
}
