//! Families: what a parent and its children may have, share and use together.

mod rig;

use disktime_core::policy;
use disktime_core::{
    Change, ChangeError, Class, Contract, Duration, Kind, Rate, Request, Share, StreamError,
    StreamId, StreamSpec,
};
use proptest::prelude::*;
use rig::{MS, Rig, SECOND, at, contract, percent, read};

const HEAD: StreamId = StreamId(0);

fn child(contract: Contract) -> StreamSpec {
    StreamSpec { contract, parent: Some(HEAD), ..StreamSpec::default() }
}

/// A parent with these children, 1 and following, and a stream 9 beside them.
fn family(head: Contract, children: &[Contract], beside: Contract) -> Rig {
    let mut rig = Rig::new(1);
    rig.add(0, head);
    for (id, contract) in (1..).zip(children) {
        rig.change(0, Change::AddStream(StreamId(id), child(*contract)));
    }
    rig.add(9, beside);
    rig
}

fn refused(rig: &mut Rig, change: Change<'_>) -> ChangeError {
    rig.engine.handle_change(at(0), change).expect_err("it can't be")
}

/// The reservations by which streams are served now, in per cent.
fn served(rig: &Rig, streams: &[u32]) -> Vec<u32> {
    streams.iter().map(|id| rig.view(*id).contract().reserve.ppm() / 10_000).collect()
}

fn weights(rig: &Rig, streams: &[u32]) -> Vec<u32> {
    streams.iter().map(|id| rig.view(*id).contract().weight).collect()
}

/// The next piece goes out and comes back that much later.
fn serve(rig: &mut Rig, now: u64, took: u64) -> u32 {
    let piece = rig.go_one(now);
    let over = rig.done(now + took, piece.piece).expect("requests are a piece each");
    over.stream.0
}

/// Members 1 and 2 want all there is for a minute. Answers what each was charged, in ms.
fn two_members_for_a_minute(rig: &mut Rig) -> Vec<u64> {
    let (mut now, mut id) = (0, 0);
    (1..3).for_each(|stream| rig.ask(0, stream, stream, 1_000));
    while now < 60 * SECOND {
        match rig.go(now).as_slice() {
            [] => {
                now = rig.engine.poll_timeout().expect("a limit ends").as_nanos();
                rig.timeout(now);
            }
            [piece] => {
                now += MS;
                let over = rig.done(now, piece.piece).expect("a request is a piece");
                id = (id + 1) % 1_000;
                rig.ask(now, 10 + id, over.stream.0, 1_000);
            }
            more => panic!("depth 1: {more:?}"),
        }
    }
    (1..3).map(|stream| rig.charged(stream) / MS).collect()
}

#[test]
fn a_childs_reservation_is_a_part_of_its_parents() {
    let mut rig = family(contract(60, 100), &[contract(50, 100)], contract(40, 100));
    let spec = child(contract(20, 100));
    let (asked_ppm, reserve) = (700_000, percent(60));
    let over = StreamError::Children { asked_ppm, reserve }.of(HEAD);
    assert_eq!(refused(&mut rig, Change::AddStream(StreamId(2), spec)), over);
    let more = [(StreamId(1), contract(70, 100))];
    assert_eq!(refused(&mut rig, Change::SetContracts(&more)), over);
    let less = [(HEAD, contract(40, 100))];
    let over = StreamError::Children { asked_ppm: 500_000, reserve: percent(40) }.of(HEAD);
    assert_eq!(refused(&mut rig, Change::SetContracts(&less)), over);
    let says = "the children of stream 0 would reserve 50.0000% of the device, 40% fit into it: \
                lower one, or raise its reservation";
    assert_eq!(over.to_string(), says);
    // Both at once fit.
    let both = [(HEAD, contract(40, 100)), (StreamId(1), contract(40, 100))];
    rig.change(0, Change::SetContracts(&both));
    rig.change(0, Change::AddStream(StreamId(3), child(contract(0, 100))));
    // The device has as much left as the parent gave up.
    rig.add(4, contract(20, 100));
    let over = refused(&mut rig, Change::AddStream(StreamId(5), spec_of(contract(1, 100))));
    assert!(matches!(over, ChangeError::Overbooked { asked_ppm: 1_010_000, .. }), "{over:?}");
}

fn spec_of(contract: Contract) -> StreamSpec {
    StreamSpec { contract, ..StreamSpec::default() }
}

#[test]
fn a_parent_is_a_stream_without_a_parent_and_without_a_rate() {
    let mut rig = family(contract(60, 100), &[contract(50, 100)], contract(0, 100));
    let stream = StreamId(5);
    for parent in [StreamId(1), StreamId(7), stream] {
        let spec = StreamSpec { parent: Some(parent), ..StreamSpec::default() };
        let error = refused(&mut rig, Change::AddStream(stream, spec));
        assert_eq!(error, ChangeError::Parent { stream, parent });
    }
    let rate = Rate {
        bytes_per_second: 1_000_000,
        cycle: None,
        admission: disktime_core::Admission::BestEffort,
        access: disktime_core::Access::Both,
    };
    let class = Class::GuaranteedRate;
    let steady = Contract { rate: Some(rate), class, ..contract(0, 100) };
    let error = refused(&mut rig, Change::AddStream(stream, child(steady)));
    assert_eq!(error, StreamError::RateInFamily.of(stream));
    let error = refused(&mut rig, Change::SetContracts(&[(HEAD, steady)]));
    assert_eq!(error, StreamError::RateInFamily.of(HEAD));
    rig.change(0, Change::SetContracts(&[(StreamId(9), steady)]));
    let spec = StreamSpec { parent: Some(StreamId(9)), ..StreamSpec::default() };
    let error = refused(&mut rig, Change::AddStream(stream, spec));
    assert_eq!(error, StreamError::RateInFamily.of(stream));
}

#[test]
fn a_parent_goes_after_its_children() {
    let mut rig = family(contract(60, 100), &[contract(50, 100)], contract(0, 100));
    let remove = Change::RemoveStream(HEAD);
    assert_eq!(refused(&mut rig, remove), StreamError::HasChildren.of(HEAD));
    rig.change(0, Change::RemoveStream(StreamId(1)));
    assert_eq!(rig.view(0).contract(), contract(60, 100), "it has all of its own again");
    assert_eq!(rig.view(0).promised(), contract(60, 100));
    rig.change(0, remove);
    rig.add(0, contract(100, 100));
}

/// A member that was idle at two looks, 20 ms from each other at least, lends its part; it has it again with its
/// next request. One that has pauses shorter than that lends nothing.
#[test]
fn a_member_with_nothing_to_do_lends_its_part_until_its_next_request() {
    let children = [contract(30, 100), contract(10, 100)];
    let mut rig = family(contract(60, 100), &children, contract(40, 100));
    assert_eq!(rig.view(0).promised().reserve, percent(20), "its children have the rest");
    // The children had no request so far: what the second one lends is the parent's and the first one's.
    rig.ask(0, 0, 1, 1_000);
    assert_eq!(served(&rig, &[0, 1, 2]), [25, 35, 0]);
    rig.ask(0, 1, 0, 1_000);
    serve(&mut rig, 0, MS);
    serve(&mut rig, MS, 24 * MS);
    assert_eq!(served(&rig, &[0, 1, 2]), [25, 35, 0], "they were seen idle once");
    rig.ask(26 * MS, 2, 0, 1_000);
    serve(&mut rig, 26 * MS, 18 * MS);
    assert_eq!(served(&rig, &[0, 1, 2]), [25, 35, 0], "the second look is no sooner than 20 ms");
    rig.ask(44 * MS, 3, 0, 1_000);
    serve(&mut rig, 44 * MS, MS);
    assert_eq!(served(&rig, &[0, 1, 2]), [60, 0, 0], "the first child lends, too");
    rig.ask(46 * MS, 4, 2, 1_000);
    assert_eq!(served(&rig, &[0, 1, 2]), [35, 0, 25]);
}

#[test]
fn what_is_lent_goes_by_weight_and_up_to_limits() {
    let heavy = |reserve, limit, weight| Contract { weight, ..contract(reserve, limit) };
    let children = [heavy(0, 15, 100), heavy(10, 100, 300), heavy(20, 100, 100)];
    let mut rig = family(heavy(60, 100, 500), &children, contract(0, 100));
    rig.ask(0, 0, 1, 1_000);
    rig.ask(0, 1, 2, 1_000);
    // The parent lends its part, too, once it was idle at two looks.
    for (id, now) in (2..).zip([0, 30, 60]) {
        let stream = serve(&mut rig, now * MS, MS);
        rig.ask((now + 1) * MS, id, stream, 1_000);
    }
    assert_eq!(served(&rig, &[0, 1, 2, 3]), [0, 12, 47, 0], "50 % by weights of 1 and 3");
    assert_eq!(weights(&rig, &[0, 1, 2, 3]), [0, 125, 375, 0], "the parent's, divided");
    rig.change(61 * MS, Change::SetContracts(&[(StreamId(1), heavy(0, 5, 100))]));
    assert_eq!(served(&rig, &[1, 2]), [5, 55], "the rest is the other's");
}

/// A charge that comes late, for what the device did for a member that rests, is charged by its part.
#[test]
fn a_member_that_is_charged_lends_its_part_no_more() {
    let mut rig = family(contract(60, 100), &[contract(30, 100)], contract(0, 100));
    rig.engine.handle_idled(at(MS), StreamId(1), Duration::from_millis(1));
    assert_eq!(served(&rig, &[0, 1]), [30, 30]);
    assert!(weights(&rig, &[1])[0] > 0);
}

/// A member keeps what it had saved up while it rests, as any stream that is idle: up to a period's.
#[test]
fn a_member_that_rests_keeps_what_it_had_saved_up() {
    let mut rig = family(contract(60, 100), &[contract(30, 100)], contract(0, 100));
    rig.ask(0, 0, 1, 1_000);
    assert_eq!(serve(&mut rig, 0, MS), 1);
    for (id, now) in (1..).zip([100, 200, 300]) {
        rig.ask(now * MS, id, 0, 1_000);
        assert_eq!(serve(&mut rig, now * MS, MS), 0);
    }
    assert_eq!(served(&rig, &[0, 1]), [60, 0]);
    let saved = rig.view(1).reserve_level();
    assert!((59 * MS..=90 * MS).contains(&saved.cast_unsigned()), "{saved}: 30 % of 200 to 300 ms");
    rig.ask(SECOND, 9, 1, 1_000);
    assert_eq!(rig.view(1).reserve_level(), saved);
}

/// Both children want all there is, and the parent may use a fifth of the device.
#[test]
fn a_parents_limit_holds_for_all_members_together() {
    let children = [contract(0, 100), contract(0, 100)];
    let mut rig = family(contract(0, 20), &children, contract(0, 100));
    let used = two_members_for_a_minute(&mut rig);
    let both = used.iter().sum::<u64>();
    assert!((12_000..=12_400).contains(&both), "{used:?}: a fifth of 60 s, and a period of it");
    assert!(used[0].abs_diff(used[1]) <= 400, "{used:?}: neither has the other's");
}

/// A member whose debit uses the parent's limit up shuts its siblings' gates, and they open at once when it turns
/// out to take less.
#[test]
fn a_debit_that_uses_a_parents_limit_up_holds_siblings_back_until_it_is_corrected() {
    let mut rig = family(contract(0, 20), &[contract(0, 100); 2], contract(0, 100));
    rig.change(0, Change::SetDepth(2));
    rig.timeout(30 * SECOND);
    rig.ask(30 * SECOND, 0, 1, 300_000);
    rig.ask(30 * SECOND, 1, 2, 1_000);
    let long = rig.go_one(30 * SECOND);
    assert_eq!(long.request.0, 0, "its estimate is 300 ms, and 200 ms may be used at once");
    assert!(rig.engine.poll_timeout() > Some(at(30 * SECOND + 10 * MS)));
    rig.done(30 * SECOND + 10 * MS, long.piece);
    rig.timeout(30 * SECOND + 100 * MS);
    assert_eq!(rig.go_one(30 * SECOND + 100 * MS).request.0, 1);
}

/// A sibling that has used up all that the parent's limit leaves does not delay a child's reserved time.
#[test]
fn a_child_with_reserved_time_goes_though_its_parents_limit_is_used_up() {
    let children = [contract(20, 100), contract(0, 100)];
    let mut rig = family(contract(30, 30), &children, contract(0, 100));
    rig.timeout(30 * SECOND);
    rig.ask(30 * SECOND, 0, 2, 900_000);
    let long = rig.go_one(30 * SECOND);
    rig.done(30 * SECOND + 900 * MS, long.piece);
    rig.ask(31 * SECOND, 1, 2, 1_000);
    rig.ask(31 * SECOND, 2, 1, 1_000);
    assert!(rig.go(31 * SECOND).is_empty(), "it has not earned any time yet");
    rig.timeout(31 * SECOND + MS);
    assert_eq!(rig.go_one(31 * SECOND + MS).request.0, 2, "600 ms too much were used");
}

/// A sibling that takes all that the parent's limit leaves holds no reserved time back.
#[test]
fn a_parents_limit_does_not_hold_back_what_a_child_reserves() {
    let children = [contract(20, 100), contract(0, 100)];
    let mut rig = family(contract(30, 30), &children, contract(0, 100));
    let used = two_members_for_a_minute(&mut rig);
    assert!(used[0] >= 12_000, "{used:?}: a fifth of 60 s is reserved");
    assert!(used.iter().sum::<u64>() <= 18_000 + 600, "{used:?}: 30 % of 60 s is the most");
}

/// A member pays for what its sibling's flush brings to the medium, in the call in which it lends its part: that time is
/// counted by the part that it takes back, and the others' is no less worth for it.
#[test]
fn a_member_that_pays_while_it_lends_its_part_is_served_when_it_asks_again() {
    let policy = policy::find("disktime").expect("it is in the registry");
    let mut rig = Rig::under(1, (policy.build)());
    rig.add(0, contract(60, 100));
    for (id, reserve) in [(1, 30), (2, 10)] {
        rig.change(0, Change::AddStream(StreamId(id), child(contract(reserve, 100))));
    }
    rig.add(9, contract(40, 100));
    // Each in a slice of its own: nobody holds the device any more.
    let mut serve_one = |ms: u64, took: u64, kind: Kind, of: Request| {
        let now = ms * MS;
        rig.timeout(now - MS);
        assert!(rig.go(now - MS).is_empty());
        rig.request(now, Request { kind, ..of });
        assert_eq!(serve(&mut rig, now, took), of.stream.0);
    };
    serve_one(1, MS, Kind::Write, read(1, 1, 30_000));
    serve_one(25, MS, Kind::Read, read(2, 2, 1_000));
    serve_one(50, 8 * MS, Kind::Flush, read(3, 2, 0));
    assert_eq!((served(&rig, &[1]), rig.charged(1) / MS), (vec![0], 9), "it pays and lends");
    let (mut now, mut id) = (100 * MS, 11);
    (10..12).for_each(|id| rig.ask(now, id, 9, 1_000));
    rig.ask(now, 4, 1, 1_000);
    while serve(&mut rig, now, MS) == 9 {
        (now, id) = (now + MS, id + 1);
        rig.ask(now, id, 9, 1_000);
        assert!(now < 500 * MS, "it waits for ever");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u32),
    Serve(u64),
    Wait(u64),
    Set(u32, Contract),
    Add(u32, Contract),
    Remove(u32),
}

fn contracts() -> impl Strategy<Value = Contract> {
    let class = prop::sample::select(vec![
        Class::BestEffort,
        Class::BestEffort,
        Class::SoftRealTime,
        Class::Background,
    ]);
    (0u32..40, 40u32..=100, 1u32..=10_000, class).prop_map(|(reserve, limit, weight, class)| {
        Contract { weight, class, ..contract(reserve, limit) }
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..5).prop_map(Step::Ask),
        4 => (1u64..30).prop_map(Step::Serve),
        1 => (1u64..200).prop_map(Step::Wait),
        1 => ((0u32..5), contracts()).prop_map(|(id, contract)| Step::Set(id, contract)),
        1 => ((1u32..5), contracts()).prop_map(|(id, contract)| Step::Add(id, contract)),
        1 => (0u32..5).prop_map(Step::Remove),
    ]
}

proptest! {
    /// After any steps a family's members that have work are served by all that it reserves, as far as
    /// their limits allow, each by its own part at least, and by no more; every sum holds after each step.
    #[test]
    fn what_a_family_reserves_is_shared_out_to_the_last_part(
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let mut rig = family(contract(60, 100), &[contract(10, 100)], contract(40, 100));
        let (mut now, mut id) = (0, 0);
        for step in steps {
            match step {
                Step::Ask(stream) if rig.engine.stream(StreamId(stream)).is_some() => {
                    rig.ask(now, id, stream, 1_000);
                    id += 1;
                }
                Step::Serve(ms) => {
                    let pieces = rig.go(now);
                    now += ms * MS;
                    for piece in pieces {
                        rig.done(now, piece.piece);
                    }
                }
                Step::Wait(ms) => {
                    now += ms * MS;
                    rig.timeout(now);
                }
                Step::Set(stream, contract) => {
                    let change = [(StreamId(stream), contract)];
                    let _either = rig.engine.handle_change(at(now), Change::SetContracts(&change));
                }
                Step::Add(stream, contract) => {
                    let add = Change::AddStream(StreamId(stream), child(contract));
                    let _either = rig.engine.handle_change(at(now), add);
                }
                Step::Remove(stream) => {
                    let remove = Change::RemoveStream(StreamId(stream));
                    let _either = rig.engine.handle_change(at(now), remove);
                }
                Step::Ask(_) => {}
            }
            rig.engine.assert_conserved();
            let Some(head) = rig.engine.stream(HEAD) else { break };
            let members = || (0..5).filter_map(|id| rig.engine.stream(StreamId(id)));
            for view in members() {
                let (part, most) = (view.contract(), view.spec().contract);
                prop_assert!(part.reserve <= most.limit);
                let busy = view.waiting() > 0 || view.in_flight() > 0;
                prop_assert!(!busy || part.reserve >= view.promised().reserve);
                prop_assert!(!busy || part.weight > 0);
            }
            let shares = |view: &disktime_core::StreamView<'_>| {
                let class = view.contract().class;
                matches!(class, Class::BestEffort | Class::SoftRealTime) && view.contract().weight > 0
            };
            let full = members().filter(shares).all(|it| it.contract().reserve == it.contract().limit);
            let all: u32 = members().map(|it| it.contract().reserve.ppm()).sum();
            let whole = head.spec().contract.reserve;
            prop_assert!(full || Share::from_ppm(all) == Some(whole), "{all} of {whole}");
        }
    }
}
