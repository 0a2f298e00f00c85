use disktime_api::VdiskSpec;
use disktime_server::Server;

use super::*;
use crate::{Addresses, config_of};

fn caller() -> Caller {
    Caller { role: Role::Operate, who: "a test".to_owned() }
}

fn served(state: &std::path::Path) -> (Plane, Server) {
    let store = Store::open(state).unwrap();
    let nbd = [format!("unix:{}", state.join("nbd.sock").display())];
    let addresses = Addresses { nbd: &nbd, ..Addresses::default() };
    let mut server =
        Server::start(config_of(&store.load().unwrap(), state, &addresses).unwrap()).unwrap();
    let mut plane = Plane::new(Truth::State(store), Arc::default());
    let (name, back_end) = ("disk".to_owned(), "memory".to_owned());
    let device = DeviceSpec { name, back_end, ..DeviceSpec::default() };
    let opened = plane.begin_device(&mut server, &device).unwrap().unwrap().run();
    plane.end_device(&mut server, &device, opened, &caller()).unwrap();
    (plane, server)
}

/// Callers that ask at once rarely come together, so that requests over the socket miss mistakes here.
#[test]
fn virtual_disks_that_are_asked_for_together_are_each_made_or_refused_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (mut plane, mut server) = served(directory.path());
    let wish = |name: &str, reserve: &str| {
        let (name, device) = (name.to_owned(), "disk".to_owned());
        let (size, reserve) = ("1MiB".to_owned(), Some(reserve.to_owned()));
        (VdiskSpec { name, device, size, reserve, ..VdiskSpec::default() }, caller())
    };
    let wanted = [wish("a", "60%"), wish("a", "60%"), wish("b", "60%"), wish("a", "10%")];
    let made = plane.put_vdisks(&mut server, &wanted);
    let status = |it: &Result<Made, Refusal>| it.as_ref().map_err(|it| it.0.status).copied();
    let statuses: Vec<_> = made.iter().map(status).collect();
    assert_eq!(statuses, [Ok(Made::New), Ok(Made::Already), Err(422), Err(409)]);
    let kept = plane.store().unwrap().load().unwrap();
    assert_eq!((kept.vdisks, kept.unfinished), (vec![wanted[0].0.clone()], Vec::new()));
    server.shutdown().unwrap();
}
