//! Where requests go.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use super::*;
use crate::backend::MemoryBackEnd;

const SIZES: [u64; 3] = [20 << 20, 4096, (3 << 20) + 512];

fn spaces() -> Vec<Space> {
    let mut base = 0;
    let space = |(disk, bytes)| {
        base += bytes;
        Space { disk, base: base - bytes, bytes }
    };
    (0..).zip(SIZES).map(space).collect()
}

#[test]
fn requests_stay_within_their_spaces() {
    let spaces = usable(&spaces());
    let sizes: Vec<u64> = spaces.iter().map(|space| space.bytes).collect();
    assert_eq!(sizes, [20 << 20, 3 << 20], "whole blocks, and the small one left out");
    for offset in (0..23 << 20).step_by(4096) {
        for bytes in [0, 4096, 1 << 20] {
            let place = place(&spaces, offset, bytes);
            let size = SIZES[place.disk as usize];
            assert!(place.offset + bytes <= size, "{offset} {bytes}");
        }
    }
}

#[test]
fn a_device_that_is_too_small_is_none() {
    let mut back_end = MemoryBackEnd::new(&[1 << 20]);
    let spaces = [Space { disk: 0, base: 0, bytes: 1 << 20 }];
    let options = ProbeOptions::thorough(Duration::from_secs(1), false);
    let error = price(&mut back_end, None, &spaces, &options, |_| {}).unwrap_err();
    assert!(matches!(error, ProbeError::Pricer(ProfilerError::Size { .. })), "{error}");
}
