//! Goals against examples worked by hand.

use super::*;
use disktime_core::Access;
use disktime_core::cost::{Price, PriceList};

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn goal(demand: Demand, request: u64, run: u64) -> Goal {
    Goal { demand: Some(demand), bound: None, request, run }
}

fn ground(costs: Costs) -> Ground {
    Ground { costs, stay: Duration::from_secs(1), ahead: Duration::ZERO }
}

/// A disk of 7200 rpm: seeks of at most 16 ms, 8.333 ms a revolution, 4 KiB in 0.2 ms.
fn disk() -> Costs {
    Costs::mechanical(micros(16_000), micros(8_334), micros(200))
}

/// zygaria §2.4: t = ½·16 + ½·8.334 + n·0.2 ms.
#[test]
fn a_run_takes_half_a_seek_half_a_revolution_and_its_blocks() {
    assert_eq!(disk().run_time(1), micros(12_367));
    assert_eq!(disk().run_time(64), micros(8_000 + 4_167 + 64 * 200));
    assert_eq!(disk().run_time(1024), micros(216_967));
}

/// 50 random requests/s: 50 · 12.367 ms each second.
#[test]
fn a_rate_of_random_requests_takes_each_ones_positioning() {
    let needs = needs(&goal(Demand::Requests(50), 4096, 1), &ground(disk())).unwrap();
    assert_eq!((needs.run, needs.run_time), (1, micros(12_367)));
    assert_eq!((needs.ppm(), needs.share()), (618_350, Share::from_ppm(618_350)));
}

/// 2560 requests/s in runs of 64 are 40 runs of 24.967 ms each second.
#[test]
fn a_rate_in_runs_takes_a_positioning_for_each_run() {
    let requests = needs(&goal(Demand::Requests(2_560), 4096, 64), &ground(disk())).unwrap();
    assert_eq!(requests.ppm(), 998_680);
    let bytes = Demand::Bytes(2_560 * 4096);
    let bytes = needs(&goal(bytes, 4096, 64), &ground(disk())).unwrap();
    assert_eq!(bytes, requests, "the same in bytes");
}

/// b_s: of a stay of 1 s, 12.167 ms position, and 987.8 ms hold 4939 blocks of 0.2 ms.
#[test]
fn no_run_is_longer_than_the_schedulers_stay() {
    assert_eq!(disk().run_within(Duration::from_secs(1)), 4_939);
    assert_eq!(disk().run_within(micros(5_000)), 1, "one goes out whatever it takes");
    let long = goal(Demand::Requests(1), 4096, 1_000_000);
    assert_eq!(needs(&long, &ground(disk())).unwrap().run, 4_939);
    let short = Ground { stay: Duration::from_millis(50), ..ground(disk()) };
    assert_eq!(needs(&long, &short).unwrap().run, 189);
}

/// QBox §2: α·x + β·y for a random request and the sequential ones after it.
#[test]
fn prices_say_what_a_run_takes() {
    let price = |each: u64, per_mib: u64| Price { each: micros(each), per_mib: micros(per_mib) };
    let prices = PriceList {
        sequential_read: price(10, 2_560),
        random_read: price(8_000, 2_560),
        sequential_write: price(20, 2_560),
        random_write: price(4_000, 2_560),
    };
    let costs = |access| Costs::priced(&prices, access, 4096);
    assert_eq!(costs(Access::Read), Costs { first: micros(8_010), next: micros(20) });
    assert_eq!(costs(Access::Write), Costs { first: micros(4_010), next: micros(30) });
    assert_eq!(costs(Access::Both), Costs { first: micros(8_010), next: micros(30) });
    // 10 runs of 100 each second: 10 · (8.01 + 99 · 0.02) ms.
    let needs = needs(&goal(Demand::Requests(1_000), 4096, 100), &ground(costs(Access::Read)));
    assert_eq!(needs.unwrap().ppm(), 99_900);
}

/// Without a rate: c/s + ahead ≤ bound. 10 ms / 0.5 = 20 ms; with 4 ms ahead 10 / 16 is needed.
#[test]
fn a_bound_takes_the_share_at_which_a_turn_comes_in_time() {
    let bound = |millis: u64, percentile: u32| Bound {
        latency: Duration::from_millis(millis),
        percentile: Share::from_percent(percentile).unwrap(),
    };
    let flat = Costs { first: micros(10_000), next: micros(10_000) };
    let alone = Goal { demand: None, bound: Some(bound(20, 95)), request: 4096, run: 1 };
    assert_eq!(needs(&alone, &ground(flat)).unwrap().ppm(), 500_000);
    let ahead = Ground { ahead: micros(4_000), ..ground(flat) };
    assert_eq!(needs(&alone, &ahead).unwrap().ppm(), 625_000);
    let never = Ground { ahead: micros(20_000), ..ground(flat) };
    assert_eq!(needs(&alone, &never).unwrap().ppm(), u64::MAX);
    assert_eq!(needs(&alone, &never).unwrap().share(), None);
    // 20 requests/s are ρ = 0.4 of a half: 20 + 2.996 · 20 · 0.4 / (2 · 0.6) ms at the whole.
    let busy = Goal { demand: Some(Demand::Requests(20)), bound: Some(bound(40, 95)), ..alone };
    let at =
        |ppm| response(ppm, Share::from_percent(95).unwrap(), 200_000, 10_000_000, Duration::ZERO);
    assert_eq!(at(500_000).map(|response| response / 1_000), Some(39_973));
    assert_eq!(at(200_000), None, "the rate alone takes all");
    let share = needs(&busy, &ground(flat)).unwrap().ppm();
    assert!((499_000..=500_000).contains(&share), "{share}");
    // 62 requests/s in runs of 8 within 48 ms had 33 % of a simulated Deskstar, and took 158 ms on the mean.
    let costs = Costs { first: micros(10_000), next: micros(1_000) };
    let in_runs = Goal { run: 8, ..busy };
    assert_eq!(needs(&in_runs, &ground(costs)), needs(&busy, &ground(costs)));
    assert_eq!(needs(&in_runs, &ground(costs)).unwrap().run, 1);
    // More of the requests, a larger share.
    let surer = Goal { bound: Some(bound(40, 99)), ..busy };
    assert!(needs(&surer, &ground(flat)).unwrap().ppm() > share);
}

#[test]
fn the_largest_goal_that_fits_is_found() {
    let half = Share::from_percent(50).unwrap();
    let asked = goal(Demand::Requests(2_000), 4096, 1);
    let fits = fitting(&asked, &ground(disk()), half).unwrap();
    // 500 ms / 12.367 ms.
    assert_eq!(fits, Fitting { demand: Some(Demand::Requests(40)), latency: None });
    let one = goal(Demand::Requests(40), 4096, 1);
    assert!(needs(&one, &ground(disk())).unwrap().ppm() <= 500_000);
    let none = fitting(&asked, &ground(disk()), Share::ZERO).unwrap();
    assert_eq!(none.demand, Some(Demand::Requests(0)));
    let bound = Bound { latency: micros(1), percentile: half };
    let soon = Goal { demand: None, bound: Some(bound), ..asked };
    let fits = fitting(&soon, &ground(disk()), half).unwrap();
    assert_eq!(fits.latency, Some(micros(24_734)));
}

#[test]
fn numbers_out_of_range_are_named() {
    let good = goal(Demand::Requests(1), 4096, 1);
    let says = |goal: Goal| needs(&goal, &ground(disk())).unwrap_err().to_string();
    assert!(says(Goal { demand: None, ..good }).contains("state one"));
    assert!(says(Goal { request: 0, ..good }).contains("request: 0 bytes; 1 to"));
    assert!(says(Goal { request: u64::MAX, ..good }).contains("request: 18446744073709551615"));
    assert!(says(Goal { run: 0, ..good }).contains("run: 0 requests; 1 to"));
    assert!(says(goal(Demand::Bytes(0), 1, 1)).contains("rate: 0 each second"));
    assert!(says(goal(Demand::Bytes(u64::MAX), 1, 1)).contains("rate: 18446744073709551615"));
    let bound = |latency, ppm| Goal {
        bound: Some(Bound { latency, percentile: Share::from_ppm(ppm).unwrap() }),
        ..good
    };
    assert!(says(bound(Duration::ZERO, 1)).contains("latency: 0"));
    assert!(says(bound(micros(1), 0)).contains("percentile: 0%"));
    assert!(says(bound(micros(1), Share::PARTS)).contains("percentile: 100%"));
}

/// The ends of every range, together: nothing overflows, and shares only grow with what is asked.
#[test]
fn absurd_numbers_saturate() {
    let costs = [Duration::ZERO, Duration::from_nanos(1), micros(1), Duration::MAX];
    for first in costs {
        for next in costs {
            for stay in costs {
                let ground = Ground { costs: Costs { first, next }, stay, ahead: stay };
                let mut last = 0;
                for amount in [1, 1_000, RATE_MAX] {
                    for run in [1, RUN_MAX] {
                        let demand = Some(Demand::Requests(amount));
                        let bound = Some(Bound {
                            latency: Duration::MAX,
                            percentile: Share::from_ppm(999_990).unwrap(),
                        });
                        let goal = Goal { demand, bound, request: REQUEST_MAX, run };
                        let needs = needs(&goal, &ground).unwrap();
                        assert!(needs.run >= 1 && needs.ppm() >= 1);
                        fitting(&goal, &ground, Share::FULL).unwrap();
                        if run == 1 {
                            assert!(needs.rate_ppm >= last, "{goal:?} {ground:?}");
                            last = needs.rate_ppm;
                        }
                    }
                }
            }
        }
    }
}
