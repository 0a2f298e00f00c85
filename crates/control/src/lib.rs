//! The control plane: the HTTP API, the state that it keeps, looks at virtual disks, metrics.
//!
//! A thread of its own with an async runtime serves HTTP. Everything that concerns the server is an
//! [`Ask`] that the thread which has the [`Server`](disktime_server::Server) carries out: the data path knows nothing of it.
//! Does not know: how time is shared, NBD, command lines.
#![deny(unsafe_code)]

mod ask;
mod events;
mod http;
mod metrics;
mod plane;
mod problem;
mod sampler;
mod state;

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;
use disktime_api::{DeviceSpec, VdiskSpec};
use disktime_server::{Config, ConfigError, clock};
use serde::Serialize;
use tokio::sync::oneshot;

pub use ask::Ask;
pub use http::document;
pub use metrics::names as metric_names;
pub use plane::{Plane, Truth};
pub use problem::Refusal;
pub use state::{Kept, Phase, StateError, Store};

use ask::Api;
use events::Events;
use sampler::{LOOK, Look, Sampler};

/// Questions that may wait for the server's thread; more are refused.
const ASKS_MAX: usize = 256;

/// The configuration of a daemon that keeps its devices and virtual disks in a state directory.
///
/// # Errors
/// If what is kept can't be used any more.
pub fn config_of(kept: &Kept, state: &Path, nbd: &[String]) -> Result<Config, ConfigError> {
    #[derive(Serialize)]
    struct ServerTable<'a> {
        nbd: &'a [String],
        state: &'a Path,
        control: String,
    }
    #[derive(Serialize)]
    struct File<'a> {
        server: ServerTable<'a>,
        device: &'a [DeviceSpec],
        vdisk: &'a [VdiskSpec],
    }
    let control = format!("unix:{}", state.join("control.sock").display());
    let server = ServerTable { nbd, state, control };
    let file = File { server, device: &kept.devices, vdisk: &kept.vdisks };
    let text = toml::to_string(&file).expect("tables of texts and numbers are TOML");
    Config::parse(&text)
}

/// The control plane's thread. Ends when it is dropped.
pub struct Control {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    asks: Receiver<Ask>,
}

impl Control {
    /// Serves the API at a bound socket. Its questions come in at [`asks`](Self::asks).
    ///
    /// # Errors
    /// If the system gives no thread or runtime.
    pub fn start(listener: UnixListener, path: &Path, truth: Truth) -> io::Result<(Self, Plane)> {
        let events = Arc::new(Events::default());
        let plane = Plane::new(truth, Arc::clone(&events));
        let (sender, asks) = crossbeam_channel::bounded(ASKS_MAX);
        let (stop, stopped) = oneshot::channel();
        let sampler = Arc::new(Mutex::new(Sampler::default()));
        let api = Api { asks: sender, events, sampler };
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(async move {
                let listener = match tokio::net::UnixListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => return tracing::error!(%error, "the control API does not serve"),
                };
                let served = axum::serve(Logged(listener), http::router(api.clone()));
                tokio::select! {
                    ended = IntoFuture::into_future(served) => {
                        tracing::error!(?ended, "the control API has ended");
                    }
                    () = look(api) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(run)?;
        let control = Self { stop: Some(stop), thread: Some(thread), path: path.to_owned(), asks };
        Ok((control, plane))
    }

    /// Where questions for the server come in.
    #[must_use]
    pub fn asks(&self) -> Receiver<Ask> {
        self.asks.clone()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Questions that wait for an answer get none from now on.
        while self.asks.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
        let _gone_already = std::fs::remove_file(&self.path);
    }
}

/// A listener that logs who calls.
struct Logged(tokio::net::UnixListener);

impl axum::serve::Listener for Logged {
    type Io = tokio::net::UnixStream;
    type Addr = tokio::net::unix::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.0).await;
        if let Ok(peer) = stream.peer_cred() {
            let (uid, gid, pid) = (peer.uid(), peer.gid(), peer.pid());
            tracing::debug!(uid, gid, pid, "a caller of the control API");
        }
        (stream, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

/// Looks at all virtual disks again and again.
async fn look(api: Api) {
    let mut ticks = tokio::time::interval(std::time::Duration::from_nanos(LOOK.as_nanos()));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let counts = api.seen().counts_next();
        let looked = api.ask(move |server, _| Look::at(server, clock::now(), counts)).await;
        let Ok(looked) = looked else { continue };
        let broken = api.seen().take(looked, clock::wall_ms());
        for (name, times) in broken {
            let text = format!("it was behind its reservation {times} times in a second");
            api.events.add("promise-broken", ("vdisk", &name), text);
        }
    }
}
