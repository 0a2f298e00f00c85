//! Guests beside clients.

use crossbeam_channel::{Sender, unbounded};

use super::*;
use crate::guest_messages::{Ask, Call, Facts, Told};
use crate::shard::FromGuest;

/// A guest that says whatever it likes at once, and is told things.
struct Guest {
    says: Sender<Ask>,
    told: Receiver<Told>,
}

impl Rig {
    fn guest(&mut self, number: u64) -> Guest {
        let ((says, asks), (to, told)) = (unbounded(), unbounded());
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let name = "/mnt".into();
        let came = FromGuest::Came { name, told: to, asks, headroom_ppm: 0, answer };
        self.tell(Message::Guest(number, came));
        assert_eq!(outcome.try_recv(), Ok(Ok(())));
        let Ok(Told::Welcome(Facts { requests_max: 8192, .. })) = told.try_recv() else {
            panic!("it is not welcome");
        };
        says.send(Ask::Add(Call { call: 1, stream: 0 }, Contract::default(), String::new()))
            .unwrap();
        self.until(|_| !told.is_empty());
        assert_eq!(told.try_recv(), Ok(Told::Answer(1, Ok(()))));
        Guest { says, told }
    }
}

fn ask_for(request: u32) -> Ask {
    Ask::Request { request, stream: 0, kind: Kind::Read, offset: 0, bytes: 512 }
}

/// A guest's messages were taken for as long as it sent any: nobody else was heard meanwhile.
#[test]
fn a_guest_is_heard_a_few_messages_a_round_and_clients_go_on() {
    let mut rig = rig(&[7]);
    let guest = rig.guest(1);
    // Ends of turns that it never had, which take no time of the device.
    (0..8000).for_each(|_| guest.says.send(Ask::Ended { turn: 999, done: true }).unwrap());
    let mut client = rig.client(7, &[read(1)]);
    for _ in 0..10 {
        let before = guest.says.len();
        rig.go_round();
        assert!((1..=64).contains(&(before - guest.says.len())), "{before}");
    }
    assert_eq!(data(&mut rig, &mut client), [0; BYTES]);
    assert!(guest.says.len() > 5000, "the client was served before all of the guest's was heard");
    // Nothing of a flood is lost: each request has its turn, and its end.
    (0..8000).for_each(|request| guest.says.send(ask_for(request)).unwrap());
    let (mut turns, mut over) = (0, 0);
    while over < 8000 {
        rig.go_round();
        for told in guest.told.try_iter() {
            match told {
                Told::Turn(turn) => {
                    turns += 1;
                    guest.says.send(Ask::Ended { turn: turn.turn, done: true }).unwrap();
                }
                Told::Over { taken: true, .. } => over += 1,
                told => panic!("{told:?}"),
            }
        }
    }
    assert_eq!(turns, 8000);
    rig.shard.engine.assert_conserved();
}

/// A guest with few messages waits for no other one's flood.
#[test]
fn guests_are_heard_in_turn() {
    let mut rig = rig(&[7]);
    let (flood, calm) = (rig.guest(1), rig.guest(2));
    (0..8000).for_each(|request| flood.says.send(ask_for(request)).unwrap());
    for request in 0..10 {
        calm.says.send(ask_for(request)).unwrap();
        rig.go_round();
        assert!(calm.says.is_empty(), "it was heard in this round");
    }
    assert!(flood.says.len() > 7000);
}
