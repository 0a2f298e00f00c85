//! Turns of a daemon that runs in the test.

use std::sync::atomic::AtomicU32;

use disktime_client::{Connection, Uri};
use disktime_core::Kind;
use disktime_server::guests::GuestTerms;
use disktime_server::{Config, Server};
use tempfile::TempDir;

use super::*;

/// A daemon with the virtual disk `v`, which has half of the device `d`.
fn daemon(directory: &TempDir, emulate: &str) -> Server {
    let text = "[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\nstate = \"DIRECTORY/state\"\n\
                [[device]]\nname = \"d\"\nback_end = \"memory\"\nEMULATE\n[[vdisk]]\n\
                name = \"v\"\ndevice = \"d\"\nsize = \"8MiB\"\nreserve = \"50%\"\n";
    let text = text.replace("DIRECTORY", directory.path().to_str().unwrap());
    let text = text.replace("EMULATE", &format!("emulate = \"{emulate}\""));
    Server::start(Config::parse(&text).unwrap()).unwrap()
}

fn guest(directory: &TempDir) -> Daemon {
    let terms = GuestTerms {
        state: directory.path().join("state"),
        device: "d".to_owned(),
        medium: 0,
        name: "/mnt".to_owned(),
    };
    Daemon::new(GuestLine::connect(&terms).unwrap(), Arc::default()).unwrap()
}

fn request(id: u32) -> Request {
    Request {
        id: RequestId(id),
        stream: StreamId(0),
        kind: Kind::Read,
        offset: u64::from(id) * 4096,
        bytes: 4096,
        fua: false,
        class: None,
        deadline: None,
    }
}

/// Does all that may be done until something comes: how many requests were over, and how many were not taken.
fn go_on(daemon: &mut Daemon) -> (usize, usize) {
    while let Some(turn) = daemon.next() {
        daemon.ended(turn.name, Outcome::Done);
    }
    let over: Vec<Over> = std::iter::from_fn(|| daemon.over()).collect();
    if over.is_empty() {
        let news = daemon.listener.news.recv_timeout(TIMEOUT).unwrap();
        daemon.hear(news);
    }
    (over.len(), over.iter().filter(|it| !it.taken).count())
}

/// So many reads a client has before a million requests of a mount are done.
const READS: u32 = 1_000;

/// More than 8,192 requests at once were refused: their programs got EAGAIN.
#[test]
fn ten_thousand_requests_of_a_mount_are_all_done_while_a_client_goes_on() {
    let directory = TempDir::new().unwrap();
    let server = daemon(&directory, "nvme-970pro");
    let mut guest = guest(&directory);
    guest.add(StreamId(0), Contract::default(), "film").unwrap();
    let mut client =
        Connection::open(&server.vdisks()[0].uris()[0].parse::<Uri>().unwrap()).unwrap();
    let reads = AtomicU32::new(0);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                client.read(0, &mut [0; 4096]).unwrap();
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut sent = 10_000_u32;
        (0..sent).for_each(|id| guest.arrive(request(id)).unwrap());
        let (mut done, mut refused) = (0, 0);
        while done < sent as usize {
            let (over, not_taken) = go_on(&mut guest);
            (done, refused) = (done + over, refused + not_taken);
            // A client that waits for a processor has its reads beside more of them.
            if reads.load(Ordering::Relaxed) <= READS && sent < 1_000_000 {
                let more = sent..sent + u32::try_from(over).unwrap();
                sent = more.end;
                more.for_each(|id| guest.arrive(request(id)).unwrap());
            }
        }
        ends.store(true, Ordering::Relaxed);
        assert_eq!(refused, 0);
        assert!(guest.asked.is_empty() && guest.untold.is_empty() && guest.told == 0);
    });
    // One at a time beside 8,192 that wait: it has half of the device whenever it wants it. In the order in which all
    // came it would have one read for 8,192 of theirs.
    let reads = reads.load(Ordering::Relaxed);
    assert!(reads > READS, "the client had {reads} reads meanwhile");
}
