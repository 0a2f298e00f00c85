//! Daemons that start where another one is, was a moment ago, or should have left something.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use disktime_client::{Connection, Uri};
use tempfile::TempDir;

use crate::support::{DISKS, Daemon, finish, words};

const DISKTIME: &str = env!("CARGO_BIN_EXE_disktime");

/// A raw file, an image and both kinds of sockets.
const RESTARTED: &str = r#"
[server]
nbd = ["unix:DIRECTORY/nbd.sock", "tcp:127.0.0.1:PORT"]
misses = "unix:DIRECTORY/misses.sock"

[[device]]
name = "pool"
back_end = "file:DIRECTORY/pool"
create = true
queue_depth = 8

[[device]]
name = "image"
back_end = "file:DIRECTORY/image"
queue_depth = 8

[[vdisk]]
name = "raw"
device = "pool"
size = "64MiB"

[[vdisk]]
name = "extent"
device = "image"
size = "64MiB"
"#;

fn serve(config: &Path) -> Child {
    let mut command = Command::new(DISKTIME);
    command.args(["serve", "--config"]).arg(config);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The first line is printed once clients can connect. If it ends, the error is its output.
fn serving(child: &mut Child) -> Result<(), String> {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    if !line.is_empty() {
        return Ok(());
    }
    let mut said = String::new();
    child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
    Err(said)
}

/// Writes to a virtual disk until the daemon is gone.
fn write_on(uri: &str) {
    let Ok(mut client) = Connection::open(&uri.parse::<Uri>().unwrap()) else { return };
    let data = vec![5; 1 << 20];
    for at in (0..64).cycle() {
        if client.write(at << 20, &data, at % 8 == 0).is_err() {
            return;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test measures in real time")]
fn now() -> Instant {
    Instant::now()
}

/// A daemon that is killed amid work and started again at once: 15 of 136 restarts found the file's
/// lock or the socket taken by the process that was about to end.
#[test]
fn a_daemon_starts_at_once_after_a_kill() {
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    std::fs::File::create(here.join("image")).unwrap().set_len(66 << 20).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = here.join("disktime.toml");
    let text = RESTARTED.replace("DIRECTORY", here.to_str().unwrap());
    std::fs::write(&config, text.replace("PORT", &free.to_string())).unwrap();
    let mut child = serve(&config);
    serving(&mut child).unwrap();
    let mut slowest = Duration::ZERO;
    for round in 0..RESTARTS {
        let writers = ["raw", "extent", "raw", "extent"].map(|name| {
            let uri = format!("nbd+unix:///{name}?socket={}/nbd.sock", here.display());
            std::thread::spawn(move || write_on(&uri))
        });
        let uri = format!("nbd+unix:///raw?socket={}/nbd.sock", here.display());
        let mut client = Connection::open(&uri.parse::<Uri>().unwrap()).unwrap();
        client.write(0, &vec![1; 4 << 20], true).unwrap();
        let mut dying = child;
        dying.kill().unwrap();
        let begun = now();
        child = serve(&config);
        if let Err(said) = serving(&mut child) {
            panic!("restart {round} of {RESTARTS}: {said}");
        }
        slowest = slowest.max(begun.elapsed());
        dying.wait().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    println!("{RESTARTS} restarts, the slowest took {slowest:?}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}

/// Immediate restarts that are tried.
const RESTARTS: u32 = 30;

/// A device in a directory of a daemon's own, which may be served by another one.
fn configured(directory: &Path, back_end: &str) -> std::path::PathBuf {
    let config = directory.join("disktime.toml");
    let text = format!(
        "[server]\nnbd = [\"unix:{0}/nbd.sock\"]\nstate = \"{0}/state\"\n[[device]]\nname = \"disk\"\n\
         back_end = \"{back_end}\"\n[[vdisk]]\nname = \"file\"\ndevice = \"disk\"\nsize = \"64MiB\"\n",
        directory.display()
    );
    std::fs::write(&config, text).unwrap();
    config
}

/// Starts a daemon on what another one serves; it must end, after it has waited. Answers what it said.
fn refused(back_end: &str) -> String {
    let directory = TempDir::new().unwrap();
    let config = configured(directory.path(), back_end);
    let begun = now();
    let output = finish(Command::new(DISKTIME).args(["serve", "--config"]).arg(&config));
    assert!(!output.status.success(), "{back_end}");
    let took = begun.elapsed();
    assert!((4..10).contains(&took.as_secs()), "{took:?}: {back_end}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two daemons on one directory each overwrote what the other had written.
#[test]
fn a_second_daemon_is_refused_by_whatever_name() {
    let daemon = Daemon::start(DISKS);
    let link = daemon.path("link");
    std::os::unix::fs::symlink(daemon.path("disks"), &link).unwrap();
    std::thread::scope(|scope| {
        for path in [daemon.path("disks"), link, daemon.path("disks/file.raw")] {
            scope.spawn(move || {
                let said = refused(&format!("file:{}", path.display()));
                assert!(said.contains("another server has it open"), "{said}");
            });
        }
    });
    assert!(daemon.end("TERM").1);
}

/// Runs words as a command; whether it succeeded.
fn can(words: &[&str]) -> bool {
    finish(Command::new(words[0]).args(&words[1..])).status.success()
}

#[test]
fn a_bind_mount_of_a_directory_is_the_same() {
    let test = "a_bind_mount_of_a_directory_is_the_same";
    let daemon = Daemon::start(DISKS);
    let (disks, mounted) = (daemon.path("disks"), daemon.path("mounted"));
    std::fs::create_dir(&mounted).unwrap();
    std::fs::create_dir(daemon.path("state")).unwrap();
    let mounted = mounted.to_str().unwrap();
    if !can(&["mount", "--bind", disks.to_str().unwrap(), mounted]) {
        return crate::support::skip(test, "nothing can be mounted here");
    }
    let served = std::panic::catch_unwind(|| refused(&format!("file:{mounted}")));
    let (directory, _) = daemon.end("TERM");
    let both = std::panic::catch_unwind(|| {
        let config = configured(&directory.path().join("state"), &format!("file:{mounted}"));
        let again =
            format!("[[device]]\nname = \"again\"\nback_end = \"file:{}\"\n", disks.display());
        let text = std::fs::read_to_string(&config).unwrap() + &again;
        std::fs::write(&config, text).unwrap();
        let output = finish(Command::new(DISKTIME).args(["serve", "--config"]).arg(&config));
        String::from_utf8_lossy(&output.stderr).into_owned()
    });
    words(&["umount", mounted]);
    let (served, both) = (served.unwrap(), both.unwrap());
    assert!(served.contains("another server has it open"), "{served}");
    assert!(both.contains("device again: ") && both.contains("is the same as"), "{both}");
}

/// Another node of a block device that a daemon serves. The node's own lock says nothing.
#[test]
fn another_node_of_a_served_block_device_is_refused() {
    let test = "another_node_of_a_served_block_device_is_refused";
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::File::create(path("image")).unwrap().set_len(66 << 20).unwrap();
    let output = finish(Command::new("losetup").args(["--find", "--show", &path("image")]));
    let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() {
        return crate::support::skip(test, "there is no loop device");
    }
    let outcome = std::panic::catch_unwind(|| {
        use std::os::unix::fs::MetadataExt;
        let number = std::fs::metadata(&device).unwrap().rdev();
        let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00);
        words(&["mknod", &path("node"), "b", &major.to_string(), &minor.to_string()]);
        let served = TempDir::new().unwrap();
        let mut child = serve(&configured(served.path(), &format!("file:{device}")));
        serving(&mut child).unwrap();
        let said = refused(&format!("file:{}", path("node")));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.contains("has it open"), "{said}");
    });
    words(&["losetup", "--detach", &device]);
    outcome.unwrap();
}

/// A raw file was removed while the daemon served it: flushes went on to succeed. Now they fail, and
/// the log says it once.
#[test]
fn a_file_that_is_removed_while_it_is_served_fails_loudly() {
    let mut daemon = Daemon::start(DISKS);
    let mut client = Connection::open(&daemon.uri("file").parse::<Uri>().unwrap()).unwrap();
    client.write(0, &[1; 4096], false).unwrap();
    client.flush().unwrap();
    std::fs::remove_file(daemon.path("disks/file.raw")).unwrap();
    for _ in 0..3 {
        assert!(client.flush().is_err());
    }
    let mut mem = Connection::open(&daemon.uri("mem").parse::<Uri>().unwrap()).unwrap();
    mem.flush().unwrap();
    let said = daemon.error_line();
    assert!(said.contains("ERROR") && said.contains("was removed"), "{said}");
    assert!(said.contains("vdisk=\"file\"") && said.contains("/disks/file.raw"), "{said}");
    drop((client, mem));
    daemon.signal("TERM");
    let mut said = daemon.error_line();
    while !said.contains("finishing the requests taken") {
        assert!(!said.is_empty() && !said.contains("was removed"), "once is enough: {said}");
        said = daemon.error_line();
    }
}

/// Places that `device init` makes are served, and places that it finds are kept.
#[test]
fn places_are_made_on_purpose() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let device = |arguments: &[&str]| {
        let mut command = Command::new(DISKTIME);
        let output = finish(command.arg("device").args(arguments));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let served = |back_end: &str| {
        let config = configured(directory.path(), back_end);
        let mut child = serve(&config);
        let outcome = serving(&mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(directory.path().join("state")).ok();
        outcome
    };
    let pool = format!("file:{}", path("pool"));
    assert!(served(&pool).unwrap_err().contains("disktime device init"));
    let (code, said, _) = device(&["init", &path("pool")]);
    assert!(code == Some(0) && said.contains("/pool: made pool "), "{said}");
    served(&pool).unwrap();
    let (code, _, said) = device(&["init", &path("pool")]);
    assert!(code == Some(2) && said.contains("is there already (a pool)"), "{said}");
    let (code, said, _) = device(&["init", &path("image"), "--size", "66MiB", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (code, &made["kind"], &made["size_bytes"]),
        (Some(0), &"image".into(), &69_206_016.into())
    );
    served(&format!("file:{}", path("image"))).unwrap();

    std::fs::create_dir(path("old")).unwrap();
    std::fs::write(path("old/file.raw"), vec![0; 64 << 20]).unwrap();
    let (code, said, _) = device(&["init", &path("old")]);
    assert!(code == Some(0) && said.contains("adopted file.raw with 67108864 bytes"), "{said}");
    served(&format!("file:{}", path("old"))).unwrap();
    let shrink = ["shrink", &path("old"), "--vdisk", "file", "--size", "1MiB"];
    let (code, _, said) = device(&shrink);
    assert!(code == Some(2) && said.contains("all data beyond 1048576 bytes"), "{said}");
    served(&format!("file:{}", path("old"))).unwrap();
    assert_eq!(device(&[&shrink[..], &["--yes"]].concat()).0, Some(0));
    assert_eq!(std::fs::metadata(path("old/file.raw")).unwrap().len(), 1 << 20);

    std::fs::write(path("gone.disktime"), "").unwrap();
    let (code, _, said) = device(&["init", &path("gone")]);
    assert!(code == Some(2) && said.contains("virtual disks were at"), "{said}");
    let (code, _, said) = device(&["init", "/dev/new"]);
    assert!(code == Some(2) && said.contains("is under /dev"), "{said}");
}

/// With the usual soft limit of 1024 descriptors a daemon of a thousand raw files did not start.
#[test]
fn more_virtual_disks_than_the_soft_limit_of_descriptors() {
    use std::fmt::Write;
    let directory = TempDir::new().unwrap();
    let config = configured(directory.path(), &format!("file:{}/pool", directory.path().display()));
    let mut text = std::fs::read_to_string(&config).unwrap();
    text = text.replace("[[vdisk]]", "create = true\n[[vdisk]]");
    for at in 0..200 {
        write!(text, "[[vdisk]]\nname = \"v{at}\"\ndevice = \"disk\"\nsize = \"1MiB\"\n").unwrap();
    }
    std::fs::write(&config, text).unwrap();
    let script = "ulimit -Sn 100 && exec \"$0\" serve --config \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, DISKTIME]).arg(&config);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let outcome = serving(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    outcome.unwrap();
}
