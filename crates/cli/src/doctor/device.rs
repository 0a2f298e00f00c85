//! A device: the kind of thing that a path is, and what it is good for.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::{Check, State};

/// File systems that matter here, by the numbers of statfs(2).
const FILE_SYSTEMS: &[(&str, u64)] = &[
    ("ext4", 0xEF53),
    ("xfs", 0x5846_5342),
    ("btrfs", 0x9123_683E),
    ("tmpfs", 0x0102_1994),
    ("fuse", 0x6573_5546),
    ("nfs", 0x6969),
    ("overlayfs", 0x794C_7630),
];
/// File systems whose writes with FUA are one durable write.
const DIRECT: &[&str] = &["ext4", "xfs", "btrfs"];

pub(super) fn checks(path: &Path) -> Vec<Check> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            let advice = "name a block device, a file or a directory that is there";
            return vec![Check::new("path", State::Missing, error.to_string(), advice)];
        }
    };
    let mut checks = vec![kind(&metadata)];
    if checks[0].state == State::Missing {
        return checks;
    }
    checks.push(access(path, &metadata));
    if metadata.file_type().is_block_device() {
        checks.extend(block(metadata.rdev(), |file| fs::read_to_string(file).ok()));
    } else {
        checks.push(file_system(path));
    }
    checks
}

fn kind(metadata: &Metadata) -> Check {
    let kind = metadata.file_type();
    if kind.is_block_device() {
        Check::ok("kind", "block device: an extent for each virtual disk; key `state` is needed")
    } else if kind.is_dir() {
        Check::ok("kind", "directory: a plain raw file for each virtual disk")
    } else if kind.is_file() {
        Check::ok(
            "kind",
            format!("image of {} bytes: an extent for each virtual disk", metadata.len()),
        )
    } else {
        let advice = "a back end is a block device, a file or a directory";
        Check::new("kind", State::Missing, "none of these", advice)
    }
}

/// Whether it can be read with direct I/O, and written; of a directory, whether its names can be.
fn access(path: &Path, metadata: &Metadata) -> Check {
    use rustix::fs::Access;

    if metadata.is_dir() {
        let listed = opened(fs::read_dir(path).map(|_| ()), "can be listed");
        let may = rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK);
        return match may {
            Err(error) if listed.state == State::Ok => {
                let found = format!("can be listed and not written to: {}", io::Error::from(error));
                Check::new("access", State::Note, found, "no virtual disk can be made here")
            }
            _ => listed,
        };
    }
    // The daemon opens it for both, also where all virtual disks are read-only.
    if let Err(error) = rustix::fs::access(path, Access::WRITE_OK) {
        return opened(Err(error.into()), "");
    }
    let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let direct = OpenOptions::new().read(true).custom_flags(flags).open(path);
    match direct {
        Ok(_) => Check::ok("access", "can be read and written, with direct I/O"),
        Err(_) => {
            opened(File::open(path).map(|_| ()), "can be read and written, without direct I/O")
        }
    }
}

fn opened(result: io::Result<()>, found: &str) -> Check {
    match result {
        Ok(()) => Check::ok("access", found),
        Err(error) => {
            let advice = "run the daemon as a user who may open it: block devices are usually of \
                          group `disk`";
            Check::new("access", State::Missing, error.to_string(), advice)
        }
    }
}

fn file_system(path: &Path) -> Check {
    let Ok(found) = rustix::fs::statfs(path) else {
        return Check::new("file system", State::Note, "unknown", "");
    };
    let magic = u64::try_from(found.f_type).unwrap_or(0);
    judge_file_system(
        FILE_SYSTEMS.iter().find(|(_, known)| *known == magic).map_or("other", |it| it.0),
    )
}

fn judge_file_system(name: &str) -> Check {
    let advice = match name {
        "tmpfs" => "its data are gone after a loss of power, and it has no time of its own",
        _ => "a write with FUA is followed by fdatasync here: durable, and slower",
    };
    Check::unless(DIRECT.contains(&name), State::Note, "file system", (name.to_owned(), advice))
}

/// The kernel's word on a block device, by its number.
fn block(number: u64, read: impl Fn(&str) -> Option<String>) -> Vec<Check> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let queue = |name: &str| {
        // A partition has the queue of its disk.
        let own = read(&format!("/sys/dev/block/{major}:{minor}/queue/{name}"));
        let text = own.or_else(|| read(&format!("/sys/dev/block/{major}:{minor}/../queue/{name}")));
        text.map(|it| it.trim().to_owned())
    };
    vec![
        medium(queue("rotational").as_deref()),
        write_cache(queue("write_cache").as_deref()),
        scheduler(queue("scheduler").as_deref()),
    ]
}

fn medium(rotational: Option<&str>) -> Check {
    match rotational {
        Some("1") => Check::ok(
            "medium",
            "rotating: shares, goals, firm rates and latency bounds, by a profile",
        ),
        Some(_) => {
            Check::ok("medium", "not rotating: shares and goals; latency bounds as far as measured")
        }
        None => {
            Check::new("medium", State::Note, "unknown", "the kernel says nothing of its queue")
        }
    }
}

fn write_cache(kind: Option<&str>) -> Check {
    let advice = "firm rates of writers pay a flush for each turn; writes that the cache takes come to \
                  the medium in other streams' slices (docs/limits.md)";
    let found = kind.unwrap_or("unknown").to_owned();
    Check::unless(kind == Some("write through"), State::Note, "write cache", (found, advice))
}

fn scheduler(list: Option<&str>) -> Check {
    let chosen =
        list.and_then(|it| it.split_once('[')?.1.split_once(']')).map_or("unknown", |it| it.0);
    let advice = "the kernel orders requests again below disktime: `echo none > \
                  /sys/block/NAME/queue/scheduler`";
    Check::unless(chosen == "none", State::Note, "scheduler", (chosen.to_owned(), advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_device_is_described_by_its_queue() {
        let read = |file: &str| {
            let text = match file.strip_prefix("/sys/dev/block/8:16/queue/")? {
                "rotational" => "1\n",
                "write_cache" => "write back\n",
                "scheduler" => "none [mq-deadline] bfq\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let found = block(rustix::fs::makedev(8, 16), read);
        assert!(found[0].found.starts_with("rotating"), "{found:?}");
        assert_eq!((found[1].state, found[1].found.as_str()), (State::Note, "write back"));
        assert_eq!((found[2].state, found[2].found.as_str()), (State::Note, "mq-deadline"));
        assert_eq!(scheduler(Some("[none] bfq")).state, State::Ok);
        assert_eq!(write_cache(Some("write through")).state, State::Ok);
    }

    #[test]
    fn a_partition_has_the_queue_of_its_disk() {
        let read = |file: &str| {
            (file == "/sys/dev/block/8:17/../queue/rotational").then(|| "0\n".to_owned())
        };
        let found = block(rustix::fs::makedev(8, 17), read);
        assert!(found[0].found.starts_with("not rotating"), "{found:?}");
    }

    #[test]
    fn files_directories_and_others_are_told_apart() {
        let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
        let checks = checks(directory.path());
        assert!(checks[0].found.starts_with("directory"), "{checks:?}");
        assert!(checks.iter().all(|check| check.state != State::Missing), "{checks:?}");
        assert_eq!(super::checks(Path::new("/dev/null"))[0].state, State::Missing);
        assert_eq!(judge_file_system("fuse").state, State::Note);
        assert_eq!(judge_file_system("xfs").state, State::Ok);
    }
}
