//! Coverage-guided search over the entry that the stable corpus test replays.
#![no_main]

#[path = "../../tests/entries/mod.rs"]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::server_session(data));
