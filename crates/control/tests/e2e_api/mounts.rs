//! Mounts of a device, as the API, metrics and the page show them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use disktime_api::{History, Mount};
use disktime_config::read_contract;
use disktime_core::Kind;
use disktime_server::guest_messages::{Ask, Call, NotGranted, Told};
use disktime_server::guests::{GuestLine, GuestTerms};

use super::*;

/// The directory that the mount says it is at; its name needs escapes in `/metrics`.
pub(crate) const AT: &str = "/mnt/\"media\"";

/// A guest like a mount, which moves no bytes.
pub(crate) struct Guest(GuestLine);

impl Guest {
    pub(crate) fn of(state: &Path) -> Self {
        let (state, device, name) = (state.to_owned(), "disk".to_owned(), AT.to_owned());
        Self(GuestLine::connect(&GuestTerms { state, device, medium: 0, name }).unwrap())
    }

    /// Asks for something that is answered.
    pub(crate) fn ask(&self, ask: &Ask) -> Result<(), NotGranted> {
        self.0.say(ask).unwrap();
        match self.0.hear().unwrap() {
            Told::Answer(_, outcome) => outcome,
            told => panic!("{told:?}"),
        }
    }

    pub(crate) fn add(&self, stream: u32, contract: &str) -> Result<(), NotGranted> {
        let contract = read_contract(contract).unwrap();
        self.ask(&Ask::Add(Call { call: 1, stream }, contract, format!("/srv/media/{stream}")))
    }

    /// Writes 4 KiB in a stream.
    pub(crate) fn write(&self, stream: u32) {
        self.write_during(stream, || {});
    }

    /// Writes 4 KiB in a stream, which takes as long as something else.
    pub(crate) fn write_during(&self, stream: u32, something: impl FnOnce()) {
        let (kind, offset, bytes) = (Kind::Write, 0, 4096);
        self.0.say(&Ask::Request { request: 1, stream, kind, offset, bytes }).unwrap();
        let Told::Turn(turn) = self.0.hear().unwrap() else { panic!("no turn") };
        something();
        self.0.say(&Ask::Ended { turn: turn.turn, done: true }).unwrap();
        assert_eq!(self.0.hear().unwrap(), Told::Over { request: 1, taken: true });
    }
}

/// The answer of the API once it is as it should be: looks are made each second.
pub(crate) fn when<T: DeserializeOwned>(
    daemon: &Daemon,
    path: &str,
    is_so: impl Fn(&T) -> bool,
) -> T {
    let until = disktime_server::clock::now() + disktime_core::Duration::from_secs(20);
    loop {
        let found: T = read(&daemon.ask("GET", path, None));
        if is_so(&found) {
            return found;
        }
        assert!(disktime_server::clock::now() < until, "{path} is not as it should be");
        std::thread::yield_now();
    }
}

/// A mount's time was nobody's: neither in sums nor in the past nor on the page. Sums over the streams that
/// are there now would fall whenever a file is closed.
#[test]
fn sums_of_a_mount_never_fall_and_its_past_is_beside_virtual_disks() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&directory.path().join("pool"));
    let guest = Guest::of(&state);
    guest.add(0, "weight=50").unwrap();
    guest.add(1, "reserve=30%").unwrap();
    guest.add(2, "class=background").unwrap();
    let refused = guest.add(3, "reserve=80%");
    assert_eq!(refused, Err(NotGranted::Overbooked(1_100_000, 1_000_000)));
    guest.ask(&Ask::Late(Call { call: 1, stream: 1 })).unwrap();
    (0..3).for_each(|stream| guest.write(stream));
    let sums = || -> Vec<Mount> { read(&daemon.ask("GET", "/v1/mounts/sums", None)) };
    let before = sums().remove(0);
    assert_eq!((before.name.as_str(), before.device.as_str()), (AT, "disk"));
    assert_eq!((before.granted, before.refused, before.reserve), (3, 1, 0.3));
    let streams: Vec<(&str, usize)> =
        before.streams.iter().map(|(class, count)| (&**class, *count)).collect();
    assert_eq!(streams, [("background", 1), ("best-effort", 2)]);
    let figures = &before.figures;
    assert_eq!(
        (figures.requests, figures.bytes, figures.promises.deadlines_missed),
        (3, 3 << 12, 1)
    );
    assert!(figures.charged_ns > 0, "{figures:?}");
    // Files are closed: what they got stays in the sums.
    for stream in [1, 2] {
        guest.ask(&Ask::Remove(Call { call: 1, stream })).unwrap();
    }
    let after = sums().remove(0);
    assert_eq!((after.reserve, after.streams.len()), (0.0, 1));
    assert_eq!((after.figures.requests, after.figures.promises.deadlines_missed), (3, 1));
    assert!(after.figures.charged_ns >= figures.charged_ns, "{after:?}");
    // Each second of it is kept, and nothing of it counts as a virtual disk's.
    let past = when(&daemon, "/v1/devices/disk/history", |it: &History| {
        guest.write(0);
        it.mounts.iter().any(|track| track.got.iter().any(|got| *got > 0.0))
    });
    assert_eq!((past.vdisks.len(), past.mounts.len(), &*past.mounts[0].name), (0, 1, AT));
    let requests: u32 = past.service.iter().flatten().sum();
    let sent = sums().remove(0).figures.requests;
    assert!((1..=sent).contains(&u64::from(requests)), "{requests} of {sent}: each counts once");
    // A second connection of the same mount is no second mount: metrics would have its name twice.
    let again = Guest::of(&state);
    again.add(0, "weight=50").unwrap();
    again.write(0);
    let both = sums();
    assert_eq!((both.len(), both[0].granted, both[0].figures.requests), (1, 4, sent + 1));
    drop((guest, again));
    when(&daemon, "/v1/mounts/sums", Vec::<Mount>::is_empty);
}

/// The page has a table of mounts, and their tracks are in the band of the device's time.
#[test]
fn the_page_shows_mounts_in_a_table_and_in_the_band() {
    let name = "the_page_shows_mounts_in_a_table_and_in_the_band";
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip(name, "node is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&directory.path().join("pool"));
    let draw = |live: Value| {
        let answer = |path: &str| -> Value { read(&daemon.ask("GET", path, None)) };
        let known = json!({
            "devices": answer("/v1/devices"), "vdisks": answer("/v1/vdisks"),
            "mounts": answer("/v1/mounts/sums"), "history": answer("/v1/devices/disk/history"), "live": live,
        });
        drawn(directory.path(), &known)
    };
    let idle = json!({"at_ms": 1, "name": "disk", "reserved": 0.0, "busy": 0.0, "spare": 0.0, "held": 0.0,
        "vdisks": [], "mounts": [], "queue": [], "service": []});
    when(&daemon, "/v1/devices/disk/history", |it: &History| !it.at_ms.is_empty());
    let page = draw(idle.clone());
    assert!(page.contains("Virtual disks") && !page.contains("Mounts"), "{page}");
    let guest = Guest::of(&state);
    guest.add(0, "weight=50").unwrap();
    guest.add(1, "reserve=25%").unwrap();
    guest.add(2, "reserve=90%").unwrap_err();
    when(&daemon, "/v1/devices/disk/history", |it: &History| {
        guest.write(1);
        it.mounts.iter().any(|track| track.got.iter().any(|got| *got > 0.001))
    });
    let mut live = idle;
    live["mounts"] = json!([{"name": AT, "got": 0.125, "reserved": 0.25, "utilization": 0.125,
        "wanting": 0.5, "iops": 77.0, "bytes_per_second": 1e6}]);
    let page = draw(live);
    for shown in [
        &format!("<td>{}{AT}</td>", "<span class=\"swatch\"></span>"),
        "<td data-label=\"got\">12.5 %</td>",
        "<td data-label=\"reserved\">25.0 %</td>",
        "<td data-label=\"IOPS\">77.0</td>",
        "<td data-label=\"streams\">2</td>",
        "<td data-label=\"contracts\">2</td>",
        "<td data-label=\"refused\">1</td>",
        &format!("tracks: {AT}\n"),
    ] {
        assert!(page.contains(shown), "{shown} is not in {page}");
    }
}

/// The view of device `disk` as HTML, drawn by the page's own scripts.
fn drawn(directory: &Path, known: &Value) -> String {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let web = directory.join("web");
    std::fs::create_dir_all(&web).unwrap();
    for file in std::fs::read_dir(crate_directory.join("web")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "js") {
            std::fs::copy(&path, web.join(path.file_name().unwrap())).unwrap();
        }
    }
    std::fs::write(web.join("package.json"), "{\"type\": \"module\"}").unwrap();
    let mut node = Command::new("node");
    node.arg(crate_directory.join("tests/e2e_api/page.mjs")).arg(&web);
    let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(known.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
