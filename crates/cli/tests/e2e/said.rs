//! The output of commands: documents of `cat` and `miss`, nothing beside a document, and advice that holds.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::finish;

fn disktime() -> Command {
    Command::new(env!("CARGO_BIN_EXE_disktime"))
}

#[expect(clippy::disallowed_methods, reason = "nothing tells how far another process is")]
fn wait(millis: u64) {
    std::thread::sleep(std::time::Duration::from_millis(millis));
}

fn interrupt(child: &Child) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

fn document(text: &[u8]) -> Value {
    serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

#[test]
fn cat_has_its_document_on_standard_error() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("film");
    std::fs::write(&file, [7; 5000]).unwrap();
    let output = finish(disktime().args(["cat", "--json"]).arg(&file).arg(&file));
    assert_eq!((output.status.code(), output.stdout), (Some(0), vec![7; 10_000]));
    let one = json!({ "file": file.to_str(), "bytes": 5000 });
    assert_eq!(document(&output.stderr), json!([one, one]));
    let gone = directory.path().join("gone");
    let output = finish(disktime().args(["cat", "--json"]).arg(&file).arg(gone));
    assert_eq!((output.status.code(), output.stdout), (Some(2), vec![7; 5000]));
    let said = document(&output.stderr);
    assert!(said["error"].as_str().unwrap().contains("No such file"), "{said}");
    assert_eq!(said["exit"], 2);
}

/// A demo under --json told a reader that was not there how it went.
#[test]
fn a_demo_says_nothing_beside_its_document() {
    let directory = TempDir::new().unwrap();
    for scene in ["split", "recorder", "video"] {
        let mut demo = disktime();
        demo.args(["demo", "--json", "--scene", scene]).env("TMPDIR", directory.path());
        let child = demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Everything that it says of itself comes before its first load has run for a second.
        wait(2000);
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (&*said, output.status.code()),
            ("disktime: interrupted\n", Some(130)),
            "{scene}"
        );
        assert_eq!(document(&output.stdout)["exit"], 130);
    }
}

/// The advice to make one by a command was refused by the daemon whose configuration says what there is.
#[test]
fn an_empty_list_says_how_to_have_an_entry() {
    let directory = TempDir::new().unwrap();
    let [config, nbd, control] =
        ["disktime.toml", "nbd.sock", "control.sock"].map(|it| directory.path().join(it));
    let text = format!(
        "[server]\nnbd = [\"unix:{}\"]\ncontrol = \"unix:{}\"\n[[device]]\nname = \"ram\"\nback_end = \"memory\"\n",
        nbd.display(),
        control.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut daemon = disktime().args(["serve", "--config"]).arg(&config).spawn().unwrap();
    for _ in 0..200 {
        if control.exists() {
            break;
        }
        wait(50);
    }
    let url = format!("unix:{}", control.display());
    let output = finish(disktime().args(["vdisk", "list", "--url", &url]));
    interrupt(&daemon);
    daemon.wait().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_file = said.starts_with("no virtual disks; ") && said.contains("edit that file");
    assert!(of_file && !said.contains("vdisk create"), "{said}");
}

/// Tables without a row, and success.
#[test]
fn a_bench_that_measures_nothing_fails() {
    let mut bench = disktime();
    bench.args(["bench", "insulation", "--live", "--on", "nbdkit", "--for", "100ms"]);
    let output = bench.env("PATH", "/nowhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("left out: ") && said.contains("nothing was measured"), "{said}");
    assert!(output.stdout.is_empty());
}
