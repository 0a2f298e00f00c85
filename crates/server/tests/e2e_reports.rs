//! Reports of missed deadlines over the datagram socket: those that count, those that say nothing,
//! and far too many.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use disktime_client::{Connection, Load, LoadSpec, MissReports, Options, Uri};
use disktime_core::Duration;
use disktime_server::{Config, Server, StartError};
use disktime_workload::{Extent, Pace, Pattern, Spec};
use tempfile::TempDir;

mod shards;

struct Fixture {
    server: Server,
    directory: TempDir,
}

impl Fixture {
    /// `video` is soft real-time, `rest` is not; on an emulated disk, best effort is shaped.
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let server = Server::start(config(&directory)).unwrap();
        Self { server, directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("misses.sock")
    }

    fn uri(&self, vdisk: usize) -> Uri {
        self.server.vdisks()[vdisk].uris()[0].parse().unwrap()
    }

    /// A closed loop of reads.
    fn load(&self, vdisk: usize) -> Load {
        let extent = Extent { start: 0, end: 64 << 20 };
        let spec = LoadSpec {
            name: "load".to_owned(),
            workload: Spec::reads(Pattern::Sequential, extent, 128 << 10),
            pace: Pace::Closed { outstanding: 4, think: Duration::ZERO },
            seed: 1,
            options: Options::default(),
        };
        Load::start(&self.uri(vdisk), spec).unwrap()
    }

    /// Waits until something is so.
    fn until(&self, what: &str, is_so: impl Fn(&Server) -> bool) {
        for _ in 0..2000 {
            self.server.refresh();
            if is_so(&self.server) {
                return;
            }
            nap(5);
        }
        panic!("never: {what}");
    }
}

fn config(directory: &TempDir) -> Config {
    let text = format!(
        r#"
[server]
nbd = ["unix:{path}/nbd.sock"]
misses = "unix:{path}/misses.sock"
[[device]]
name = "d"
back_end = "memory"
emulate = "st340810a"
feedback = "pessimistic"
experimental = true
[[vdisk]]
name = "video"
device = "d"
size = "64MiB"
class = "soft-real-time"
[[vdisk]]
name = "rest"
device = "d"
size = "64MiB"
"#,
        path = directory.path().display()
    );
    shards::parse(&text).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test waits in real time")]
fn nap(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

#[test]
fn a_report_shapes_best_effort_until_its_client_is_gone() {
    let fixture = Fixture::new();
    let mode = std::fs::metadata(fixture.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others can't report");
    let (video, rest) = (fixture.load(0), fixture.load(1));
    let reports = MissReports::new(&fixture.socket(), "video").unwrap();
    let device = |server: &Server| std::sync::Arc::clone(&server.devices()[0]);
    assert_eq!(device(&fixture.server).best_effort_reads(), None);
    fixture.until("a report counts and cuts", |server| {
        reports.send().unwrap();
        device(server).reports() > 0 && device(server).best_effort_reads().is_some()
    });
    assert!(fixture.server.vdisks()[0].stats.misses() > 0);
    // Best effort may say it too, and it means nothing.
    let ignored = device(&fixture.server).reports_ignored();
    MissReports::new(&fixture.socket(), "rest").unwrap().send().unwrap();
    fixture.until("it is ignored", |server| device(server).reports_ignored() > ignored);
    assert_eq!(fixture.server.vdisks()[1].stats.misses(), 1);
    assert!(video.stop().lost.is_none());
    fixture.until("it comes back", |server| device(server).best_effort_reads().is_none());
    assert!(rest.stop().lost.is_none());
    let socket = fixture.socket();
    fixture.server.shutdown().unwrap();
    assert!(!socket.exists());
}

#[test]
fn datagrams_without_a_name_are_counted_and_dropped() {
    let fixture = Fixture::new();
    let sender = UnixDatagram::unbound().unwrap();
    let send = |bytes: &[u8]| sender.send_to(bytes, fixture.socket()).unwrap();
    let long = [b'x'; 100_000];
    for nonsense in [&b""[..], b"\n", b"\xff\x00\xfe", &long, &long[..65]] {
        send(nonsense);
    }
    let taken = |server: &Server| {
        let stats = server.reports();
        (stats.taken(), stats.unknown(), stats.nonsense())
    };
    fixture.until("nonsense is counted", |server| taken(server) == (0, 0, 5));
    for unknown in [&b"vide"[..], b"video\0", b" video", b"VIDEO", &long[..64], b"../video"] {
        send(unknown);
    }
    fixture.until("names are counted", |server| taken(server) == (0, 6, 5));
    send(b"video\n");
    fixture.until("a name is taken", |server| taken(server) == (1, 6, 5));
    let mut connection = Connection::open(&fixture.uri(0)).unwrap();
    connection.read(0, &mut [0; 4096]).unwrap();
}

/// Several senders at once, as fast as the system takes it: clients are served, new ones are let in,
/// and the shard hears next to nothing of it.
#[test]
fn a_flood_harms_nobody() {
    let fixture = Fixture::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for name in ["video", "rest", "nobody", "\n"] {
            let (stop, socket) = (&stop, fixture.socket());
            scope.spawn(move || {
                let sender = UnixDatagram::unbound().unwrap();
                sender.set_nonblocking(true).unwrap();
                while !stop.load(order) {
                    let _full = sender.send_to(name.as_bytes(), &socket);
                }
            });
        }
        fixture.until("a flood", |server| server.reports().taken() > 20_000);
        let before = fixture.server.vdisks()[0].stats.misses();
        for _ in 0..20 {
            let mut connection = Connection::open(&fixture.uri(0)).unwrap();
            connection.read(0, &mut [0; 4096]).unwrap();
            nap(10);
        }
        let heard = fixture.server.vdisks()[0].stats.misses() - before;
        assert!(heard > 0 && heard < fixture.server.reports().taken() / 10, "{heard}");
        stop.store(true, order);
    });
    let device = &fixture.server.devices()[0];
    assert_eq!(device.reports(), 0, "nobody was behind");
    fixture.server.shutdown().unwrap();
}

#[test]
fn a_socket_in_use_is_not_taken_away() {
    let fixture = Fixture::new();
    let mut config = config(&fixture.directory);
    config.listen.clear();
    let Err(StartError::Listen { listen, .. }) = Server::start(config.clone()) else {
        panic!("two daemons at one socket");
    };
    assert_eq!(listen.to_string(), format!("unix:{}", fixture.socket().display()));
    assert!(fixture.socket().exists());
    // A listener for clients does not take it away either.
    config.misses = None;
    config.listen.push(listen);
    assert!(matches!(Server::start(config), Err(StartError::Listen { .. })));
    MissReports::new(&fixture.socket(), "video").unwrap().send().unwrap();
    fixture.until("it listens", |server| server.reports().taken() == 1);
}
