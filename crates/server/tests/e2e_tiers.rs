//! A daemon on two emulated tiers: what is asked for often becomes fast, and is so after a restart.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::path::Path;
use std::time::Duration;

use disktime_client::{Connection, Uri};
use disktime_server::{Server, StartError, VdiskView};

mod shards;

const MIB: u64 = 1 << 20;

/// The fast tier has room for three extents; the slow one takes 10 ms on average, the fast one 0.2.
fn start(directory: &Path, promotion: &str) -> Server {
    let path = directory.display();
    let device = format!(
        "back_end = \"tiered:{path}/fast,{path}/slow\"\nemulate = \"exp-ssd,exp\"\n\
         promotion = \"{promotion}\""
    );
    start_on(directory, &device).unwrap()
}

fn start_on(directory: &Path, device: &str) -> Result<Server, StartError> {
    let path = directory.display();
    let text = format!(
        r#"
[server]
nbd = ["unix:{path}/nbd.sock"]
[[device]]
name = "d"
{device}
[[vdisk]]
name = "v"
device = "d"
size = "16MiB"
reserve = "50%"
"#
    );
    Server::start(shards::parse(&text).unwrap())
}

/// Both tiers, blank.
fn tiers(directory: &Path) {
    for (name, mib) in [("fast", 4), ("slow", 16)] {
        std::fs::File::create(directory.join(name)).unwrap().set_len(mib * MIB).unwrap();
    }
}

fn connect(vdisk: &VdiskView) -> Connection {
    Connection::open(&vdisk.uris()[0].parse::<Uri>().unwrap()).unwrap()
}

fn median(vdisk: &VdiskView) -> Duration {
    vdisk.stats.service_time.quantile(0.5).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test waits in real time")]
fn nap() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn an_extent_that_is_asked_for_often_becomes_fast_and_stays_so() {
    let directory = tempfile::tempdir().unwrap();
    tiers(directory.path());
    let server = start(directory.path(), "100%");
    let vdisk = &server.vdisks()[0];
    let mut client = connect(vdisk);
    let mut data = vec![0; 4096];
    for round in 0..6 {
        for extent in [0, 7, 15] {
            client.write(extent * MIB + 500_000, &[round + 1; 5000], false).unwrap();
        }
    }
    for round in 0..500 {
        if server.devices()[0].moved() == 3 {
            break;
        }
        // The hottest of those that are asked for goes next.
        client.read([0, 7, 15][round % 3] * MIB + 500_000, &mut data).unwrap();
        nap();
    }
    assert_eq!(
        server.devices()[0].moved(),
        3,
        "nobody wants the device: it has time for migrations"
    );
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

/// Clients that never pause leave no time to background work: what they have made hot moves all the
/// same, in a part of what nobody has reserved.
#[test]
fn a_device_that_is_never_idle_moves_what_is_hot() {
    let directory = tempfile::tempdir().unwrap();
    tiers(directory.path());
    let path = directory.path().display();
    let text = format!(
        r#"
[server]
nbd = ["unix:{path}/nbd.sock"]
[[device]]
name = "d"
back_end = "tiered:{path}/fast,{path}/slow"
emulate = "exp-ssd,exp"
promotion = "100%"
[[vdisk]]
name = "v"
device = "d"
size = "16MiB"
weight = 1
"#
    );
    let server = Server::start(shards::parse(&text).unwrap()).unwrap();
    let vdisk = &server.vdisks()[0];
    let device = &server.devices()[0];
    let moved = || device.moved();
    let asks = || {
        let (mut client, mut data) = (connect(vdisk), vec![0; 4096]);
        let all = (0..1500).all(|round| {
            client.read(round % 3 * 5 * MIB, &mut data).unwrap();
            moved() == 0
        });
        assert!(!all, "nothing has moved");
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(asks);
        }
    });
    server.shutdown().unwrap();
}

/// Depths by latency: a virtual disk that meets the slow tier's queue gets less depth.
#[test]
fn a_virtual_disk_that_waits_at_the_device_has_less_there() {
    let directory = tempfile::tempdir().unwrap();
    tiers(directory.path());
    let path = directory.path().display();
    let device = format!(
        "back_end = \"tiered:{path}/fast,{path}/slow\"\nemulate = \"exp-ssd,exp\"\n\
         promotion = \"0%\"\nqueue_depth = 32\ndepth_latency = \"40ms\""
    );
    let server = start_on(directory.path(), &device).unwrap();
    let vdisk = &server.vdisks()[0];
    assert_eq!(vdisk.stats.depth(), None, "no span is over");
    let asks = || {
        let (mut client, mut data) = (connect(vdisk), vec![0; 4096]);
        for round in 0..400_u64 {
            client.read(round % 4000 * 4096, &mut data).unwrap();
            if vdisk.stats.depth().is_some_and(|depth| depth < 16) {
                return;
            }
        }
        panic!("it had {:?}", vdisk.stats.depth());
    };
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(asks);
        }
    });
    server.shutdown().unwrap();
}

/// An image becomes the slow tier with all it has; alone it is not served any more.
#[test]
fn an_image_becomes_a_tier_and_is_recorded_as_one() {
    let directory = tempfile::tempdir().unwrap();
    tiers(directory.path());
    let alone = format!("back_end = \"file:{}/slow\"", directory.path().display());
    let server = start_on(directory.path(), &alone).unwrap();
    connect(&server.vdisks()[0]).write(5 * MIB, &[3; 4096], true).unwrap();
    server.shutdown().unwrap();

    let server = start(directory.path(), "100%");
    let mut data = vec![0; 4096];
    connect(&server.vdisks()[0]).read(5 * MIB, &mut data).unwrap();
    assert_eq!(data, [3; 4096]);
    server.shutdown().unwrap();
    let refused = start_on(directory.path(), &alone).err().unwrap().to_string();
    assert!(refused.contains("places virtual disks on tiered:"), "{refused}");
}
