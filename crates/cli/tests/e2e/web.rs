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

/// A certificate for this machine that vouches for itself, and its key, as files.
fn certificate(directory: &Path, name: &str) -> (String, String) {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned).to_vec();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let path = |end: &str| directory.join(format!("{name}.{end}")).to_str().unwrap().to_owned();
    let (certificate, key) = (path("pem"), path("key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// Commands spoke no TLS: a token for a daemon elsewhere had to go through a tunnel.
#[test]
fn commands_speak_tls_with_a_daemon_whose_certificate_is_vouched_for() {
    let directory = TempDir::new().unwrap();
    let (ours, key) = certificate(directory.path(), "ours");
    let (foreign, _) = certificate(directory.path(), "foreign");
    let words = ["--tls-certificate", &ours, "--tls-key", &key];
    let daemon = WithPage::start(directory.path(), &words);
    let tokens = format!("{}/tokens", daemon.served.state);
    let by_name = daemon.url.replace("127.0.0.1", "localhost");
    let ask = |url: &str, ca: &str, tokens: &str| {
        disktime(&["device", "list", "--json", "--url", url, "--ca", ca, "--token-file", tokens])
    };
    let add = ["device", "add", "ram", "--back-end", "memory"];
    let at = ["--url", &daemon.url, "--ca", &ours, "--token-file", &tokens];
    assert_eq!(disktime(&[&add[..], &at].concat()).0, Some(0));
    for url in [&daemon.url, &by_name, &format!("{}/", daemon.url)] {
        let (code, text) = ask(url, &ours, &tokens);
        assert!(code == Some(0) && text.contains("\"ram\""), "{url}: {text}");
    }
    let (code, text) = ask(&daemon.url, &foreign, &tokens);
    assert!(code == Some(1) && text.contains("certificate"), "{text}");
    let port = daemon.url.rsplit(':').next().unwrap();
    let (code, text) = ask(&format!("https://127.0.0.2:{port}"), &ours, &tokens);
    assert_eq!(code, Some(1), "{text}");
    let (code, text) = ask(&daemon.url, &tokens, &tokens);
    assert!(code == Some(2) && text.contains("no certificate is in it"), "{text}");
    let (code, text) = ask("https://127.0.0.1", &ours, &tokens);
    assert!(code == Some(2) && text.contains("HOST:PORT"), "{text}");
    let without = ["device", "list", "--url", &daemon.url, "--token-file", &tokens];
    let (code, text) = disktime(&without);
    assert!(code == Some(2) && text.contains("--ca"), "{text}");

    let wrong = directory.path().join("wrong");
    let wrong = wrong.to_str().unwrap();
    std::fs::write(wrong, "operate 0123456789abcdef0123456789abcdef\n").unwrap();
    let (code, text) = ask(&daemon.url, &ours, wrong);
    assert!(code == Some(2) && text.contains("log in"), "{text}");
    // A token that has ended does not count, from the moment on at which the file says so.
    let text = std::fs::read_to_string(&tokens).unwrap();
    let all = text.lines().map(|line| match line.split(' ').next() {
        Some("operate" | "view") => format!("{line} until 2020-01-01\n"),
        _ => format!("{line}\n"),
    });
    std::fs::write(wrong, &text).unwrap();
    std::fs::write(&tokens, all.collect::<String>()).unwrap();
    let (code, text) = ask(&daemon.url, &ours, wrong);
    assert!(code == Some(2) && text.contains("has expired"), "{text}");
}

/// Under TLS a browser's cookie is for TLS alone, and a page of another site can't use it.
#[test]
fn under_tls_a_session_serves_its_own_page_alone() {
    needs!("under_tls_a_session_serves_its_own_page_alone", "curl");
    let directory = TempDir::new().unwrap();
    let (ours, key) = certificate(directory.path(), "ours");
    let words = ["--tls-certificate", &ours, "--tls-key", &key];
    let daemon = WithPage::start(directory.path(), &words);
    let text = std::fs::read_to_string(format!("{}/tokens", daemon.served.state)).unwrap();
    let token = text.lines().find_map(|line| line.strip_prefix("operate ")).unwrap();
    let curl = |target: &str, words: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-si", "--max-time", "10", "--cacert", &ours]).args(words);
        let output = finish(command.arg(format!("{}{target}", daemon.url)));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let status = text.split(' ').nth(1).and_then(|it| it.parse::<u16>().ok());
        (status.unwrap_or_else(|| panic!("{target}: {text}")), text)
    };
    let origin = format!("origin: {}", daemon.url);
    let login = format!("{{\"token\": \"{token}\"}}");
    let login = ["-H", "content-type: application/json", "-d", &login, "-H"];
    assert_eq!(
        curl("/v1/session", &[&login[..], &["origin: https://evil.example"]].concat()).0,
        403
    );
    let (status, text) = curl("/v1/session", &[&login[..], &[&origin]].concat());
    let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with("set-cookie:"));
    let cookie = line.unwrap_or_else(|| panic!("{status}: {text}")).split_once(": ").unwrap().1;
    assert!(cookie.starts_with("__Host-disktime="), "{cookie}");
    for part in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{part}: {cookie}");
    }
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    let put = [
        "-X",
        "PUT",
        "-H",
        "content-type: application/json",
        "-d",
        "{\"name\": \"ram\", \"back_end\": \"memory\"}",
        "-H",
    ];
    let put = |headers: &[&str]| curl("/v1/devices/ram", &[&put[..], headers].concat()).0;
    assert_eq!(put(&[&cookie]), 403, "a browser says where a change comes from");
    assert_eq!(put(&[&cookie, "-H", "origin: https://evil.example"]), 403);
    assert_eq!(put(&[&cookie, "-H", &origin.replace("https", "http")]), 403);
    assert_eq!(put(&[&cookie, "-H", &origin]), 201);
    assert_eq!(put(&[&origin]), 401);
    let site = ["-H", &cookie, "-H", "sec-fetch-site: cross-site"];
    assert_eq!(curl("/v1/vdisks", &site).0, 403);
    assert_eq!(curl("/v1/vdisks", &["-H", &cookie]).0, 200);
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
        assert!(before.contains("\x1b[?1049h") && before.contains("reserved"), "{text}");
        assert!(after.contains(&format!("CODE={code}")), "{after}");
        assert!(after.contains(" echo ") && after.contains(" icanon "), "{after}");
    }
}
