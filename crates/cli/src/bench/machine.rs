//! The world that real servers are measured in: this machine's clock and CPU, a person's signals.

use std::time::{Duration, Instant};

use disktime_bench::live::{Step, Stopped, World};
use disktime_bench::server_process::{machine_busy, process_cpu};

use crate::interrupt;
use crate::progress::Progress;

/// How long a signal may go unnoticed.
const NOTICE: Duration = Duration::from_millis(100);

/// This machine.
pub(super) struct Machine {
    begun: Instant,
    progress: Progress,
}

impl Machine {
    /// From now on a signal that would end this process ends the bench instead, so that nothing is
    /// left behind.
    pub(super) fn new() -> Self {
        interrupt::polled();
        Self { begun: now(), progress: Progress::new(0) }
    }

    /// From now on it takes so long.
    pub(super) fn takes(&self, length: Duration) {
        self.progress.set_of(millis(self.begun.elapsed() + length));
    }

    /// A part of the measurement begins.
    pub(super) fn say(&self, what: &str) {
        self.progress.at(millis(self.begun.elapsed()), what);
    }

    /// A line that stays.
    pub(super) fn note(&self, text: &str) {
        self.progress.note(text);
    }
}

impl World for Machine {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn wait(&self, until: Duration) -> Result<(), Stopped> {
        loop {
            if interrupt::is_asked() {
                return Err(Stopped);
            }
            let left = until.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(NOTICE));
        }
    }

    fn cpu(&self, own: &[u32]) -> (f64, f64) {
        #[expect(clippy::cast_precision_loss, reason = "a few cores")]
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let others = own.iter().map(|process| process_cpu(&process.to_string()));
        let used = others.chain([process_cpu("self")]).map(|cpu| cpu.unwrap_or(0.0)).sum::<f64>();
        (self.now().as_secs_f64() * cores, machine_busy().unwrap_or(0.0) - used)
    }

    fn tell(&self, step: &Step<'_>) {
        match *step {
            Step::Begins { scene, policy, stream, round } => {
                let (device, split) = (scene.device.name(), scene.split());
                let who = match stream {
                    Some(stream) => format!("{} alone", scene.tenants[stream].load.name),
                    None => "all together".to_owned(),
                };
                self.say(&format!("{device} at {split}, round {round}: {policy}: {who}"));
            }
            Step::LeftOut { scene, policy, reason } => {
                self.note(&format!("left out: {policy} on {}: {reason}", scene.device.name()));
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "a live bench measures in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a live bench waits while others work")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}
