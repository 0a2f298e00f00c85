//! Guaranteed rates on a running server: what the operator sees of them.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::thread;

use disktime_client::{Connection, Uri};
use disktime_server::Server;

mod shards;

const MIB: u64 = 1 << 20;

/// Eight clients ask for 32 MiB a cycle of a disk that has a fraction of that: every cycle that
/// begins with work waiting is counted, and those not kept are too.
#[test]
fn cycles_that_are_not_kept_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        r#"
[server]
nbd = ["unix:{}/nbd.sock"]
[[device]]
name = "d"
back_end = "memory"
emulate = "nearline-7200"
[[vdisk]]
name = "greedy"
device = "d"
size = "64MiB"
class = "guaranteed-rate"
rate = "1GB/s"
cycle = "50ms"
admission = "best-effort"
[[vdisk]]
name = "other"
device = "d"
size = "1MiB"
zone = "inner"
"#,
        directory.path().display()
    );
    let server = Server::start(shards::parse(&text).unwrap()).unwrap();
    let [greedy, other] = server.vdisks() else { panic!("two virtual disks") };
    let uri = greedy.uris()[0].parse::<Uri>().unwrap();
    thread::scope(|scope| {
        for client in 0..8 {
            let uri = &uri;
            scope.spawn(move || {
                let mut client_of_it = Connection::open(uri).unwrap();
                let mut data = vec![0; 4 << 20];
                for round in 0..6 {
                    client_of_it.read((client + round) * 4 * MIB, &mut data).unwrap();
                }
            });
        }
    });
    let (cycles, missed) = (greedy.stats.cycles(), greedy.stats.cycles_missed());
    assert!(cycles > 3 && (1..=cycles).contains(&missed), "{missed} of {cycles}");
    assert_eq!((other.stats.cycles(), other.stats.cycles_missed()), (0, 0));
    server.shutdown().unwrap();
}
