//! SIGHUP: contracts change live, whole or not at all.

use disktime_client::{Connection, Uri};

use crate::support::{DISKS, Daemon};

#[test]
fn contracts_change_whole_or_not_at_all() {
    let mut daemon = Daemon::start(DISKS);
    let said = daemon.reload(&DISKS.replacen("50%", "80%", 1));
    assert!(said.contains("INFO") && said.ends_with("mem: reserve 50% -> 80%\n"), "{said}");
    let said = daemon.reload(&DISKS.replacen("50%", "80%", 1));
    assert!(said.contains("nothing changed: the configuration is as it was"), "{said}");
    let restart = "can't be changed while running: restart";
    let second = DISKS.replace("device = \"disk\"", "device = \"ram\"");
    let said = daemon.reload(&second);
    assert!(
        said.contains(&format!("nothing changed: file: device disk -> ram {restart}")),
        "{said}"
    );
    let said = daemon.reload(&DISKS.replacen("50%", "120%", 1));
    assert!(said.contains("nothing changed") && said.contains("reserve = \"120%\""), "{said}");
    let said = daemon.reload(&DISKS.replacen("64MiB", "63MiB", 1));
    assert!(
        said.contains(&format!("nothing changed: mem: size 64MiB -> 63MiB {restart}")),
        "{said}"
    );
    let said = daemon.reload(DISKS);
    assert!(said.ends_with("mem: reserve 80% -> 50%\n"), "{said}");
    assert!(daemon.end("TERM").1);
}

/// A depth that was found out is no depth for deadlines.
#[test]
fn a_change_that_adds_promises_is_told_why_it_takes_a_restart() {
    let deep = DISKS.replace("queue_depth = 8\n", "");
    let mut daemon = Daemon::start(&deep);
    let rate = "class = \"guaranteed-rate\"\nrate = \"1MB/s\"\nadmission = \"best-effort\"";
    let promises = format!("{}{rate}\n", deep.trim_end().trim_end_matches("reserve = \"50%\""));
    let said = daemon.reload(&promises);
    assert!(
        said.contains("disk: queue_depth auto -> 1") && said.contains("1 beside real-time"),
        "{said}"
    );
    // A found depth is not a stated one.
    let stated = promises.replace("back_end = \"file", "queue_depth = 32\nback_end = \"file");
    let mut said = daemon.reload(&stated);
    while !said.contains("disk: queue_depth auto -> 32 can't be changed") {
        assert!(said.contains("nothing changed: disk: "), "{said}");
        said = daemon.error_line();
    }
    assert!(daemon.end("TERM").1);
}

/// Virtual disks in memory, in a file of its own, and two in an image of 80 MiB.
const GROWING: &str = r#"
[[device]]
name = "image"
back_end = "file:DIRECTORY/image"
queue_depth = 8

[[vdisk]]
name = "front"
device = "image"
size = "8MiB"

[[vdisk]]
name = "back"
device = "image"
size = "8MiB"
zone = "inner"
"#;

fn open(daemon: &Daemon, export: &str) -> Connection {
    Connection::open(&daemon.uri(export).parse::<Uri>().unwrap()).unwrap()
}

fn size(daemon: &Daemon, export: &str) -> u64 {
    open(daemon, export).export().size_bytes
}

/// A larger `size` was an error until a restart: a full file system meant that its clients had to be
/// stopped.
#[test]
fn virtual_disks_grow_while_they_are_served() {
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::File::create(directory.path().join("image")).unwrap().set_len(80 << 20).unwrap();
    let disks = format!("{DISKS}{GROWING}");
    let mut daemon = Daemon::start_configured(directory, &disks);
    let names = ["mem", "file", "front"];
    let mut early = names.map(|name| open(&daemon, name));
    let larger = disks.replace("64MiB", "100MiB").replacen("8MiB", "65MiB", 1);
    let said = daemon.reload(&larger);
    assert!(said.contains("mem: size 64MiB -> 100MiB"), "{said}");
    for name in ["file: size 64MiB -> 100MiB", "front: size 8MiB -> 65MiB"] {
        let said = daemon.error_line();
        assert!(said.contains(name), "{said}");
    }
    // The new sizes are recorded, so that nothing else is placed there.
    let recorded = std::fs::read_to_string(daemon.path("image.disktime")).unwrap();
    assert!(recorded.contains("size = 68157440"), "{recorded}");
    let pool = std::fs::read_to_string(daemon.path("disks/.disktime-pool")).unwrap();
    assert!(pool.contains("#+ 104857600 file "), "{pool}");
    let file = std::fs::metadata(daemon.path("disks/file.raw")).unwrap();
    assert_eq!(file.len(), 100 << 20, "room is made before a client needs it");
    let end = |name: &str| if name == "front" { 65 << 20 } else { 100 << 20 };
    for (client, name) in early.iter_mut().zip(names) {
        client.write(4096, &[1; 4096], false).unwrap();
        assert_eq!(size(&daemon, name), end(name), "{name}: a client that connects now hears it");
        let mut late = open(&daemon, name);
        late.write(end(name) - 4096, &[7; 4096], true).unwrap();
        let mut back = [0; 4096];
        late.read(4096, &mut back).unwrap();
        assert_eq!(back, [1; 4096], "{name}");
    }
    drop(early);
    let (directory, ended) = daemon.end("TERM");
    assert!(ended);
    let daemon = Daemon::start_in(directory);
    for name in ["file", "front"] {
        let mut back = [0; 4096];
        open(&daemon, name).read(end(name) - 4096, &mut back).unwrap();
        assert_eq!(back, [7; 4096], "{name}: after a restart");
    }
    assert!(daemon.end("TERM").1);
}

#[test]
fn a_virtual_disk_without_room_is_told_how_much_there_is() {
    let directory = tempfile::TempDir::new().unwrap();
    let image = std::fs::File::create(directory.path().join("image")).unwrap();
    image.set_len(80 << 20).unwrap();
    let disks = format!("{DISKS}{GROWING}");
    let mut daemon = Daemon::start_configured(directory, &disks);
    // A memory disk that could grow does not either: all or nothing.
    let larger = disks.replacen("64MiB", "100MiB", 1).replacen("8MiB", "73MiB", 1);
    let said = daemon.reload(&larger);
    assert!(said.contains("nothing changed: device image: vdisk front: size = 76546048"), "{said}");
    assert!(said.contains("has 8388608 and may grow to 75497472"), "{said}");
    assert_eq!((size(&daemon, "mem"), size(&daemon, "front")), (64 << 20, 8 << 20));
    // `back` ends where the image ended; the image itself may grow, too.
    image.set_len(100 << 20).unwrap();
    let said = daemon.reload(&disks.replace("size = \"8MiB\"\nzone", "size = \"20MiB\"\nzone"));
    assert!(said.contains("back: size 8MiB -> 20MiB"), "{said}");
    assert_eq!(size(&daemon, "back"), 20 << 20);
    assert!(daemon.end("TERM").1);
}
