//! The thread that answers questions to a running daemon: steps of bitmaps, guests, take-overs.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError};
use disktime_core::Instant;
use rustix::event::{PollFd, PollFlags};

use crate::bitmap::{BitmapStep, BitmapView};
use crate::clock;
use crate::daemon_socket::{AskError, Caller, DaemonSocket};
use crate::desk::Catalog;
use crate::guests::{Hosts, Invitation};
use crate::questions::{Answer, Question, ask};
use crate::shard::Message;
use crate::take_over::{Successor, VERSION};
use crate::wakeup::wait;

/// How long a device's thread may take for a step.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a caller may be there before it asks, and callers that may be there: of more the first one goes.
const SILENT: disktime_core::Duration = disktime_core::Duration::from_secs(5);
const SILENT_MAX: usize = 64;

/// Asks the daemon of a state directory how a virtual disk's bitmaps are, after a step of one of them if
/// one is named.
///
/// # Errors
/// If there is no daemon, or it refuses.
pub fn ask_bitmaps(
    state: &Path,
    vdisk: &str,
    step: Option<(&str, BitmapStep)>,
) -> Result<Vec<BitmapView>, AskError> {
    let (bitmap, step) = step.unzip();
    let (vdisk, bitmap) = (vdisk.to_owned(), bitmap.map(str::to_owned));
    ask(state, &Question::Bitmap { vdisk, bitmap, step }).map(|(bitmaps, _)| bitmaps)
}

/// The thread that answers.
pub(crate) struct CommandDesk {
    pub(crate) socket: Arc<DaemonSocket>,
    /// The virtual disks.
    pub(crate) catalog: Arc<Catalog>,
    /// The devices that guests can come to.
    pub(crate) hosts: Arc<Hosts>,
    /// Why the daemon can't be taken over, if it can't.
    pub(crate) stays: Option<String>,
    /// Where daemons go that want to take over.
    pub(crate) successors: Sender<Successor>,
    /// Readable when the thread is to end.
    pub(crate) closing: Arc<OwnedFd>,
}

impl CommandDesk {
    /// Answers, one command after the other, until told to end. A caller that has not asked yet holds up no other
    /// one.
    pub(crate) fn run(self) -> io::Result<()> {
        // Callers that have not asked, with the end of their time: the first one's comes first.
        let mut silent: VecDeque<(Caller, Instant)> = VecDeque::new();
        loop {
            let (closing, ready) = self.poll(&silent)?;
            if closing {
                return Ok(());
            }
            let now = clock::now();
            let mut ready = ready.into_iter();
            let somebody_calls = ready.next().expect("one for the socket");
            let (asking, still) = std::mem::take(&mut silent)
                .into_iter()
                .zip(ready)
                .partition::<VecDeque<_>, _>(|(_, asks)| *asks);
            silent = still.into_iter().map(|(caller, _)| caller).collect();
            silent.retain(|(_, until)| *until > now);
            for ((caller, _), _) in asking {
                if let Err(error) = self.serve(caller) {
                    tracing::debug!(%error, "a command was not answered");
                }
            }
            if somebody_calls {
                match self.socket.accept() {
                    Ok(caller) => silent.push_back((caller, now + SILENT)),
                    Err(error) => tracing::debug!(%error, "a command can't come in"),
                }
                if silent.len() > SILENT_MAX {
                    silent.pop_front();
                }
            }
        }
    }

    /// Waits until something is to be done: whether the thread is to end, whether somebody calls, and which
    /// callers ask.
    fn poll(&self, silent: &VecDeque<(Caller, Instant)>) -> io::Result<(bool, Vec<bool>)> {
        let mut polled = vec![
            PollFd::new(&*self.closing, PollFlags::IN),
            PollFd::new(&*self.socket, PollFlags::IN),
        ];
        polled.extend(silent.iter().map(|(it, _)| PollFd::new(&it.socket, PollFlags::IN)));
        let mut ready = wait(&mut polled, silent.front().map(|(_, until)| *until))?;
        let closing = ready.remove(0);
        Ok((closing, ready))
    }

    fn serve(&self, caller: Caller) -> io::Result<()> {
        let answer = match caller.hear() {
            Ok(Question::Bitmap { vdisk, bitmap, step }) => {
                self.step(&vdisk, bitmap.zip(step)).map_or_else(Answer::no, Answer::of)
            }
            Ok(Question::Guest { version, device, medium, name }) => {
                match Invitation::of(&self.hosts, (version, &name), (&device, medium)) {
                    Ok(invitation) => {
                        caller.say(&Answer::of(Vec::new()))?;
                        return invitation.start(caller);
                    }
                    Err(why) => Answer::no(why),
                }
            }
            Ok(Question::TakeOver { version }) => match self.refuses(version) {
                Some(why) => Answer::no(why),
                // Another thread answers.
                None => match self.successors.try_send(Successor::new(caller)) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                        return back.refuse("another daemon takes over already");
                    }
                },
            },
            Err(error) if error.kind() == io::ErrorKind::Other => Answer::no(error.to_string()),
            Err(error) => return Err(error),
        };
        caller.say(&answer)
    }

    /// Why a daemon with packets of this version can't take over.
    fn refuses(&self, version: u32) -> Option<String> {
        if version != VERSION {
            let why = "restart the daemon instead";
            return Some(format!("it hands over in version {VERSION}, not {version}: {why}"));
        }
        self.stays.clone()
    }

    fn step(
        &self,
        name: &str,
        step: Option<(String, BitmapStep)>,
    ) -> Result<Vec<BitmapView>, String> {
        let Some(entry) = self.catalog.entry(name) else {
            let known = self.catalog.names().join(", ");
            return Err(format!("no virtual disk {name}; there are: {known}"));
        };
        let (answer, outcome) = crossbeam_channel::bounded(1);
        let vdisk = entry.vdisk;
        let told = entry.shard.tell_change(Message::Bitmap { vdisk, step, answer });
        match told.then(|| outcome.recv_timeout(TIMEOUT)) {
            Some(Ok(outcome)) => outcome.map_err(|error| format!("vdisk {name}: {error}")),
            Some(Err(_)) | None => {
                Err(format!("vdisk {name}: its device's thread does not answer"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::memory::Budget;

    /// Each caller that said nothing held all others up for 5 s, and these give up after as long.
    #[test]
    fn callers_that_say_nothing_hold_up_no_command() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path();
        let closing = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let desk = CommandDesk {
            socket: Arc::new(DaemonSocket::bind(state).unwrap()),
            catalog: Arc::new(Catalog::new(Budget::new(1 << 20))),
            hosts: Arc::default(),
            stays: None,
            successors: crossbeam_channel::bounded(1).0,
            closing: Arc::clone(&closing),
        };
        let [few, many] = std::thread::scope(|scope| {
            scope.spawn(|| desk.run().unwrap());
            let ask = || ask_bitmaps(state, "db", None).unwrap_err().to_string();
            let silent = |count| (0..count).map(|_| Caller::dial(state)).collect::<Vec<_>>();
            let _first = silent(4);
            let few = ask();
            let many = few.contains("no virtual disk db").then(|| {
                // More than may be there: the one that came last may still ask.
                let mut silent = silent(2 * SILENT_MAX);
                let last = silent.pop().unwrap().unwrap();
                let answer = ask();
                last.say(&Question::TakeOver { version: 0 }).unwrap();
                last.hear::<Answer>().map(|_| answer).unwrap_or_default()
            });
            crate::wakeup::wake(&closing);
            [few, many.unwrap_or_default()]
        });
        assert!(few.contains("no virtual disk db"), "{few}");
        assert_eq!(many, few);
    }
}
