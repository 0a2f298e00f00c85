//! More clients than there is room for.

use std::os::unix::net::UnixStream;

use disktime_client::{Connection, Uri};

use crate::support::{DISKS, Daemon};

/// With no descriptor left the daemon accepted nobody until others' handshakes timed out: clients
/// that said nothing kept everybody out for ten seconds.
#[test]
fn silent_clients_that_take_all_descriptors_make_room() {
    let daemon = Daemon::start_with_descriptors(64, DISKS);
    let connect = |export: &str| Connection::open(&daemon.uri(export).parse::<Uri>().unwrap());
    let mut before = connect("mem").unwrap();
    let silent: Vec<_> = (0..200).map(|_| UnixStream::connect(daemon.socket()).unwrap()).collect();
    for _ in 0..10 {
        connect("file").unwrap().flush().unwrap();
    }
    before.flush().unwrap();
    drop(silent);
}
