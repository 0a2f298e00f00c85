//! The thread that answers questions to a running daemon: steps of bitmaps, guests, take-overs.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError};
use rustix::event::{PollFd, PollFlags, poll};

use crate::bitmap::{BitmapStep, BitmapView};
use crate::daemon_socket::{AskError, Caller, DaemonSocket};
use crate::desk::Catalog;
use crate::guests::{Hosts, Invitation};
use crate::questions::{Answer, Question, ask};
use crate::shard::Message;
use crate::take_over::{Successor, VERSION};

/// How long a device's thread may take for a step.
const TIMEOUT: Duration = Duration::from_secs(2);

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
    /// Answers, one command after the other, until told to end.
    pub(crate) fn run(self) -> io::Result<()> {
        loop {
            let mut polled = [
                PollFd::new(&*self.closing, PollFlags::IN),
                PollFd::new(&*self.socket, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !polled[0].revents().is_empty() {
                return Ok(());
            }
            if let Err(error) = self.socket.accept().and_then(|caller| self.serve(caller)) {
                tracing::debug!(%error, "a command was not answered");
            }
        }
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
