//! The tuning numbers of the policy, each by what it is for.

use super::account::Habits;
use super::*;
use crate::classes::lane::{Gate, Head};
use crate::classes::stream::{Stream, StreamTable};
use crate::cost::PieceShape;
use crate::types::contract::{Contract, StreamSpec};
use crate::types::rank::Rank;
use crate::types::request::Kind;
use crate::types::share::Share;

const ONE: StreamId = StreamId(0);
const OTHER: StreamId = StreamId(1);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn known(policy: &mut DiskTime, id: StreamId) -> &mut Account {
    policy.accounts.get_or_insert_with(id, || Account::new(0))
}

fn half() -> Stream {
    let contract = Contract::reserving(Share::from_percent(50).expect("at most 100"));
    let spec = StreamSpec { contract, ..StreamSpec::default() };
    Stream::new(ONE, spec, Duration::from_secs(1), Instant::ZERO)
}

/// These streams, as the policy sees them while nothing is at the device.
fn all(table: &StreamTable, depth: u32) -> Streams<'_> {
    Streams { streams: table, rank: Rank::Best, depth, at_work: 0, pressing: None }
}

/// A read of 4 KiB there.
fn head(stream: StreamId, offset: u64) -> Head {
    let (request, bytes) = (RequestId(stream.0), 4096);
    let (estimate, modelled) = (Duration::ZERO, Duration::ZERO);
    let shape = PieceShape { stream, kind: Kind::Read, bytes, distance_sectors: None };
    let (sequence, deadline, grains) = (0, None, 0);
    Head { request, sequence, offset, bytes, deadline, estimate, modelled, shape, grains }
}

/// A policy for a device that takes eight pieces at once and switches in 60 us.
fn on_flash() -> DiskTime {
    let mut policy = DiskTime::default();
    policy.device.depth = 8;
    policy.switch.iter_mut().for_each(|switch| switch.add(30_000));
    policy
}

/// One piece of a slice that began at zero came back, the `nth` of pieces that take as long.
fn one_piece(slice: &mut Slice, nth: u32, took: Duration) {
    let (request, kind) = (RequestId(nth), Kind::Read);
    let [estimate, charge, modelled, response] = [took; 4];
    let piece = PieceDone { request, kind, estimate, charge, took, modelled, response };
    let done = Duration::from_nanos(took.as_nanos() * u64::from(nth));
    slice.piece(Instant::ZERO + done, &piece, 1);
}

/// A slice of 10 ms in which twenty of its owner's pieces came back, after .5 ms each.
fn twenty_pieces(owner: StreamId) -> Slice {
    let mut slice = Slice::new(owner, Instant::ZERO, Duration::from_millis(10), false);
    (1..=20).for_each(|piece| one_piece(&mut slice, piece, Duration::from_micros(500)));
    slice
}

/// Guests wait for the sake of learning for half of the time as long as nothing is known, and for little of it
/// later on.
#[test]
fn half_of_the_time_shows_unknown_paces_and_a_fiftieth_old_ones() {
    let mut policy = DiskTime::default();
    let mut wants = |seen: Option<Instant>, probed: u64| {
        known(&mut policy, ONE).pace.seen_at = seen;
        policy.probes.time = Duration::from_secs(probed);
        policy.wants_quiet(at(1_000_000), ONE)
    };
    assert!(wants(None, 400) && !wants(None, 600), "of 1000 s");
    let old = Some(at(990_000));
    assert!(wants(old, 15) && !wants(old, 30));
}

/// A host that has been up for days has not saved up hours without guests: where a pace is to be seen anew all the
/// time, slices of 250 ms show it for a fiftieth of a minute, and of the 50 s before.
#[test]
fn time_without_guests_is_a_part_of_the_last_seconds() {
    let mut policy = DiskTime::default();
    let ten_days = 10 * 24 * 3_600_000;
    let quiet = (0..240).map(|slice| at(ten_days + 250 * slice)).filter(|now| {
        known(&mut policy, ONE).pace.seen_at = Some(Instant::ZERO);
        let quiet = policy.wants_quiet(*now, ONE);
        let length = Duration::from_millis(250);
        let slice = policy.slice.insert(Slice::new(ONE, *now, length, false));
        slice.quiet = quiet;
        policy.end_quiet(*now + length);
        quiet
    });
    let quiet = quiet.count();
    assert!((10..=11).contains(&quiet), "{quiet} of 240 slices");
}

/// A stream of half of the device pays for its slice, a piece and a second's worth of its half beyond what it had, less
/// what it is ahead by.
#[test]
fn a_stream_has_room_for_as_much_as_its_promise_bound_lets_it_be_ahead() {
    let mut policy = DiskTime::default();
    let claims = Claims { reserved: PARTS / 2, weight: 0 };
    known(&mut policy, ONE).claims = claims;
    let mut room = |lead_ms: i64| {
        known(&mut policy, ONE).tag = policy.time.now() + lead_ms * 1_000_000;
        policy.room(ONE)
    };
    let rooms = [-400, 0, 1_000, 1_700, 1_900, 60_000].map(&mut room);
    assert_eq!(rooms.map(|room| room.as_nanos() / 1_000_000), [1_100, 900, 400, 50, 0, 0]);
    policy.set_horizon(Duration::from_millis(100));
    known(&mut policy, ONE).tag = policy.time.now();
    assert_eq!(policy.room(ONE), Duration::from_millis(100 + 50 + 500));
}

/// A pace may be a second or two old, as a round is.
#[test]
fn a_pace_of_three_seconds_ago_is_looked_at_anew_and_one_of_a_second_ago_is_not() {
    let mut policy = DiskTime::default();
    let mut wants = |ago: u64| {
        known(&mut policy, ONE).pace.seen_at = Some(at(100_000 - ago));
        policy.wants_quiet(at(100_000), ONE)
    };
    assert!(!wants(1_500) && wants(3_000));
}

/// Guests that once cost more than they were worth may be worth it later: they are let in now and then, so seldom
/// that it costs little.
#[test]
fn guests_that_do_not_pay_are_tried_in_three_of_a_hundred_slices() {
    let mut policy = DiskTime::default();
    policy.device.depth = 8;
    known(&mut policy, ONE).guests.add(2_000_000, 1_000_000);
    let open = (0..3_200).filter(|slices| {
        known(&mut policy, ONE).habits.slices = *slices;
        policy.is_open(ONE)
    });
    let open = open.count();
    assert!((80..=130).contains(&open), "{open} of 3200");
}

/// A stream goes over from short pieces to long ones: what these take, they take alone as well.
#[test]
fn pieces_that_have_become_longer_are_no_cost_of_a_switch() {
    let mut policy = DiskTime::default();
    let long = Duration::from_micros(500);
    known(&mut policy, ONE).pace.add(Instant::ZERO, 100_000_000, 100_000_000, 10_000);
    let mut slice = Slice::new(ONE, Instant::ZERO, Duration::from_millis(10), false);
    (1..=20).for_each(|piece| one_piece(&mut slice, piece, long));
    policy.slice = Some(slice);
    policy.end_slice(at(10));
    let switch = known(&mut policy, ONE).switch[0];
    assert_eq!((switch.count, switch.value), (1, 0));
}

/// Before a switch was seen slices are short, so that they soon show what one costs.
#[test]
fn an_unseen_switch_costs_a_millisecond() {
    let mut policy = DiskTime::default();
    known(&mut policy, ONE);
    let cost = policy.switch_cost(ONE);
    assert!((700_000..=1_400_000).contains(&cost), "{cost}");
}

/// Streams of which nothing was seen make a round no longer than others of their kind would, and no longer than a
/// millisecond each would: what others' switches cost says little of theirs.
#[test]
fn a_stream_that_was_not_seen_counts_in_a_round_as_others_do_and_a_millisecond_at_most() {
    let round_of_ten = |switch: i64, piece: Option<i64>| {
        let round = Round { streams: 11, costs: 3_000_000, unseen: 10 };
        let mut policy = DiskTime { round, ..DiskTime::default() };
        policy.switch.iter_mut().for_each(|it| it.add(switch / 2));
        if let Some(piece) = piece {
            policy.usual.add(Instant::ZERO, 100 * piece, 1_000_000, 100);
        }
        policy.round_time() / LOSS - 3_000_000
    };
    let unseen =
        DiskTime { round: Round { streams: 1, costs: 0, unseen: 1 }, ..DiskTime::default() };
    assert_eq!(unseen.round_time(), 40_000_000);
    assert_eq!(round_of_ten(50_000, None), 500_000);
    assert_eq!(round_of_ten(50_000, Some(80_000)), 800_000);
    assert_eq!(round_of_ten(60_000_000, Some(80_000)), 10_000_000);
    assert_eq!(round_of_ten(-50_000, None), 10_000);
}

/// A stream counts as one that was not seen until its pace was, and no longer than it wants to run.
#[test]
fn a_round_is_made_of_the_streams_that_want_to_run() {
    let mut policy = DiskTime::default();
    let mut stream = half();
    stream.lanes[Rank::Best].gate = Gate::Ready;
    policy.note(at(1_000), stream.view(Rank::Best));
    let of = |policy: &DiskTime| [policy.round.streams, policy.round.unseen, policy.round.costs];
    assert_eq!(of(&policy), [1, 1, 0]);
    policy.accounts[ONE].pace.add(Instant::ZERO, 80_000_000, 1_000_000, 40);
    policy.count(ONE);
    assert_eq!(of(&policy), [1, 0, 2_000_000]);
    policy.leave(ONE);
    assert_eq!(of(&policy), [0, 0, 0]);
    policy.note(at(1_001), half().view(Rank::Best));
    policy.note(at(1_002), stream.view(Rank::Best));
    policy.accounts[ONE].pace = Pace::default();
    policy.count(ONE);
    policy.leave(ONE);
    assert_eq!(of(&policy), [0, 0, 0]);
}

/// Streams that came before the first pick, when the depth was not known, and those that are there when it changes,
/// are guests as others are.
#[test]
fn who_may_be_a_guest_follows_the_depth_of_the_device() {
    let mut policy = DiskTime::default();
    let mut stream = half();
    stream.lanes[Rank::Best].gate = Gate::Ready;
    known(&mut policy, ONE).pace.add(Instant::ZERO, 1_000_000, 1_000_000, 10);
    known(&mut policy, ONE).habits.peak = 4;
    policy.note(at(1), stream.view(Rank::Best));
    let table = StreamTable::default();
    let mut shares_at = |depth: u32| {
        let streams = all(&table, depth);
        policy.catch_up(at(2), streams);
        policy.sharers.contains(ONE.0)
    };
    assert!(shares_at(8) && !shares_at(4) && shares_at(16));
}

/// Where several pieces are at the device at once, a guest is charged what its pieces take alone.
#[test]
fn a_stream_whose_pace_is_not_known_is_no_guest_where_several_pieces_are_at_the_device() {
    let mut policy = DiskTime::default();
    known(&mut policy, ONE);
    let shares = |policy: &mut DiskTime| {
        [1, 8].map(|depth| {
            policy.device.depth = depth;
            policy.shares(ONE)
        })
    };
    assert_eq!(shares(&mut policy), [true, false]);
    known(&mut policy, ONE).pace.add(Instant::ZERO, 1_000_000, 1_000_000, 10);
    assert_eq!(shares(&mut policy), [true, true]);
    known(&mut policy, ONE).habits.goes_on = true;
    assert_eq!(shares(&mut policy), [false, false], "what a switch costs it is not known");
}

/// The pace of one that writes and was seen once may be a cache's, which is no measure for a thousand others.
#[test]
fn paces_of_lone_streams_are_those_of_guests() {
    let mut policy = on_flash();
    let seen = |pieces| Some(Sum { took: 200_000, modelled: 100_000, pieces });
    let mut learnt = |slices: u64, change: fn(&mut Account)| {
        policy.lone = Default::default();
        *known(&mut policy, ONE) = Account::new(0);
        known(&mut policy, ONE).habits.slices = slices;
        change(known(&mut policy, ONE));
        policy.learn_pace(at(1), ONE, seen(10));
        policy.lone.map(|pace| pace.seen_at.is_some())
    };
    assert_eq!(learnt(1, |_| ()), [true, false]);
    assert_eq!(learnt(1, |account| account.habits.writes = true), [false, false]);
    assert_eq!(learnt(2, |account| account.habits.writes = true), [false, true]);
    assert_eq!(learnt(2, |account| account.habits.peak = 2), [false, false]);
}

/// A device that has become twice as slow, as a slice of many pieces shows. One piece at a time the time between two
/// guests shows it, which is of few.
#[test]
fn a_slice_of_another_pace_replaces_what_was_seen_where_several_pieces_are_at_the_device() {
    let pace = |depth: u32, slow: i64| {
        let mut policy = DiskTime::default();
        policy.device.depth = depth;
        known(&mut policy, ONE).pace.add(at(1), 320_000_000, 320_000_000, 320);
        let slice = Sum { took: 32_000_000 * slow / 10, modelled: 32_000_000, pieces: 32 };
        policy.learn_pace(at(2), ONE, Some(slice));
        policy.accounts[ONE].pace.of(1_000)
    };
    assert_eq!(pace(8, 20), Some(1_969), "one old piece is left");
    assert_eq!([pace(1, 20), pace(8, 14)], [Some(1_090), Some(1_036)]);
}

/// A stream that writes has a second slice without guests before it is one; one that fills the device would be none.
#[test]
fn a_stream_that_writes_is_a_guest_once_two_slices_have_shown_its_pace() {
    let mut policy = on_flash();
    let mut guest = |slices: u64, peak: u32| {
        let account = known(&mut policy, ONE);
        account.pace.add(at(1_000), 10_000_000, 10_000_000, 10);
        account.habits = Habits { writes: true, slices, peak, ..Habits::default() };
        [policy.shares(ONE), policy.wants_quiet(at(1_001), ONE)]
    };
    assert_eq!([guest(1, 4), guest(2, 4)], [[false, true], [true, false]]);
    assert_eq!([guest(1, 5), guest(2, 5)], [[false, false]; 2]);
    policy.device.depth = 1;
    assert!(!policy.shares(ONE) && !policy.wants_quiet(at(1_001), ONE));
}

/// A disk's cache takes writes in one stream's slice, and brings them to the medium in another's.
#[test]
fn a_stream_that_writes_is_a_guest_only_where_a_switch_takes_less_than_a_millisecond() {
    let guest = |switch: [i64; 2], writes: bool| {
        let mut policy = DiskTime::default();
        policy.device.depth = 8;
        let account = known(&mut policy, ONE);
        account.pace.add(at(1), 100_000, 100_000, 10);
        account.habits = Habits { writes, slices: 2, ..Habits::default() };
        let seen = policy.switch.iter_mut().zip(switch).filter(|(_, loss)| *loss > 0);
        seen.for_each(|(switch, loss)| switch.add(loss));
        policy.shares(ONE)
    };
    let writes = [[500_000, 499_999], [500_000, 500_000], [0, 0]].map(|at| guest(at, true));
    assert_eq!(writes, [true, false, false], "what none showed is a millisecond");
    assert!(guest([500_000, 500_000], false), "one that reads");
}

/// A write that is not the first one leaves its stream among the guests.
#[test]
fn the_first_write_of_a_guest_takes_it_out_until_its_next_piece() {
    let mut policy = on_flash();
    let mut stream = half();
    stream.lanes[Rank::Best].gate = Gate::Ready;
    stream.queued = 2;
    let account = known(&mut policy, ONE);
    account.pace.add(at(1), 10_000_000, 10_000_000, 10);
    account.habits.slices = 2;
    policy.note(at(1), stream.view(Rank::Best));
    let mut guest_after = |kind: Kind| {
        let (id, offset, bytes) = (RequestId(1), 0, 4096);
        let (class, deadline, fua) = (None, None, false);
        let request = Request { id, stream: ONE, kind, offset, bytes, fua, class, deadline };
        policy.arrived(at(2), stream.view(Rank::Best), &request);
        let is_guest = policy.sharers.contains(ONE.0);
        policy.list(ONE);
        is_guest
    };
    assert_eq!([Kind::Read, Kind::Write, Kind::Write].map(&mut guest_after), [true, false, true]);
}

/// The guest with the oldest pace shows it anew, though another guest is first: by their tags one of them would take all
/// the time that there is for that.
#[test]
fn a_pace_of_long_ago_is_seen_anew_behind_another_guest() {
    let faded = |seen_first: u64, place: i64| {
        let mut policy = DiskTime::default();
        policy.device.depth = 8;
        for (id, seen, tag) in [(OTHER, seen_first, -2), (ONE, 1_000, place)] {
            let account = known(&mut policy, id);
            account.pace.add(at(seen), 10_000_000, 10_000_000, 10);
            account.tag = tag;
            policy.sharers.set(id.0, tag);
        }
        policy.faded(at(10_000))
    };
    assert_eq!([9_000, 2_000].map(|seen| faded(seen, -3)), [Some(ONE); 2]);
    assert_eq!([9_000, 2_000].map(|seen| faded(seen, -1)), [Some(ONE); 2]);
    assert_eq!(faded(500, -1), Some(OTHER));
    // One that is ahead by more than a round is no guest now.
    assert_eq!(faded(9_000, SAVED * 2), None);
}

/// A device that takes eight pieces at once idles while each of nine streams with one request at a time shows its
/// pace: that of another of them counts, for those that write that of one that writes.
#[test]
fn among_more_streams_than_the_device_takes_at_once_lone_streams_need_not_show_their_pace() {
    let change = |unseen: i64, change: fn(&mut DiskTime)| {
        let mut policy = on_flash();
        policy.lone[0].add(Instant::ZERO, 20_000_000, 10_000_000, 10);
        policy.round.unseen = unseen;
        known(&mut policy, ONE).habits.peak = 1;
        change(&mut policy);
        let alone = policy.alone(ONE, Duration::from_millis(1)) / 1_000_000;
        let is_seen = policy.shares(ONE);
        assert_eq!(is_seen, !policy.wants_quiet(at(3_000), ONE), "it shows its pace if it is to");
        if is_seen { alone } else { 0 }
    };
    let readers = [9, 8].map(|unseen| change(unseen, |_| ()));
    assert_eq!(readers, [2, 0]);
    let others: [fn(&mut DiskTime); 5] = [
        |policy| policy.accounts[ONE].habits.peak = 2,
        |policy| policy.accounts[ONE].habits.goes_on = true,
        |policy| policy.accounts[ONE].habits.writes = true,
        |policy| policy.device.tiered = true,
        |policy| policy.lone = [Pace::default(); 2],
    ];
    assert_eq!(others.map(|other| change(9, other)), [0; 5]);
    let writer = change(9, |policy| {
        policy.accounts[ONE].habits.writes = true;
        policy.lone[1].add(Instant::ZERO, 30_000_000, 10_000_000, 10);
    });
    assert_eq!(writer, 3);
    // One piece at a time nobody has to show it.
    let mut policy = DiskTime::default();
    policy.device.depth = 1;
    policy.lone[0].add(Instant::ZERO, 20_000_000, 10_000_000, 10);
    policy.round.unseen = 9;
    known(&mut policy, ONE).habits.peak = 1;
    assert_eq!(policy.alone(ONE, Duration::from_millis(1)), 1_000_000);
}

/// One piece at a time a stream's pace is seen between its guests, and none waits for it.
#[test]
fn guests_wait_for_a_pace_only_where_several_pieces_are_at_the_device() {
    let wants = |depth| {
        let mut policy = DiskTime::default();
        policy.device.depth = depth;
        known(&mut policy, ONE);
        policy.wants_quiet(at(3_000), ONE)
    };
    assert_eq!([1, 2].map(wants), [false, true]);
}

/// A stream that pauses between requests keeps its place; one that is idle for longer does not hold time back that
/// others could use.
#[test]
fn a_stream_counts_for_some_milliseconds_after_its_last_request() {
    let stays = |millis: u64| {
        let mut policy = DiskTime::default();
        let mut stream = half();
        stream.lanes[Rank::Best].gate = Gate::Ready;
        policy.note(at(1_000), stream.view(Rank::Best));
        stream.lanes[Rank::Best].gate = Gate::Shut;
        policy.note(at(2_000), stream.view(Rank::Best));
        let mut table = StreamTable::default();
        table.get_or_insert_with(ONE, || stream);
        let streams = all(&table, 1);
        policy.let_go(at(2_000 + millis), streams);
        policy.accounts.get(ONE).is_some_and(|account| account.state != State::Away)
    };
    assert!(stays(15) && !stays(30));
}

/// A stream that was idle for a night has saved up its share of a second, whatever a round is.
#[test]
fn an_idle_stream_has_saved_up_a_second_of_virtual_time() {
    // A round of 10 s.
    let round = Round { streams: 4, costs: 1_000_000_000, unseen: 0 };
    let mut policy = DiskTime { round, ..DiskTime::default() };
    let claims = Claims { reserved: 500_000_000, weight: 1 };
    known(&mut policy, OTHER);
    policy.claim(OTHER, claims);
    policy.accounts[OTHER].state = State::Resting(Turn::Slice);
    policy.accounts[OTHER].tag = 0;
    policy.time.enter(claims, 0);
    policy.time.moved(claims, 100_000_000_000);
    let mut stream = half();
    stream.lanes[Rank::Best].gate = Gate::Ready;
    known(&mut policy, ONE).tag = 0;
    let time = policy.time.now();
    assert!(time > 50_000_000_000, "{time}");
    policy.note(at(100_000), stream.view(Rank::Best));
    let saved = time - policy.accounts[ONE].tag;
    assert!((700_000_000..=1_400_000_000).contains(&saved), "{saved} ns");
}

/// A newcomer's slice goes on until its pace is known, while it has work; else the device would be held for four
/// slices.
#[test]
fn the_slice_of_a_newcomer_without_work_ends_with_its_length() {
    let goes_on = |used_millis: i64| {
        let mut policy = DiskTime::default();
        policy.device.depth = 8;
        known(&mut policy, OTHER).tag = 0;
        policy.ready.set(OTHER.0, 0);
        let account = known(&mut policy, ONE);
        account.tag = 1;
        // It asks again soon: the device is held for it.
        (0..32).for_each(|_| account.think.add(Duration::from_micros(100)));
        (account.used, account.idle_since) = (used_millis * 1_000_000, at(20));
        policy.slice = Some(Slice::new(ONE, Instant::ZERO, Duration::from_millis(10), false));
        let table = StreamTable::default();
        let streams = all(&table, 8);
        matches!(policy.go_on(at(20), streams), Some(Pick::Hold { stream: ONE, .. }))
    };
    assert!(goes_on(9) && !goes_on(11), "of 10 ms");
}

/// Streams that wait for their limits, or for their clients, have low tags, and the mean with them: the time is no less
/// than the tag of the stream whose slice begins, or begins anew.
#[test]
fn a_slice_begins_at_a_time_that_those_who_cannot_go_do_not_hold_back() {
    let reached = |tag: i64, is_anew: bool| {
        let mut policy = DiskTime::default();
        policy.device.depth = 8;
        let table = StreamTable::default();
        let streams = all(&table, 8);
        let account = known(&mut policy, ONE);
        (account.tag, account.used) = (tag, 11_000_000);
        if is_anew {
            policy.slice = Some(Slice::new(ONE, Instant::ZERO, Duration::from_millis(10), false));
            policy.go_on(at(20), streams);
        } else {
            policy.ready.set(ONE.0, tag);
            policy.begin(at(20), streams);
        }
        policy.time.now()
    };
    assert_eq!([5_000, -5_000].map(|tag| reached(tag, false)), [5_000, 0]);
    assert_eq!([5_000, -5_000].map(|tag| reached(tag, true)), [5_000, 0]);
}

/// The slice of a stream that would break its bound goes before one that is further behind, unless the first's own
/// pieces took it as far ahead as its bound lets it be.
#[test]
fn a_stream_that_is_about_to_break_its_bound_has_the_next_slice() {
    let owner = |pressing: Option<StreamId>, lead_ms: i64, goes_on: bool| {
        let mut policy = DiskTime::default();
        policy.device.depth = 8;
        let mut table = StreamTable::default();
        for id in [ONE, OTHER] {
            let mut stream = half();
            stream.id = id;
            stream.lanes[Rank::Best].gate = Gate::Ready;
            stream.lanes[Rank::Best].head = Some(head(id, 0));
            policy.note(at(1), stream.view(Rank::Best));
            table.get_or_insert_with(id, || stream);
        }
        let mut idle = half();
        idle.id = StreamId(2);
        policy.note(at(1), idle.view(Rank::Best));
        for (id, tag) in [(ONE, lead_ms * 1_000_000), (OTHER, -1_000_000)] {
            policy.ready.remove(id.0);
            policy.accounts[id].tag = policy.time.now() + tag;
            policy.list(id);
        }
        let streams = Streams { pressing, ..all(&table, 8) };
        if goes_on {
            // The slice of the one that presses is over, and goes on.
            policy.slice = Some(Slice::new(ONE, Instant::ZERO, Duration::from_millis(1), false));
            policy.accounts[ONE].used = 20_000_000;
        }
        policy.pick(at(20), streams);
        // One that presses has not less than its share, but its own request is the next one in its slice.
        let slice = policy.slice.as_ref().expect("a slice begins");
        assert_eq!(slice.behind, pressing == Some(slice.owner));
        slice.owner
    };
    for goes_on in [false, true] {
        assert_eq!(owner(None, 100, goes_on), OTHER);
        assert_eq!(owner(Some(ONE), 100, goes_on), ONE);
        assert_eq!(owner(Some(ONE), 60_000, goes_on), OTHER, "it is far ahead");
    }
    assert_eq!(owner(Some(OTHER), -100, true), OTHER, "a slice that is over ends for it");
    assert_eq!(owner(Some(StreamId(2)), 100, false), OTHER, "one that has nothing to send");
    assert_eq!(owner(Some(StreamId(7)), 100, false), OTHER, "one of another class");
}

/// The nearer requests of streams that are less behind do not keep a stream waiting for long, and a dozen are
/// enough for one to be near.
#[test]
fn the_nearest_request_of_some_dozen_streams_goes() {
    let mut policy = DiskTime::default();
    let mut table = StreamTable::default();
    for id in 1..=40_u32 {
        // The less a stream is behind, the nearer is its request to where the device is.
        let stream = StreamId(id);
        let mut state = half();
        state.lanes[Rank::Best].head = Some(head(stream, u64::from(100 - id) << 20));
        table.get_or_insert_with(stream, || state);
        policy.sharers.set(id, i64::from(id) - 100);
    }
    let streams = all(&table, 1);
    let nearest = policy.nearest(ONE, streams).expect("streams wait");
    assert!((9..=18).contains(&nearest.0), "the {}th", nearest.0);
}

/// A device that stopped for a minute is not left idle for minutes for a stream whose piece was there.
#[test]
fn the_device_is_held_for_no_longer_than_a_slice() {
    let mut policy = DiskTime::default();
    known(&mut policy, ONE);
    policy.claim(ONE, Claims { reserved: 500_000_000, weight: 1 });
    let (ms, account) = (Duration::from_millis, known(&mut policy, ONE));
    account.pace.add(Instant::ZERO, 10_000_000, 10_000_000, 10);
    (0..16).for_each(|_| account.pace.respond(ms(4), ms(1), 1));
    assert_eq!(policy.idle_timeout(ONE), 4_000_000);
    known(&mut policy, ONE).pace.respond(ms(60_000), ms(1), 1);
    assert_eq!(policy.idle_timeout(ONE), HORIZON.as_tokens());
    // Nor for as long as a switch takes, if that is a piece of a minute.
    let account = known(&mut policy, ONE);
    account.pace = Pace::default();
    account.pace.add(Instant::ZERO, 60_000_000_000, 10_000_000, 1);
    assert_eq!(policy.idle_timeout(ONE), HORIZON.as_tokens());
    policy.set_horizon(ms(1_000));
    assert_eq!(policy.idle_timeout(ONE), 1_000_000_000);
}

/// A client that thinks for a millisecond between two writes would else have a slice for each, and a flush.
#[test]
fn the_device_is_held_for_a_writer_for_as_long_as_a_flush_takes_for_each_write() {
    let mut policy = DiskTime::default();
    known(&mut policy, ONE).flush_each.add(8_000_000);
    known(&mut policy, ONE).switch.iter_mut().for_each(|it| it.count = 2);
    policy.slice = Some(Slice::new(ONE, Instant::ZERO, Duration::from_millis(100), false));
    assert_eq!(policy.idle_timeout(ONE), SWITCH_LEAST);
    policy.slice.as_mut().expect("one began").wrote(Kind::Write);
    assert_eq!(policy.idle_timeout(ONE), 8_000_000);
    known(&mut policy, ONE).flush_each.add(60_000_000_000);
    assert_eq!(policy.idle_timeout(ONE), HORIZON.as_tokens());
}

/// The beginning of a slice is the faster for a flush before: with that in the mean, a reader that was not seen would be
/// held for too short a time to be seen.
#[test]
fn a_usual_switch_is_one_to_a_stream_that_does_not_write_into_an_empty_cache() {
    let seen = |writes: bool, flushes: bool| {
        let mut policy = DiskTime::default();
        (policy.device.flushes, policy.device.depth) = (flushes, 1);
        let account = known(&mut policy, ONE);
        account.habits.writes = writes;
        account.pace.add(Instant::ZERO, 100_000_000, 10_000_000, 10);
        policy.slice = Some(twenty_pieces(ONE));
        policy.end_slice(at(10));
        assert_eq!(known(&mut policy, ONE).switch[0].count, 1);
        policy.switch[0].count
    };
    assert_eq!([seen(false, true), seen(true, true), seen(true, false)], [1, 0, 1]);
}

/// Writes that a disk's cache takes seem to gain by a switch, and others' switches cost what they did. On flash they gain.
#[test]
fn what_a_disks_cache_takes_makes_the_usual_switch_no_shorter() {
    let usual = |writes: bool, reads: i64| {
        let mut policy = DiskTime::default();
        policy.device.depth = 8;
        policy.device.reads[0].add(reads);
        let account = known(&mut policy, ONE);
        account.habits.writes = writes;
        account.pace.add(Instant::ZERO, 100_000_000, 10_000_000, 10);
        policy.slice = Some(twenty_pieces(ONE));
        policy.end_slice(at(10));
        (policy.switch[0].value, policy.device.reads[0].count)
    };
    assert_eq!([usual(true, 20_000_000), usual(true, 100_000)], [(0, 1), (-10_000_000, 1)]);
    assert_eq!(usual(false, 20_000_000), (-10_000_000, 2));
}

/// A disk with a cache seems to switch for nothing by what its writers show.
#[test]
fn readers_tell_whether_a_device_switches_sooner_than_a_disk() {
    let is_quick = |all: i64, reads: Option<[i64; 2]>, piece: i64| {
        let mut policy = DiskTime::default();
        policy.switch.iter_mut().for_each(|switch| switch.add(all));
        let seen = policy.device.reads.iter_mut().zip(reads.into_iter().flatten());
        seen.for_each(|(switch, loss)| switch.add(loss));
        policy.usual.add(Instant::ZERO, 10 * piece, 10, 10);
        policy.is_quick()
    };
    assert!(is_quick(499_999, None, 1) && !is_quick(500_000, None, 1), "no reader was seen");
    assert!(is_quick(500_000, Some([999_998, 1]), 1));
    assert!(!is_quick(-90_000_000, Some([999_999, 1]), 1));
    assert!(!is_quick(0, Some([1_000_000, -9_000_000]), 1), "one end makes up for no other");
    assert!(!is_quick(0, Some([0, 0]), 1_000_000), "a piece takes as long as a disk's switch");
}

/// They drain the device then. A stream that sends as much as its depth allows goes on as before.
#[test]
fn pieces_show_no_pace_while_their_stream_waits_for_its_limit() {
    let shown = |owner: StreamId, waits: bool, pieces: u32| {
        let slice = Some(twenty_pieces(owner));
        let mut policy = DiskTime { slice, ..DiskTime::default() };
        let mut stream = half();
        (stream.spec.depth_max, stream.queued, stream.pieces) = (4, 1, pieces);
        stream.lanes[Rank::Best].head = waits.then(|| head(ONE, 0));
        policy.note(at(10), stream.view(Rank::Best));
        let mut slice = policy.slice.expect("it goes on");
        (21..=24).for_each(|piece| one_piece(&mut slice, piece, Duration::from_micros(500)));
        (slice.middle().map(|middle| middle.pieces), slice.is_steady())
    };
    let drained = (Some(10), Some(false));
    assert_eq!([shown(ONE, true, 3), shown(ONE, true, 0)], [drained; 2]);
    let goes_on = (Some(14), Some(true));
    assert_eq!(shown(ONE, false, 3), goes_on, "what waits is of another class");
    assert_eq!([shown(ONE, true, 4), shown(OTHER, true, 3)], [goes_on; 2]);
}

/// A member that lends its part to its family has no share. Time that it is charged then is counted by the share that
/// it has when it takes its part back, not by none.
#[test]
fn a_charge_without_a_share_waits_for_one() {
    let mut policy = DiskTime::default();
    let mut stream = half();
    policy.note(at(1), stream.view(Rank::Best));
    let before = policy.accounts[ONE].tag;
    stream.counters.charged = Duration::from_millis(8);
    stream.lend(at(2));
    policy.note(at(2), stream.view(Rank::Best));
    assert_eq!(policy.accounts[ONE].tag, before);
    stream.set_contract(stream.spec.contract, Duration::from_secs(1), at(3));
    policy.note(at(3), stream.view(Rank::Best));
    assert_eq!(policy.accounts[ONE].tag - before, 8_000_000);
}

/// A stream that its limit holds back is not idle: among thirty others it would come back in the middle of them, and
/// had four tenths of its reservation.
#[test]
fn a_stream_that_waits_for_its_limit_is_reckoned_with() {
    let mut policy = DiskTime::default();
    let mut stream = half();
    stream.lanes[Rank::Best].gate = Gate::Ready;
    policy.note(at(1_000), stream.view(Rank::Best));
    (stream.lanes[Rank::Best].gate, stream.queued) = (Gate::Shut, 1);
    policy.note(at(1_010), stream.view(Rank::Best));
    let mut table = StreamTable::default();
    table.get_or_insert_with(ONE, || stream);
    for ms in (1_030..30_000).step_by(20) {
        let streams = all(&table, 8);
        policy.let_go(at(ms), streams);
    }
    assert!(policy.accounts[ONE].state == State::Resting(Turn::Slice));
}

/// A stream whose piece the device never answers is reckoned with for a second, and not for ever: its tag would hold the
/// virtual time back.
#[test]
fn a_piece_that_never_comes_back_keeps_its_stream_for_a_second() {
    let stays = |millis: u64| {
        let mut policy = DiskTime::default();
        let mut stream = half();
        stream.lanes[Rank::Best].gate = Gate::Ready;
        policy.note(at(1_000), stream.view(Rank::Best));
        (stream.lanes[Rank::Best].gate, stream.pieces) = (Gate::Shut, 1);
        policy.note(at(2_000), stream.view(Rank::Best));
        let mut table = StreamTable::default();
        table.get_or_insert_with(ONE, || stream);
        for passed in (20..=millis).step_by(20) {
            let streams = all(&table, 8);
            policy.let_go(at(2_000 + passed), streams);
        }
        policy.accounts[ONE].state != State::Away
    };
    assert!(stays(900) && !stays(1_100));
}

/// A deadline is a time of the host, which may have been up for a year or a second, and a tag is none.
#[test]
fn of_streams_that_do_not_wait_those_with_a_deadline_go_first() {
    let first = |up: u64| {
        let mut policy = DiskTime::default();
        for (id, tag, deadline) in [(ONE, -9_000_000, None), (OTHER, -1_000_000, Some(at(up + 5)))]
        {
            let mut stream = Stream::new(id, half().spec, Duration::from_secs(1), Instant::ZERO);
            stream.lanes[Rank::Best].gate = Gate::Ready;
            stream.lanes[Rank::Best].head = Some(Head { deadline, ..head(id, 0) });
            let account = known(&mut policy, id);
            (account.state, account.tag) = (State::Ready(Turn::Now), tag);
            policy.note(at(up), stream.view(Rank::Best));
        }
        policy.urgent()
    };
    assert_eq!([0, 31_536_000_000].map(first), [Some(OTHER); 2]);
}

/// A window that ends when the device has another owner says nothing of that one's slice, which others' pieces are in.
#[test]
fn a_window_of_another_owner_leaves_a_slice_as_it_is() {
    let alone = |owner: StreamId| {
        let mut policy = DiskTime::default();
        policy.device.depth = 8;
        for id in [ONE, OTHER] {
            known(&mut policy, id);
        }
        policy.slice = Some(Slice::new(ONE, at(10), Duration::from_millis(100), true));
        let busy = Duration::from_millis(10);
        let (modelled, took) = (|_| Duration::from_millis(10), |_| Duration::ZERO);
        let window = Window {
            busy,
            owner: Some(owner),
            streams: &[owner],
            modelled: &modelled,
            took: &took,
        };
        policy.window(at(20), &window);
        policy.owner().is_some_and(|owner| owner.alone)
    };
    assert_eq!([ONE, OTHER].map(alone), [true, false]);
}

/// The estimates of two pieces use a slice up, by a pace a hundred times too long. Nothing but the slice as a whole
/// shows that.
#[test]
fn a_slice_that_its_estimates_use_up_shows_that_they_are_too_long() {
    let mut policy = DiskTime::default();
    known(&mut policy, ONE).pace.add(Instant::ZERO, 1_000_000_000, 10_000_000, 10);
    for slice in 0..20 {
        let began = at(100 * slice);
        let mut of_two = Slice::new(ONE, began, Duration::from_millis(50), false);
        for (after, in_flight) in [(1, 1), (2, 0)] {
            let ms = Duration::from_millis(1);
            let piece = PieceDone {
                request: RequestId(0),
                kind: Kind::Read,
                estimate: Duration::from_millis(100),
                charge: ms,
                took: ms,
                modelled: ms,
                response: ms,
            };
            of_two.piece(began + Duration::from_millis(after), &piece, in_flight);
        }
        policy.slice = Some(of_two);
        policy.end_slice(began + Duration::from_millis(2));
    }
    let pace = known(&mut policy, ONE).pace.of(1_000_000).expect("it was seen");
    assert!(pace < 25_000_000, "{pace} ns for 1 ms, and 100 ms before");
}

/// On a device that tells tiers a stream of few requests at once, which others' pieces keep waiting for twice as long
/// as its share allows, has slices; one that fills the device waits for its own pieces there.
#[test]
fn a_stream_that_starves_among_all_others_has_slices_on_tiers_unless_it_fills_the_device() {
    let mut policy = DiskTime::default();
    policy.device.depth = 32;
    known(&mut policy, ONE);
    policy.claim(ONE, Claims { reserved: 500_000_000, weight: 1 });
    let ms = Duration::from_millis;
    let account = known(&mut policy, ONE);
    account.pace.add(Instant::ZERO, 10_000_000, 10_000_000, 10);
    account.habits.peak = 16;
    (0..16).for_each(|_| account.pace.respond(ms(1), ms(1), 1));
    assert!(!policy.mixes(ONE), "its price is not known");
    policy.priced(at(1), ONE, Seen::OnTier);
    assert!(policy.mixes(ONE));
    let account = known(&mut policy, ONE);
    (0..100).for_each(|_| account.pace.respond(ms(4), ms(1), 1));
    assert!(!policy.mixes(ONE));
    known(&mut policy, ONE).habits.peak = 17;
    assert!(policy.mixes(ONE));
}

/// On a device that tells tiers others' pieces would be between those of a sequential stream, which would seek back for
/// each of its own.
#[test]
fn a_sequential_stream_has_slices_on_tiers() {
    let mut policy = DiskTime::default();
    known(&mut policy, ONE);
    policy.priced(at(1), ONE, Seen::OnTier);
    assert!(policy.mixes(ONE));
    known(&mut policy, ONE).habits.goes_on = true;
    assert!(!policy.mixes(ONE));
}

/// Stated costs need not be seen first.
#[test]
fn a_stream_needs_no_slice_on_tiers_to_show_a_cost_that_is_stated() {
    let mut policy = DiskTime::default();
    known(&mut policy, ONE);
    assert!(!policy.mixes(ONE));
    policy.begins(Trust::Stated, false);
    assert!(policy.mixes(ONE));
}

/// A stream comes back after a second in which it had nothing to do, or in which its limit kept a request of its own
/// waiting. The latter was not idle, and has no turn before others'.
#[test]
fn a_stream_that_waits_for_its_limit_is_not_idle() {
    let turn = |waiting: u32| {
        let mut policy = DiskTime::default();
        let mut stream = half();
        let mut note = |ms: u64, gate, queued| {
            stream.lanes[Rank::Best].gate = gate;
            stream.queued = queued;
            policy.note(at(ms), stream.view(Rank::Best));
            known(&mut policy, ONE).tag -= 1_000_000;
            known(&mut policy, ONE).state
        };
        note(1_000, Gate::Ready, 1);
        note(1_010, Gate::Shut, 0);
        note(1_011, Gate::Shut, waiting);
        note(2_010, Gate::Ready, 1)
    };
    assert!(turn(0) == State::Ready(Turn::Now) && turn(1) == State::Ready(Turn::Slice));
}

/// The owner's piece took 12 ms where it takes 10 alone, after two guests of 4 and 1 ms: these pay the 2 ms by their
/// times, and the owner's pieces are seen at once again.
#[test]
fn guests_pay_what_they_make_the_owner_lose() {
    let charged = |owner_writes: bool| {
        let mut policy = DiskTime::default();
        policy.device.depth = 1;
        let account = known(&mut policy, ONE);
        account.pace.add(Instant::ZERO, 100_000_000, 100_000_000, 10);
        account.habits.writes = owner_writes;
        let length = Duration::from_millis(100);
        policy.slice = Some(Slice::new(ONE, Instant::ZERO, length, true));
        let streams = [ONE, OTHER, StreamId(2)];
        let took = |id: StreamId| Duration::from_millis([12, 4, 1][id.0 as usize]);
        let window = Window {
            busy: Duration::from_millis(17),
            owner: Some(ONE),
            streams: &streams,
            modelled: &|_| Duration::from_millis(10),
            took: &took,
        };
        policy.window(at(17), &window);
        assert!(policy.owner().is_some_and(|owner| owner.alone), "the way back is over");
        assert_eq!(policy.is_steady(ONE), Some(true));
        streams.map(|id| policy.cost(&window, id).as_nanos() / 100_000)
    };
    assert_eq!(charged(true), [100, 56, 14]);
    // A reader here and there loses nothing by them.
    assert_eq!(charged(false), [120, 40, 10]);
}

/// One piece at a time is charged what it took, whatever the model says; among several that is not seen.
#[test]
fn a_piece_that_has_the_device_to_itself_costs_what_it_took() {
    let cost = |depth| {
        let mut policy = DiskTime::default();
        policy.device.depth = depth;
        let [modelled, took] = [10, 30].map(Duration::from_millis);
        let window = Window {
            busy: took,
            owner: None,
            streams: &[ONE],
            modelled: &|_| modelled,
            took: &|_| took,
        };
        policy.cost(&window, ONE)
    };
    assert_eq!([1, 8].map(cost), [30, 10].map(Duration::from_millis));
}

/// The device brings writes to the medium for as long, in a reader's slice: a shorter one would show nothing else.
#[test]
fn a_look_lasts_four_times_what_the_last_writers_slices_gained_or_the_share_of_a_second() {
    let mut policy = DiskTime::default();
    let mut look = |loss: i64, percent: i64| {
        known(&mut policy, OTHER).switch[0] = Mean::default();
        known(&mut policy, OTHER).switch[0].add(loss * 1_000_000);
        known(&mut policy, ONE).claims = Claims { reserved: PARTS * percent / 100, weight: 0 };
        policy.gained = Some((OTHER, 0));
        [ONE, OTHER].map(|id| policy.look(id).as_nanos() / 1_000_000)
    };
    let looks = [(-5, 50), (5, 50), (-100, 50), (-100, 5)].map(|(loss, of)| look(loss, of));
    assert_eq!(looks, [[20, 0], [0, 0], [350, 0], [50, 0]]);
    policy.gained = None;
    assert_eq!(policy.look(ONE), Duration::ZERO);
}

/// Its first slice would take a stream of a hundredth ahead of the others by four seconds, else.
#[test]
fn a_slice_that_shows_no_pace_ends_after_four_times_its_length_or_the_share_of_a_second() {
    let mut policy = DiskTime::default();
    let slice = Slice::new(ONE, at(0), Duration::from_millis(10), false);
    let mut least = |permille: i64, works: bool| {
        let claims = Claims { reserved: PARTS * permille / 1_000, weight: 0 };
        known(&mut policy, ONE).claims = claims;
        (0..100).find(|used| {
            known(&mut policy, ONE).used = used * 1_000_000;
            policy.is_over(at(50), &slice, works)
        })
    };
    let most = [500, 41, 39, 20, 5].map(|permille| least(permille, true));
    assert_eq!(most, [40, 40, 39, 20, 10].map(Some));
    assert_eq!(least(500, false), Some(10), "nothing more can be seen now");
}

/// Guests hide what a switch costs. A cost of before is forgotten where it may be chance, but for what the last writer's
/// slices gain.
#[test]
fn slices_with_guests_forget_what_switches_cost_on_flash() {
    let after = |depth: u32, usual: i64, guests: bool, known_before: i64| {
        let mut policy = DiskTime::default();
        policy.device.depth = depth;
        policy.switch.iter_mut().for_each(|switch| switch.add(usual));
        known(&mut policy, ONE).switch.iter_mut().for_each(|switch| switch.add(known_before));
        known(&mut policy, OTHER).switch[0].add(-3_000_000);
        policy.gained = Some((OTHER, 0));
        for _ in 0..64 {
            policy.slice = Some(Slice::new(ONE, at(0), Duration::from_millis(10), guests));
            policy.end_slice(at(10));
        }
        policy.accounts[ONE].switch.map(|switch| (switch.value + 50_000) / 1_000_000)
    };
    assert_eq!(after(8, 300_000, true, 8_000_000), [3, 0]);
    assert_eq!(after(8, 300_000, true, 1_000_000), [1, 0]);
    assert_eq!(after(8, 600_000, true, 8_000_000), [8, 8], "a disk's switches take longer");
    assert_eq!(
        after(1, 300_000, true, 8_000_000),
        [8, 8],
        "one piece at a time guests hide nothing"
    );
    assert_eq!(after(8, 300_000, false, 8_000_000), [8, 8], "its slices were too short to show it");
}

/// Pieces of ten microseconds, where the usual switch takes sixty.
#[test]
fn a_guest_of_others_counts_as_one_piece_where_a_switch_takes_less_than_a_millisecond() {
    let cost = |piece: i64, change: fn(&mut DiskTime)| {
        let mut policy = on_flash();
        known(&mut policy, ONE).pace.add(Instant::ZERO, 8 * piece, 80_000, 8);
        change(&mut policy);
        policy.switch_cost(ONE)
    };
    assert_eq!([10_000, 10].map(|piece| cost(piece, |_| ())), [10_000, 1_000]);
    assert_eq!(cost(10_000, |it| known(it, ONE).habits.peak = 5), 60_000, "it fills the device");
    assert_eq!(cost(10_000, |it| it.device.depth = 1), 60_000, "one piece at a time");
    let slow = |it: &mut DiskTime| it.switch.iter_mut().for_each(|switch| switch.add(1_970_000));
    assert_eq!(cost(10_000, slow), 2_000_000, "a disk's switches take longer");
}
