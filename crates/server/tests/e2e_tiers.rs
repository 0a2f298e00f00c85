//! A daemon on two emulated tiers: what is asked for often becomes fast, and is so after a restart.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::path::Path;
use std::time::Duration;

use disktime_client::{Connection, Uri};
use disktime_server::{Config, Server, VdiskView};

const MIB: u64 = 1 << 20;

/// The fast tier has room for three extents; the slow one takes 10 ms on average, the fast one 0.2.
fn start(directory: &Path, promotion: &str) -> Server {
    let path = directory.display();
    let text = format!(
        r#"
[server]
nbd = ["unix:{path}/nbd.sock"]
[[device]]
name = "d"
back_end = "tiered:{path}/fast,{path}/slow"
emulate = "exp-ssd,exp"
promotion = "{promotion}"
[[vdisk]]
name = "v"
device = "d"
size = "16MiB"
reserve = "50%"
"#
    );
    Server::start(Config::parse(&text).unwrap()).unwrap()
}

fn connect(vdisk: &VdiskView) -> Connection {
    Connection::open(&vdisk.uris[0].parse::<Uri>().unwrap()).unwrap()
}

fn median(vdisk: &VdiskView) -> Duration {
    vdisk.stats.service_time.quantile(0.5).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test waits in real time")]
fn nap() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn what_is_asked_for_often_becomes_fast_and_stays_so() {
    let directory = tempfile::tempdir().unwrap();
    for (name, mib) in [("fast", 4), ("slow", 16)] {
        let file = std::fs::File::create(directory.path().join(name)).unwrap();
        file.set_len(mib * MIB).unwrap();
    }
    let server = start(directory.path(), "100%");
    let vdisk = &server.vdisks()[0];
    let mut client = connect(vdisk);
    let mut data = vec![0; 4096];
    for round in 0..6 {
        for extent in [0, 7, 15] {
            client.write(extent * MIB + 500_000, &[round + 1; 5000], false).unwrap();
        }
    }
    for _ in 0..500 {
        if server.devices()[0].moved() == 3 {
            break;
        }
        nap();
    }
    assert_eq!(server.devices()[0].moved(), 3, "nobody wants the device: it has time for errands");
    client.disconnect().unwrap();
    server.shutdown().unwrap();

    // Nothing moves any more, but what has moved is where it was.
    let server = start(directory.path(), "0%");
    let vdisk = &server.vdisks()[0];
    let mut client = connect(vdisk);
    for round in 0..40 {
        client.read([0, 7, 15][round % 3] * MIB + 500_000, &mut data).unwrap();
        assert_eq!(data, [6; 4096]);
    }
    assert_eq!(vdisk.stats.hits_and_misses(), [40, 0]);
    let fast = median(vdisk);
    for round in 0..120 {
        client.read((1 + round % 6) * MIB, &mut data).unwrap();
    }
    assert_eq!(vdisk.stats.hits_and_misses(), [40, 120]);
    let most_are_slow = median(vdisk);
    assert!(fast < Duration::from_millis(3), "{fast:?}");
    assert!(most_are_slow > Duration::from_millis(3), "{most_are_slow:?}");
    assert_eq!(server.devices()[0].moved(), 0);
    server.shutdown().unwrap();
}
