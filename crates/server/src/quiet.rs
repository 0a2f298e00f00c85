//! Keeps the log readable: of one cause a line now and then, with the number of those left out since.
//!
//! Does not know: what causes there are, or what a line says.

use std::collections::BTreeMap;

use disktime_core::{Duration, Instant};

/// A cause is told at most this often.
const QUIET: Duration = Duration::from_secs(10);
/// Causes that are told apart. More come only from what others choose (error numbers, say), and are
/// left out until one of these has been quiet.
const CAUSES_MAX: usize = 64;

/// When causes were told last.
#[derive(Debug)]
pub struct Quiet<Cause>(BTreeMap<Cause, Told>);

#[derive(Debug)]
struct Told {
    at: Instant,
    left_out: u64,
}

impl<Cause> Default for Quiet<Cause> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<Cause: Ord> Quiet<Cause> {
    /// Notes that it has happened; if it is to be told now, how often it was not told since the last
    /// time.
    pub fn note(&mut self, now: Instant, cause: Cause) -> Option<u64> {
        if let Some(told) = self.0.get_mut(&cause) {
            if now.since(told.at) < QUIET {
                told.left_out += 1;
                return None;
            }
            told.at = now;
            return Some(std::mem::take(&mut told.left_out));
        }
        if self.0.len() == CAUSES_MAX {
            self.0.retain(|_, told| now.since(told.at) < QUIET);
        }
        if self.0.len() == CAUSES_MAX {
            return None;
        }
        self.0.insert(cause, Told { at: now, left_out: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// A device that fails told of every request, and the log filled the disk.
    #[test]
    fn a_cause_is_told_seldom_and_none_is_forgotten() {
        let mut quiet = Quiet::default();
        let told: Vec<_> =
            (0..25).filter_map(|second| Some((second, quiet.note(at(second), "one")?))).collect();
        assert_eq!(told, [(0, 0), (10, 9), (20, 9)]);
        assert_eq!(quiet.note(at(25), "another"), Some(0), "a cause of its own");
        assert_eq!(quiet.note(at(31), "one"), Some(4));
    }

    #[test]
    fn causes_are_bounded() {
        let mut quiet = Quiet::default();
        let told = (0..1000).filter(|cause| quiet.note(at(0), *cause).is_some()).count();
        assert_eq!((told, quiet.0.len()), (CAUSES_MAX, CAUSES_MAX));
        assert_eq!(quiet.note(at(10), 1000), Some(0), "those before have been quiet");
        assert_eq!(quiet.0.len(), 1);
    }
}
