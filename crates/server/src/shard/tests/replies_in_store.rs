//! Replies that leave from the store of the back end, beside whatever changes the same bytes.

use super::*;
use crate::memory::OWN;

/// Length of a read whose reply is longer than what a few of them leave free in a socket.
const LONG: usize = 64 << 10;
/// Replies of which the last ones wait for the client to read.
const COUNT: usize = 16;

/// Where the bytes are.
const AT: u64 = 12 << 10;

/// A request with another length.
fn long(command: u16, cookie: u64, offset: u64, bytes: usize) -> Vec<u8> {
    let mut request = request(command, cookie, offset);
    request.truncate(24);
    request.extend(u32::try_from(bytes).unwrap().to_be_bytes());
    request
}

fn long_write(cookie: u64, byte: u8) -> Vec<u8> {
    [long(1, cookie, AT, LONG), vec![byte; LONG]].concat()
}

/// Has the shard work until so many bytes have come.
fn collect(rig: &mut Rig, client: &mut UnixStream, bytes: usize) -> Vec<u8> {
    let mut came = vec![0; bytes];
    let mut count = 0;
    for _ in 0..10_000 {
        rig.go_round();
        while let Ok(more @ 1..) = client.read(&mut came[count..]) {
            count += more;
        }
        if count == bytes {
            return came;
        }
    }
    panic!("{count} of {bytes} bytes came");
}

/// A virtual disk full of ones of which a client has asked for more than its socket takes, and a client
/// that may change it.
fn rig_with_unread_replies() -> (Rig, UnixStream, UnixStream) {
    let mut rig = rig(&[7]);
    let mut writer = rig.client(7, &[]);
    writer.write_all(&long_write(1, 0x11)).unwrap();
    rig.until(|shard| shard.vdisks[0].stats.requests() == 1);
    assert_eq!(replies(&mut rig, &mut writer), (vec![(1, 0)], false));
    let mut reader = rig.client(7, &[]);
    ask(&mut rig, &mut reader);
    (rig, writer, reader)
}

/// Asks for the replies, and has the device be done with them.
fn ask(rig: &mut Rig, reader: &mut UnixStream) {
    let before = rig.shard.vdisks[0].stats.requests();
    let requests: Vec<u8> =
        (0..COUNT as u64).flat_map(|cookie| long(0, cookie, AT, LONG)).collect();
    reader.write_all(&requests).unwrap();
    rig.until(|shard| shard.vdisks[0].stats.requests() == before + COUNT as u64);
}

/// The data of all replies.
fn all_data(rig: &mut Rig, reader: &mut UnixStream) -> Vec<Vec<u8>> {
    let bytes = collect(rig, reader, COUNT * (16 + LONG));
    let reply = |reply: &[u8]| {
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        assert_eq!(reply[4..8], [0; 4], "no error");
        reply[16..].to_vec()
    };
    bytes.chunks(16 + LONG).map(reply).collect()
}

fn only_of(data: &[u8], bytes: &[u8]) -> bool {
    data.iter().all(|byte| bytes.contains(byte))
}

#[test]
fn a_lent_read_beside_a_write_has_the_bytes_of_before_or_after() {
    let (mut rig, mut writer, mut reader) = rig_with_unread_replies();
    writer.write_all(&[long(1, 2, AT, BYTES), vec![0x22; BYTES]].concat()).unwrap();
    assert_eq!(replies(&mut rig, &mut writer), (vec![(2, 0)], false));
    let data = all_data(&mut rig, &mut reader);
    for data in &data {
        assert!(only_of(&data[..BYTES], &[0x11, 0x22]) && only_of(&data[BYTES..], &[0x11]));
    }
    assert!(only_of(&data[0], &[0x11]), "it had left");
    assert!(only_of(&data[COUNT - 1][..BYTES], &[0x22]), "it leaves from the store");
}

/// A region of the store that a trim has emptied goes, and the next write there makes another one.
#[test]
fn a_lent_read_beside_a_trim_has_the_bytes_of_before_or_zeroes() {
    let (mut rig, mut writer, mut reader) = rig_with_unread_replies();
    writer.write_all(&trim(2, u32::try_from(MIB).unwrap())).unwrap();
    assert_eq!(replies(&mut rig, &mut writer), (vec![(2, 0)], false));
    writer.write_all(&long_write(3, 0x33)).unwrap();
    rig.until(|shard| shard.vdisks[0].stats.requests() == COUNT as u64 + 3);
    let data = all_data(&mut rig, &mut reader);
    assert!(data.iter().all(|data| only_of(data, &[0x11, 0])));
    assert!(only_of(&data[COUNT - 1], &[0]), "a region that is gone keeps no bytes");
    ask(&mut rig, &mut reader);
    assert!(all_data(&mut rig, &mut reader).iter().all(|data| only_of(data, &[0x33])));
}

#[test]
fn a_lent_read_outlives_growth_and_removal() {
    let (mut rig, writer, mut reader) = rig_with_unread_replies();
    let (answer, grown) = crossbeam_channel::bounded(1);
    rig.tell(Message::Grow { vdisk: VdiskId(7), bytes: 64 * MIB, extent: None, answer });
    assert_eq!(grown.try_recv(), Ok(Ok(())));
    let removed = rig.remove(7);
    drop(writer);
    assert_eq!(removed.try_recv(), Err(TryRecvError::Empty), "its replies have not left");
    assert!(all_data(&mut rig, &mut reader).iter().all(|data| only_of(data, &[0x11])));
    rig.until(|shard| shard.clients.is_empty());
    assert_eq!(removed.try_recv(), Ok(Ok(())));
}

/// Replies that gathered while a longer message left stayed where they were: nothing came back from the ring
/// for them. Bytes that were never written are not in the store.
#[test]
fn replies_that_gather_behind_a_long_message_leave_after_it() {
    let mut rig = rig(&[7]);
    let mut reader = rig.client(7, &[]);
    ask(&mut rig, &mut reader);
    assert!(all_data(&mut rig, &mut reader).iter().all(|data| only_of(data, &[0])));
}

/// Replies that leave at once give memory back without a completion from the ring: a read longer than the
/// memory of its connection has to go on by itself. A read as long as one part, which the memory had no
/// room for, was cut all the same, and its simple reply had no header.
#[test]
fn a_read_longer_than_its_connections_memory_goes_on_as_replies_leave() {
    let mut rig = rig(&[7]);
    rig.budget = Budget::new(OWN);
    let bytes = usize::try_from(MIB).unwrap();
    let mut client = rig.client(7, &[long(0, 1, 0, bytes)]);
    let came = collect(&mut rig, &mut client, 16 + bytes);
    assert!(came[4..8] == [0; 4] && only_of(&came[16..], &[0]));
}
