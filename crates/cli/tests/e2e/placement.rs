//! Virtual disks as extents of one file: where they lie, what they keep, what they promise.

use std::path::Path;

use disktime_client::{Connection, Uri};

use crate::support::{DISKS, Daemon};

const MIB: u64 = 1 << 20;

/// Virtual disks `front` and `back` at the two ends of one file.
const ENDS: &str = r#"
[[device]]
name = "disk"
back_end = "file:DIRECTORY/image"
queue_depth = 4

[[vdisk]]
name = "back"
device = "disk"
size = "4MiB"
zone = "inner"

[[vdisk]]
name = "front"
device = "disk"
size = "2000KiB"
zone = "outer"
"#;

/// A virtual disk with a rate, on a file that is said to be twice as fast in front.
const VIDEO: &str = r#"
[[device]]
name = "disk"
back_end = "file:DIRECTORY/image"
profile = "DIRECTORY/disk.json"

[[vdisk]]
name = "video"
device = "disk"
size = "16MiB"
zone = "inner"
class = "guaranteed-rate"
rate = "4MB/s"
cycle = "4s"
admission = { statistical = "1%" }
access = "read"

[[vdisk]]
name = "db"
device = "disk"
size = "16MiB"
class = "guaranteed-latency"
reserve = "10%"
latency = "300ms"
"#;

/// As the profiler saves it.
const PROFILE: &str = r#"{
  "name": "image", "size_bytes": 67108864, "rotation_ns": null, "overhead_ns": 300000,
  "writes_measured": true, "requests": 20, "took_ns": 3000000000,
  "zones": [
    { "end_bytes": 33554432, "read": { "per_request_ns": 1000, "bytes_per_second": 20000000 },
      "write": { "per_request_ns": 1000, "bytes_per_second": 20000000 } },
    { "end_bytes": 67108864, "read": { "per_request_ns": 1000, "bytes_per_second": 10000000 },
      "write": { "per_request_ns": 1000, "bytes_per_second": 10000000 } }
  ],
  "positioning": [{ "distance_bytes": 67108864, "mean_ns": 8000000, "deviation_ns": 2000000, "worst_ns": 20000000 }]
}"#;

/// A directory in which `image` has 64 MiB.
fn with_image(disks: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let image = std::fs::File::create(directory.path().join("image")).unwrap();
    image.set_len(64 * MIB).unwrap();
    std::fs::write(directory.path().join("disk.json"), PROFILE).unwrap();
    configure(directory.path(), disks);
    directory
}

fn configure(directory: &Path, disks: &str) {
    let disks = disks.replace("DIRECTORY", directory.to_str().unwrap());
    let text = format!("[server]\nnbd = [\"unix:{}/nbd.sock\"]\n{disks}", directory.display());
    std::fs::write(directory.join("disktime.toml"), text).unwrap();
}

fn connect(daemon: &Daemon, export: &str) -> Connection {
    Connection::open(&daemon.uri(export).parse::<Uri>().unwrap()).unwrap()
}

fn holds(daemon: &Daemon, export: &str, bytes: u64, value: u8) {
    let mut data = vec![0; usize::try_from(bytes).unwrap()];
    connect(daemon, export).read(0, &mut data).unwrap();
    assert!(data.iter().all(|byte| *byte == value), "{export}");
}

#[test]
fn virtual_disks_of_one_file_keep_their_ends_and_their_data() {
    let daemon = Daemon::start_in(with_image(ENDS));
    let (front, back) = (2000 * 1024, 4 * MIB);
    connect(&daemon, "front").write(0, &vec![1; 2_048_000], true).unwrap();
    holds(&daemon, "back", back, 0);
    connect(&daemon, "back").write(0, &vec![2; 4 << 20], true).unwrap();
    holds(&daemon, "front", front, 1);
    let (directory, ended_well) = daemon.end("TERM");
    assert!(ended_well);
    let image = std::fs::read(directory.path().join("image")).unwrap();
    assert!(image[..2_048_000].iter().all(|byte| *byte == 1));
    assert!(image[2_048_000..60 << 20].iter().all(|byte| *byte == 0));
    assert!(image[60 << 20..].iter().all(|byte| *byte == 2));

    // `back` goes and `new` comes, first in the file: nobody moves, nobody's data are seen.
    let added = ENDS.replace("\"back\"", "\"new\"");
    configure(directory.path(), &added);
    let daemon = Daemon::start_in(directory);
    holds(&daemon, "new", back, 0);
    holds(&daemon, "front", front, 1);
    let (directory, _) = daemon.end("KILL");

    // And comes back.
    configure(directory.path(), ENDS);
    let daemon = Daemon::start_in(directory);
    holds(&daemon, "back", back, 2);
    holds(&daemon, "front", front, 1);
}

#[test]
fn a_virtual_disk_that_cannot_be_placed_is_refused_and_nothing_is_recorded() {
    let refused = |directory: &Path, disks: &str| {
        configure(directory, disks);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(["serve", "--config"]).arg(directory.join("disktime.toml"));
        let output = crate::support::finish(&mut command);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let directory = with_image(ENDS);
    let said = refused(directory.path(), &ENDS.replace("\"4MiB\"", "\"65MiB\""));
    assert!(said.contains("vdisk back needs 68157440 bytes in one piece"), "{said}");
    assert!(said.contains("the largest free extent has 67108864"), "{said}");
    assert!(!directory.path().join("image.disktime").exists());
    let said = refused(directory.path(), &VIDEO.replace("\"4MB/s\"", "\"12MB/s\""));
    assert!(
        said.contains("vdisk video: rate = 12000000 B/s: its zone transfers at most"),
        "{said}"
    );
    assert!(!directory.path().join("image.disktime").exists());
    std::fs::write(directory.path().join("disk.json"), PROFILE.replace("67108864", "67108865"))
        .unwrap();
    let said = refused(directory.path(), VIDEO);
    assert!(said.contains("a profile of another device, image"), "{said}");

    assert!(Daemon::start_in(with_image(ENDS)).end("TERM").1);
    let (directory, _) = Daemon::start_in(with_image(ENDS)).end("TERM");
    let said = refused(directory.path(), &ENDS.replace("\"4MiB\"", "\"5MiB\""));
    assert!(said.contains("vdisk back: size = 5242880 bytes: its extent has 4194304"), "{said}");
    let said = refused(directory.path(), &DISKS.replace("size =", "zone = \"inner\"\nsize ="));
    assert!(
        said.contains("vdisk mem: zone = \"inner\": device ram has no start and end"),
        "{said}"
    );
}

#[test]
fn a_rate_changes_live_if_it_fits_and_else_nothing_does() {
    let mut daemon = Daemon::start_in(with_image(VIDEO));
    let reload = |daemon: &mut Daemon, disks: &str| daemon.reload(disks);
    // Both change in one reload: the reservation alone would fit.
    let both = VIDEO.replace("\"10%\"", "\"20%\"").replace("\"4MB/s\"", "\"9MB/s\"");
    let said = reload(&mut daemon, &both);
    assert!(
        said.contains("nothing changed: device disk: vdisk video: rate = 9000000 B/s"),
        "{said}"
    );
    assert!(said.contains("B/s fit beside the others"), "{said}");
    let said = reload(&mut daemon, &VIDEO.replace("\"300ms\"", "\"1ms\""));
    assert!(said.contains("vdisk db: latency = 1ms: it must be at least"), "{said}");
    let said = reload(&mut daemon, &VIDEO.replace("\"inner\"", "\"outer\""));
    assert!(said.contains("nothing changed: video: zone inner -> outer"), "{said}");
    connect(&daemon, "video").write(5, &[3; 5000], true).unwrap();
    let said = reload(&mut daemon, &VIDEO.replace("\"4MB/s\"", "\"5MB/s\""));
    assert!(said.contains("video: rate 4MB/s -> 5MB/s"), "{said}");
    let said = reload(&mut daemon, VIDEO);
    assert!(said.contains("video: rate 5MB/s -> 4MB/s"), "{said}");
    assert!(daemon.end("TERM").1);
}

#[test]
fn a_profile_as_the_profiler_saves_it_is_read() {
    let directory = with_image(VIDEO);
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let disktime = env!("CARGO_BIN_EXE_disktime");
    let profile = [disktime, "device", "profile", &path("image"), "--budget", "2s", "--out"];
    crate::support::words(&[&profile[..], &[&path("disk.json")]].concat());
    let unchecked = VIDEO.replace("{ statistical = \"1%\" }", "\"best-effort\"");
    let unchecked = unchecked.replace("\"4MB/s\"", "\"1kB/s\"").replace("300ms", "60s");
    configure(directory.path(), &unchecked);
    assert!(Daemon::start_in(directory).end("TERM").1);
}
