//! A daemon that keeps its devices and virtual disks itself, and the commands that talk to it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use disktime_client::control::ControlApi;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::finish;

/// A `disktime serve` with a state directory; killed when it is dropped.
pub struct Served {
    pub state: String,
    child: Child,
}

impl Served {
    pub fn start(directory: &Path) -> Self {
        Self::start_with(directory, &[], Stdio::null())
    }

    /// With more words on its command line, and its log going there.
    pub fn start_with(directory: &Path, words: &[&str], log: Stdio) -> Self {
        let state = directory.join("state").to_str().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.args(["serve", "--state", &state]).args(words);
        command.stdout(Stdio::null()).stderr(log);
        let mut served = Self { child: command.spawn().unwrap(), state };
        let until = now() + Duration::from_secs(20);
        while !served.api().request("GET", "/v1", (None, None)).is_ok_and(|it| it.status == 200) {
            assert!(
                now() < until && served.child.try_wait().unwrap().is_none(),
                "it does not serve"
            );
            sleep(5);
        }
        served
    }

    pub fn api(&self) -> ControlApi {
        ControlApi::at(&Path::new(&self.state).join("control.sock"))
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        finish(command.args(words).args(["--state", &self.state, "--json"]))
    }

    /// Runs a command that exits so; answers its document.
    pub fn exits(&self, code: i32, words: &[&str]) -> Value {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text} {errors}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a daemon runs in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "nothing tells how far another process is")]
pub fn sleep(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

#[test]
fn commands_make_change_show_and_delete_and_a_restart_keeps() {
    let directory = TempDir::new().unwrap();
    let served = Served::start(directory.path());
    let back_end = format!("file:{}", directory.path().join("pool").display());
    served.exits(0, &["device", "add", "disk", "--back-end", &back_end, "--create"]);
    let create =
        ["vdisk", "create", "db", "--device", "disk", "--size", "8MiB", "--reserve", "30%"];
    let made = served.exits(0, &create);
    assert_eq!((&made["name"], &made["reserve"]), (&Value::from("db"), &Value::from(0.3)));
    served.exits(0, &create);
    let too_much =
        ["vdisk", "create", "x", "--device", "disk", "--size", "8MiB", "--reserve", "80%"];
    let refused = served.exits(2, &too_much);
    assert!(refused["error"].as_str().unwrap().contains("70.0000% would fit"), "{refused}");
    let plan = served.exits(1, &[&too_much[..], &["--plan"]].concat());
    assert_eq!(plan["fits"], Value::from(false));
    // A goal in place of the reservation, and its form.
    for (words, says) in [
        (&["--iops", "5"][..], "`vdisk set --reserve ''` takes it away"),
        (&["--iops", "5", "--reserve", ""], "no `profile`"),
        (&["--run", "64"], "run = \"64\": only beside `iops` or `bandwidth`"),
        (&["--request", "64KiB"], "request = \"64KiB\": only beside"),
        (&["--class", "background"], "reserve = \"30%\": class `background`"),
    ] {
        let refused = served.exits(2, &[&["vdisk", "set", "db"], words].concat());
        assert!(refused["error"].as_str().unwrap().contains(says), "{words:?}: {refused}");
    }
    served.exits(0, &["vdisk", "set", "db", "--reserve", "40%"]);
    served.exits(2, &["vdisk", "set", "db"]);
    served.exits(0, &["vdisk", "grow", "db", "--size", "16MiB"]);
    served.exits(2, &["vdisk", "grow", "db", "--size", "4MiB"]);
    served.exits(2, &["vdisk", "show", "nobody"]);
    for none in [&["show", "../state"][..], &["delete", ".."], &["set", ".", "--weight", "5"]] {
        let refused = served.exits(2, &[&["vdisk"], none].concat());
        let said = refused["error"].as_str().unwrap();
        assert!(said.contains("name = \".") && said.contains("1 to 64 letters"), "{said}");
    }
    // Range errors were hidden behind "unexpected argument".
    for (words, says) in [
        (&["set", "db", "--weight", "-1"][..], "1..=10000"),
        (&["set", "db", "--iops", "-5"], "-5 is not in 0.."),
        (&["grow", "db", "--size", "-1GiB"], "-1GiB"),
        (&["set", "db", "--reserve", "-5%"], "a share is 0% to 100%"),
    ] {
        let refused = served.exits(2, &[&["vdisk"], words].concat());
        assert!(refused["error"].as_str().unwrap().contains(says), "{words:?}: {refused}");
    }
    served.exits(2, &["device", "remove", "disk"]);
    let events = served.exits(0, &["events"]);
    let kinds: Vec<_> = events.as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["created", "created", "changed", "changed"]);
    served.exits(0, &["why", "db"]);
    served.kill();

    let served = Served::start(directory.path());
    let shown = served.exits(0, &["vdisk", "list"]);
    assert_eq!(shown[0]["reserve"], Value::from(0.4));
    assert_eq!(shown[0]["size_bytes"], Value::from(16 << 20));
    served.exits(0, &["vdisk", "delete", "db"]);
    served.exits(0, &["device", "remove", "disk"]);
    assert_eq!(served.exits(0, &["device", "list"]), Value::Array(Vec::new()));
    served.kill();
    let nobody = Served { state: directory.path().to_str().unwrap().to_owned(), child: idle() };
    nobody.exits(1, &["vdisk", "list"]);
}

#[test]
fn a_refused_change_is_its_callers_and_no_error_in_the_log() {
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("log");
    let to = std::fs::File::create(&log).unwrap();
    let served = Served::start_with(directory.path(), &[], to.into());
    served.exits(0, &["device", "add", "disk", "--back-end", "memory"]);
    for (name, reserve) in [("a", "50%"), ("b", "30%")] {
        let make = ["vdisk", "create", name, "--device", "disk", "--size", "1MiB"];
        served.exits(0, &[&make[..], &["--reserve", reserve]].concat());
    }
    let refused = served.exits(2, &["vdisk", "set", "b", "--reserve", "60%"]);
    assert!(refused["error"].as_str().unwrap().contains("50.0000% would fit"), "{refused}");
    served.kill();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("ERROR"), "{log}");
}

/// The exit code and the output of `disktime serve` with these words.
fn serve(words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let output = finish(command.arg("serve").args(words));
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// A state that is a file was `(io_uring of Linux 6.1 or newer is needed)`, and a check did not see it.
#[test]
fn a_state_that_is_no_directory_is_named_by_a_check_and_by_a_start() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("file"), "").unwrap();
    for state in [path("file"), path("file/below")] {
        let nbd = path("nbd.sock");
        let config = format!("[server]\nnbd = [\"unix:{nbd}\"]\nstate = \"{state}\"\n");
        std::fs::write(path("disktime.toml"), config).unwrap();
        for check in [&["--check"][..], &[]] {
            let (code, said) = serve(&[&["--config", &path("disktime.toml")], check].concat());
            let says = format!("server.state = \"{state}\": {} is no directory", path("file"));
            assert!(code == Some(2) && said.contains(&says), "{code:?}: {said}");
            let (code, said) = serve(&[&["--state", &state], check].concat());
            assert!(code == Some(2) && said.contains("no directory: name a"), "{code:?}: {said}");
        }
    }
}

#[test]
fn a_check_and_a_refused_start_make_no_state() {
    let directory = TempDir::new().unwrap();
    let state = directory.path().join("state");
    let at = state.to_str().unwrap();
    let (code, said) = serve(&["--state", at, "--check"]);
    assert!(code == Some(0) && said.contains("ok: 0 virtual disks"), "{code:?}: {said}");
    let (code, said) = serve(&["--state", at, "--control", "tcp:0.0.0.0:7070"]);
    assert!(code == Some(2) && said.contains("by --tls-certificate and"), "{code:?}: {said}");
    assert!(!state.exists());
    // A certificate that is not there was named twice in one line.
    let tls = ["--tls-certificate", "/no/such.pem", "--tls-key", "/no/such.key"];
    let (code, said) =
        serve(&[&["--state", at, "--control", "tcp:127.0.0.1:0"], &tls[..]].concat());
    assert_eq!((code, said.matches("/no/such.pem").count()), (Some(2), 1), "{said}");
    // A daemon's records, beside it.
    let served = Served::start(directory.path());
    served.exits(0, &["device", "add", "disk", "--back-end", "memory"]);
    served.exits(0, &["vdisk", "create", "db", "--device", "disk", "--size", "1MiB"]);
    served.kill();
    let (code, said) = serve(&["--state", at, "--check"]);
    assert!(code == Some(0) && said.contains("ok: 1 virtual disks"), "{code:?}: {said}");
}

/// A process that stands for a daemon that is not there.
fn idle() -> Child {
    Command::new("true").spawn().unwrap()
}

#[test]
fn a_second_daemon_on_one_state_is_refused_by_name() {
    let directory = TempDir::new().unwrap();
    let served = Served::start(directory.path());
    let mut second = Command::new(env!("CARGO_BIN_EXE_disktime"));
    let output = finish(second.args(["serve", "--state", &served.state]));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("another daemon uses this state"), "{errors}");
}

/// A daemon is killed in the middle of changes, again and again: each change is there or not, each one
/// that was acknowledged is there, and no file is of no virtual disk.
#[test]
fn kills_in_the_middle_of_changes_leave_each_change_whole_or_undone() {
    let kills = std::env::var("DISKTIME_KILLS").ok().and_then(|it| it.parse().ok()).unwrap_or(20);
    let directory = TempDir::new().unwrap();
    let pool = directory.path().join("pool");
    let served = Served::start(directory.path());
    let back_end = format!("file:{}", pool.display());
    served.exits(0, &["device", "add", "disk", "--back-end", &back_end, "--create"]);
    served.kill();
    // The last state that was acknowledged (no virtual disk, or one of this weight), and the one asked
    // for since.
    let (mut known, mut asked): (Option<u64>, Option<u64>) = (None, None);
    let (mut weight, mut kib) = (0, 1024);
    for round in 0..kills {
        let mut served = Served::start(directory.path());
        let api = served.api();
        let found = api.request("GET", "/v1/vdisks/db", (None, None)).unwrap();
        let found = (found.status == 200).then(|| {
            let vdisk: Value = serde_json::from_slice(&found.body).unwrap();
            vdisk["weight"].as_u64().unwrap()
        });
        assert!(found == known || found == asked, "round {round}: {found:?}, {known:?}, {asked:?}");
        assert_eq!(pool.join("db.raw").exists(), found.is_some(), "round {round}");
        known = found;
        let killer = std::thread::spawn({
            let pid = rustix::process::Pid::from_child(&served.child);
            let after = 1 + (round * 7919) % 60;
            move || {
                sleep(after);
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        });
        loop {
            weight = weight % 100 + 1;
            let (method, body, next) = match known {
                None => {
                    let body = format!(
                        "{{\"name\": \"db\", \"device\": \"disk\", \"size\": \"1MiB\", \
                         \"weight\": {weight}}}"
                    );
                    ("PUT", Some(body), Some(weight))
                }
                Some(_) if weight % 3 == 0 => ("DELETE", None, None),
                Some(_) => {
                    // A file that is longer than the record says kept the next daemon from its start.
                    kib += 4;
                    let body = format!("{{\"weight\": {weight}, \"size\": \"{kib}KiB\"}}");
                    ("PATCH", Some(body), Some(weight))
                }
            };
            asked = next;
            let body = body.as_ref().map(String::as_bytes);
            match api.request(method, "/v1/vdisks/db", (body, None)) {
                Ok(answer) => {
                    assert!((200..300).contains(&answer.status), "{method}: {answer:?}");
                    known = next;
                }
                Err(_) => break,
            }
        }
        killer.join().unwrap();
        served.child.wait().unwrap();
    }
}

/// Unmounts when it is dropped.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        let _gone_already = command.arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

/// A start on a file system that can't be written says which file, why, and what to do.
#[test]
fn a_start_on_a_read_only_state_directory_is_refused_with_the_remedy() {
    let directory = TempDir::new().unwrap();
    let at = directory.path().join("small");
    std::fs::create_dir(&at).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).stderr(Stdio::null());
        command.status().is_ok_and(|it| it.success())
    };
    if !mount("size=8m") {
        let name = "a_start_on_a_read_only_state_directory_is_refused_with_the_remedy";
        return crate::support::skip(name, "no file system can be mounted");
    }
    let mounted = Mounted(at.clone());
    Served::start(&at).kill();
    assert!(mount("remount,ro"));
    for state in ["state", "new"] {
        let state = at.join(state).to_str().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        let output = finish(command.args(["serve", "--state", &state, "--json"]));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        for said in [&*state, "Read-only file system", "can be written"] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
    drop(mounted);
}
