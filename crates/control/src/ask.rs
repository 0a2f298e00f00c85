//! Questions from the thread that serves HTTP to the thread that has the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Sender, TrySendError};
use disktime_server::Server;
use tokio::sync::watch;

use crate::events::{Events, Second};
use crate::plane::Plane;
use crate::problem::Refusal;
use crate::sampler::Sampler;

/// A question for the thread that has the server.
pub struct Ask(Box<Work>);

type Work = dyn FnOnce(&mut Server, &mut Plane) + Send;

impl Ask {
    /// Carries it out and answers.
    pub fn answer(self, server: &mut Server, plane: &mut Plane) {
        (self.0)(server, plane);
    }
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
        let (answer, answered) = tokio::sync::oneshot::channel();
        let work = move |server: &mut Server, plane: &mut Plane| {
            // The caller may have gone.
            let _nobody_waits = answer.send(work(server, plane));
        };
        match self.asks.try_send(Ask(Box::new(work))) {
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
