//! The control API over TCP as commands, programs and strangers find it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::control::Served;
use crate::needs;
use crate::support::{finish, run};

/// A daemon with a page, its log, and the address of the page.
struct WithPage {
    served: Served,
    log: PathBuf,
    url: String,
}

impl WithPage {
    fn start(directory: &Path, words: &[&str]) -> Self {
        let log = directory.join("log");
        let words = [&["--control", "tcp:127.0.0.1:0", "--log", "json"], words].concat();
        let file = std::fs::File::create(&log).unwrap();
        let served = Served::start_with(directory, &words, file.into());
        let text = std::fs::read_to_string(&log).unwrap();
        let (_, url) = text.split_once("the page is at ").unwrap_or_else(|| panic!("{text}"));
        let url = url.split('/').take(3).collect::<Vec<_>>().join("/");
        Self { served, log, url }
    }
}

fn disktime(words: &[&str]) -> (Option<i32>, String) {
    let output = finish(Command::new(env!("CARGO_BIN_EXE_disktime")).args(words));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[test]
fn commands_over_tcp_show_a_token_and_changes_are_audited() {
    let directory = TempDir::new().unwrap();
    let daemon = WithPage::start(directory.path(), &[]);
    let tokens = format!("{}/tokens", daemon.served.state);
    let at = ["--url", &daemon.url, "--token-file", &tokens];
    let device = ["device", "add", "ram", "--back-end", "memory"];
    assert_eq!(disktime(&[&device[..], &at].concat()).0, Some(0));
    let create = ["vdisk", "create", "db", "--device", "ram", "--size", "8MiB", "--reserve", "30%"];
    assert_eq!(disktime(&[&create[..], &at].concat()).0, Some(0));
    let set = ["vdisk", "set", "db", "--reserve", "40%"];
    assert_eq!(disktime(&[&set[..], &at].concat()).0, Some(0));
    let (code, text) = disktime(&[&["top", "--once"][..], &at].concat());
    assert!(code == Some(0) && text.contains("db") && text.contains("40.0 %"), "{text}");
    let (_, text) = disktime(&[&["top", "--json"][..], &at].concat());
    let top: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(top["vdisks"][0]["reserve"], Value::from(0.4), "{top}");

    let (code, text) = disktime(&["vdisk", "list", "--url", &daemon.url]);
    assert!(code == Some(2) && text.contains("--token-file"), "{text}");
    let wrong = directory.path().join("wrong");
    std::fs::write(&wrong, "operate 0123456789abcdef0123456789abcdef").unwrap();
    let wrong = ["--url", &daemon.url, "--token-file", wrong.to_str().unwrap()];
    let (code, text) = disktime(&[&["vdisk", "list"][..], &wrong].concat());
    assert!(code == Some(2) && text.contains("log in"), "{text}");
    let (code, text) = disktime(&["vdisk", "list", "--url", "http://192.0.2.1:7070"]);
    assert!(code == Some(2) && text.contains("this machine only"), "{text}");

    let log = std::fs::read_to_string(&daemon.log).unwrap();
    let lines: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let changed = lines.iter().map(|it| &it["fields"]).find(|it| it["kind"] == "changed").unwrap();
    assert!(changed["who"].as_str().unwrap().starts_with("token operate from 127.0.0.1:"));
    assert!(changed["before"].as_str().unwrap().contains("30%"), "{changed}");
    assert!(changed["after"].as_str().unwrap().contains("40%"), "{changed}");
}

#[test]
fn beyond_this_machine_there_is_no_api_without_tls() {
    let directory = TempDir::new().unwrap();
    let state = directory.path().to_str().unwrap();
    for address in ["tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:7070"] {
        let (code, text) = disktime(&["serve", "--state", state, "--control", address]);
        assert!(code == Some(2) && text.contains("only under TLS"), "{address}: {text}");
    }
    let (code, text) = disktime(&["serve", "--state", state, "--control", "7070"]);
    assert!(code == Some(2) && text.contains("tcp:ADDRESS:PORT"), "{text}");
}

#[test]
fn with_a_certificate_the_page_speaks_tls_and_nothing_else() {
    needs!("with_a_certificate_the_page_speaks_tls_and_nothing_else", "openssl", "curl");
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("certificate.pem"), path("key.pem"));
    run(Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-keyout", &key, "-out", &certificate, "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"]));
    let words = ["--tls-certificate", &certificate, "--tls-key", &key];
    let daemon = WithPage::start(directory.path(), &words);
    assert!(daemon.url.starts_with("https://"), "{}", daemon.url);
    let page = run(Command::new("curl").args(["-sf", "--cacert", &certificate, &daemon.url]));
    assert!(page.contains("<title>disktime</title>"), "{page}");
    let plain = daemon.url.replace("https", "http");
    assert!(
        !finish(Command::new("curl").args(["-sf", "--max-time", "5", &plain])).status.success()
    );
}

/// A terminal that was left in its other screen and without an echo is of no use to anybody.
#[test]
fn top_puts_the_terminal_back_after_a_key_and_after_a_signal() {
    needs!("top_puts_the_terminal_back_after_a_key_and_after_a_signal", "script");
    let directory = TempDir::new().unwrap();
    let daemon = WithPage::start(directory.path(), &[]);
    let top = format!("{} top --state {}", env!("CARGO_BIN_EXE_disktime"), daemon.served.state);
    for (end, keys, code) in [("", "q", 0), ("timeout --foreground -s TERM 2 ", "", 124)] {
        let record = directory.path().join("record");
        let shown = record.to_str().unwrap();
        let keys = if keys.is_empty() {
            "sleep 5".to_owned()
        } else {
            format!("sleep 2; printf {keys}; sleep 2")
        };
        // `timeout` tells its own code.
        let command = format!("stty rows 24 cols 150; {end}{top}; echo CODE=$?; stty -a");
        let script = format!("({keys}) | script -qc '{command}' {shown} >/dev/null");
        finish(Command::new("sh").args(["-c", &script]));
        let text = std::fs::read_to_string(&record).unwrap();
        let (before, after) = text.rsplit_once("\x1b[?1049l").expect("it leaves the other screen");
        assert!(before.contains("\x1b[?1049h") && before.contains("virtual disk"), "{text}");
        assert!(after.contains(&format!("CODE={code}")), "{after}");
        assert!(after.contains(" echo ") && after.contains(" icanon "), "{after}");
    }
}
