//! The control API with a real server, real sockets and real files.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod mounts;
mod moves;
mod room;
mod waits;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use disktime_api::{Event, Mount, Plan, Problem, Vdisk, VdiskSpec};
use disktime_client::control::{Answer, ControlApi};
use disktime_client::{Connection, Uri};
use disktime_control::{
    Addresses, Ask, Control, Phase, Sockets, Store, Tokens, Truth, Web, config_of, settled,
};
use disktime_server::{Config, Server, bind_control};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A daemon without a command line: the thread that has the server answers questions.
struct Daemon {
    api: ControlApi,
    page: std::net::SocketAddr,
    tokens: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn of_state(state: &Path) -> Self {
        let store = Store::open(state).unwrap();
        let nbd = [format!("unix:{}", state.join("nbd.sock").display())];
        let addresses = Addresses { nbd: &nbd, ..Addresses::default() };
        let config = config_of(&settled(&store, state).unwrap(), state, &addresses).unwrap();
        Self::start(config, Truth::State(store))
    }

    fn start(config: Config, truth: Truth) -> Self {
        let path = config.control.clone().unwrap();
        let mut server = Server::start(config).unwrap();
        let listener = bind_control(&path).unwrap();
        let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        web.set_nonblocking(true).unwrap();
        let page = web.local_addr().unwrap();
        let tokens = Arc::new(Tokens::of_file(&path.with_file_name("tokens")).unwrap());
        let web = Some(Web { listener: web, tls: None, tokens });
        let sockets = Sockets { unix: Some((listener, path.as_path())), web };
        let (control, mut plane) = Control::start(sockets, truth).unwrap();
        plane.recover(&mut server).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            let asks = control.asks();
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(ask) = asks.recv_timeout(Duration::from_millis(5)) {
                    let asks = std::iter::once(ask).chain(asks.try_iter()).collect();
                    Ask::answer(asks, &mut server, &mut plane);
                }
            }
            drop(control);
            server.shutdown().unwrap();
        };
        let tokens = path.with_file_name("tokens");
        Self {
            api: ControlApi::at(&path),
            page,
            tokens,
            stop,
            thread: Some(std::thread::spawn(run)),
        }
    }

    fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Answer {
        self.ask_if(method, target, body, None)
    }

    fn ask_if(
        &self,
        method: &str,
        target: &str,
        body: Option<&Value>,
        tag: Option<&str>,
    ) -> Answer {
        let body = body.map(|body| serde_json::to_vec(body).unwrap());
        self.api.request(method, target, (body.as_deref(), tag)).unwrap()
    }

    fn add_pool(&self, path: &Path) {
        let back_end = format!("file:{}", path.display());
        let spec = json!({"name": "disk", "back_end": back_end, "create": true});
        assert_eq!(self.ask("PUT", "/v1/devices/disk", Some(&spec)).status, 201);
    }

    fn connect(&self, vdisk: &str) -> Connection {
        let answer = self.ask("GET", &format!("/v1/vdisks/{vdisk}"), None);
        let vdisk: Vdisk = read(&answer);
        Connection::open(&vdisk.uris[0].parse::<Uri>().unwrap()).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|it| it.is_ok()));
    }
}

fn read<T: DeserializeOwned>(answer: &Answer) -> T {
    let text = String::from_utf8_lossy(&answer.body);
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn db(more: Value) -> Value {
    let mut spec = json!({"name": "db", "device": "disk", "size": "1MiB"});
    let more: serde_json::Map<String, Value> = serde_json::from_value(more).unwrap();
    spec.as_object_mut().unwrap().extend(more);
    spec
}

#[test]
fn virtual_disks_come_change_and_go_while_another_one_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let other = json!({"name": "other", "device": "disk", "size": "1MiB", "reserve": "20%"});
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/other", Some(&other)).status, 201);
    let mut beside = daemon.connect("other");
    beside.write(0, &[9; 4096], false).unwrap();
    for round in 0..3_u8 {
        assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 201);
        let mut client = daemon.connect("db");
        let mut bytes = [1; 4096];
        client.read(8192, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4096], "round {round}: the data of the one before");
        client.write(8192, &[7; 4096], false).unwrap();
        client.flush().unwrap();
        let set = json!({"reserve": "60%", "size": "2MiB"});
        let changed = daemon.ask("PATCH", "/v1/vdisks/db", Some(&set));
        assert_eq!(changed.status, 200, "{:?}", String::from_utf8_lossy(&changed.body));
        let mut grown = daemon.connect("db");
        assert_eq!(grown.export().size_bytes, 2 << 20);
        grown.write((2 << 20) - 4096, &[5; 4096], false).unwrap();
        let vdisk: Vdisk = read(&daemon.ask("GET", "/v1/vdisks/db", None));
        assert!((vdisk.contract.reserve - 0.6).abs() < 1e-9, "{vdisk:?}");
        assert_eq!(daemon.ask("DELETE", "/v1/vdisks/db", None).status, 204);
        assert!(client.read(0, &mut bytes).is_err(), "it is deleted");
        beside.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [9; 4096]);
        assert!(!directory.path().join("pool/db.raw").exists());
    }
    assert_eq!(daemon.ask("DELETE", "/v1/devices/disk", None).status, 409);
}

#[test]
fn a_refusal_says_what_would_fit_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let other = json!({"name": "other", "device": "disk", "size": "1MiB", "reserve": "70%"});
    daemon.ask("PUT", "/v1/vdisks/other", Some(&other));
    let plan = daemon.ask("POST", "/v1/plan", Some(&db(json!({"reserve": "40%"}))));
    let plan: Plan = read(&plan);
    assert!(!plan.fits && (plan.would_fit - 0.3).abs() < 1e-6, "{plan:?}");
    let refused = daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({"reserve": "40%"}))));
    let problem: Problem = read(&refused);
    assert_eq!(refused.status, 422);
    assert!(problem.would_fit.is_some_and(|room| (room - 0.3).abs() < 1e-6), "{problem:?}");
    assert!(!directory.path().join("pool/db.raw").exists());
    assert_eq!(daemon.ask("GET", "/v1/vdisks/db", None).status, 404);
    assert_eq!(
        daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({"reserve": "30%"})))).status,
        201
    );
    let raised = daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"reserve": "31%"})));
    let problem: Problem = read(&raised);
    assert_eq!(raised.status, 422);
    assert!(problem.would_fit.is_some_and(|room| (room - 0.3).abs() < 1e-6), "{problem:?}");
    let vdisk: Vdisk = read(&daemon.ask("GET", "/v1/vdisks/db", None));
    assert!((vdisk.contract.reserve - 0.3).abs() < 1e-9, "{vdisk:?}");
}

/// A parent's reservation holds for its children, also after a restart at which a child's name comes first.
#[test]
fn children_come_after_their_parent_and_go_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&directory.path().join("pool"));
    let tenant = json!({"name": "tenant", "device": "disk", "size": "1MiB", "reserve": "60%"});
    let child = |reserve: &str| db(json!({"parent": "tenant", "reserve": reserve}));
    let put = |spec: &Value| daemon.ask("PUT", "/v1/vdisks/db", Some(spec));
    let early = put(&child("10%"));
    assert_eq!(early.status, 422);
    assert!(read::<Problem>(&early).detail.contains("parent = \"tenant\": name a virtual disk"));
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/tenant", Some(&tenant)).status, 201);
    let problem: Problem = read(&put(&child("70%")));
    assert!(problem.detail.contains("the children of vdisk tenant"), "{problem:?}");
    assert!(problem.would_fit.is_some_and(|room| (room - 0.6).abs() < 1e-6), "{problem:?}");
    let plan: Plan = read(&daemon.ask("POST", "/v1/plan", Some(&child("50%"))));
    assert!(plan.fits && (plan.would_fit - 0.6).abs() < 1e-6, "{plan:?}");
    assert_eq!(put(&child("50%")).status, 201);
    // The child's reservation is a part of its parent's: 40 % are left beside both.
    let other = json!({"name": "other", "device": "disk", "size": "1MiB", "reserve": "40%"});
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/other", Some(&other)).status, 201);
    let lower = daemon.ask("PATCH", "/v1/vdisks/tenant", Some(&json!({"reserve": "40%"})));
    assert_eq!(lower.status, 422);
    let grandchild = json!({"name": "g", "device": "disk", "size": "1MiB", "parent": "db"});
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/g", Some(&grandchild)).status, 422);
    daemon.connect("db").write(0, &[7; 4096], true).unwrap();
    drop(daemon);
    let daemon = Daemon::of_state(&state);
    let mut bytes = [0; 4096];
    daemon.connect("db").read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 4096]);
    for change in [("DELETE", None), ("PATCH", Some(json!({"name": "landlord"})))] {
        let refused = daemon.ask(change.0, "/v1/vdisks/tenant", change.1.as_ref());
        let problem: Problem = read(&refused);
        assert!(
            problem.detail.contains("it is the parent of db: delete these first"),
            "{problem:?}"
        );
    }
    let again = daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"reserve": "60%"})));
    assert_eq!(again.status, 200, "{:?}", String::from_utf8_lossy(&again.body));
    assert_eq!(daemon.ask("DELETE", "/v1/vdisks/db", None).status, 204);
    assert_eq!(daemon.ask("DELETE", "/v1/vdisks/tenant", None).status, 204);
}

#[test]
fn creating_again_does_nothing_and_stale_tags_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let first = daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({}))));
    let tag = first.etag.clone().unwrap();
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 200);
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({"weight": 7})))).status, 409);
    let set = |weight: u32, tag: &str| {
        daemon.ask_if("PATCH", "/v1/vdisks/db", Some(&json!({"weight": weight})), Some(tag))
    };
    let changed = set(50, &tag);
    assert_eq!(changed.status, 200);
    assert_eq!(set(60, &tag).status, 412, "the tag is old");
    assert_eq!(set(60, changed.etag.as_deref().unwrap()).status, 200);
    let vdisk: Vdisk = read(&daemon.ask("GET", "/v1/vdisks/db", None));
    assert_eq!(vdisk.contract.weight, 60);
    assert_eq!(daemon.ask_if("DELETE", "/v1/vdisks/db", None, Some(&tag)).status, 412);
}

#[test]
fn bad_input_gets_a_problem_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    for (name, spec, status, field) in [
        ("db", db(json!({"limit": "300%"})), 422, "limit"),
        ("db", db(json!({"size": "a lot"})), 422, "size"),
        ("db", db(json!({"size": "1"})), 422, "size"),
        ("db", db(json!({"device": "nowhere"})), 422, "device"),
        ("a%2Fb", db(json!({"name": "a/b"})), 422, "name"),
        ("a%0Ab", db(json!({"name": "a\nb"})), 422, "name"),
        ("db", db(json!({"reserved": "3%"})), 400, ""),
        ("db", db(json!({"weight": "heavy"})), 400, ""),
        ("db", db(json!({"reserve": 70})), 400, ""),
        ("other", db(json!({})), 400, ""),
        ("db", json!([1, 2]), 400, ""),
        // A list of values passed for an object with the first keys.
        ("db", json!(["db", "disk", "1MiB"]), 400, ""),
    ] {
        let answer = daemon.ask("PUT", &format!("/v1/vdisks/{name}"), Some(&spec));
        let problem: Problem = read(&answer);
        assert_eq!((answer.status, problem.status), (status, status), "{spec}: {problem:?}");
        assert_eq!(problem.field.unwrap_or_default(), field, "{spec}");
        let has_unit = !spec["reserve"].is_number();
        assert!(
            has_unit || problem.detail.contains("its unit, like \"30%\""),
            "{}",
            problem.detail
        );
    }
    let raw = |body: &[u8]| {
        daemon.api.request("PUT", "/v1/vdisks/db", (Some(body), None)).unwrap().status
    };
    assert_eq!(raw(b"{\"name\": "), 400);
    assert_eq!(raw("[".repeat(60_000).as_bytes()), 400);
    assert_eq!(raw(&vec![b' '; 70_000]), 413);
    assert_eq!(daemon.ask("GET", "/v1/nothing", None).status, 404);
    assert_eq!(read::<Vec<Vdisk>>(&daemon.ask("GET", "/v1/vdisks", None)), []);
}

fn file_config(directory: &Path) -> (PathBuf, Config) {
    let here = directory.display();
    let text = format!(
        "[server]\nnbd = [\"unix:{here}/nbd.sock\"]\ncontrol = \"unix:{here}/control.sock\"\n\
         [[device]]\nname = \"disk\"\nback_end = \"memory\"\n\
         [[vdisk]]\nname = \"db\"\ndevice = \"disk\"\nsize = \"1MiB\"\nreserve = \"30%\"\n"
    );
    (directory.join("disktime.toml"), Config::parse(&text).unwrap())
}

#[test]
fn beside_a_file_everything_is_shown_and_every_change_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (file, config) = file_config(directory.path());
    let daemon = Daemon::start(config, Truth::File(file));
    let spec = json!({"name": "x", "device": "disk", "size": "1MiB"});
    let device = json!({"name": "m", "back_end": "memory"});
    for (method, target, body) in [
        ("PUT", "/v1/vdisks/x", Some(&spec)),
        ("PATCH", "/v1/vdisks/db", Some(&json!({"weight": 1}))),
        ("DELETE", "/v1/vdisks/db", None),
        ("PUT", "/v1/devices/m", Some(&device)),
        ("DELETE", "/v1/devices/disk", None),
    ] {
        let answer = daemon.ask(method, target, body);
        let problem: Problem = read(&answer);
        assert_eq!(answer.status, 403, "{method} {target}");
        assert!(problem.detail.contains("disktime.toml"), "{problem:?}");
    }
    let vdisks: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    assert!((vdisks[0].contract.reserve - 0.3).abs() < 1e-9, "{vdisks:?}");
    let plan: Plan = read(&daemon.ask("POST", "/v1/plan", Some(&spec)));
    assert!(plan.fits && (plan.would_fit - 0.7).abs() < 1e-6, "{plan:?}");
}

#[test]
fn events_come_as_they_happen_and_go_on_after_a_number() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({}))));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (to, api) = (Arc::clone(&heard), daemon.api.clone());
    let reader = std::thread::spawn(move || {
        api.events(Some(1), |data| {
            let event: Event = serde_json::from_str(data).unwrap();
            let mut heard = to.lock().unwrap();
            heard.push((event.id, event.kind, event.name));
            heard.len() < 3
        })
    });
    daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"weight": 3})));
    daemon.ask("DELETE", "/v1/vdisks/db", None);
    reader.join().unwrap().unwrap();
    let expected = [(2, "created"), (3, "changed"), (4, "deleted")];
    let expected = expected.map(|(id, kind)| (id, kind.to_owned(), "db".to_owned()));
    assert_eq!(*heard.lock().unwrap(), expected);
}

/// A crash between the file and the record left a file that nobody owned, and the next virtual disk of
/// its name would have had its data.
#[test]
fn a_start_gives_up_what_a_crash_has_left_half_way() {
    let directory = tempfile::tempdir().unwrap();
    let (state, pool) = (directory.path().join("state"), directory.path().join("pool"));
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&pool);
    for name in ["kept", "going", "coming"] {
        let spec = json!({"name": name, "device": "disk", "size": "1MiB"});
        assert_eq!(daemon.ask("PUT", &format!("/v1/vdisks/{name}"), Some(&spec)).status, 201);
    }
    drop(daemon);
    let store = Store::open(&state).unwrap();
    let spec = |name: &str| VdiskSpec {
        name: name.to_owned(),
        device: "disk".to_owned(),
        size: "1MiB".to_owned(),
        ..VdiskSpec::default()
    };
    store.put_vdisk(&spec("going"), Phase::Deleting).unwrap();
    store.put_vdisk(&spec("coming"), Phase::Creating).unwrap();
    store.put_vdisk(&spec("never"), Phase::Creating).unwrap();
    drop(store);
    let daemon = Daemon::of_state(&state);
    let vdisks: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    assert_eq!(vdisks.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["kept"]);
    assert!(pool.join("kept.raw").exists());
    assert!(!pool.join("going.raw").exists() && !pool.join("coming.raw").exists());
    let again = json!({"name": "coming", "device": "disk", "size": "2MiB"});
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/coming", Some(&again)).status, 201);
}

/// A file that the operator has put into the pool is not a virtual disk's, and must stay.
#[test]
fn a_file_that_is_there_already_is_neither_used_nor_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (state, pool) = (directory.path().join("state"), directory.path().join("pool"));
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&pool);
    std::fs::write(pool.join("db.raw"), "mine").unwrap();
    let refused = daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({}))));
    assert_eq!(refused.status, 409);
    drop(daemon);
    let daemon = Daemon::of_state(&state);
    assert_eq!(std::fs::read(pool.join("db.raw")).unwrap(), b"mine");
    assert_eq!(daemon.ask("GET", "/v1/vdisks/db", None).status, 404);
}

#[test]
fn the_openapi_document_names_every_address_and_every_key() {
    let document = serde_json::to_value(disktime_control::document()).unwrap();
    for path in ["/v1/vdisks/{name}", "/v1/devices/{name}", "/v1/plan", "/v1/events"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    let keys = &document["components"]["schemas"]["VdiskSpec"]["properties"];
    for key in VdiskSpec::KEYS {
        assert!(keys[key].is_object(), "{key}");
    }
}

/// Keys of a table as the configuration says itself when it meets another one.
fn keys_of(error: &str) -> Vec<String> {
    let (_, known) = error.split_once("expected one of ").expect("the keys there are");
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A daemon that was started from another directory found no device of this kind, and did not start.
#[test]
fn a_device_is_named_by_an_absolute_path() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    for back_end in ["file:pool", "raid0:/a,b", "tiered:a,/b"] {
        let spec = json!({"name": "disk", "back_end": back_end});
        let answer = daemon.ask("PUT", "/v1/devices/disk", Some(&spec));
        let problem: Problem = read(&answer);
        assert_eq!((answer.status, problem.field.as_deref()), (422, Some("back_end")));
        assert!(problem.detail.contains("an absolute path"), "{problem:?}");
    }
}

/// A key that the configuration has and the API lacks can't be said over the API.
#[test]
fn wishes_have_every_key_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let (_, config) = file_config(directory.path());
    let vdisk = config.check_vdisk("no_such_key = 1", None).unwrap_err().to_string();
    let device = config.check_device("no_such_key = 1").unwrap_err().to_string();
    let sorted = |keys: Vec<String>| {
        let mut keys = keys;
        keys.sort();
        keys
    };
    let of = |keys: &[&str]| sorted(keys.iter().map(|key| (*key).to_owned()).collect());
    assert_eq!(sorted(keys_of(&vdisk)), of(VdiskSpec::KEYS));
    assert_eq!(sorted(keys_of(&device)), of(disktime_api::DeviceSpec::KEYS));
}

/// The value of a metric of `db`, of the only mount, or of their device.
fn metric(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let line = lines.find(|line| line.split('{').next() == Some(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Each metric moves by what it is of: one that is always 0 tells nobody anything.
#[test]
fn metrics_are_all_there_and_move() {
    let begun = disktime_server::clock::now();
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let spec = db(json!({"reserve": "25%", "limit": "50%"}));
    daemon.ask("PUT", "/v1/vdisks/db", Some(&spec));
    let guest = mounts::Guest::of(&directory.path().join("state"));
    guest.add(0, "reserve=10%").unwrap();
    guest.add(1, "reserve=90%").unwrap_err();
    let sums = |is_so: &dyn Fn(&Mount) -> bool| {
        mounts::when(&daemon, "/v1/mounts/sums", |it: &Vec<Mount>| is_so(&it[0]));
    };
    // A request that a look finds, and some between two counts.
    guest.write_during(0, || sums(&|it| it.figures.waited.own_depth > 0.0));
    sums(&|it| {
        guest.write(0);
        it.figures.utilization > 0.0
    });
    let mut client = daemon.connect("db");
    let mut bytes = vec![3; 1 << 16];
    let (from, mut requests) = (disktime_server::clock::now(), 0);
    let [least, most] = [2_500, 40_000].map(disktime_core::Duration::from_millis);
    // Looks are late on a busy machine: requests come until all has moved.
    let text = loop {
        for _ in 0..20 {
            client.write(0, &bytes, true).unwrap();
            client.read(0, &mut bytes).unwrap();
        }
        guest.write(0);
        requests += 40;
        let passed = disktime_server::clock::now().since(from);
        if passed < least {
            continue;
        }
        let answer = daemon.ask("GET", "/metrics", None);
        let text = String::from_utf8(answer.body).unwrap();
        let mut still = unmoved(&text);
        if waited(&text).iter().sum::<f64>() < 0.5 {
            still.push("disktime_vdisk_waited_seconds_total, half a second".to_owned());
        }
        if still.is_empty() {
            break text;
        }
        assert!(passed < most, "{still:?} in {text}");
    };
    let mean = f64::from(requests) / disktime_server::clock::now().since(from).as_secs_f64();
    // The reasons add up to the time for which it had requests in the daemon.
    let waited = waited(&text);
    assert_eq!(waited.len(), 5, "{text}");
    let passed = disktime_server::clock::now().since(begun).as_secs_f64();
    assert!((0.5..passed).contains(&waited.iter().sum::<f64>()), "{waited:?} in {passed} s");
    assert!(!text.contains("disktime_vdisk_queue_seconds_bucket"), "for those who ask for it");
    let answer = daemon.ask("GET", "/metrics?histograms=true", None);
    let times = String::from_utf8(answer.body).unwrap();
    let requests = metric(&times, "disktime_vdisk_requests_total").unwrap();
    for name in ["disktime_vdisk_queue_seconds", "disktime_vdisk_service_seconds"] {
        assert!(metric(&times, &format!("{name}_count")).unwrap() >= requests, "{times}");
        assert!(metric(&times, &format!("{name}_sum")).unwrap() > 0.0, "{times}");
        assert!(times.contains(&format!("{name}_bucket{{le=\"+Inf\"")), "{times}");
    }
    for name in ["disktime_mount_queue_seconds_count", "disktime_mount_service_seconds_count"] {
        assert!(metric(&times, name).unwrap() > 0.0, "{times}");
    }
    // A mount's name is a path, which may have any character; a file's is no label, as there is no end of
    // files.
    let at = "mount=\"/mnt/\\\"media\\\"\",device=\"disk\"";
    assert!(text.contains(&format!("disktime_mount_reserve_ratio{{{at}}} 0.1\n")), "{text}");
    assert!(text.contains(&format!("disktime_mount_streams{{{at},class=\"best-effort\"}} 1")));
    assert!(!text.contains("/srv/media"), "{text}");
    let wrong: Problem = read(&daemon.ask("GET", "/metrics?histograms=perhaps", None));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    assert_eq!(metric(&text, "disktime_vdisk_reserve_ratio"), Some(0.25));
    assert_eq!(metric(&text, "disktime_vdisk_connections"), Some(1.0));
    let vdisk: Vdisk = read(&daemon.ask("GET", "/v1/vdisks/db", None));
    // Over the last ten seconds.
    let figures = &vdisk.figures;
    assert!(figures.utilization > 0.0 && figures.iops > mean / 10.0, "{mean}: {vdisk:?}");
}

/// Metrics that are 0, of those that a busy virtual disk and a busy mount move.
fn unmoved(text: &str) -> Vec<String> {
    // These need a failing device, a broken promise, a moment's queue, or a disk that seeks.
    // Missed cycles and deadlines of a mount: `mounts.rs`, `e2e_guests`.
    let rare = ["failed", "broken", "waiting", "in_flight", "spare", "held", "cycles", "missed"];
    let value = |name: &String| metric(text, name).unwrap_or_else(|| panic!("no {name} in {text}"));
    let moves = |name: &String| rare.iter().any(|rare| name.contains(rare)) || value(name) > 0.0;
    disktime_control::metric_names().into_iter().filter(|name| !moves(name)).collect()
}

/// The time that `db` waited, in seconds, by reason.
fn waited(text: &str) -> Vec<f64> {
    let lines = text.lines().filter(|it| it.starts_with("disktime_vdisk_waited_seconds_total{"));
    lines.map(|it| it.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

/// A method that is not there had no body, and a long body a text; the document left the login out.
#[test]
fn every_refusal_is_a_problem_and_every_address_is_in_the_document() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(directory.path());
    let refused: Problem = read(&daemon.ask("POST", "/v1/vdisks/db", None));
    assert_eq!((refused.status, &*refused.title), (405, "Method Not Allowed"));
    assert!(refused.detail.contains("POST is not for this address"), "{refused:?}");
    let refused: Problem = read(&daemon.ask("GET", "/v1/vdisks/%ff", None));
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.detail.starts_with("the address: "), "{refused:?}");
    let long = serde_json::json!({ "name": "x".repeat(70_000) });
    let refused: Problem = read(&daemon.ask("PUT", "/v1/vdisks/db", Some(&long)));
    assert_eq!(refused.status, 413, "{refused:?}");
    let document: Value = read(&daemon.ask("GET", "/v1/openapi.json", None));
    let login = &document["paths"]["/v1/session"];
    assert!(login["post"].is_object() && login["delete"].is_object(), "{login}");
}

/// A board or a rule that asks for a metric which nobody has shows nothing, for ever.
#[test]
fn boards_and_alerts_ask_for_metrics_that_exist() {
    let names = disktime_control::metric_names();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus");
    for file in ["alerts.yml", "board.json"] {
        let text = std::fs::read_to_string(directory.join(file)).unwrap();
        let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let asked = text.split(word).filter(|word| word.starts_with("disktime_"));
        let asked: Vec<&str> = asked.collect();
        assert!(asked.len() >= 4, "{file}: {asked:?}");
        for name in asked {
            assert!(names.iter().any(|known| known == name), "{file}: {name}");
        }
    }
}

impl Daemon {
    /// A request at the page's address as a browser or a stranger sends it; answers the head and the body.
    fn over_tcp(&self, line: &str, headers: &[&str], body: &str) -> (String, String) {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(self.page).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let headers = headers.iter().map(|it| format!("{it}\r\n")).collect::<String>();
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_ascii_lowercase(), body.to_owned())
    }

    fn host(&self) -> String {
        format!("host: {}", self.page)
    }

    fn token(&self, role: &str) -> String {
        let text = std::fs::read_to_string(&self.tokens).unwrap();
        let line = text.lines().find(|line| line.starts_with(role)).unwrap();
        line.split(' ').nth(1).unwrap().to_owned()
    }
}

/// A page on another site that has its name lead to 127.0.0.1 would be of one origin with ours; one that
/// posts a form has the browser's cookie sent along.
#[test]
fn over_tcp_nothing_is_told_or_done_without_a_token_of_ours() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({}))));
    let (host, origin) = (daemon.host(), format!("origin: http://{}", daemon.page));
    let status = |line: &str, headers: &[&str], body: &str| {
        let (head, _) = daemon.over_tcp(line, headers, body);
        head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let (head, page) = daemon.over_tcp("GET /", &[&host], "");
    assert!(head.contains("200 ok") && page.contains("/page/main.js"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    for path in ["/v1", "/v1/vdisks", "/v1/live", "/metrics"] {
        assert_eq!(status(&format!("GET {path}"), &[&host], ""), 401, "{path}");
        let (head, _) = daemon.over_tcp(&format!("GET {path}"), &[&host], "");
        assert!(head.contains("www-authenticate: bearer realm=\"disktime\""), "{head}");
    }
    assert_eq!(status("GET /", &["host: evil.example"], ""), 421);
    let bearer = |role| format!("authorization: Bearer {}", daemon.token(role));
    assert_eq!(status("GET /v1/vdisks", &[&host, &bearer("view")], ""), 200);
    let heavier = r#"{"weight": 7}"#;
    assert_eq!(status("PATCH /v1/vdisks/db", &[&host, &bearer("view")], heavier), 403);
    assert_eq!(status("PATCH /v1/vdisks/db", &[&host, &bearer("operate")], heavier), 200);

    let login = json!({"token": daemon.token("operate")}).to_string();
    assert_eq!(status("POST /v1/session", &[&host, "origin: http://evil.example"], &login), 403);
    let (head, _) = daemon.over_tcp("POST /v1/session", &[&host, &origin], &login);
    assert!(head.contains("httponly; samesite=strict"), "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("cookie: {}", cookie.split(';').next().unwrap());
    let lighter = r#"{"weight": 3}"#;
    let patch = "PATCH /v1/vdisks/db";
    assert_eq!(status(patch, &[&host, &cookie, "origin: http://evil.example"], lighter), 403);
    assert_eq!(status(patch, &[&host, &cookie], lighter), 403);
    assert_eq!(status(patch, &[&host, &cookie, &origin], lighter), 200);
    assert_eq!(status("DELETE /v1/session", &[&host, &cookie, &origin], ""), 204);
    assert_eq!(status("GET /v1/vdisks", &[&host, &cookie], ""), 401);
    let wrong = r#"{"token": "0123456789abcdef0123456789abcdef"}"#;
    assert_eq!(status("POST /v1/session", &[&host, &origin], wrong), 401);
    let events: Vec<Event> = read(&daemon.ask("GET", "/v1/events/kept", None));
    let by: Vec<&str> = events.iter().filter(|it| it.kind == "changed").map(|it| &*it.by).collect();
    assert!(by[0].starts_with("token operate from 127.0.0.1:"), "{by:?}");
    assert!(by[1].starts_with("session operate from 127.0.0.1:"), "{by:?}");
}

/// One answer had all events, however long, and the daemon grew by gigabytes for it.
#[test]
fn kept_events_come_some_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let spec = json!({"name": "db", "device": "disk", "size": "1MiB"});
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&spec)).status, 201);
    let long = json!({"reserve": format!("{}1%", "0".repeat(60_000))});
    let refused = daemon.ask("PATCH", "/v1/vdisks/db", Some(&long));
    assert_eq!(refused.status, 422);
    assert!(String::from_utf8_lossy(&refused.body).contains("of at most 32 bytes"));
    for weight in 1..=520 {
        let change = json!({"weight": 1 + weight % 9});
        assert_eq!(daemon.ask("PATCH", "/v1/vdisks/db", Some(&change)).status, 200);
    }
    let after = |id: u64| -> Vec<Event> {
        read(&daemon.ask("GET", &format!("/v1/events/kept?after={id}"), None))
    };
    let first = after(0);
    assert_eq!((first.len(), first[0].id), (512, 1));
    let next = after(first.last().unwrap().id);
    assert_eq!((next.len(), next[0].id, after(522).len()), (10, 513, 0));
}

/// Readers that take nothing kept the daemon's memory growing, or held up others, with many a server.
#[test]
fn stuck_readers_hold_up_nobody() {
    use std::io::Write;
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let bearer = format!("authorization: Bearer {}", daemon.token("view"));
    let stuck: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = std::net::TcpStream::connect(daemon.page).unwrap();
            let ask = format!("GET /v1/live HTTP/1.1\r\n{}\r\n{bearer}\r\n\r\n", daemon.host());
            stream.write_all(ask.as_bytes()).unwrap();
            stream
        })
        .collect();
    let description = "x".repeat(1000);
    let grown = || {
        let before = resident();
        for round in 0..200 {
            let spec = json!({"name": "db", "device": "disk", "size": "1MiB", "description": description,
                              "weight": 1 + round % 9});
            assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&spec)).status, 201);
            assert_eq!(daemon.ask("DELETE", "/v1/vdisks/db", None).status, 204);
        }
        resident().saturating_sub(before)
    };
    // The events of 40 readers are few each: what waits for them is bounded. Other tests of this process may
    // begin meanwhile, and take memory once.
    let least = (0..3).map(|_| grown()).find(|grown| *grown < 24 << 20);
    assert!(least.is_some(), "more than 24 MiB each time");
    drop(stuck);
}

/// Memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Tells that a test can't run here.
fn skip(test: &str, reason: &str) {
    use std::io::Write;
    let line = format!("SKIP: {test}: {reason}");
    eprintln!("{line}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

fn succeeds(words: &[&str]) -> bool {
    let mut command = std::process::Command::new(words[0]);
    let quiet = std::process::Stdio::null;
    command.args(&words[1..]).stdout(quiet()).stderr(quiet());
    command.status().is_ok_and(|it| it.success())
}

#[test]
fn promtool_takes_the_alert_rules() {
    if !succeeds(&["promtool", "--version"]) {
        return skip("promtool_takes_the_alert_rules", "promtool is not installed");
    }
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/prometheus/alerts.yml");
    assert!(succeeds(&["promtool", "check", "rules", rules]));
}

/// More is asked at once than anybody answers: each one is made, or refused with the reason. Creates
/// that wait together are recorded together, and one that is refused takes none along.
#[test]
fn many_creates_at_once_are_made_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let [made, already] = [(); 2].map(|()| std::sync::atomic::AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..60 {
            let (daemon, made, already) = (&daemon, &made, &already);
            scope.spawn(move || {
                let put = |name: &str, spec: &Value| {
                    daemon.ask("PUT", &format!("/v1/vdisks/{name}"), Some(spec))
                };
                for at in 0..4 {
                    let name = format!("v{thread}-{at}");
                    let spec = json!({"name": name, "device": "disk", "size": "1MiB"});
                    let answer = put(&name, &spec);
                    match answer.status {
                        201 => drop(made.fetch_add(1, Ordering::Relaxed)),
                        503 => assert!(!read::<Problem>(&answer).detail.is_empty()),
                        status => panic!("{status}: {}", String::from_utf8_lossy(&answer.body)),
                    }
                }
                // A name that all ask for in the same words, and one that nobody can have.
                match put("same", &json!({"name": "same", "device": "disk", "size": "1MiB"})).status
                {
                    201 => drop(made.fetch_add(1, Ordering::Relaxed)),
                    200 => drop(already.fetch_add(1, Ordering::Relaxed)),
                    status => panic!("{status}"),
                }
                let most = json!({"name": "most", "device": "disk", "size": "1MiB",
                                  "reserve": "100%", "limit": "1%"});
                assert_eq!(put("most", &most).status, 422);
            });
        }
    });
    let vdisks: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    assert_eq!((vdisks.len(), already.into_inner()), (made.into_inner(), 59));
    assert!(vdisks.len() > 60, "{}", vdisks.len());
    drop(daemon);
    let daemon = Daemon::of_state(&directory.path().join("state"));
    let again: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    assert_eq!(again.len(), vdisks.len(), "all are there after the next start");
}

/// A device that was removed kept its name from every other back end: the record of where its virtual disks lay
/// was of another path.
#[test]
fn the_name_of_a_device_that_was_removed_is_free_for_another_back_end() {
    let directory = tempfile::tempdir().unwrap();
    let (state, at) = (directory.path().join("state"), directory.path());
    let daemon = Daemon::of_state(&state);
    let put = |daemon: &Daemon, back_end: &str| {
        let create = back_end.contains("pool");
        let spec = json!({"name": "disk", "back_end": back_end, "create": create});
        daemon.ask("PUT", "/v1/devices/disk", Some(&spec))
    };
    let remove = |daemon: &Daemon| daemon.ask("DELETE", "/v1/devices/disk", None).status;
    for image in ["one", "two"] {
        std::fs::write(at.join(image), vec![0; 4 << 20]).unwrap();
    }
    let back_ends = ["pool-a", "pool-b", "one", "two", "pool-a"];
    for (round, name) in back_ends.iter().enumerate() {
        let put = put(&daemon, &format!("file:{}", at.join(name).display()));
        assert_eq!(put.status, 201, "{name}: {}", String::from_utf8_lossy(&put.body));
        let vdisk = daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({}))));
        assert_eq!(vdisk.status, 201, "{name}: {}", String::from_utf8_lossy(&vdisk.body));
        let mut client = daemon.connect("db");
        let mut found = [1; 512];
        client.read(0, &mut found).unwrap();
        assert_eq!(found, [0; 512], "{name}, round {round}");
        client.write(0, &[7; 512], true).unwrap();
        drop(client);
        assert_eq!(daemon.ask("DELETE", "/v1/vdisks/db", None).status, 204);
        assert_eq!(remove(&daemon), 204);
    }
    // A record that places something is not set aside: its bytes were never given up.
    let record = state.join("disk.layout.toml");
    let kept = format!(
        "path = \"{}\"\n[[extent]]\nname = \"gone\"\nstart = 0\nsize = 1048576\n",
        at.join("one").display()
    );
    std::fs::write(&record, &kept).unwrap();
    let refused = put(&daemon, &format!("file:{}", at.join("two").display()));
    let problem: Problem = read(&refused);
    assert_eq!(refused.status, 422, "{problem:?}");
    for part in
        ["disk.layout.toml places virtual disks on", "choose another name", "delete that file"]
    {
        assert!(problem.detail.contains(part), "{problem:?}");
    }
    assert_eq!(std::fs::read_to_string(&record).unwrap(), kept);
}

/// `seconds=NaN` was answered with figures that are no numbers, and commands could not read them.
#[test]
fn numbers_in_addresses_are_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 201);
    let status = |target: &str| daemon.ask("GET", target, None).status;
    for key in [
        "/v1/vdisks/db/why?seconds",
        "/v1/devices/disk/history?after_ms",
        "/v1/devices/disk/history?step",
        "/v1/events/kept?after",
    ] {
        for wrong in
            ["NaN", "nan", "inf", "-inf", "-1", "", "1e999", "x", "1&seconds=2&after=3", "0x10"]
        {
            assert_eq!(status(&format!("{key}={wrong}")), 400, "{key}={wrong}");
        }
        let key_alone = key.split_once('?').unwrap().1;
        assert_eq!(status(&format!("{key}=1&{key_alone}=1")), 400, "{key}, twice");
        assert_eq!(status(&format!("{key}=1")), 200, "{key}");
    }
    for most in ["1e300", "0", "0.001"] {
        let answer = daemon.ask("GET", &format!("/v1/vdisks/db/why?seconds={most}"), None);
        let held: Value = read(&answer);
        assert!(held["idle"].is_number() && held["seconds"].as_f64().unwrap() < 1000.0, "{held}");
    }
}
