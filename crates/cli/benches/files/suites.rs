//! Suites of others that a mount passes as its source does.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::Found;
use crate::mounts::{By, Place, run, runs, tell};

/// Operations of fsx, and the seed of their order: enough for each operation a hundred times.
const FSX: [&str; 4] = ["-N", "3000", "-S", "7"];

/// Terms of pjdfstest: abilities of Linux, the time between two changes in seconds, users that Debian has.
const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.02
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"]]
"#;

fn skipped(program: &str, remedy: &str) -> Found {
    Found::Skipped(format!("{program} is not installed: {remedy}"))
}

fn of(outcome: Result<String, String>, said: &str) -> Found {
    match outcome {
        Ok(_) => Found::Passed(said.to_owned()),
        Err(why) => Found::Failed(why),
    }
}

/// Reads, writes, truncations, maps and holes in any order, each read compared.
pub(crate) fn fsx(options: &[&str]) -> anyhow::Result<Found> {
    if !runs("fsx") {
        return Ok(skipped("fsx", "`cargo install fsx`, and have it in PATH"));
    }
    let place = Place::new(&["source", "mount"])?;
    let outcome = |at: &Path| tell(Command::new("fsx").args(FSX).arg(at.join("file")));
    // A source that fails it says nothing of the mount.
    if let Err(why) = outcome(&place.at("source"))? {
        return Ok(Found::Skipped(format!("the source fails: {why}")));
    }
    let _mount = place.mount(By::Us, "mount", options)?;
    Ok(of(outcome(&place.at("mount"))?, "3,000 operations"))
}

/// Each rule of POSIX for names, attributes and permissions.
pub(crate) fn pjdfstest(options: &[&str]) -> anyhow::Result<Found> {
    if !runs("pjdfstest") {
        return Ok(skipped("pjdfstest", "`cargo install pjdfstest`, and have it in PATH"));
    }
    let place = Place::new(&["source", "mount"])?;
    let terms = place.at("terms.toml");
    std::fs::write(&terms, PJDFSTEST)?;
    let outcome =
        |at: &Path| tell(Command::new("pjdfstest").arg("-c").arg(&terms).arg("-p").arg(at));
    if let Err(why) = outcome(&place.at("source"))? {
        return Ok(Found::Skipped(format!("the source fails: {why}")));
    }
    let _mount = place.mount(By::Us, "mount", options)?;
    let said = outcome(&place.at("mount"))?;
    let summary = |said: String| {
        let last = said.lines().rev().find(|line| line.starts_with("Summary")).map(str::to_owned);
        last.unwrap_or(said)
    };
    Ok(match said {
        Ok(said) => Found::Passed(summary(said)),
        Err(why) => Found::Failed(why),
    })
}

/// Random writes, in the kernel's cache and past it, whose checksums are read back.
pub(crate) fn fio(options: &[&str]) -> anyhow::Result<Found> {
    if !runs("fio") {
        return Ok(skipped("fio", "install fio"));
    }
    let place = Place::new(&["source", "mount"])?;
    let _mount = place.mount(By::Us, "mount", options)?;
    for direct in ["--direct=0", "--direct=1"] {
        let mut command = Command::new("fio");
        command.args(["--name=verify", "--rw=randwrite", "--bs=16k", "--size=64m", direct]);
        command.args([
            "--ioengine=psync",
            "--numjobs=2",
            "--verify=crc32c",
            "--do_verify=1",
            "--verify_state_save=0",
        ]);
        command.arg(format!("--directory={}", place.at("mount").display()));
        if let Err(why) = tell(&mut command)? {
            return Ok(Found::Failed(format!("{direct}: {why}")));
        }
    }
    Ok(Found::Passed("2 jobs of 64 MiB, cached and direct".to_owned()))
}

/// Each of stress-ng's exercises of a file system for a second, with its checks: calls with all their options,
/// from several processes at once, on one file and on many.
pub(crate) fn stress(options: &[&str]) -> anyhow::Result<Found> {
    if !runs("stress-ng") {
        return Ok(skipped("stress-ng", "install stress-ng"));
    }
    let place = Place::new(&["source", "mount"])?;
    // Its exit code is also that of exercises that a file system has no call for, which it leaves out.
    let outcome = |at: &Path| {
        let mut command = Command::new("stress-ng");
        command.args(["--class", "filesystem", "--sequential", "1", "--timeout", "1"]);
        command.args(["--verify", "--metrics-brief", "--temp-path"]).arg(at);
        let output = command.output().context("stress-ng can't be run")?;
        let said =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        let failed: Vec<_> = said.lines().filter(|line| line.contains(" fail: ")).collect();
        let ended = said.contains("successful run completed");
        anyhow::Ok(match failed.first() {
            None if ended => Ok(()),
            None => Err(format!("it ended with {}", output.status)),
            Some(first) => Err(format!("{} failures, first {first}", failed.len())),
        })
    };
    if let Err(why) = outcome(&place.at("source"))? {
        return Ok(Found::Skipped(format!("the source fails: {why}")));
    }
    let _mount = place.mount(By::Us, "mount", options)?;
    Ok(match outcome(&place.at("mount"))? {
        Ok(()) => Found::Passed("each exercise for a second".to_owned()),
        Err(why) => Found::Failed(why),
    })
}

/// The repository that this program was built from.
fn repository() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
}

/// A repository that is cloned, checked, changed and deleted.
pub(crate) fn git(options: &[&str]) -> anyhow::Result<Found> {
    if !runs("git") {
        return Ok(skipped("git", "install git"));
    }
    let place = Place::new(&["source", "mount"])?;
    let _mount = place.mount(By::Us, "mount", options)?;
    let clone = place.at("mount").join("clone");
    let git = |words: &[&str]| tell(Command::new("git").arg("-C").arg(&clone).args(words));
    let mut cloning = Command::new("git");
    cloning.args(["clone", "--quiet", "--no-hardlinks", repository()]).arg(&clone);
    if let Err(why) = tell(&mut cloning)? {
        return Ok(Found::Failed(why));
    }
    for words in [
        &["fsck", "--full", "--strict"][..],
        &["checkout", "--quiet", "-b", "bench", "HEAD~1"],
        &["gc", "--quiet", "--prune=now"],
        &["diff", "--exit-code", "--quiet"],
    ] {
        if let Err(why) = git(words)? {
            return Ok(Found::Failed(why));
        }
    }
    std::fs::remove_dir_all(&clone).context("the clone can't be deleted")?;
    Ok(Found::Passed("cloned, checked, branched, packed, deleted".to_owned()))
}

/// A tree of sources that is unpacked, compared with the same at the source, and deleted.
pub(crate) fn tree(options: &[&str]) -> anyhow::Result<Found> {
    if !runs("git") || !runs("tar") {
        return Ok(skipped("git or tar", "install both"));
    }
    let place = Place::new(&["source", "mount", "plain"])?;
    let archive = place.at("sources.tar");
    let mut pack = Command::new("git");
    pack.args(["-C", repository(), "archive", "--output"]).arg(&archive).arg("HEAD");
    run(&mut pack)?;
    let _mount = place.mount(By::Us, "mount", options)?;
    let (mounted, plain) = (place.at("mount").join("tree"), place.at("plain"));
    std::fs::create_dir(&mounted)?;
    for to in [&mounted, &plain] {
        let mut unpack = Command::new("tar");
        if let Err(why) = tell(unpack.arg("-xf").arg(&archive).arg("-C").arg(to))? {
            return Ok(Found::Failed(why));
        }
    }
    for of_mount in [&mounted, &place.at("source").join("tree")] {
        if let Err(why) = tell(Command::new("diff").arg("-r").args([&plain, of_mount]))? {
            return Ok(Found::Failed(why));
        }
    }
    let files = run(Command::new("find").arg(&mounted).args(["-type", "f"]))?.lines().count();
    std::fs::remove_dir_all(&mounted).context("the tree can't be deleted")?;
    let left = std::fs::read_dir(place.at("source"))?.count();
    if left > 0 {
        return Ok(Found::Failed(format!("{left} names are left at the source")));
    }
    Ok(Found::Passed(format!("{files} files unpacked, compared, deleted")))
}

/// Sources that are compiled on the mount, and found to need nothing the second time: times of change are right.
pub(crate) fn built(options: &[&str]) -> anyhow::Result<Found> {
    if !runs("git") || !runs("tar") || !runs("cargo") {
        return Ok(skipped("git, tar or cargo", "install all three"));
    }
    let place = Place::new(&["source", "mount"])?;
    let archive = place.at("sources.tar");
    let mut pack = Command::new("git");
    pack.args(["-C", repository(), "archive", "--output"]).arg(&archive).arg("HEAD");
    run(&mut pack)?;
    let _mount = place.mount(By::Us, "mount", options)?;
    let tree = place.at("mount").join("tree");
    std::fs::create_dir(&tree)?;
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&tree))?;
    let build = || {
        let mut command = Command::new("cargo");
        // It depends on no other crate: nothing is fetched.
        command.args(["build", "--offline", "--locked", "--verbose", "-p", "disktime-nbd"]);
        tell(command.current_dir(&tree).env("CARGO_TARGET_DIR", tree.join("target")))
    };
    if let Err(why) = build()? {
        return Ok(Found::Failed(why));
    }
    let library = tree.join("target/debug/libdisktime_nbd.rlib");
    let age = |path: &Path| anyhow::Ok(std::fs::metadata(path)?.modified()?);
    let made = age(&library)?;
    if let Err(why) = build()? {
        return Ok(Found::Failed(format!("the second time: {why}")));
    }
    if age(&library)? != made {
        return Ok(Found::Failed("it is built anew though nothing has changed".to_owned()));
    }
    std::fs::remove_dir_all(&tree).context("the tree can't be deleted")?;
    Ok(Found::Passed("crates/nbd compiled, and not compiled again".to_owned()))
}

/// A mount that is killed in the middle of writes is mounted again, and has all that was synchronised.
pub(crate) fn killed() -> anyhow::Result<Found> {
    const RECORDS: u32 = 500;
    let place = Place::new(&["source", "mount"])?;
    let mut mount = place.mount(By::Us, "mount", &[])?;
    let mut file = File::create(place.at("mount").join("log"))?;
    for number in 0..RECORDS {
        file.write_all(&number.to_le_bytes().repeat(1000))?;
    }
    file.sync_all()?;
    file.write_all(b"not synchronised")?;
    mount.kill()?;
    let refused = file.write_all(b"x").is_err();
    drop((file, mount));
    let mount = place.mount(By::Us, "mount", &[])?;
    let found = std::fs::read(place.at("mount").join("log"))?;
    drop(mount);
    let expected: Vec<u8> = (0..RECORDS).flat_map(|it| it.to_le_bytes().repeat(1000)).collect();
    if !refused || !found.starts_with(&expected) {
        return Ok(Found::Failed("data that were synchronised are not there".to_owned()));
    }
    Ok(Found::Passed("2 MB that were synchronised are there".to_owned()))
}
