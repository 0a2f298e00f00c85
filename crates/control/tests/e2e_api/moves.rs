//! Virtual disks that get another name, or become smaller.

use std::path::Path;

use disktime_api::{Problem, Vdisk, VdiskSpec};
use disktime_client::Connection;
use disktime_control::Store;
use serde_json::json;

use crate::{Daemon, db, read};

const MIB: u64 = 1 << 20;

/// A moment: the end of a connection is noticed later.
#[expect(clippy::disallowed_methods, reason = "nothing tells when a daemon notices it")]
fn rest() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}

fn byte(client: &mut Connection, at: u64) -> u8 {
    let mut bytes = [0; 512];
    client.read(at, &mut bytes).unwrap();
    bytes[0]
}

/// A daemon with `db` of 2 MiB, with a byte at its start and one near its end.
fn served(directory: &Path) -> Daemon {
    let daemon = Daemon::of_state(&directory.join("state"));
    daemon.add_pool(&directory.join("pool"));
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({"size": "2MiB"})))).status, 201);
    let mut client = daemon.connect("db");
    client.write(0, &[7; 512], false).unwrap();
    client.write(2 * MIB - 4096, &[9; 512], true).unwrap();
    daemon
}

fn names(daemon: &Daemon) -> Vec<String> {
    let vdisks: Vec<Vdisk> = read(&daemon.ask("GET", "/v1/vdisks", None));
    vdisks.into_iter().map(|it| it.name).collect()
}

#[test]
fn a_virtual_disk_gets_another_name_and_its_clients_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = served(directory.path());
    let other = json!({"name": "other", "device": "disk", "size": "1MiB"});
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/other", Some(&other)).status, 201);
    let mut client = daemon.connect("db");
    let rename = |to: &str| daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"name": to})));
    assert_eq!(rename("other").status, 409, "it is taken");
    assert_eq!(rename("db").status, 409);
    assert_eq!(rename("a/b").status, 422);
    assert_eq!(rename("").status, 422);
    std::fs::write(directory.path().join("pool/mine.raw"), "mine").unwrap();
    assert_eq!(rename("mine").status, 409, "a file of that name is there");
    let both = json!({"name": "new", "weight": 3});
    assert_eq!(daemon.ask("PATCH", "/v1/vdisks/db", Some(&both)).status, 400);
    let renamed = rename("new");
    assert_eq!(renamed.status, 200, "{}", String::from_utf8_lossy(&renamed.body));
    assert_eq!(read::<VdiskSpec>(&renamed).name, "new");
    assert_eq!(byte(&mut client, 0), 7, "its client goes on");
    client.write(0, &[8; 512], true).unwrap();
    assert_eq!(byte(&mut daemon.connect("new"), 0), 8);
    assert_eq!(daemon.ask("GET", "/v1/vdisks/db", None).status, 404);
    assert_eq!(names(&daemon), ["new", "other"], "in place");
    // The old name is free, and a virtual disk of it has nothing of the other's.
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({})))).status, 201);
    assert_eq!(byte(&mut daemon.connect("db"), 0), 0);
    drop((client, daemon));
    let daemon = Daemon::of_state(&directory.path().join("state"));
    assert_eq!(names(&daemon), ["db", "new", "other"]);
    assert_eq!(byte(&mut daemon.connect("new"), 0), 8);
}

#[test]
fn a_virtual_disk_becomes_smaller_on_purpose_and_while_nobody_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = served(directory.path());
    let change = |body| daemon.ask("PATCH", "/v1/vdisks/db", Some(&body));
    let refused = change(json!({"size": "1MiB"}));
    let problem: Problem = read(&refused);
    assert_eq!((refused.status, problem.field.as_deref()), (422, Some("size")), "{problem:?}");
    assert!(problem.detail.contains("\"shrink\": true"), "{problem:?}");
    let shrink = json!({"size": "1MiB", "shrink": true});
    let mut client = daemon.connect("db");
    assert_eq!(change(shrink.clone()).status, 409, "a client has it");
    assert_eq!(byte(&mut client, 2 * MIB - 4096), 9, "nothing has changed");
    drop(client);
    assert_eq!(change(json!({"size": "1MiB", "shrink": true, "weight": 3})).status, 400);
    assert_eq!(change(json!({"shrink": true})).status, 400);
    assert_eq!(change(json!({"size": "9MiB", "shrink": true})).status, 422, "it is larger");
    // The connection's end takes a moment to be noticed.
    let shrunk = (0..200).find(|_| {
        rest();
        change(shrink.clone()).status == 200
    });
    assert!(shrunk.is_some());
    let mut client = daemon.connect("db");
    assert_eq!(client.export().size_bytes, MIB);
    assert_eq!(byte(&mut client, 0), 7);
    assert!(client.read(MIB, &mut [0; 512]).is_err());
    assert_eq!(std::fs::metadata(directory.path().join("pool/db.raw")).unwrap().len(), MIB);
    client.flush().unwrap();
    assert_eq!(change(json!({"size": "2MiB"})).status, 200, "it grows again");
    assert_eq!(byte(&mut daemon.connect("db"), 2 * MIB - 4096), 0, "what was beyond is lost");
}

#[test]
fn in_memory_what_is_beyond_is_lost_as_well_and_an_image_keeps_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    let image = directory.path().join("image");
    std::fs::write(&image, vec![0; 4 << 20]).unwrap();
    let back_ends = [("ram", "memory".to_owned()), ("image", format!("file:{}", image.display()))];
    for (name, back_end) in back_ends {
        let device = json!({"name": name, "back_end": back_end});
        let put = daemon.ask("PUT", &format!("/v1/devices/{name}"), Some(&device));
        assert_eq!(put.status, 201);
        let (vdisk, at) = (format!("on-{name}"), format!("/v1/vdisks/on-{name}"));
        let spec = json!({"name": vdisk, "device": name, "size": "2MiB"});
        assert_eq!(daemon.ask("PUT", &at, Some(&spec)).status, 201);
        daemon.connect(&vdisk).write(MIB + 512, &[5; 512], false).unwrap();
        let shrink = json!({"size": format!("{}B", MIB + 512), "shrink": true});
        let expected = if name == "ram" { 200 } else { 422 };
        let done = (0..200).any(|_| {
            rest();
            daemon.ask("PATCH", &at, Some(&shrink)).status == expected
        });
        assert!(done, "{name}");
        let renamed = daemon.ask("PATCH", &at, Some(&json!({"name": format!("new-{name}")})));
        assert_eq!(renamed.status, 200, "{}", String::from_utf8_lossy(&renamed.body));
        let at = format!("/v1/vdisks/new-{name}");
        assert_eq!(daemon.ask("PATCH", &at, Some(&json!({"size": "2MiB"}))).status, 200);
        let found = byte(&mut daemon.connect(&format!("new-{name}")), MIB + 512);
        assert_eq!(found, if name == "ram" { 0 } else { 5 }, "{name}");
    }
}

/// A crash between the file and the record would leave a virtual disk without a file, or a file that is
/// longer than its virtual disk, with which no daemon starts.
#[test]
fn a_start_goes_on_with_a_move_wherever_a_crash_has_left_it() {
    let spec = |name: &str, size: &str| VdiskSpec {
        name: name.to_owned(),
        device: "disk".to_owned(),
        size: size.to_owned(),
        ..VdiskSpec::default()
    };
    let pool_file = |directory: &Path, name: &str| directory.join(format!("pool/{name}.raw"));
    // The steps that had been made: nothing, the file's new name, the pool's record of it, all of it.
    for step in 0..4 {
        let directory = tempfile::tempdir().unwrap();
        let (state, at) = (directory.path().join("state"), directory.path());
        let daemon = served(at);
        if step == 3 {
            let renamed = daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"name": "new"})));
            assert_eq!(renamed.status, 200);
        }
        drop(daemon);
        let store = Store::open(&state).unwrap();
        if step == 3 {
            store.remove_vdisk("new").unwrap();
        }
        store.begin_move(&spec("db", "2MiB"), &spec("new", "2MiB")).unwrap();
        drop(store);
        if step == 1 || step == 2 {
            std::fs::rename(pool_file(at, "db"), pool_file(at, "new")).unwrap();
        }
        if step == 2 {
            let record = at.join("pool/.disktime-pool");
            let text = std::fs::read_to_string(&record).unwrap();
            std::fs::write(&record, text.replace("\"db\"", "\"new\"")).unwrap();
        }
        let daemon = Daemon::of_state(&state);
        assert_eq!(names(&daemon), ["new"], "step {step}");
        assert_eq!(byte(&mut daemon.connect("new"), 0), 7, "step {step}");
        drop(daemon);
        // Then a smaller size: the pool had noted it, or all had happened.
        let store = Store::open(&state).unwrap();
        store.begin_move(&spec("new", "2MiB"), &spec("new", "1MiB")).unwrap();
        drop(store);
        note_size(at, 2 * MIB, MIB);
        let daemon = Daemon::of_state(&state);
        let mut client = daemon.connect("new");
        assert_eq!((client.export().size_bytes, byte(&mut client, 0)), (MIB, 7));
        drop(client);
        drop(daemon);
        let store = Store::open(&state).unwrap();
        store.begin_move(&spec("new", "2MiB"), &spec("new", "1MiB")).unwrap();
        drop(store);
        assert_eq!(Daemon::of_state(&state).connect("new").export().size_bytes, MIB);
    }
}

/// Has the pool's record say another size.
fn note_size(directory: &Path, from: u64, to: u64) {
    let record = directory.join("pool/.disktime-pool");
    let text = std::fs::read_to_string(&record).unwrap();
    let noted = text.replace(&from.to_string(), &to.to_string());
    assert_ne!(noted, text);
    std::fs::write(&record, noted).unwrap();
}

/// A smaller size that was refused, and whose record a full disk kept from being taken back, was made by the
/// start after a crash: the data beyond were lost.
#[test]
fn a_smaller_size_that_was_refused_is_not_made_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    drop(served(directory.path()));
    let spec = |size: &str| serde_json::from_value::<VdiskSpec>(db(json!({"size": size}))).unwrap();
    Store::open(&state).unwrap().begin_move(&spec("2MiB"), &spec("1MiB")).unwrap();
    let daemon = Daemon::of_state(&state);
    let mut client = daemon.connect("db");
    assert_eq!(client.export().size_bytes, 2 * MIB);
    assert_eq!(byte(&mut client, 2 * MIB - 4096), 9);
    drop((client, daemon));
    assert!(Store::open(&state).unwrap().load().unwrap().moving.is_empty());
}

/// A virtual disk that is the default had itself in its way when it was to get another name.
#[test]
fn the_default_is_renamed_and_stays_the_default() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let daemon = Daemon::of_state(&state);
    daemon.add_pool(&directory.path().join("pool"));
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&db(json!({"default": true})))).status, 201);
    let renamed = daemon.ask("PATCH", "/v1/vdisks/db", Some(&json!({"name": "new"})));
    assert_eq!(renamed.status, 200, "{}", String::from_utf8_lossy(&renamed.body));
    let other = json!({"name": "other", "device": "disk", "size": "1MiB", "default": true});
    let refused = daemon.ask("PUT", "/v1/vdisks/other", Some(&other));
    let problem: Problem = read(&refused);
    assert_eq!((refused.status, problem.field.as_deref()), (422, Some("default")), "{problem:?}");
    let plan = json!({"name": "new", "device": "disk", "size": "1MiB", "default": true});
    assert_eq!(daemon.ask("POST", "/v1/plan", Some(&plan)).status, 200, "it is the one itself");
    assert_eq!(daemon.ask("PATCH", "/v1/vdisks/new", Some(&json!({"weight": 5}))).status, 200);
    drop(daemon);
    assert_eq!(names(&Daemon::of_state(&state)), ["new"]);
}
