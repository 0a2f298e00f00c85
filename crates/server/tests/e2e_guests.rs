//! Guests of a device: processes that move bytes by themselves, in their turn.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use disktime_client::{Connection, Uri};
use disktime_config::read_contract;
use disktime_core::Kind;
use disktime_server::guest_messages::{Ask, Call, NotGranted, Told, Turn};
use disktime_server::guests::{GuestLine, GuestTerms};
use disktime_server::{AskError, Config, Server, VdiskStats, Watch, WatchedVdisk};
use tempfile::TempDir;

struct Fixture {
    server: Server,
    directory: TempDir,
}

impl Fixture {
    /// Device `d` has the virtual disk `v` with 60 % of an emulated disk; device `m` is memory.
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let text = "state = \"DIRECTORY/state\"\n[[device]]\nname = \"d\"\nback_end = \"memory\"\n\
                    emulate = \"deskstar-34gxp\"\n[[device]]\nname = \"m\"\n\
                    back_end = \"memory\"\n[[vdisk]]\nname = \"v\"\ndevice = \"d\"\n\
                    size = \"64MiB\"\nreserve = \"60%\"\n";
        let text = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{text}");
        let text = text.replace("DIRECTORY", directory.path().to_str().unwrap());
        let server = Server::start(Config::parse(&text).unwrap()).unwrap();
        Self { server, directory }
    }

    fn guest(&self, device: &str) -> Result<GuestLine, AskError> {
        let state = self.directory.path().join("state");
        let (device, name) = (device.to_owned(), "/mnt/media".to_owned());
        GuestLine::connect(&GuestTerms { state, device, medium: 0, name })
    }

    fn client(&self) -> Connection {
        Connection::open(&self.server.vdisks()[0].uris()[0].parse::<Uri>().unwrap()).unwrap()
    }
}

/// Adds a stream.
fn add(guest: &GuestLine, stream: u32, contract: &str) -> Result<(), NotGranted> {
    let call = Call { call: 7, stream };
    guest.say(&Ask::Add(call, read_contract(contract).unwrap(), "film".to_owned())).unwrap();
    match guest.hear().unwrap() {
        Told::Answer(7, outcome) => outcome,
        told => panic!("{told:?}"),
    }
}

fn ask_for(guest: &GuestLine, request: u32, (offset, bytes): (u64, u64)) {
    let ask = Ask::Request { request, stream: 0, kind: Kind::Read, offset, bytes };
    guest.say(&ask).unwrap();
}

fn turn(guest: &GuestLine) -> Turn {
    match guest.hear().unwrap() {
        Told::Turn(turn) => turn,
        told => panic!("{told:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the daemon runs in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Until it is so: what ends is noticed by another thread.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = now() + Duration::from_secs(20);
    while !is_so() {
        assert!(now() < until, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_guest_and_a_virtual_disk_share_the_reservations_and_the_device() {
    let fixture = Fixture::new();
    let guest = fixture.guest("d").unwrap();
    assert_eq!(add(&guest, 1, "reserve=50%"), Err(NotGranted::Overbooked(1_100_000, 1_000_000)));
    assert_eq!(add(&guest, 1, "reserve=40%"), Ok(()));
    assert_eq!(add(&guest, 1, "reserve=0%"), Err(NotGranted::Invalid), "its number is in use");
    assert_eq!(add(&guest, 0, "weight=50"), Ok(()));
    ask_for(&guest, 3, (4096, 600 << 10));
    // A piece is as long as beside a latency bound.
    let mut end = 4096;
    while end < 4096 + (600 << 10) {
        let Turn { turn, request, offset, bytes, flush } = turn(&guest);
        assert_eq!((request, offset, flush), (3, end, false));
        assert!(bytes <= 256 << 10, "{bytes}");
        end += bytes;
        guest.say(&Ask::Ended { turn, done: true }).unwrap();
    }
    assert_eq!(guest.hear().unwrap(), Told::Over { request: 3, taken: true });
    guest.say(&Ask::Report(Call { call: 1, stream: 0 })).unwrap();
    let Told::Streams(streams) = guest.hear().unwrap() else { panic!("no streams") };
    assert_eq!(streams.iter().map(|it| it.reserve_ppm).collect::<Vec<_>>(), [0, 400_000]);
    let shared = streams[0];
    assert_eq!((shared.completed, shared.bytes_read), (1, 600 << 10));
    // A disk of 1998 takes some 30 ms for it.
    assert!(shared.charged_ns > 10_000_000, "{shared:?}");
    let Told::Report(1, device) = guest.hear().unwrap() else { panic!("no report") };
    assert_eq!(device.reserved_ppm, 1_000_000);
    // A client of the virtual disk is served beside it.
    fixture.client().read(0, &mut [0; 4096]).unwrap();
    // Another device takes no guests, and a third one is not there.
    for (device, says) in [("m", "in memory"), ("x", "no device x; there are: d, m")] {
        let refused = fixture.guest(device).err().unwrap().to_string();
        assert!(refused.contains(says), "{refused}");
    }
    // Its reservation is free once it is gone.
    drop(guest);
    wait_for("its reservation stays", || {
        let next = fixture.guest("d").unwrap();
        add(&next, 0, "reserve=40%").is_ok()
    });
}

/// A mount's streams were seen by nobody but the mount.
#[test]
fn a_guests_streams_are_seen_with_their_names_and_figures() {
    let fixture = Fixture::new();
    let guest = fixture.guest("d").unwrap();
    add(&guest, 5, "reserve=40%").unwrap();
    let ask = Ask::Request { request: 3, stream: 5, kind: Kind::Write, offset: 0, bytes: 4096 };
    guest.say(&ask).unwrap();
    let turn = turn(&guest).turn;
    let look = |watch| fixture.server.watch(watch).remove(0).unwrap();
    let device = look(Watch::Busy);
    assert_eq!((device.guests, device.guests_now.len()), (1, 1));
    assert_eq!((device.guests_now[0].1.in_flight, device.reserved_ppm), (1, 1_000_000));
    guest.say(&Ask::Ended { turn, done: true }).unwrap();
    assert_eq!(guest.hear().unwrap(), Told::Over { request: 3, taken: true });
    let device = look(Watch::All);
    let view = &device.guest_streams[0];
    assert_eq!((&*view.mount.name, &*view.name, view.stream), ("/mnt/media", "film", 5));
    assert_eq!((view.stats.requests(), view.stats.bytes()), (1, 4096));
    assert_eq!(device.guests_now[0].0, view.id);
    assert!(look(Watch::Busy).guests_now.is_empty());
    // Another one under its number is another one.
    guest.say(&Ask::Remove(Call { call: 7, stream: 5 })).unwrap();
    assert_eq!(guest.hear().unwrap(), Told::Answer(7, Ok(())));
    add(&guest, 5, "reserve=40%").unwrap();
    let again = look(Watch::All);
    assert_eq!(again.guest_streams.len(), 1);
    assert_ne!(again.guest_streams[0].id, view.id);
    drop(guest);
    wait_for("it stays", || look(Watch::All).guest_streams.is_empty());
}

/// A mount's sums are of all its streams, those that have ended among them, and of all that it asked for.
#[test]
fn a_mount_has_the_sums_of_its_streams() {
    let fixture = Fixture::new();
    let guest = fixture.guest("d").unwrap();
    let mount = || {
        let mut mounts = fixture.server.watch(Watch::Busy).remove(0).unwrap().mounts;
        assert_eq!(mounts.len(), 1);
        mounts.remove(0)
    };
    let rate = "class=guaranteed-rate rate=40MB/s cycle=50ms admission=best-effort";
    add(&guest, 0, rate).unwrap();
    add(&guest, 1, "reserve=30%").unwrap();
    assert!(add(&guest, 2, "reserve=30%").is_err());
    let found = mount();
    assert_eq!((&*found.view.name, found.now.contract.reserve.ppm()), ("/mnt/media", 300_000));
    assert_eq!((found.view.granted(), found.view.refused()), (2, 1));
    assert_eq!(found.streams.into_values().collect::<Vec<_>>(), [1, 1], "one of each class");
    // No disk of 1998 keeps that rate.
    ask_for(&guest, 3, (0, 8 << 20));
    let first = turn(&guest).turn;
    let WatchedVdisk { waiting, in_flight, .. } = mount().now;
    assert_eq!((waiting, in_flight), (1, 1));
    guest.say(&Ask::Ended { turn: first, done: true }).unwrap();
    loop {
        match guest.hear().unwrap() {
            Told::Turn(turn) => guest.say(&Ask::Ended { turn: turn.turn, done: true }).unwrap(),
            told => {
                assert_eq!(told, Told::Over { request: 3, taken: true });
                break;
            }
        }
    }
    let figures = |stats: &VdiskStats| {
        [stats.requests(), stats.bytes(), stats.cycles(), stats.cycles_missed()]
    };
    let device = fixture.server.watch(Watch::Busy).remove(0).unwrap();
    let stats = Arc::clone(&device.mounts[0].view.stats);
    let of_stream = figures(&device.guest_streams[0].stats);
    assert_eq!(figures(&stats), of_stream);
    assert!(of_stream[..2] == [1, 8 << 20] && of_stream[3] > 0, "{of_stream:?}");
    // A charge that was posted after the last request's end counts, too.
    guest.say(&Ask::Report(Call { call: 1, stream: 0 })).unwrap();
    let Told::Streams(streams) = guest.hear().unwrap() else { panic!("no streams") };
    let Told::Report(..) = guest.hear().unwrap() else { panic!("no report") };
    guest.say(&Ask::Remove(Call { call: 7, stream: 0 })).unwrap();
    assert_eq!(guest.hear().unwrap(), Told::Answer(7, Ok(())));
    assert_eq!(figures(&stats), of_stream);
    let charged = Duration::from_nanos(streams[0].charged_ns);
    assert!(stats.charged() >= charged && charged > Duration::from_millis(50), "{charged:?}");
    // The mount is the same for another connection of its name, and gone with the last one.
    let again = fixture.guest("d").unwrap();
    assert_eq!(mount().view.id, device.mounts[0].view.id);
    drop((guest, again));
    wait_for("it stays", || fixture.server.watch(Watch::Busy).remove(0).unwrap().mounts.is_empty());
}

/// A plan was made beside virtual disks alone: it fitted, and the virtual disk was refused.
#[test]
fn a_plan_counts_guests_as_admission_does() {
    let mut fixture = Fixture::new();
    let guest = fixture.guest("d").unwrap();
    add(&guest, 1, "reserve=25%").unwrap();
    add(&guest, 2, "reserve=5%").unwrap();
    let vdisk = |server: &Server, name: &str, reserve: &str| {
        let size = if name == "v" { "64MiB" } else { "1MiB" };
        let text = format!("name = \"{name}\"\ndevice = \"d\"\nsize = \"{size}\"\n");
        let text = format!("{text}reserve = \"{reserve}\"\n");
        server.config().check_vdisk(&text, Some(name)).unwrap().1
    };
    let server = &mut fixture.server;
    for (name, too_much, fits) in [("v", "71%", "70%"), ("w", "11%", "10%")] {
        let asked = vdisk(server, name, too_much);
        let planned = server.would_have("d", &asked).unwrap_err().to_string();
        let refused = if name == "v" {
            server.alter_vdisk("d", asked).unwrap_err()
        } else {
            server.add_vdisk("d", asked).map(drop).unwrap_err()
        };
        assert_eq!(planned, refused.to_string());
        let asked = vdisk(server, name, fits);
        assert_eq!(server.would_have("d", &asked).unwrap().reserve, asked.contract.reserve);
    }
    // A virtual disk can have the share of a stream that is gone.
    guest.say(&Ask::Remove(Call { call: 7, stream: 1 })).unwrap();
    assert_eq!(guest.hear().unwrap(), Told::Answer(7, Ok(())));
    let asked = vdisk(server, "w", "35%");
    server.would_have("d", &asked).unwrap();
    server.add_vdisk("d", asked).unwrap();
}

/// A device of depth 1 would wait for ever for a guest that was stopped.
#[test]
fn a_guest_that_keeps_its_turn_keeps_the_device_for_four_seconds() {
    let fixture = Fixture::new();
    let guest = fixture.guest("d").unwrap();
    add(&guest, 0, "weight=100").unwrap();
    ask_for(&guest, 0, (0, 4096));
    let kept = turn(&guest);
    let began = now();
    fixture.client().read(0, &mut [0; 4096]).unwrap();
    let waited = began.elapsed();
    assert!((3..8).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(guest.hear().unwrap(), Told::Over { request: 0, taken: true });
    // It comes too late, and does no harm.
    guest.say(&Ask::Ended { turn: kept.turn, done: true }).unwrap();
    ask_for(&guest, 0, (0, 4096));
    let next = turn(&guest);
    assert_ne!(next.turn, kept.turn);
}

#[test]
fn a_guest_that_breaks_the_protocol_is_let_go_with_all_that_it_had() {
    let fixture = Fixture::new();
    let capacity = fixture.guest("d").unwrap().facts().capacity.unwrap();
    let (stream, kind, bytes) = (0, Kind::Read, 4096);
    let wrong: [&dyn Fn(&GuestLine); 5] = [
        &|guest| ask_for(guest, 0, (capacity, 4096)),
        &|guest| ask_for(guest, 0, (u64::MAX, 4096)),
        &|guest| (0..3).for_each(|_| ask_for(guest, 9, (0, 4096))),
        &|guest| {
            let ask = Ask::Request { request: 0, stream: 5, kind, offset: 0, bytes };
            guest.say(&ask).unwrap();
        },
        // More than it may have waiting, of which it hears nothing.
        &|guest| {
            for request in 0..100_000 {
                let ask = Ask::Request { request, stream, kind, offset: 0, bytes };
                if guest.say(&ask).is_err() {
                    return;
                }
            }
            guest.end();
        },
    ];
    for wrong in wrong {
        // The one before may not have gone yet.
        let mut guest = fixture.guest("d").unwrap();
        wait_for("a reservation stays", || {
            if add(&guest, 0, "reserve=40%").is_ok() {
                return true;
            }
            guest = fixture.guest("d").unwrap();
            false
        });
        wrong(&guest);
        wait_for("it stays", || guest.hear().is_err());
    }
    fixture.client().read(0, &mut [0; 4096]).unwrap();
}

#[test]
fn a_daemon_that_ends_lets_its_guests_go() {
    let fixture = Fixture::new();
    let guest = fixture.guest("d").unwrap();
    add(&guest, 0, "reserve=40%").unwrap();
    ask_for(&guest, 0, (0, 4096));
    turn(&guest);
    ask_for(&guest, 1, (0, 4096));
    let began = now();
    fixture.server.shutdown().unwrap();
    // Nobody waited for its turns.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    wait_for("it hears of nothing", || guest.hear().is_err());
}
