//! The scene of `disktime demo --scene video` in simulated time. `cargo xtask bench live` runs the scene
//! itself.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::path::Path;

use disktime_sim as sim;

const PRESET: &str = "st340810a";
/// The player's rate in bytes per second.
const RATE: u64 = 8_000_000;
/// Requests that each client has outstanding.
const OUTSTANDING: u32 = 4;

/// The player may start before or after the storm, with the daemon's defaults.
#[test]
fn a_player_is_smooth_soon_whenever_it_starts() {
    let starts = || [1000, 1037, 1111, 1222, 1333, 1444].into_iter();
    let paper = starts().map(|start| ("elevator", "request", start));
    for (policy, token, start) in paper.chain(starts().map(|start| ("disktime", "time", start))) {
        let outcome = sim::simulate(scene(policy, token, start)).unwrap();
        let late = |miss: &&disktime_core::Instant| miss.as_nanos() > (start + 5_000) * 1_000_000;
        let misses = &outcome.misses[0];
        assert!((1..=3).contains(&misses.len()), "{policy}, from {start} ms: {misses:?}");
        assert_eq!(misses.iter().filter(late).count(), 0, "{policy}, from {start} ms: {misses:?}");
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
    }
}

/// The demo's scene: the player comes after so many ms.
fn scene(policy: &str, token: &str, start: u64) -> sim::Plan {
    let mut text = format!(
        "[scenario]\nduration = \"31s\"\npolicy = \"{policy}\"\nfeedback = \"adaptive\"\n\
         feedback_token = \"{token}\"\n[device]\npreset = \"{PRESET}\"\n"
    );
    for at in 0..4 {
        let (class, from, pace) = if at == 0 {
            let player =
                format!("player = {{ rate = \"{RATE}B/s\", outstanding = {OUTSTANDING} }}");
            ("class = \"soft-real-time\"\n", start, player)
        } else {
            ("", 0, format!("closed = {{ outstanding = {OUTSTANDING} }}"))
        };
        text += &format!(
            "[[stream]]\nname = \"{at}\"\nbase = \"{}GiB\"\n{class}[[stream.phases]]\n\
             start = \"{from}ms\"\n\
             spec = {{ pattern = \"sequential\", extent = {{ end = \"9GiB\" }}, sizes = \"128KiB\" }}\n\
             pace = {{ {pace} }}\n",
            9 * at
        );
    }
    let scenario = sim::Scenario::parse(Path::new("video.toml"), &text).unwrap();
    scenario.plan(1).unwrap()
}
