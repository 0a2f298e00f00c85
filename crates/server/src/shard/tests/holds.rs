//! Virtual disks whose requests wait for a moment.

use super::*;

impl Rig {
    fn hold(&mut self, id: u64) -> Outcome {
        let (answer, outcome) = crossbeam_channel::bounded(1);
        self.tell(Message::Hold(VdiskId(id), answer));
        outcome
    }
}

/// A file that is written while it is cloned gives a clone of no moment.
#[test]
fn a_hold_lets_the_device_end_what_it_has_and_keeps_the_rest_for_later() {
    let mut rig = rig(&[7, 8]);
    rig.shut.set(true);
    let mut client = rig.client(7, &[write(1, 1), write(2, 2)]);
    let mut neighbour = rig.client(8, &[]);
    rig.until(|shard| shard.device.flights.len() == 1 && shard.operations.len() == 3);
    let held = rig.hold(7);
    assert_eq!(held.try_recv(), Err(TryRecvError::Empty), "the device has one yet");
    assert_eq!(rig.hold(7).try_recv(), Ok(Err(VdiskError::Held)));
    assert_eq!(rig.hold(9).try_recv(), Ok(Err(VdiskError::Unknown(VdiskId(9)))));
    rig.open();
    assert_eq!(replies(&mut rig, &mut client), (vec![(1, 0)], false));
    assert_eq!(held.try_recv(), Ok(Ok(())));
    // Requests that come meanwhile wait as well; those of others don't.
    client.write_all(&write(3, 3)).unwrap();
    neighbour.write_all(&write(4, 4)).unwrap();
    assert_eq!(replies(&mut rig, &mut client), (vec![], false));
    assert_eq!(replies(&mut rig, &mut neighbour), (vec![(4, 0)], false));
    rig.shard.engine.assert_conserved();
    rig.tell(Message::Release(VdiskId(7)));
    let (mut cookies, ended) = replies(&mut rig, &mut client);
    cookies.sort_unstable();
    assert_eq!((cookies, ended), (vec![(2, 0), (3, 0)], false));
    assert_eq!(rig.hold(7).try_recv(), Ok(Ok(())), "nothing is under way");
    rig.shard.engine.assert_conserved();
}

#[test]
fn clients_and_removals_come_to_their_end_while_a_virtual_disk_is_held() {
    let mut rig = rig(&[7, 8]);
    assert_eq!(rig.hold(7).try_recv(), Ok(Ok(())));
    let gone = rig.client(7, &[write(1, 1), flush(2)]);
    let mut stays = rig.client(7, &[write(3, 3)]);
    rig.until(|shard| shard.operations.len() == 4);
    drop(gone);
    rig.until(|shard| shard.clients.len() == 1 && shard.operations.len() == 2);
    let removed = rig.remove(7);
    assert_eq!(replies(&mut rig, &mut stays), (vec![(3, SHUTDOWN)], true));
    assert_eq!(removed.try_recv(), Ok(Ok(())));
    rig.tell(Message::Release(VdiskId(7)));
    assert_eq!(rig.add(9, spec()).try_recv(), Ok(Ok(())));
    let mut client = rig.client(9, &[write(4, 4)]);
    assert_eq!(replies(&mut rig, &mut client), (vec![(4, 0)], false), "the next one is not held");
    rig.shard.engine.assert_conserved();
}
