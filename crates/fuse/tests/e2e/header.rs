//! The C header and the Rust module state the same numbers.

use std::path::Path;
use std::process::Command;

use disktime_fuse::abi;

const PROGRAM: &str = r#"
#include "disktime.h"
#include <stddef.h>
#include <stdio.h>
int main(void)
{
    printf("%u %u %u %u %u %u %u\n", (unsigned)DISKTIME_GET, (unsigned)DISKTIME_SET,
           (unsigned)DISKTIME_BEST_EFFORT, (unsigned)DISKTIME_PRIORITY, (unsigned)DISKTIME_LATE,
           (unsigned)DISKTIME_STATS, (unsigned)DISKTIME_DEVICE);
    printf("%zu %zu %zu\n", sizeof(struct disktime_qos), sizeof(struct disktime_stats),
           sizeof(struct disktime_device));
    struct disktime_qos q = disktime_usual();
    q.class_ = DISKTIME_CLASS_GUARANTEED_RATE;
    q.limit_ppm = 400000; q.weight = 7; q.admission = DISKTIME_STATISTICAL; q.miss_ppm = 10000;
    q.access = DISKTIME_WRITES; q.rate = 8000000; q.cycle_ns = 1500000000; q.latency_ns = 9;
    q.error = DISKTIME_E_LATENCY; q.fits_ppm = 11; q.fits_rate = 12; q.fits_latency_ns = 13;
    for (size_t i = 0; i < sizeof q; i++) printf("%02x", ((unsigned char *)&q)[i]);
    printf("\n");
    return 0;
}
"#;

/// A structure that differs by a field, or a number of another size, is a call that fails or lies.
#[test]
fn the_header_and_the_module_agree() {
    let directory = tempfile::TempDir::new().unwrap();
    let (source, program) = (directory.path().join("numbers.c"), directory.path().join("numbers"));
    std::fs::write(&source, PROGRAM).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut compiler = Command::new("cc");
    compiler
        .arg("-Wall")
        .arg("-Werror")
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&program)
        .arg(&source);
    let Ok(status) = compiler.status() else {
        return crate::support::skip("the_header_and_the_module_agree", "there is no C compiler");
    };
    assert!(status.success());
    let said = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    use abi::{BEST_EFFORT, DEVICE, GET, LATE, PRIORITY, SET, STATS};
    let numbers = [GET, SET, BEST_EFFORT, PRIORITY, LATE, STATS, DEVICE];
    assert_eq!(lines[0], numbers.map(|number| number.to_string()).join(" "));
    let sizes = [abi::QOS_BYTES, abi::STATS_BYTES, abi::DEVICE_BYTES];
    assert_eq!(lines[1], sizes.map(|size| size.to_string()).join(" "));
    let bytes: Vec<u8> = (0..abi::QOS_BYTES)
        .map(|at| u8::from_str_radix(&lines[2][2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let contract = abi::contract(&bytes).unwrap();
    let text = "class=guaranteed-rate limit=40% weight=7 rate=8MB/s cycle=1500ms admission=1% \
                access=write";
    let expected = disktime_config::read_contract(text).unwrap();
    let latency = Some(disktime_core::Duration::from_nanos(9));
    assert_eq!(contract, disktime_core::Contract { latency, ..expected });
    let refused = abi::refused(bytes[..].try_into().unwrap());
    assert_eq!(refused.reason, abi::Reason::Latency);
    assert_eq!((refused.fits.ppm(), refused.fits_rate), (11, 12));
    assert_eq!(refused.fits_latency.as_nanos(), 13);
    assert_eq!(abi::qos(&contract, &refused)[..], bytes[..]);
}
