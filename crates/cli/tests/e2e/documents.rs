//! Commands of README, the tutorials and the how-to pages are run as a reader would: the blocks `sh` of
//! a page in their order, in one shell that ends at the first failure. Blocks that state `not-run:` are
//! left out, with what they need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::needs;
use crate::support::finish;

/// Times that a reader takes and a test has not.
const SHORTER: &[(&str, &str)] = &[
    ("--budget 60s", "--budget 2s"),
    ("--runtime=60", "--runtime=1"),
    // Longer than the buffer: nothing can be late before.
    ("--for 9s", "--for 5s"),
    ("--for 10s", "--for 6s"),
    ("--control tcp:127.0.0.1:7070", "--control tcp:127.0.0.1:0"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a page that are run, one after another, and how many there are.
fn script(page: &str) -> (String, usize) {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut script = String::new();
    let (mut runs, mut count) = (false, 0);
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(info) => {
                runs = !runs && info == "sh";
                count += usize::from(runs);
            }
            None if runs => script += &format!("{line}\n"),
            None => {}
        }
    }
    for (long, short) in SHORTER {
        script = script.replace(long, short);
    }
    (script, count)
}

/// Runs the blocks of a page; whatever they leave behind ends with the shell.
fn follow(page: &str, blocks: usize) -> String {
    let (script, count) = script(page);
    assert_eq!(count, blocks, "{page}: blocks that are run");
    let directory = TempDir::new().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_disktime")).parent().unwrap();
    let paths = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    // A daemon that a failed page leaves would hold the outputs open, and the test with them.
    let script = format!(
        "set -euo pipefail\nexport PATH={paths:?}\ntrap 'kill $(jobs -p) || :' ERR\n{script}"
    );
    let log = std::fs::File::create(directory.path().join("log")).unwrap();
    let mut shell = Command::new("timeout");
    shell.args(["50", "bash", "-c", &script]).current_dir(directory.path());
    shell.env("XDG_STATE_HOME", directory.path().join("home")).stdin(Stdio::null());
    let status = shell.stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
    let said = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(status.success(), "{page}: {status}\n{said}\n{script}");
    said
}

#[test]
fn readme_serves_and_attaches() {
    needs!("readme_serves_and_attaches", "nbdinfo");
    let said = follow("README.md", 1);
    assert!(said.lines().any(|line| line == "8589934592"), "{said}");
}

#[test]
fn the_tutorial_keeps_a_promise() {
    needs!("the_tutorial_keeps_a_promise", "fio");
    let said = follow("docs/tutorial.md", 6);
    assert!(said.contains("operate "), "{said}");
    assert!(said.contains("others had the device"), "{said}");
}

#[test]
fn the_recorder_is_never_late() {
    let said = follow("docs/tutorial-recorder.md", 4);
    assert!(said.contains("it had the device"), "{said}");
}

#[test]
fn how_to_choose_shares_says_what_fits() {
    let said = follow("docs/how-to/choose-shares.md", 1);
    assert!(said.contains("does not fit"), "{said}");
}

#[test]
fn how_to_watch_shows_a_virtual_disk() {
    let said = follow("docs/how-to/watch.md", 1);
    assert!(said.contains("db"), "{said}");
}

#[test]
fn how_to_recover_adopts_raw_files() {
    let said = follow("docs/how-to/recover.md", 1);
    assert!(said.contains("old/.disktime-pool"), "{said}");
}

/// Every page with blocks that are run is followed by a test of this file.
#[test]
fn no_page_with_commands_is_forgotten() {
    let own = include_str!("documents.rs");
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/how-to"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            pages.push(format!("{folder}/{name}"));
        }
    }
    for page in pages.iter().filter(|page| page.ends_with(".md")) {
        let (_, count) = script(page);
        let followed = own.contains(&format!("follow(\"{page}\", {count})"));
        assert!(count == 0 || followed, "{page} has {count} blocks that no test runs");
    }
}

/// The configuration of the package would be served, as would that of the machine of cloud-init, but for
/// its device.
#[test]
fn shipped_configurations_are_understood() {
    let directory = TempDir::new().unwrap();
    let place = directory.path().to_str().unwrap();
    let shipped = std::fs::read_to_string(root().join("packaging/debian/disktime.toml")).unwrap();
    let cloud = std::fs::read_to_string(root().join("examples/cloud-init/user-data.yaml")).unwrap();
    let inner = cloud.split("content: |\n").nth(1).unwrap().split("runcmd:").next().unwrap();
    let inner: String = inner.lines().map(|line| format!("{}\n", line.trim())).collect();
    std::fs::File::create(directory.path().join("vdb")).unwrap().set_len(16 << 30).unwrap();
    for (name, text) in [("shipped.toml", shipped), ("cloud.toml", inner)] {
        let text = text.replace("/run/disktime", place).replace("/var/lib/disktime", place);
        let text = text.replace("/dev/vdb", &format!("{place}/vdb"));
        let path = directory.path().join(name);
        std::fs::write(&path, &text).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_disktime"));
        let output = finish(check.args(["serve", "--check", "--config"]).arg(&path));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}\n{text}");
    }
}

/// Examples of other projects' formats are judged by those projects' own validators.
#[test]
fn the_domain_is_one_for_libvirt() {
    needs!("the_domain_is_one_for_libvirt", "virt-xml-validate");
    let domain = root().join("examples/libvirt/domain.xml");
    let output = finish(Command::new("virt-xml-validate").arg(domain).arg("domain"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn yaml_examples_are_documents_of_their_kinds() {
    let script = "import sys, yaml\n\
                  kinds = [d['kind'] for d in yaml.safe_load_all(open(sys.argv[1]))]\n\
                  assert kinds == ['StorageClass', 'PersistentVolume'], kinds\n\
                  data = yaml.safe_load(open(sys.argv[2]))\n\
                  assert sorted(data) == ['runcmd', 'write_files'], data\n";
    let mut python = Command::new("/usr/bin/python3");
    if !finish(Command::new("/usr/bin/python3").args(["-c", "import yaml"])).status.success() {
        crate::support::skip(
            "yaml_examples_are_documents_of_their_kinds",
            "python3-yaml is not installed",
        );
        return;
    }
    let examples = root().join("examples");
    python.args(["-c", script]).arg(examples.join("kubernetes/local-volume.yaml"));
    let output = finish(python.arg(examples.join("cloud-init/user-data.yaml")));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
