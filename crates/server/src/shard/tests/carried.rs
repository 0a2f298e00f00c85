//! A shard worked by hand whose clients' bytes are carried by other threads.

use super::*;

/// How long something may take that other threads do.
const TIMEOUT: disktime_core::Duration = disktime_core::Duration::from_secs(20);

fn carried(ids: &[u64], carriers: u32) -> Rig {
    rig_of(ids, PieceMax::REMOTE, carriers)
}

/// Has the shard work until that is so.
fn until(rig: &mut Rig, so: impl Fn(&mut Rig) -> bool) {
    let until = clock::now() + TIMEOUT;
    while !so(rig) {
        assert!(clock::now() < until, "it never comes to be so");
        rig.go_round();
    }
}

/// The next bytes of a reply, or its end.
fn hear(rig: &mut Rig, client: &mut UnixStream, bytes: &mut [u8]) -> bool {
    let (until, mut at) = (clock::now() + TIMEOUT, 0);
    while at < bytes.len() {
        match client.read(&mut bytes[at..]) {
            Ok(0) => return false,
            Ok(count) => at += count,
            Err(_) => rig.go_round(),
        }
        assert!(clock::now() < until, "no reply comes");
    }
    true
}

/// The next reply's cookie and error; `None` if the connection has ended.
fn reply(rig: &mut Rig, client: &mut UnixStream) -> Option<(u64, u32)> {
    let mut reply = [0; 16];
    hear(rig, client, &mut reply).then(|| {
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        (u64::from_be_bytes(reply[8..].try_into().unwrap()), error)
    })
}

fn lent(rig: &Rig) -> usize {
    rig.shard.carried.as_ref().unwrap().lent()
}

#[test]
fn what_carried_clients_write_is_read_by_others_and_nothing_stays_lent() {
    let mut rig = carried(&[7], 2);
    let mut writer = rig.client(7, &[write(1, 0x77)]);
    assert_eq!(reply(&mut rig, &mut writer), Some((1, 0)));
    let mut reader = rig.client(7, &[read(2), flush(3)]);
    let mut bytes = [0; 16 + BYTES + 16];
    assert!(hear(&mut rig, &mut reader, &mut bytes));
    assert_eq!(bytes[16..16 + BYTES], [0x77; BYTES]);
    let carried = rig.shard.carried.as_ref().unwrap();
    assert_eq!(carried.keys().len(), 2);
    assert_eq!(carried.crowds(), [1, 1], "each carrier has one of them");
    drop((writer, reader));
    until(&mut rig, |rig| rig.shard.carried.as_ref().unwrap().is_empty() && lent(rig) == 0);
    assert_eq!(rig.shard.vdisks[0].stats.requests(), 3);
    assert_eq!((rig.shard.vdisks[0].clients, rig.budget.used()), (0, 0));
    rig.shard.engine.assert_conserved();
    until(&mut rig, |rig| rig.shard.stats.carriers_cpu_ns.load(Ordering::Relaxed) > 0);
}

/// The system reads a plain reply straight from the store, in which the shard goes on writing. A reply under
/// TLS is read by the carrier itself.
#[test]
fn a_store_is_lent_to_clients_without_tls_alone() {
    let mut rig = carried(&[7], 1);
    let mut clients = Vec::new();
    for (tls, may) in [(None, true), (Some(Box::new(Channel::mute())), false)] {
        let before = rig.shard.carried.as_ref().unwrap().keys();
        clients.push(rig.client_under(7, &[], tls));
        let carried = rig.shard.carried.as_ref().unwrap();
        let key = carried.keys().into_iter().find(|key| !before.contains(key));
        assert!(key.is_some());
        assert_eq!(carried.may_lend(key), may);
    }
    assert!(rig.shard.carried.as_ref().unwrap().may_lend(None), "migration is no client's");
}

/// As of clients of the shard's own: what the device has not begun is refused, also a write whose data
/// are on their way to a carrier.
#[test]
fn a_removal_refuses_what_carried_clients_wait_for() {
    let mut rig = carried(&[7, 8], 1);
    rig.shut.set(true);
    let mut client = rig.client(7, &[flush(1), flush(2), flush(3)]);
    // A carrier takes both requests before it hears anything more: once the shard has the first, the second is
    // begun.
    let mut writer = rig.client(7, &[flush(8), write(9, 1)[..100].to_vec()]);
    until(&mut rig, |rig| rig.shard.device.flights.len() == 1 && rig.shard.operations.len() == 5);
    let removed = rig.remove(7);
    for cookie in [2, 3] {
        assert_eq!(reply(&mut rig, &mut client), Some((cookie, SHUTDOWN)));
    }
    assert_eq!(reply(&mut rig, &mut writer), Some((8, SHUTDOWN)));
    assert_eq!(reply(&mut rig, &mut writer), Some((9, SHUTDOWN)));
    assert_eq!(reply(&mut rig, &mut writer), None);
    assert_eq!(removed.try_recv(), Err(TryRecvError::Empty));
    rig.open();
    assert_eq!(reply(&mut rig, &mut client), Some((1, 0)), "the device had begun it");
    assert_eq!(reply(&mut rig, &mut client), None);
    until(&mut rig, |rig| rig.shard.vdisks.find(VdiskId(7)).is_err() && lent(rig) == 0);
    until(&mut rig, |rig| rig.shard.carried.as_ref().unwrap().is_empty());
    assert_eq!(removed.try_recv(), Ok(Ok(())));
    rig.shard.engine.assert_conserved();
}

/// A part that was on its way to the shard when its virtual disk was removed.
#[test]
fn a_removal_refuses_what_has_not_been_heard_yet() {
    let mut rig = carried(&[7], 1);
    let mut client = rig.client(7, &[]);
    until(&mut rig, |rig| rig.shard.vdisks[0].clients == 1);
    // Until its carrier has the client, the shard hears of none of its requests.
    client.write_all(&flush(1)).unwrap();
    assert_eq!(reply(&mut rig, &mut client), Some((1, 0)));
    client.write_all(&flush(2)).unwrap();
    let end = clock::now() + TIMEOUT;
    // Other news is no sign of it: a carrier tells what it has worked and which loans have ended.
    while !rig.shard.carried.as_mut().unwrap().has_part() {
        assert!(clock::now() < end, "the carrier says nothing");
        std::thread::yield_now();
    }
    let (answer, removed) = crossbeam_channel::bounded(1);
    rig.shard.remove_vdisk(VdiskId(7), answer);
    assert_eq!(reply(&mut rig, &mut client), Some((2, SHUTDOWN)));
    assert_eq!(reply(&mut rig, &mut client), None);
    until(&mut rig, |_| !removed.is_empty());
    assert_eq!(removed.try_recv(), Ok(Ok(())));
}

/// A client that is gone leaves nothing behind: neither what waits, nor what the device has.
#[test]
fn requests_of_a_carried_client_that_is_gone_are_dropped() {
    let mut rig = carried(&[7], 1);
    rig.shut.set(true);
    let client = rig.client(7, &[write(1, 1), write(2, 2), read(3)]);
    until(&mut rig, |rig| rig.shard.device.flights.len() == 1 && rig.shard.operations.len() == 4);
    drop(client);
    until(&mut rig, |rig| rig.shard.operations.len() == 2);
    rig.open();
    until(&mut rig, |rig| rig.shard.carried.as_ref().unwrap().is_empty() && lent(rig) == 0);
    assert_eq!((rig.shard.operations.len(), rig.budget.used()), (1, 0), "that of migration");
    rig.shard.engine.assert_conserved();
}

/// More requests than the way to the shard has room for: the rest of them waits with the carrier, and
/// none is forgotten.
#[test]
fn requests_for_which_there_is_no_room_wait() {
    const EACH: u64 = 600;
    let mut rig = carried(&[7], 1);
    let flood: Vec<_> = (0..EACH).map(flush).collect();
    let mut clients: Vec<_> = (0..4).map(|_| rig.client(7, &[])).collect();
    until(&mut rig, |rig| rig.shard.vdisks[0].clients == 4);
    // The shard does nothing meanwhile.
    for client in &mut clients {
        client.set_nonblocking(false).unwrap();
        client.write_all(&flood.concat()).unwrap();
        client.set_nonblocking(true).unwrap();
    }
    std::thread::yield_now();
    for client in &mut clients {
        let replies = (0..EACH).map(|_| reply(&mut rig, client).unwrap());
        let mut cookies: Vec<_> = replies.map(|(cookie, _)| cookie).collect();
        cookies.sort_unstable();
        assert!(cookies.into_iter().eq(0..EACH));
    }
}

/// A carrier had waited for room for what it had to say. It had that by the end of its turn, and slept: clients
/// that were to be served in the turn never were.
#[test]
fn replies_are_sent_after_the_ends_of_others_had_no_room() {
    const EACH: usize = 500;
    let long = |cookie| [&read(cookie)[..24], &4096_u32.to_be_bytes()].concat();
    let mut rig = carried(&[7], 1);
    let mut clients: Vec<_> = (0..4).map(|_| rig.client(7, &[])).collect();
    clients[0].write_all(&write(1, 1)).unwrap();
    assert_eq!(reply(&mut rig, &mut clients[0]), Some((1, 0)));
    for (client, before) in clients.iter_mut().zip([0, 400, 800, 1200]) {
        client.write_all(&(0..500).flat_map(long).collect::<Vec<_>>()).unwrap();
        until(&mut rig, |rig| lent(rig) > before + 400);
    }
    let mut left = clients.len() * EACH * (16 + 4096);
    let mut take = || {
        let mut bytes = vec![0; 64 << 10];
        let came = clients.iter_mut().map(|client| client.read(&mut bytes).unwrap_or(0));
        let came = came.sum::<usize>();
        left -= came;
        std::thread::yield_now();
        (came, left)
    };
    // The shard hears nothing until the carrier can't go on.
    let mut nothing = 0;
    while nothing < 10_000 {
        nothing = if take().0 == 0 { nothing + 1 } else { 0 };
    }
    let end = clock::now() + TIMEOUT;
    while take().1 > 0 {
        assert!(clock::now() < end, "replies are missing");
        rig.shard.turn();
    }
}

/// A client whose bytes a carrier copied had that thread for nothing.
#[test]
fn a_carriers_work_is_charged_to_its_clients() {
    let mut rig = carried(&[7, 8], 1);
    let mut client = rig.client(8, &[]);
    client.write_all(&flush(1)).unwrap();
    let end = clock::now() + TIMEOUT;
    let worked = loop {
        rig.shard.hear_carriers();
        let worked = rig.shard.turns.own_time.worked(0);
        if worked.iter().any(|(vdisk, _)| *vdisk == 1) {
            break worked;
        }
        assert!(clock::now() < end, "the carrier tells of no work");
        std::thread::yield_now();
    };
    assert!(worked.iter().all(|(vdisk, bytes)| *vdisk == 1 && *bytes > 0));
    assert_eq!(reply(&mut rig, &mut client), Some((1, 0)));
    rig.shard.look();
    rig.shard.charge_own_time();
    assert!(rig.shard.turns.own_time.worked(0).is_empty());
    rig.shard.engine.assert_conserved();
}

/// A flood of unknown commands was charged as one request for each 64 KiB of them.
#[test]
fn refusals_of_a_carrier_are_charged_to_its_clients() {
    let mut rig = carried(&[7], 1);
    let mut client = rig.client(7, &[]);
    let end = clock::now() + TIMEOUT;
    // The carrier may tell of its work only when it next has some.
    for count in [400, 1, 1, 1, 1, 1, 1, 1, 1] {
        client.write_all(&request(99, 1, 0).repeat(count)).unwrap();
        let mut left = count * 16;
        while left > 0 {
            left -= client.read(&mut [0; 16 * 400]).unwrap_or(0);
            assert!(clock::now() < end, "replies are missing");
            rig.shard.hear_carriers();
            std::thread::yield_now();
        }
    }
    let worked: u64 = rig.shard.turns.own_time.worked(0).iter().map(|(_, bytes)| bytes).sum();
    assert!(worked >= 400 * (8 << 10), "{worked} bytes");
}

/// Its clients would wait for a thread that is gone.
#[test]
fn the_end_of_a_carrier_ends_the_shard() {
    let mut rig = carried(&[7], 2);
    rig.shard.carried.as_mut().unwrap().end_one();
    let until = clock::now() + TIMEOUT;
    let error = loop {
        rig.handle.wake();
        if let Err(error) = rig.shard.go_round(&mut rig.finished) {
            break error;
        }
        assert!(clock::now() < until, "nobody notices");
    };
    assert!(error.to_string().contains("carries its clients' bytes"), "{error}");
}

/// Clients go to the successor with what they have sent and nobody has read.
#[test]
fn carried_clients_are_handed_over() {
    let mut rig = carried(&[7], 2);
    let mut clients: Vec<_> = (0..3).map(|_| rig.client(7, &[])).collect();
    for client in &mut clients {
        client.write_all(&flush(1)).unwrap();
        assert_eq!(reply(&mut rig, client), Some((1, 0)));
        client.write_all(&flush(2)[..10]).unwrap();
    }
    let (to, left) = crossbeam_channel::unbounded();
    rig.tell(Message::HandOver(to));
    until(&mut rig, |rig| rig.shard.drained());
    let mut count = 0;
    for leaving in left.try_iter() {
        let Leaving::Client(parted) = leaving else { panic!("nothing is lost") };
        assert!(parted.unread.len() <= 10 && parted.skip == 0);
        count += 1;
    }
    assert_eq!((count, rig.budget.used()), (3, 0));
}

/// As of clients of the shard's own.
#[test]
fn a_carried_client_that_only_sends_no_more_gets_its_replies() {
    let mut rig = carried(&[7], 1);
    rig.shut.set(true);
    let mut client = rig.client(7, &[flush(1), write(2, 0x77), flush(3)]);
    until(&mut rig, |rig| rig.shard.operations.len() == 4);
    client.shutdown(Shutdown::Write).unwrap();
    rig.open();
    let mut came = [(); 3].map(|()| reply(&mut rig, &mut client).unwrap());
    came.sort_unstable();
    assert_eq!(came, [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(reply(&mut rig, &mut client), None);
    until(&mut rig, |rig| rig.shard.carried.as_ref().unwrap().is_empty() && lent(rig) == 0);
    rig.shard.engine.assert_conserved();
}

/// As of clients of the shard's own.
#[test]
fn a_carried_client_leaves_under_the_present_name_of_its_virtual_disk() {
    let mut rig = carried(&[7], 1);
    let _client = rig.client(7, &[]);
    rig.tell(Message::Rename(VdiskId(7), "new".to_owned()));
    let (to, left) = crossbeam_channel::unbounded();
    rig.tell(Message::HandOver(to));
    until(&mut rig, |rig| rig.shard.carried.as_ref().unwrap().is_empty());
    assert_eq!(left_behind(&left)[0], ["new"]);
}
