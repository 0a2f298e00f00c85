//! Data that survive the daemon's end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

use disktime_client::{Connection, Uri};

use crate::needs;
use crate::support::{DISKS, Daemon, finish, run};

#[test]
fn a_killed_daemon_loses_nothing_that_was_flushed() {
    needs!("a_killed_daemon_loses_nothing_that_was_flushed", "qemu-io");
    let daemon = Daemon::start(DISKS);
    let mut write = Command::new("qemu-io");
    write.args([
        "-f",
        "raw",
        "-c",
        "write -P 7 1000 3000000",
        "-c",
        "flush",
        "-c",
        "write -f -P 8 5M 4096",
    ]);
    run(write.arg(daemon.uri("file")));
    let (directory, ended_well) = daemon.end("KILL");
    assert!(!ended_well);
    let daemon = Daemon::start_in(directory);
    let mut read = Command::new("qemu-io");
    read.args(["-f", "raw", "-c", "read -P 7 1000 3000000", "-c", "read -P 8 5M 4096"]);
    let said = run(read.arg(daemon.uri("file")));
    assert!(!said.contains("verification failed"), "{said}");
}

/// Two tiers, the fast one with room for three extents.
const TIERS: &str = r#"
[[device]]
name = "array"
back_end = "tiered:DIRECTORY/fast,DIRECTORY/slow"
promotion = "100%"
queue_depth = 8

[[vdisk]]
name = "tiered"
device = "array"
size = "12MiB"
"#;

/// Extents move while they are written, and the daemon is killed again and again: what was
/// acknowledged is there each time.
#[test]
fn a_daemon_on_tiers_that_is_killed_loses_nothing_that_was_acknowledged() {
    let mut directory = tempfile::tempdir().unwrap();
    for (name, mib) in [("fast", 4), ("slow", 12)] {
        let file = std::fs::File::create(directory.path().join(name)).unwrap();
        file.set_len(mib << 20).unwrap();
    }
    let connect = |daemon: &Daemon| {
        let uri: Uri = daemon.uri("tiered").parse().unwrap();
        Connection::open(&uri).unwrap()
    };
    let mut daemon = Daemon::start_configured(directory, TIERS);
    let (mut written, mut random) = (vec![0_u8; 12 << 8], 1_u64);
    for round in 1..=6_u8 {
        let mut client = connect(&daemon);
        for number in 0..1500_usize {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Two extents that change from time to time, and now and then any.
            let hot = (usize::from(round) * 5 + number / 400 * 3) % 11 * 256;
            let any = usize::try_from(random >> 40).unwrap();
            let block = if number % 9 == 0 { any % written.len() } else { hot + any % 512 };
            let value = round.wrapping_mul(37).wrapping_add(u8::try_from(number % 37).unwrap());
            client.write(block as u64 * 4096, &[value; 4096], false).unwrap();
            written[block] = value;
        }
        (directory, _) = daemon.end("KILL");
        daemon = Daemon::start_in(directory);
        let mut client = connect(&daemon);
        let mut data = vec![0; 4096];
        for (block, value) in written.iter().enumerate() {
            client.read(block as u64 * 4096, &mut data).unwrap();
            assert!(data.iter().all(|byte| byte == value), "round {round}, block {block}");
        }
    }
}

/// SIGTERM arrives while requests are queued behind an emulated disk: all of them are answered.
#[test]
fn a_terminated_daemon_finishes_what_it_has_taken() {
    let emulated = DISKS
        .replace("back_end = \"memory\"", "back_end = \"memory\"\nemulate = \"deskstar-34gxp\"");
    let daemon = Daemon::start(&emulated);
    let mut client = UnixStream::connect(daemon.socket()).unwrap();
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).unwrap();
    // No zeroes; EXPORT_NAME "mem"; then 20 reads of 512 bytes, far apart.
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x03mem");
    client.write_all(&bytes).unwrap();
    let mut export = [0; 10];
    client.read_exact(&mut export).unwrap();
    let mut requests = Vec::new();
    for cookie in 0..20u64 {
        requests.extend_from_slice(&0x2560_9513u32.to_be_bytes());
        requests.extend_from_slice(&[0; 4]);
        requests.extend_from_slice(&cookie.to_be_bytes());
        requests.extend_from_slice(&((cookie * 7 % 20) << 21).to_be_bytes());
        requests.extend_from_slice(&512u32.to_be_bytes());
    }
    client.write_all(&requests).unwrap();
    let mut first = [0; 16 + 512];
    client.read_exact(&mut first).unwrap();
    let ended = std::thread::spawn(move || daemon.end("TERM").1);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 19 * (16 + 512));
    assert!(ended.join().unwrap(), "exit status 0");
}

#[test]
fn bad_configurations_exit_with_2_and_say_why() {
    let serve = |disks: &str| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disktime.toml");
        std::fs::write(&path, format!("[server]\nnbd = [\"unix:/nowhere/x\"]\n{disks}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        let output = finish(command.args(["serve", "--config"]).arg(&path));
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = serve(&DISKS.replacen("50%", "50", 1));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("vdisk mem: reserve = \"50\": a share is 0% to 100%"), "{said}");
    let (code, said) = serve(&DISKS.replacen("reserve", "reserv", 1));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("unknown field `reserv`"), "{said}");
    let (code, said) = serve(DISKS);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(said.matches("/nowhere is no directory").count(), 1, "{said}");
}
