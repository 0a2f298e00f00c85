//! Waits, at the start, for what a dying process still holds.
//!
//! The kernel closes the files, locks and sockets of a killed process some time after the kill: what
//! starts the next daemon at once finds them taken. Blocks; not to be called on a shard.

use disktime_core::Duration;

use crate::clock;

/// How long a dying process may take to let go; the longest that was seen is below 1 s.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const POLL: std::time::Duration = std::time::Duration::from_millis(20);

/// Attempts it until it succeeds, fails otherwise than by being taken, or the time is over;
/// answers the last outcome. The first attempt is made at once.
pub(crate) fn patiently<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_taken: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let until = clock::now() + TIMEOUT;
    loop {
        match attempt() {
            Err(error) if is_taken(&error) && clock::now() < until => pause(),
            outcome => return outcome,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when another process has ended")]
fn pause() {
    std::thread::sleep(POLL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_taken_is_tried_again() {
        let mut left = [Err("taken"), Ok(1), Ok(2)].into_iter();
        assert_eq!(patiently(|| left.next().expect("few"), |error| *error == "taken"), Ok(1));
        let mut left = [Err("broken"), Ok(1)].into_iter();
        assert_eq!(
            patiently(|| left.next().expect("few"), |error| *error == "taken"),
            Err("broken")
        );
    }
}
