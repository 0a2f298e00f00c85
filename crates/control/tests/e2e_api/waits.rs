//! Changes that wait: for clients that go slowly, and for devices far away.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;

/// A client that asks for a MiB and takes no reply.
fn deaf(socket: &Path, export: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let name = u32::try_from(export.len()).unwrap().to_be_bytes();
    // Flags, NBD_OPT_EXPORT_NAME, and a name.
    let choice = [&[0, 0, 0, 3], &b"IHAVEOPT"[..], &[0, 0, 0, 1], &name, export.as_bytes()];
    stream.write_all(&choice.concat()).unwrap();
    let mut size_and_flags = [0; 10];
    stream.read_exact(&mut size_and_flags).unwrap();
    // Magic, flags and command (a read), cookie, offset, length.
    let ask = [&0x2560_9513_u32.to_be_bytes()[..], &[0; 4], &[7; 8], &[0; 8], &[0, 16, 0, 0]];
    stream.write_all(&ask.concat()).unwrap();
    stream
}

/// A virtual disk whose client took no replies held the control plane up for seconds while it was deleted, and
/// SIGTERM with it.
#[test]
fn others_are_answered_while_a_client_that_takes_no_replies_is_let_go() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    daemon.add_pool(&directory.path().join("pool"));
    let large = json!({"name": "db", "device": "disk", "size": "2MiB"});
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&large)).status, 201);
    let _deaf = deaf(&directory.path().join("state/nbd.sock"), "db");
    std::thread::scope(|scope| {
        let delete = scope.spawn(|| daemon.ask("DELETE", "/v1/vdisks/db", None).status);
        // The first answer that knows of the removal comes before its end: then it would be made anew.
        let again = loop {
            let again = daemon.ask("PUT", "/v1/vdisks/db", Some(&large));
            if again.status != 200 {
                break again;
            }
        };
        let problem: Problem = read(&again);
        assert!(problem.detail.contains("its removal was begun"), "{problem:?}");
        for (method, change) in [
            ("PATCH", Some(json!({"weight": 7}))),
            ("PATCH", Some(json!({"name": "other"}))),
            ("DELETE", None),
        ] {
            assert_eq!(daemon.ask(method, "/v1/vdisks/db", change.as_ref()).status, 404);
        }
        assert!(!delete.is_finished(), "its client was let go at once");
        assert_eq!(delete.join().unwrap(), 204);
    });
    assert_eq!(daemon.ask("GET", "/v1/vdisks/db", None).status, 404);
    assert!(!directory.path().join("pool/db.raw").exists());
    assert_eq!(daemon.ask("PUT", "/v1/vdisks/db", Some(&large)).status, 201);
}

/// A device that was slow to open held the control plane up for 10 s.
#[test]
fn others_are_answered_while_a_device_is_opened_and_its_name_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::of_state(&directory.path().join("state"));
    let socket = directory.path().join("silent.sock");
    let silent = UnixListener::bind(&socket).unwrap();
    let far = |name: &str| {
        let back_end = format!("nbd+unix:///x?socket={}", socket.display());
        let spec = json!({"name": name, "back_end": back_end});
        daemon.ask("PUT", &format!("/v1/devices/{name}"), Some(&spec))
    };
    std::thread::scope(|scope| {
        let opens = scope.spawn(|| far("far"));
        let (asked, _) = silent.accept().unwrap();
        let again = far("far");
        let problem: Problem = read(&again);
        assert!(
            again.status == 503 && problem.detail.contains("it is being opened"),
            "{problem:?}"
        );
        daemon.add_pool(&directory.path().join("pool"));
        assert!(!opens.is_finished(), "it waits for the server");
        drop(asked);
        drop(silent);
        assert_eq!(opens.join().unwrap().status, 422);
    });
    // The name is free again.
    let here = json!({"name": "far", "back_end": "memory"});
    assert_eq!(daemon.ask("PUT", "/v1/devices/far", Some(&here)).status, 201);
}
