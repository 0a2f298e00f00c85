//! How long the threads of this process waited for a CPU: a machine that gives them none measures itself.

use std::collections::BTreeMap;
use std::time::Duration;

/// The time that each thread, by its name in `/proc`, was ready to run and had no CPU.
#[derive(Default)]
pub(super) struct Waits(BTreeMap<String, Duration>);

impl Waits {
    /// Waits of all threads of the process so far; none where the kernel does not count them.
    pub(super) fn now() -> Self {
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let wait = |thread: std::fs::DirEntry| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some((thread.file_name().into_string().ok()?, waited(&text)?))
        };
        Self(threads.filter_map(wait).collect())
    }

    /// The time that threads waited since `before`; what a thread waited that came or went since does not count.
    pub(super) fn since(&self, before: &Self) -> Duration {
        let wait = |(thread, after): (&String, &Duration)| {
            Some(after.saturating_sub(*before.0.get(thread)?))
        };
        self.0.iter().filter_map(wait).sum()
    }
}

/// The second number of `schedstat`: ns on a run queue. The first is those on a CPU, the third counts turns.
fn waited(text: &str) -> Option<Duration> {
    let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(of: &[(&str, u64)]) -> Waits {
        let wait =
            |(thread, millis): &(&str, u64)| ((*thread).to_owned(), Duration::from_millis(*millis));
        Waits(of.iter().map(wait).collect())
    }

    #[test]
    fn threads_that_were_there_all_the_time_are_summed() {
        let before = waits(&[("1", 500), ("2", 700), ("3", 40)]);
        let after = waits(&[("1", 600), ("2", 705), ("4", 9_000)]);
        assert_eq!(after.since(&before), Duration::from_millis(105));
        assert_eq!(Waits::default().since(&before), Duration::ZERO, "it is not counted");
    }

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(waited("81234 5000000 17\n"), Some(Duration::from_millis(5)));
        assert_eq!(["", "7", "7 x 1"].map(waited), [None; 3]);
    }

    /// A kernel that counts waits counts those of this thread, too.
    #[test]
    fn the_processs_own_threads_are_read() {
        if std::path::Path::new("/proc/thread-self/schedstat").exists() {
            assert!(!Waits::now().0.is_empty());
        }
    }
}
