//! How a daemon starts where a back end is missing, is another one, or is someone else's; and how a
//! flush fails when its file goes.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod rig;

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use disktime_core::Kind;
use disktime_server::backend::{
    BackEnd, DeviceError, FileBackEnd, OneFile, PoolDirectory, PoolError, TwoTiers, make_image,
};
use disktime_server::{Config, Server, StartError, check};
use rig::Rig;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const EIO: DeviceError = DeviceError(libc::EIO);

/// A configuration with one device for each of these lines of its table; each has a virtual disk of
/// 1 MiB, `v0`, `v1` and so on. `DIRECTORY` stands for the directory.
fn config(directory: &Path, server: &str, devices: &[&str]) -> Config {
    let mut text = format!("[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n{server}\n");
    for (at, device) in devices.iter().enumerate() {
        text += &format!(
            "[[device]]\nname = \"d{at}\"\nquick_profile = false\n{device}\n\
             [[vdisk]]\nname = \"v{at}\"\ndevice = \"d{at}\"\nsize = \"1MiB\"\n"
        );
    }
    let text = text.replace("DIRECTORY", directory.to_str().unwrap());
    Config::parse(&text).unwrap()
}

/// Starts a daemon with such a configuration.
fn start_all(directory: &Path, server: &str, devices: &[&str]) -> Result<Server, StartError> {
    Server::start(config(directory, server, devices))
}

fn start(directory: &Path, device: &str) -> Result<Server, StartError> {
    start_all(directory, "", &[device])
}

/// Starts a daemon and ends it.
fn serves(directory: &Path, device: &str) {
    start(directory, device).unwrap().shutdown().unwrap();
}

/// Why a daemon does not start.
fn refused(directory: &Path, device: &str) -> String {
    start(directory, device).err().expect("it must not start").to_string()
}

fn sparse(path: &Path, bytes: u64) {
    File::create(path).unwrap().set_len(bytes).unwrap();
}

fn contains(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

const POOL: &str = "back_end = \"file:DIRECTORY/pool\"";
const MAKES: &str = "back_end = \"file:DIRECTORY/pool\"\ncreate = true";

/// A typing error, or an image that was moved away, was served as a new directory of empty disks.
#[test]
fn nothing_is_made_where_nothing_is() {
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    let said = refused(here, POOL);
    contains(
        &said,
        &["device d0: nothing is at ", "/pool, where", "disktime device init", "create"],
    );
    sparse(&here.join("a"), MIB);
    let said = refused(here, "back_end = \"raid0:DIRECTORY/a,DIRECTORY/pool\"");
    contains(&said, &["nothing is at ", "/pool, where a regular file", "init", "--size SIZE"]);
    sparse(&here.join("slow"), 4 * MIB);
    let said = refused(here, "back_end = \"tiered:DIRECTORY/pool,DIRECTORY/slow\"");
    contains(&said, &["nothing is at ", "/pool, where a regular file"]);
    symlink(here.join("nowhere"), here.join("pool")).unwrap();
    contains(&refused(here, POOL), &["nothing is at "]);
    assert!(!here.join("nowhere").exists() && !here.join("pool.disktime").exists());
}

/// After a restart without its image, the daemon forgot a recorded layout and served empty disks.
#[test]
fn a_recorded_file_that_is_gone_is_named() {
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    for (device, file) in [
        ("back_end = \"file:DIRECTORY/image\"", "image"),
        ("back_end = \"raid0:DIRECTORY/a,DIRECTORY/b\"", "b"),
        ("back_end = \"tiered:DIRECTORY/fast,DIRECTORY/slow\"", "fast"),
    ] {
        for name in ["image", "a", "b", "fast", "slow"] {
            sparse(&here.join(name), 4 * MIB);
        }
        serves(here, device);
        std::fs::rename(here.join(file), here.join("away")).unwrap();
        let also_made = format!("{device}\ncreate = true");
        let devices = if file == "image" { vec![device, &also_made] } else { vec![device] };
        for device in devices {
            let said = refused(here, device);
            contains(
                &said,
                &["nothing is at ", "with the virtual disks v0 was there before, says "],
            );
        }
        std::fs::rename(here.join("away"), here.join(file)).unwrap();
        serves(here, device);
    }
    std::fs::remove_file(here.join("image")).unwrap();
    PoolDirectory::make(&here.join("image")).unwrap();
    let said = refused(here, "back_end = \"file:DIRECTORY/image\"");
    contains(
        &said,
        &["image is the pool ", "but a file or block device with the virtual disks v0"],
    );
}

/// A drive that came back blank got an empty map, and the slow tier's old data were served as current.
#[test]
fn a_fast_tier_that_came_back_blank_is_missed() {
    const TIERS: &str = "back_end = \"tiered:DIRECTORY/fast,DIRECTORY/slow\"";
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    for name in ["fast", "slow"] {
        sparse(&here.join(name), 4 * MIB);
    }
    serves(here, TIERS);
    serves(here, TIERS);
    sparse(&here.join("fast"), 4 * MIB);
    let said = refused(here, TIERS);
    contains(&said, &["/fast is blank, but was the fast tier before, says ", "`fast_tier = true`"]);
    let text = format!(
        "[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n[[device]]\nname = \"d0\"\n{TIERS}\n\
         [[vdisk]]\nname = \"v0\"\ndevice = \"d0\"\nsize = \"1MiB\"\n"
    );
    let config = Config::parse(&text.replace("DIRECTORY", here.to_str().unwrap())).unwrap();
    let said = check(&config)[0].to_string();
    contains(&said, &["/fast is blank, but was the fast tier before"]);
    let record = here.join("slow.disktime");
    let recorded = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, recorded.replace("fast_tier = true\n", "")).unwrap();
    serves(here, TIERS);
    // One that has nothing and gets nothing may go.
    serves(here, &format!("{TIERS}\nempty_fast = true"));
    sparse(&here.join("fast"), 4 * MIB);
    serves(here, TIERS);
}

/// A mount point whose file system was not mounted was filled with empty disks, on the wrong file
/// system.
#[test]
fn a_pool_that_was_there_is_the_one_that_must_be() {
    for server in ["", "state = \"DIRECTORY/state\""] {
        let directory = TempDir::new().unwrap();
        let here = directory.path();
        let start = |device: &str| start_all(here, server, &[device]);
        let refused = |device: &str| start(device).err().expect("it must not start").to_string();
        let pool = |name: &str| here.join(name);
        std::fs::create_dir(pool("pool")).unwrap();
        contains(&refused(POOL), &["/pool is no pool", "mount or restore it", "device init"]);
        start(MAKES).unwrap().shutdown().unwrap();
        start(POOL).unwrap().shutdown().unwrap();

        std::fs::rename(pool("pool"), pool("mine")).unwrap();
        for device in [POOL, MAKES] {
            contains(&refused(device), &["nothing is at ", "was there before, says "]);
            std::fs::create_dir(pool("pool")).unwrap();
            contains(&refused(device), &["is no pool", "was there before, says "]);
            assert!(std::fs::read_dir(pool("pool")).unwrap().next().is_none(), "nothing was made");
            std::fs::remove_dir(pool("pool")).unwrap();
        }
        let other = PoolDirectory::make(&pool("pool")).unwrap().id().to_owned();
        for device in [POOL, MAKES] {
            contains(&refused(device), &[&format!("is the pool {other}, but the pool ")]);
        }
        std::fs::rename(pool("pool"), pool("other")).unwrap();
        sparse(&pool("pool"), 4 * MIB);
        contains(&refused(POOL), &["is a file or a block device, but the pool "]);
        std::fs::remove_file(pool("pool")).unwrap();
        std::fs::rename(pool("mine"), pool("pool")).unwrap();
        start(POOL).unwrap().shutdown().unwrap();
    }
}

#[test]
fn a_record_of_a_pool_is_beside_it_however_it_is_named() {
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    serves(here, "back_end = \"file:DIRECTORY/pool/\"\ncreate = true");
    assert!(here.join("pool.disktime").exists() && !here.join("pool/.disktime").exists());
    serves(here, "back_end = \"file:DIRECTORY/pool/.\"");
}

/// Raw files that are there become the virtual disks of a pool, whole.
#[test]
fn raw_files_are_adopted() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pool");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("a.raw"), vec![7; 1 << 20]).unwrap();
    std::fs::write(path.join(".hidden.raw"), "x").unwrap();
    std::fs::write(path.join("notes"), "x").unwrap();
    std::fs::create_dir(path.join("b.raw")).unwrap();
    let pool = PoolDirectory::make(&path).unwrap();
    let adopted: Vec<_> = pool.disks().map(|disk| (disk.name, disk.size)).collect();
    assert_eq!(adopted, [("a".to_owned(), MIB)]);
    drop(pool);
    assert!(matches!(PoolDirectory::make(&path), Err(PoolError::Exists { .. })));
    let pool = PoolDirectory::open(&path).unwrap().unwrap();
    let error = pool.back_end(&[("a", MIB), ("b", MIB)]).err().unwrap();
    assert!(matches!(error, PoolError::NoFile { .. }), "{error}");
    let mut rig = rig_of(|_| {
        let pool = PoolDirectory::open(&path).unwrap().unwrap();
        Box::new(pool.back_end(&[("a", MIB)]).unwrap())
    });
    assert_eq!(rig.read(0, 4096, 3).unwrap(), [7; 3]);
}

/// A raw file that vanished came back as a sparse one, and one that was cut was filled with zeroes.
#[test]
fn a_virtual_disks_file_is_there_and_whole_or_an_error() {
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    serves(here, MAKES);
    let raw = here.join("pool/v0.raw");
    assert_eq!(raw.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let identity = here.join("pool/.disktime-pool");
    assert_eq!(identity.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    File::options().write(true).open(&raw).unwrap().set_len(MIB - 4096).unwrap();
    let said = refused(here, POOL);
    contains(&said, &["vdisk v0: its file ", "has 1044480 bytes, and had 1048576", "shrink"]);
    std::fs::remove_file(&raw).unwrap();
    for device in [POOL, MAKES] {
        let said = refused(here, device);
        contains(&said, &["vdisk v0: its file ", "/pool/v0.raw is gone", "entry in ", "-pool"]);
    }
    assert!(!raw.exists());
    let text = std::fs::read_to_string(&identity).unwrap();
    let (head, _given_up) = text.split_once("[[vdisk]]").unwrap();
    std::fs::write(&identity, head).unwrap();
    serves(here, POOL);
    assert_eq!(raw.metadata().unwrap().len(), MIB);

    for (from, to, says) in [
        ("version = 2", "version = 3", "version = 3: this disktime knows versions up to 2"),
        ("[[vdisk]]", "[[disk]]", "unknown field `disk`"),
    ] {
        let text = std::fs::read_to_string(&identity).unwrap();
        std::fs::write(&identity, text.replace(from, to)).unwrap();
        contains(&refused(here, POOL), &["/pool/.disktime-pool: ", says]);
        std::fs::write(&identity, text).unwrap();
    }
}

/// A `size` below the file's was taken, and a later larger one found what was beyond it.
#[test]
fn a_virtual_disk_shrinks_on_purpose_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pool");
    let raw = path.join("a.raw");
    let len = || raw.metadata().unwrap().len();
    drop(PoolDirectory::make(&path).unwrap().back_end(&[("a", 6000)]).unwrap());
    assert_eq!(len(), 8192, "whole blocks");
    let open = || PoolDirectory::open(&path).unwrap().unwrap();
    drop(open().back_end(&[("a", 2 * MIB)]).unwrap());
    assert_eq!(len(), 2 * MIB, "grown");
    let error = open().back_end(&[("a", MIB)]).err().unwrap().to_string();
    contains(&error, &["size = 1048576 bytes: the file is larger", "has 2097152", "device shrink"]);
    assert_eq!(len(), 2 * MIB);
    for (name, size) in [("a", 2 * MIB + 512), ("a", 0), ("a", 1000), ("b", 512)] {
        open().shrink(name, size).unwrap_err();
    }
    open().shrink("a", MIB).unwrap();
    assert_eq!((len(), open().disks().next().unwrap().size), (MIB, MIB));
    drop(open().back_end(&[("a", MIB)]).unwrap());
}

#[test]
fn nothing_is_made_under_dev_or_over_anything() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    symlink("/dev", path("link")).unwrap();
    for under in [Path::new("/dev/new"), &path("link/new"), Path::new("/dev/../dev/shm/new")] {
        let error = PoolDirectory::make(under).err().unwrap();
        assert!(matches!(error, PoolError::UnderDev { .. }), "{error}");
        let error = make_image(under, MIB).unwrap_err();
        assert!(matches!(error, PoolError::UnderDev { .. }), "{error}");
    }
    std::fs::write(path("file"), "data").unwrap();
    assert!(matches!(PoolDirectory::make(&path("file")), Err(PoolError::Exists { .. })));
    symlink(path("nowhere"), path("dangling")).unwrap();
    for taken in ["file", "dangling"] {
        assert!(matches!(make_image(&path(taken), MIB), Err(PoolError::Exists { .. })));
    }
    assert_eq!(std::fs::read(path("file")).unwrap(), b"data");
    assert!(matches!(make_image(&path("image"), 1000), Err(PoolError::Size { .. })));
    // An empty file was left, and what it said was "out of range integral type conversion attempted".
    let said = make_image(&path("image"), 1 << 63).unwrap_err().to_string();
    assert!(said.contains("at most 9223372036854775807 bytes"), "{said}");
    // No file system has files of 8 EiB less a block.
    if make_image(&path("image"), (1 << 63) - 4096).is_ok() {
        std::fs::remove_file(path("image")).unwrap();
    }
    assert!(!path("image").exists());
    make_image(&path("image"), MIB).unwrap();
    let made = path("image").metadata().unwrap();
    assert_eq!((made.len(), made.permissions().mode() & 0o777), (MIB, 0o600));
}

/// A second daemon served the same directory, and each lost what the other wrote.
#[test]
fn a_pool_and_its_files_have_one_server() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pool");
    let first = PoolDirectory::make(&path).unwrap().back_end(&[("a", MIB)]).unwrap();
    assert!(matches!(PoolDirectory::open(&path), Err(PoolError::InUse { .. })));
    let error = OneFile::open(&path.join("a.raw")).err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    drop(first);
    // The identity was replaced when the file was made: its lock went over to the new one.
    let first = PoolDirectory::open(&path).unwrap().unwrap();
    assert!(matches!(PoolDirectory::open(&path), Err(PoolError::InUse { .. })));
    drop(first);
    let image = OneFile::open(&path.join("a.raw")).unwrap();
    let pool = PoolDirectory::open(&path).unwrap().unwrap();
    assert!(matches!(pool.back_end(&[("a", MIB)]), Err(PoolError::InUse { .. })));
    drop(image);
}

/// Two devices of one configuration wrote to one directory, each in its own time.
#[test]
fn devices_that_are_the_same_by_any_name_are_refused() {
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    sparse(&here.join("image"), 4 * MIB);
    sparse(&here.join("member"), 4 * MIB);
    std::fs::hard_link(here.join("image"), here.join("hard")).unwrap();
    symlink(here.join("image"), here.join("soft")).unwrap();
    symlink(here.join("pool"), here.join("link")).unwrap();
    serves(here, MAKES);
    sparse(&here.join("pool/v1.raw"), MIB);
    std::fs::hard_link(here.join("pool/v1.raw"), here.join("raw")).unwrap();
    let image = "back_end = \"file:DIRECTORY/image\"";
    for devices in [
        [POOL, POOL],
        [POOL, "back_end = \"file:DIRECTORY/link\""],
        [POOL, "back_end = \"file:DIRECTORY/pool/v0.raw\""],
        [image, "back_end = \"file:DIRECTORY/image\""],
        [image, "back_end = \"file:DIRECTORY/soft\""],
        [image, "back_end = \"file:DIRECTORY/hard\""],
        [image, "back_end = \"raid0:DIRECTORY/member,DIRECTORY/soft\""],
        [image, "back_end = \"tiered:DIRECTORY/hard,DIRECTORY/member\""],
        ["back_end = \"memory\"", "back_end = \"raid0:DIRECTORY/soft,DIRECTORY/hard\""],
        ["back_end = \"file:DIRECTORY/raw\"", POOL],
        // Made by the first one.
        [
            "back_end = \"file:DIRECTORY/new\"\ncreate = true",
            "back_end = \"file:DIRECTORY/./new\"\ncreate = true",
        ],
    ] {
        let error = start_all(here, "", &devices).err().expect("it must not start");
        assert!(matches!(error, StartError::Shared { .. }), "{devices:?}: {error}");
        contains(&error.to_string(), &["device d1: ", "is the same as", "of device d"]);
    }
}

/// Two nodes of one block device: the second is refused before either is opened.
#[test]
fn nodes_of_one_block_device_are_the_same() {
    let test = "nodes_of_one_block_device_are_the_same";
    let directory = TempDir::new().unwrap();
    let node = |name: &str| {
        let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::BlockDevice);
        // A number that no driver has.
        let device = rustix::fs::makedev(259, 1_048_575);
        let path = directory.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device).is_ok()
    };
    if !node("one") || !node("two") {
        return skip(test, "nodes of devices can't be made here");
    }
    let device = "back_end = \"raid0:DIRECTORY/one,DIRECTORY/two\"";
    let error = start(directory.path(), device).err().expect("it must not start");
    assert!(matches!(error, StartError::Shared { .. }), "{error}");
}

fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let line = format!("SKIP: {test}: {reason}");
    eprintln!("{line}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = File::options().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

fn rig_of(make: impl FnOnce(&Path) -> Box<dyn BackEnd>) -> Rig {
    Rig::new(|directory| (make(directory), None))
}

/// A file that was removed or cut underneath the daemon took its data with it, and flushes went on
/// to say that all was durable.
#[test]
fn a_flush_fails_once_its_file_is_gone_or_cut() {
    type Make = fn(&Path) -> Box<dyn BackEnd>;
    let makes: [(&str, Make); 4] = [
        ("pool/a.raw", |directory| {
            let pool = PoolDirectory::make(&directory.join("pool")).unwrap();
            Box::new(pool.back_end(&[("a", MIB)]).unwrap())
        }),
        ("image", |directory| {
            sparse(&directory.join("image"), 4 * MIB);
            let file = OneFile::open(&directory.join("image")).unwrap().unwrap();
            Box::new(FileBackEnd::extents(&file, &[(0, MIB)]))
        }),
        ("m1", |directory| {
            let paths = ["m0", "m1"].map(|name| directory.join(name));
            paths.iter().for_each(|path| sparse(path, MIB));
            let file = OneFile::striped(&paths, 64 << 10).unwrap();
            Box::new(FileBackEnd::extents(&file, &[(0, MIB)]))
        }),
        ("fast", |directory| {
            let [fast, slow] = ["fast", "slow"].map(|name| directory.join(name));
            sparse(&fast, 4 * MIB);
            sparse(&slow, 4 * MIB);
            let tiers = TwoTiers::open(&fast, &slow, None).unwrap();
            Box::new(tiers.on_shard(&[(0, MIB)], false))
        }),
    ];
    for (file, make) in makes {
        for removed in [true, false] {
            let mut rig = rig_of(make);
            let path = rig.directory.path().join(file);
            rig.write(0, 0, &[1; 4096]).unwrap();
            rig.ask(0, Kind::Flush, 0, 0).unwrap();
            if removed {
                std::fs::remove_file(&path).unwrap();
            } else {
                let len = path.metadata().unwrap().len();
                File::options().write(true).open(&path).unwrap().set_len(len - 4096).unwrap();
            }
            for _ in 0..2 {
                assert_eq!(rig.ask(0, Kind::Flush, 0, 0), Err(EIO), "{file}, removed: {removed}");
            }
        }
    }
}

/// A check called two names of one back end in order, and the start refused them.
#[test]
fn a_check_tells_of_two_names_of_one_back_end_as_a_start_does() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    sparse(&path.join("image"), 4 * MIB);
    std::fs::hard_link(path.join("image"), path.join("hard")).unwrap();
    drop(PoolDirectory::make(&path.join("pool")).unwrap());
    sparse(&path.join("pool/v0.raw"), MIB);
    for (name, at) in [("image", "soft"), ("pool", "link")] {
        symlink(path.join(name), path.join(at)).unwrap();
    }
    let file = |name: &str| format!("back_end = \"file:DIRECTORY/{name}\"");
    let tiers = "back_end = \"tiered:DIRECTORY/hard,DIRECTORY/image\"".to_owned();
    for (one, other) in [
        (file("image"), file("soft")),
        (file("image"), file("hard")),
        (file("pool"), file("link")),
        (file("pool"), file("pool/v0.raw")),
        (tiers, "back_end = \"memory\"".to_owned()),
    ] {
        let config = config(path, "", &[&one, &other]);
        let shared = |it: &StartError| matches!(it, StartError::Shared { .. });
        let found = check(&config).iter().filter(|it| shared(it)).count();
        assert_eq!(found, 1, "{one}, {other}");
        let started = Server::start(config).err().expect("it must not start");
        assert!(shared(&started), "{started}");
    }
}

/// `--check` found nothing wrong with a fast tier on which no start would have made its map.
#[test]
fn a_check_looks_where_the_map_of_tiers_would_go() {
    const TIERS: &str = "back_end = \"tiered:DIRECTORY/fast,DIRECTORY/slow\"";
    let directory = TempDir::new().unwrap();
    let here = directory.path();
    let text = format!(
        "[server]\nnbd = [\"unix:DIRECTORY/nbd.sock\"]\n[[device]]\nname = \"d0\"\n{TIERS}\n\
         [[vdisk]]\nname = \"v0\"\ndevice = \"d0\"\nsize = \"1MiB\"\n"
    );
    let text = text.replace("DIRECTORY", here.to_str().unwrap());
    let check = |text: &str| -> Vec<String> {
        let errors = check(&Config::parse(text).unwrap());
        errors.iter().map(ToString::to_string).collect()
    };
    let fill = |at: u64| {
        sparse(&here.join("fast"), 4 * MIB);
        let file = File::options().write(true).open(here.join("fast")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"somebody's", at).unwrap();
    };
    sparse(&here.join("fast"), 4 * MIB);
    sparse(&here.join("slow"), 4 * MIB);
    assert_eq!(check(&text), Vec::<String>::new());
    assert!(std::fs::read(here.join("fast")).unwrap().iter().all(|byte| *byte == 0));
    for (at, says) in
        [(0, "its first block is neither blank nor a map"), (65_536, "is blank, but not the")]
    {
        fill(at);
        let said = check(&text);
        assert_eq!(said.len(), 1, "{said:?}");
        contains(&said[0], &["/fast: ", says]);
        assert_eq!(refused(here, TIERS), said[0], "a start says the same");
    }
    sparse(&here.join("fast"), MIB);
    contains(&check(&text)[0], &["/fast: it has 1048576 bytes"]);
    // A map that is there is read.
    sparse(&here.join("fast"), 4 * MIB);
    serves(here, TIERS);
    assert_eq!(check(&text), Vec::<String>::new());
}
