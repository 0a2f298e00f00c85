//! The thread that listens to the daemon, and looks for another one when the connection has ended.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use disktime_core::Duration;
use disktime_server::guest_messages::Told;
use disktime_server::guests::GuestLine;
use disktime_server::{AskError, clock};

use crate::nodes::lock;
use crate::scheduler::spawn;

/// How long another daemon is looked for, while one is there that does not take the mount in: one that ends
/// may take 5 s for it, and its successor as long to open devices.
const LOOKS_FOR: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
/// A connection that ends sooner than this is no good.
const SHORT: Duration = Duration::from_secs(1);
/// Connections that are no good, one after the other, before others wait for a moment.
const SHORT_MANY: u32 = 8;
/// As many before no other one is looked for.
const SHORT_MAX: u32 = 64;
/// The moment: a daemon that lets a mount go each time is left after 17 s, and upgrades that follow each other
/// are over by then.
const REST: std::time::Duration = std::time::Duration::from_millis(300);

/// Something from the daemon.
pub(in crate::scheduler) enum News {
    Told(Told),
    /// The connection has ended: it is told whether there is another one.
    Away,
    /// There is.
    Back(Arc<GuestLine>),
    /// There is none.
    Gone,
}

/// The connection of now.
struct Current {
    line: Arc<GuestLine>,
    /// It is needed no longer, nor another one.
    stopped: bool,
}

/// The thread.
pub(super) struct Listener {
    pub(super) news: Receiver<News>,
    current: Arc<Mutex<Current>>,
    /// Dropped to end a pause.
    pause: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    depth_max: usize,
}

impl Listener {
    /// Listens from now on.
    pub(super) fn start(line: Arc<GuestLine>) -> std::io::Result<Self> {
        let (to, news) = unbounded();
        let (pause, pauses) = bounded(0);
        let depth_max = line.facts().depth_max as usize;
        let current = Arc::new(Mutex::new(Current { line, stopped: false }));
        let its = Arc::clone(&current);
        let thread = Some(spawn("daemon", move || listen(&its, &to, &pauses))?);
        Ok(Self { news, current, pause: Some(pause), thread, depth_max })
    }

    /// The most pieces at the device at once, by the first connection.
    pub(super) fn depth_max(&self) -> usize {
        self.depth_max
    }

    /// Listens no longer.
    pub(super) fn stop(&mut self) {
        self.pause = None;
        let mut current = lock(&self.current);
        current.stopped = true;
        current.line.end();
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
        if self.thread.take().is_some_and(|it| it.join().is_err()) {
            tracing::error!("the thread that listens to the daemon panicked");
        }
    }
}

fn listen(current: &Mutex<Current>, to: &Sender<News>, pauses: &Receiver<()>) {
    let mut short = 0;
    loop {
        let (line, began) = (Arc::clone(&lock(current).line), clock::now());
        while let Ok(told) = line.hear() {
            if to.send(News::Told(told)).is_err() {
                return;
            }
        }
        short = if clock::now().since(began) < SHORT { short + 1 } else { 0 };
        let rest = rest(short).filter(|_| to.send(News::Away).is_ok());
        // Nobody ends the pause but the end of the mount.
        let rest = rest.filter(|rest| pauses.recv_timeout(*rest) == Err(RecvTimeoutError::Timeout));
        let next = rest.and_then(|_| look_for_another(&line, pauses));
        let Some(next) = next.map(Arc::new) else {
            // The scheduler may have ended.
            let _nobody_hears = to.send(News::Gone);
            return;
        };
        let mut current = lock(current);
        if current.stopped {
            return;
        }
        current.line = Arc::clone(&next);
        drop(current);
        if to.send(News::Back(next)).is_err() {
            return;
        }
    }
}

/// The pause after so many connections that were no good, one after the other; none if that was the last one.
fn rest(short: u32) -> Option<std::time::Duration> {
    match short {
        ..SHORT_MANY => Some(std::time::Duration::ZERO),
        SHORT_MANY..SHORT_MAX => Some(REST),
        SHORT_MAX.. => None,
    }
}

/// Becomes a guest again at the same device, while a daemon is there: the one that has let the mount go, or
/// the one that has taken over from it.
fn look_for_another(line: &GuestLine, pauses: &Receiver<()>) -> Option<GuestLine> {
    let until = clock::now() + LOOKS_FOR;
    loop {
        match line.again() {
            Ok(next) if next.facts().capacity == line.facts().capacity => return Some(next),
            Ok(_) => {
                tracing::error!("the device has another size now: the mount can't go on with it");
                return None;
            }
            Err(AskError::NoDaemon(_)) => return None,
            Err(error) if clock::now() >= until => {
                tracing::error!(%error, "no daemon takes the mount in");
                return None;
            }
            Err(_) => {}
        }
        if pauses.recv_timeout(PAUSE) == Err(RecvTimeoutError::Disconnected) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight upgrades within 2.4 s ended the mount's part in the device's scheduling for good.
    #[test]
    fn a_mount_outlasts_upgrades_that_follow_each_other_and_leaves_a_daemon_that_refuses_it() {
        let pauses: Vec<_> = (1..).map_while(rest).collect();
        assert!(pauses.len() > 40, "{} connections", pauses.len());
        assert!(pauses[..7].iter().all(std::time::Duration::is_zero), "one upgrade is no pause");
        let sum: std::time::Duration = pauses.iter().sum();
        assert!(sum.as_secs() >= 15 && sum.as_secs() < 30, "{sum:?}");
    }
}
