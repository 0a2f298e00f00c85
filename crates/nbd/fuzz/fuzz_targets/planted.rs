//! A mistake that the fuzzer has to find, or it would find none in the codec: four bytes in order, which
//! chance alone meets once in 2^32 inputs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut right = 0;
    for (byte, wanted) in data.iter().zip(b"disk") {
        if byte != wanted {
            return;
        }
        right += 1;
        assert!(right < 4, "the planted mistake");
    }
});
