//! Questions from the thread that serves HTTP to the thread that has the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Sender, TrySendError};
use disktime_api::{DeviceSpec, VdiskChange, VdiskSpec};
use disktime_server::{AlterError, Server, StartError};
use tokio::sync::{oneshot, watch};

use crate::events::{Events, Second};
use crate::gate::Caller;
use crate::plane::{Begun, Made, Plane};
use crate::problem::Refusal;
use crate::sampler::Sampler;

/// A question for the thread that has the server.
pub struct Ask(Kind);

enum Kind {
    Any(Box<Work>),
    /// A virtual disk that is to be made: those that wait at once are recorded together.
    Create(Box<Create>),
}

type Work = dyn FnOnce(&mut Server, &mut Plane) + Send;

struct Create {
    wanted: (VdiskSpec, Caller),
    answer: oneshot::Sender<Result<Made, Refusal>>,
}

impl Ask {
    /// Questions that are best carried out together, at most.
    pub const TOGETHER_MAX: usize = 256;

    /// Whether it is best carried out together with those behind it.
    #[must_use]
    pub fn is_better_together(&self) -> bool {
        matches!(self.0, Kind::Create(_))
    }

    /// Carries out questions in their order and answers them. A virtual disk that is to be made costs
    /// two writes that wait for the disk; many in a row cost no more.
    pub fn answer(asks: Vec<Self>, server: &mut Server, plane: &mut Plane) {
        let mut creates = Vec::new();
        for Self(kind) in asks {
            match kind {
                Kind::Create(create) => creates.push(*create),
                Kind::Any(work) => {
                    answer_creates(std::mem::take(&mut creates), server, plane);
                    work(server, plane);
                }
            }
        }
        answer_creates(creates, server, plane);
    }
}

fn answer_creates(creates: Vec<Create>, server: &mut Server, plane: &mut Plane) {
    let (wanted, answers): (Vec<_>, Vec<_>) =
        creates.into_iter().map(|create| (create.wanted, create.answer)).unzip();
    for (outcome, answer) in plane.put_vdisks(server, &wanted).into_iter().zip(answers) {
        // The caller may have gone.
        let _nobody_waits = answer.send(outcome);
    }
}

/// The outcome of a snapshot.
type Snapshot = Result<(Made, VdiskSpec), Refusal>;

/// Does a long part of some work on a thread of its own, and then has the thread that has the server do the
/// last part.
fn elsewhere<T: Send + 'static>(
    asks: Sender<Ask>,
    (name, long): (&str, impl FnOnce() -> T + Send + 'static),
    end: impl FnOnce(&mut Server, &mut Plane, T) + Send + 'static,
) -> Result<(), AlterError> {
    let run = move || {
        let done = long();
        let end = move |server: &mut Server, plane: &mut Plane| end(server, plane, done);
        // While the daemon ends nobody hears it: the next start gives up what is half-way.
        let _nobody_hears = asks.send(Ask(Kind::Any(Box::new(end))));
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map(drop).map_err(|error| StartError::System(error).into())
}

/// The things that handlers have at hand.
#[derive(Clone)]
pub struct Api {
    /// Questions to the thread that has the server.
    pub asks: Sender<Ask>,
    /// The events.
    pub events: Arc<Events>,
    /// Looks at virtual disks.
    pub sampler: Arc<Mutex<Sampler>>,
    /// The last second, for those that follow.
    pub seconds: Arc<watch::Sender<Second>>,
}

impl Api {
    /// Asks the thread that has the server.
    pub async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Server, &mut Plane) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        let work = move |server: &mut Server, plane: &mut Plane| {
            // The caller may have gone.
            let _nobody_waits = answer.send(work(server, plane));
        };
        self.wait(Kind::Any(Box::new(work)), answered).await
    }

    /// Asks for a virtual disk.
    pub async fn create(&self, wanted: VdiskSpec, by: Caller) -> Result<Made, Refusal> {
        let (answer, answered) = oneshot::channel();
        let create = Create { wanted: (wanted, by), answer };
        self.wait(Kind::Create(Box::new(create)), answered).await?
    }

    /// Asks for a snapshot of a virtual disk. It is made whether the caller waits or not.
    pub async fn snapshot(&self, of: String, wish: VdiskChange, by: Caller) -> Snapshot {
        let (answer, answered) = oneshot::channel();
        let asks = self.asks.clone();
        let begin = move |server: &mut Server, plane: &mut Plane| {
            let refused = match plane.begin_snapshot(server, &of, wish, by) {
                Ok(Begun::Job(name, job)) => {
                    let of = name.clone();
                    // Its file is closed before another one is opened.
                    let long = move || job.run();
                    let end = move |server: &mut Server, plane: &mut Plane, made| {
                        let ended = plane.end_snapshot(server, &of, made);
                        let _nobody_waits = answer.send(ended.map(|spec| (Made::New, spec)));
                    };
                    if let Err(error) = elsewhere(asks, ("snapshot", long), end) {
                        // The caller is told that the daemon is too busy.
                        drop(plane.end_snapshot(server, &name, Err(error)));
                    }
                    return;
                }
                Ok(Begun::Already(spec)) => Ok((Made::Already, *spec)),
                Err(refusal) => Err(refusal),
            };
            let _nobody_waits = answer.send(refused);
        };
        self.wait(Kind::Any(Box::new(begin)), answered).await?
    }

    /// Asks for a device. It is opened whether the caller waits or not.
    pub async fn create_device(&self, spec: DeviceSpec, by: Caller) -> Result<Made, Refusal> {
        let (answer, answered) = oneshot::channel();
        let asks = self.asks.clone();
        let begin = move |server: &mut Server, plane: &mut Plane| {
            let refused = match plane.begin_device(server, &spec) {
                Ok(Some(job)) => {
                    let name = spec.name.clone();
                    let end = move |server: &mut Server, plane: &mut Plane, opened| {
                        let ended = plane.end_device(server, &spec, opened, &by);
                        let _nobody_waits = answer.send(ended.map(|()| Made::New));
                    };
                    if let Err(error) = elsewhere(asks, ("open", move || job.run()), end) {
                        let _the_caller_hears_less = server.end_device(&name, Err(error));
                    }
                    return;
                }
                Ok(None) => Ok(Made::Already),
                Err(refusal) => Err(refusal),
            };
            let _nobody_waits = answer.send(refused);
        };
        self.wait(Kind::Any(Box::new(begin)), answered).await?
    }

    /// Has a virtual disk deleted, whether the caller waits or not. Its clients may take seconds to go.
    pub async fn remove(
        &self,
        (name, seen): (String, Option<String>),
        by: Caller,
    ) -> Result<(), Refusal> {
        let (answer, answered) = oneshot::channel();
        let asks = self.asks.clone();
        let begin = move |server: &mut Server, plane: &mut Plane| {
            let (spec, removal) = match plane.begin_removal(server, (&name, seen.as_deref())) {
                Ok(begun) => begun,
                Err(refusal) => return drop(answer.send(Err(refusal))),
            };
            let of = (spec.clone(), by.clone());
            let end = move |server: &mut Server, plane: &mut Plane, ()| {
                let _nobody_waits = answer.send(plane.end_removal(server, &spec, &by));
            };
            if elsewhere(asks, ("removal", move || removal.wait()), end).is_err() {
                // The caller is told that the daemon is too busy: its record says that it can be deleted
                // again, unless it is gone by now.
                drop(plane.end_removal(server, &of.0, &of.1));
            }
        };
        self.wait(Kind::Any(Box::new(begin)), answered).await?
    }

    async fn wait<T>(&self, kind: Kind, answered: oneshot::Receiver<T>) -> Result<T, Refusal> {
        match self.asks.try_send(Ask(kind)) {
            Ok(()) => answered.await.map_err(|_| Refusal::busy()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Refusal::busy()),
        }
    }

    /// As [`ask`](Self::ask), with the looks at hand.
    pub async fn ask_seen<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Server, &mut Plane, &Sampler) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let sampler = Arc::clone(&self.sampler);
        self.ask(move |server, plane| {
            let sampler = sampler.lock().unwrap_or_else(PoisonError::into_inner);
            work(server, plane, &sampler)
        })
        .await
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Sampler> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
