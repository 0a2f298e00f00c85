//! Clients that die, users who may not, sources that fail, and very many files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use disktime_config::read_contract;
use disktime_fuse::{Mounted, abi, client};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::support::{Mount, depth, fill, keys, lacks, skip};

/// Python, if it is there.
fn python(test: &str) -> bool {
    let there = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        skip(test, "python3 is not installed");
    }
    there
}

/// Asks for priorities and shares as another user, with sizes and numbers that are no call.
const ASKS: &str = r#"
import errno, fcntl, os, struct, sys
file = os.open(sys.argv[1], os.O_RDONLY)
def call(number, data):
    try:
        fcntl.ioctl(file, number, data)
        return 'done'
    except OSError as error:
        return errno.errorcode[error.errno]
IOWR, IOW, IO = 3 << 30, 1 << 30, 0
def number(direction, nr, size): return direction | size << 16 | 0xDC << 8 | nr
qos = struct.pack('=8I3Q2I2Q', 1, 0, 100000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
light = struct.pack('=8I3Q2I2Q', 1, 0, 0, 500000, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
print(call(number(IOWR, 2, 80), bytearray(qos)), call(number(IOWR, 2, 80), bytearray(light)),
      call(number(IOW, 4, 4), struct.pack('=I', 2)), call(number(IOW, 4, 4), struct.pack('=I', 0)),
      call(number(IOWR, 2, 8), bytearray(8)), call(number(IOW, 2, 80), bytearray(qos)),
      call(number(IOWR, 9, 80), bytearray(qos)), call(number(IO, 3, 0), 0),
      call(0x5401, bytearray(64)))
try:
    os.setxattr(sys.argv[1], 'user.disktime.contract', b'reserve=10%'); print('done')
except OSError as error: print(errno.errorcode[error.errno])
"#;

#[test]
fn a_user_who_may_not_gets_no_promise_but_may_ask_for_less() {
    const TEST: &str = "a_user_who_may_not_gets_no_promise_but_may_ask_for_less";
    if lacks(TEST) || !python(TEST) {
        return;
    }
    let ask = |mount: &Mount| {
        let all = |path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755));
        all(mount.directory.path()).unwrap();
        fill(&mount.source("film"), 1000);
        std::os::unix::fs::chown(mount.source("film"), Some(1000), None).unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", ASKS]).arg(mount.path("film")).uid(1000).gid(1000);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let calls = "EINVAL EINVAL ENOTTY done ENOTTY";
    let mount = Mount::new(|_| {});
    assert_eq!(ask(&mount), format!("EPERM done EPERM done {calls}\nEPERM\n"));
    let mount = Mount::new(|options| options.askers = disktime_fuse::Askers::Only(vec![1000]));
    assert_eq!(ask(&mount), format!("done done done done {calls}\ndone\n"));
}

/// The request of a client that is killed is done in its turn; its file closes and its stream ends.
#[test]
fn a_client_that_is_killed_in_a_read_harms_nobody() {
    const TEST: &str = "a_client_that_is_killed_in_a_read_harms_nobody";
    if lacks(TEST) {
        return;
    }
    let mut keys = keys();
    keys.queue_depth = depth(1);
    let mount = Mount::emulating(Some("deskstar-34gxp"), &keys, |options| {
        options.default = Some(read_contract("limit=10%").unwrap());
    });
    File::create(mount.source("film")).unwrap().set_len(1 << 30).unwrap();
    for _ in 0..5 {
        let input = format!("if={}", mount.path("film").display());
        let mut reader = Command::new("dd");
        reader.args([&*input, "of=/dev/null", "bs=1M", "iflag=direct"]).stderr(Stdio::null());
        let mut reader = reader.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
    let began = Instant::now();
    while mount.figure("streams").lines().count() > 2 {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", mount.figure("streams"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut bytes = [0; 4096];
    File::open(mount.path("film")).unwrap().read_exact(&mut bytes).unwrap();
}

#[test]
fn errors_of_the_source_reach_the_program() {
    if lacks("errors_of_the_source_reach_the_program") {
        return;
    }
    let mut mount = Mount::new(|options| {
        // 1 MiB in memory.
        let size = c"size=1m";
        rustix::mount::mount("tmpfs", &options.source, "tmpfs", MountFlags::empty(), size).unwrap();
    });
    let source = mount.source("");
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap();
    let file = File::create(mount.path("film")).unwrap();
    for contract in ["", "reserve=50%"] {
        if !contract.is_empty() {
            client::set(&file, &read_contract(contract).unwrap()).unwrap();
        }
        let data = vec![1; 3 << 20];
        // The source takes as much as fits; the next call says why it is not more.
        let error = (0..).find_map(|at| file.write_all_at(&data, at << 22).err()).unwrap();
        assert_eq!(errno(error), Errno::NOSPC);
        file.set_len(0).unwrap();
    }
    file.write_all_at(b"kept", 0).unwrap();
    file.sync_all().unwrap();
    // A file that is open for writing keeps a source from becoming read-only.
    drop(file);
    let began = Instant::now();
    while rustix::mount::mount_remount(&source, MountFlags::RDONLY, c"").is_err() {
        assert!(began.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(errno(File::create(mount.path("new")).unwrap_err()), Errno::ROFS);
    assert_eq!(std::fs::read(mount.path("film")).unwrap(), b"kept");
    let set = rustix::fs::setxattr(
        mount.path("film"),
        "user.disktime.contract",
        b"reserve=10%",
        XattrFlags::empty(),
    );
    assert_eq!(set, Err(Errno::ROFS));
    // A file of a read-only source can have a contract.
    let file = File::open(mount.path("film")).unwrap();
    client::set(&file, &read_contract("reserve=10%").unwrap()).unwrap();
    drop(file);
    mount.unmount();
    rustix::mount::unmount(&source, UnmountFlags::DETACH).unwrap();
}

/// Fills a mapping of a file, and says how `msync` ended.
const FILLS: &str = r#"
import errno, mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | (os.O_DIRECT if sys.argv[2] == 'direct' else 0))
mapping = mmap.mmap(file, os.fstat(file).st_size)
mapping[:] = b'y' * len(mapping)
try:
    mapping.flush()
    print('done')
except OSError as error:
    print(errno.errorcode[error.errno])
os._exit(0)
"#;

/// Gives a file a contract by its attribute, unless that is empty.
fn state(path: &std::path::Path, contract: &str) {
    if !contract.is_empty() {
        let (name, value) = ("user.disktime.contract", contract.as_bytes());
        rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
    }
}

fn fills(path: &std::path::Path, flags: &str) -> String {
    let mut command = Command::new("python3");
    let output = command.args(["-c", FILLS]).arg(path).arg(flags).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
        + &String::from_utf8_lossy(&output.stderr)
}

/// A source that had space for a part of the kernel's cache lost the rest, and `msync` said that all was well.
#[test]
fn a_mapping_that_the_source_has_no_space_for_is_not_written_in_silence() {
    const TEST: &str = "a_mapping_that_the_source_has_no_space_for_is_not_written_in_silence";
    if lacks(TEST) || !python(TEST) {
        return;
    }
    let mut mount = Mount::new(|options| {
        let size = c"size=256k";
        rustix::mount::mount("tmpfs", &options.source, "tmpfs", MountFlags::empty(), size).unwrap();
    });
    let path = mount.path("film");
    for contract in ["", "class=background"] {
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        state(&path, contract);
        assert_eq!(fills(&path, ""), "ENOSPC", "{contract}");
        std::fs::remove_file(&path).unwrap();
    }
    mount.unmount();
    rustix::mount::unmount(mount.source(""), UnmountFlags::DETACH).unwrap();
}

/// Both were refused: the descriptor at the source takes only whole blocks.
#[test]
fn a_file_that_was_opened_past_the_cache_takes_a_mapping_and_a_last_short_write() {
    const TEST: &str =
        "a_file_that_was_opened_past_the_cache_takes_a_mapping_and_a_last_short_write";
    if lacks(TEST) || !python(TEST) {
        return;
    }
    let mount = Mount::new(|_| {});
    for contract in ["", "weight=50"] {
        fill(&mount.source("film"), 1000);
        fill(&mount.source("copy"), 0);
        for name in ["film", "copy"] {
            state(&mount.path(name), contract);
        }
        let flags = OFlags::WRONLY | OFlags::DIRECT;
        let copy = rustix::fs::open(mount.path("copy"), flags, Mode::empty()).unwrap();
        assert_eq!(fills(&mount.path("film"), "direct"), "done", "{contract}");
        assert_eq!(std::fs::read(mount.source("film")).unwrap(), [b'y'; 1000]);
        // As `dd oflag=direct` ends.
        let copy = File::from(copy);
        copy.write_all_at(&[1; 8192], 0).unwrap();
        rustix::fs::fcntl_setfl(&copy, OFlags::empty()).unwrap();
        copy.write_all_at(&[2; 100], 8192).unwrap();
        let expected = [vec![1; 8192], vec![2; 100]].concat();
        assert!(std::fs::read(mount.source("copy")).unwrap() == expected, "{contract}");
    }
}

#[test]
fn a_source_that_is_removed_leaves_a_mount_that_answers() {
    if lacks("a_source_that_is_removed_leaves_a_mount_that_answers") {
        return;
    }
    let mount = Mount::new(|_| {});
    fill(&mount.source("film"), 1000);
    let mut open = File::open(mount.path("film")).unwrap();
    std::fs::remove_dir_all(mount.source("")).unwrap();
    let mut data = Vec::new();
    open.read_to_end(&mut data).unwrap();
    assert_eq!(data.len(), 1000, "an open file outlives its name");
    let error = File::create(mount.path("new")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

/// `umount -l` hides a mount whose files are open; the mount that came in its place then disappeared when the
/// daemon of the first one ended: that one unmounted whatever was at its path.
#[test]
fn a_mount_in_the_place_of_one_that_was_hidden_outlives_it() {
    if lacks("a_mount_in_the_place_of_one_that_was_hidden_outlives_it") {
        return;
    }
    for ends_first in [false, true] {
        let mut options = None;
        let mut hidden = Mount::new(|it| options = Some(it.clone()));
        fill(&hidden.source("film"), 1000);
        let open = File::open(hidden.path("film")).unwrap();
        rustix::mount::unmount(hidden.at(), UnmountFlags::DETACH).unwrap();
        let second = Mounted::new(&options.unwrap()).unwrap();
        std::thread::scope(|scope| {
            let mut open = Some(open);
            if ends_first {
                open.take();
            }
            let ended = scope.spawn(|| hidden.unmount());
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(ended.is_finished(), ends_first, "it ends with its last open file");
            drop(open);
            ended.join().unwrap();
        });
        assert_eq!(std::fs::read(hidden.path("film")).unwrap().len(), 1000);
        assert!(hidden.figure("device").contains("queue_depth"), "the second is there");
        second.unmount().unwrap();
        assert!(!hidden.path("film").exists());
    }
}

#[test]
fn a_read_only_mount_changes_nothing() {
    if lacks("a_read_only_mount_changes_nothing") {
        return;
    }
    let mount = Mount::new(|options| options.read_only = true);
    fill(&mount.source("film"), 1000);
    let error = std::fs::write(mount.path("film"), "x").unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::ROFS));
    let file = File::open(mount.path("film")).unwrap();
    client::set(&file, &read_contract("reserve=10%").unwrap()).unwrap();
}

/// Opens 10,000 files with contracts, says so, and closes them when it is told.
const OPENS: &str = r#"
import fcntl, os, resource, struct, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
qos = struct.pack('=8I3Q2I2Q', 1, 0, 90, 500000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
files = []
for _ in range(10000):
    files.append(os.open(sys.argv[1], os.O_RDONLY))
    fcntl.ioctl(files[-1], 3 << 30 | 80 << 16 | 0xDC << 8 | 2, bytearray(qos))
print(sum(len(os.pread(file, 100, 50)) for file in files[::500]), flush=True)
sys.stdin.read()
"#;

#[test]
fn ten_thousand_open_files_have_contracts() {
    const TEST: &str = "ten_thousand_open_files_have_contracts";
    if lacks(TEST) || !python(TEST) {
        return;
    }
    let mount = Mount::new(|_| {});
    fill(&mount.source("film"), 10_000);
    let mut opens = Command::new("python3");
    opens.args(["-c", OPENS]).arg(mount.path("film"));
    let mut opens = opens.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(opens.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "2000\n");
    let one_more = File::open(mount.path("film")).unwrap();
    let (_, answer) = client::set(&one_more, &read_contract("reserve=11%").unwrap()).unwrap_err();
    assert_eq!(abi::refused(&answer).fits.ppm(), 100_000);
    assert_eq!(mount.figure("streams").lines().count(), 10_002);
    drop(opens.stdin.take());
    assert!(opens.wait().unwrap().success());
    let began = Instant::now();
    while mount.figure("streams").lines().count() > 2 {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    File::create(mount.path("last")).unwrap().write_all(b"x").unwrap();
}
