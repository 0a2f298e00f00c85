//! The control plane: the HTTP API, the state that it keeps, looks at virtual disks, metrics.
//!
//! A thread of its own with an async runtime serves HTTP. Everything that concerns the server is an
//! [`Ask`] that the thread which has the [`Server`](disktime_server::Server) carries out: the data path knows nothing of it.
//! Does not know: how time is shared, NBD, command lines.
#![deny(unsafe_code)]

mod ask;
mod door;
mod events;
mod gate;
mod history;
mod http;
mod live;
mod metrics;
mod page;
mod plane;
mod problem;
mod sampler;
mod settle;
mod state;
mod tokens;

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;
use disktime_api::{DeviceSpec, VdiskSpec};
use disktime_config::ValueError;
use disktime_server::{Config, ConfigError, Tls, clock};
use serde::Serialize;
use tokio::sync::{oneshot, watch};

pub use ask::Ask;
pub use events::KINDS as EVENT_KINDS;
pub use http::document;
pub use metrics::{
    listed as metric_rows, listed_histograms as histogram_rows, names as metric_names,
};
pub use plane::{Plane, Truth};
pub use problem::Refusal;
pub use settle::settled;
pub use state::{Kept, Phase, StateError, Store};
pub use tokens::{Role, TokenError, Tokens};

use ask::Api;
use door::Door;
use events::Events;
use sampler::{LOOK, Sampler};

/// Questions that may wait for the server's thread; more are refused.
const ASKS_MAX: usize = 256;

/// Addresses of a daemon that keeps its devices and virtual disks in a state directory.
#[derive(Clone, Copy, Default, Debug)]
pub struct Addresses<'a> {
    /// Where NBD clients connect.
    pub nbd: &'a [String],
    /// A TCP address of the control API, beside its Unix socket.
    pub web: Option<&'a str>,
    /// A certificate and its key: TLS of that address.
    pub tls: Option<(&'a Path, &'a Path)>,
}

/// The configuration of a daemon that keeps its devices and virtual disks in a state directory.
///
/// # Errors
/// If what is kept can't be used any more, or a path is no UTF-8.
pub fn config_of(
    kept: &Kept,
    state: &Path,
    addresses: &Addresses<'_>,
) -> Result<Config, ConfigError> {
    #[derive(Serialize)]
    struct ServerTable<'a> {
        nbd: &'a [String],
        state: &'a Path,
        control: Vec<String>,
    }
    #[derive(Serialize)]
    struct TlsTable<'a> {
        certificate: &'a Path,
        key: &'a Path,
    }
    #[derive(Serialize)]
    struct File<'a> {
        server: ServerTable<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tls: Option<TlsTable<'a>>,
        device: &'a [DeviceSpec],
        vdisk: &'a [VdiskSpec],
    }
    let (certificate, key) = addresses.tls.unzip();
    for (table, name, path) in
        [("server", "state", Some(state)), ("tls", "certificate", certificate), ("tls", "key", key)]
    {
        if let Some(path) = path.filter(|path| path.to_str().is_none()) {
            let allowed = "a path is UTF-8: choose another directory or name";
            return Err(ValueError::new(table, name, path.display(), allowed).into());
        }
    }
    let mut control = vec![format!("unix:{}", state.join("control.sock").display())];
    control.extend(addresses.web.map(str::to_owned));
    let server = ServerTable { nbd: addresses.nbd, state, control };
    let tls = addresses.tls.map(|(certificate, key)| TlsTable { certificate, key });
    let file = File { server, tls, device: &kept.devices, vdisk: &kept.vdisks };
    let text = toml::to_string(&file).expect("tables of texts and numbers are TOML");
    Config::parse(&text)
}

/// A bound TCP address of the control API.
pub struct Web {
    /// Its listener, which does not block.
    pub listener: std::net::TcpListener,
    /// Its protection; without it only this machine may reach the address.
    pub tls: Option<Arc<Tls>>,
    /// The tokens that callers show.
    pub tokens: Arc<Tokens>,
}

/// The bound sockets of the control API.
pub struct Sockets<'a> {
    /// The Unix socket and its path.
    pub unix: Option<(UnixListener, &'a Path)>,
    /// The TCP address.
    pub web: Option<Web>,
}

/// The control plane's thread. Ends when it is dropped.
pub struct Control {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
    asks: Receiver<Ask>,
}

impl Control {
    /// Serves the API at bound sockets. Its questions come in at [`asks`](Self::asks).
    ///
    /// # Errors
    /// If the system gives no thread or runtime.
    pub fn start(sockets: Sockets<'_>, truth: Truth) -> io::Result<(Self, Plane)> {
        let events = Arc::new(Events::default());
        let plane = Plane::new(truth, Arc::clone(&events));
        let (sender, asks) = crossbeam_channel::bounded(ASKS_MAX);
        let (stop, stopped) = oneshot::channel();
        let sampler = Arc::new(Mutex::new(Sampler::default()));
        let seconds = Arc::new(watch::Sender::new(None));
        let api = Api { asks: sender, events, sampler, seconds };
        let Sockets { unix, web } = sockets;
        let (unix, path) = unix.unzip();
        if let Some(listener) = &unix {
            listener.set_nonblocking(true)?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(async move {
                tokio::select! {
                    Err(error) = serve(unix, web, &api) => {
                        tracing::error!(%error, "the control API has ended");
                    }
                    () = look(api.clone()) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(run)?;
        let path = path.map(Path::to_owned);
        Ok((Self { stop: Some(stop), thread: Some(thread), path, asks }, plane))
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
        let _gone_already = self.path.as_ref().map(std::fs::remove_file);
    }
}

/// Serves the doors that there are, until one fails.
async fn serve(unix: Option<UnixListener>, web: Option<Web>, api: &Api) -> io::Result<()> {
    let unix = async {
        let Some(listener) = unix else { return Ok(()) };
        let door = Door::unix(tokio::net::UnixListener::from_std(listener)?);
        serve_at(door, api, Arc::new(Tokens::none())).await
    };
    let web = async {
        let Some(Web { listener, tls, tokens }) = web else { return Ok(()) };
        let to = listener.local_addr()?;
        let door = Door::tcp(tokio::net::TcpListener::from_std(listener)?, to, tls);
        serve_at(door, api, tokens).await
    };
    tokio::try_join!(unix, web).map(|((), ())| ())
}

async fn serve_at(mut door: Door, api: &Api, tokens: Arc<Tokens>) -> io::Result<()> {
    let router = http::router(api.clone(), tokens);
    while let Some((io, peer)) = door.next().await {
        tokio::spawn(door::serve(io, peer, router.clone()));
    }
    Err(io::Error::other("nobody accepts callers any more"))
}

/// Looks at all virtual disks again and again.
async fn look(api: Api) {
    let mut ticks = tokio::time::interval(std::time::Duration::from_nanos(LOOK.as_nanos()));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let sampler = Arc::clone(&api.sampler);
        let look = move |server: &mut disktime_server::Server, _: &mut Plane| {
            let mut sampler = sampler.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            sampler.look(server, clock::now(), clock::wall_ms())
        };
        let Ok(news) = api.ask(look).await else { continue };
        for (name, times) in news.broken {
            let text = format!("it was behind its reservation {times} times in a second");
            api.events.add("promise-broken", ("vdisk", &name), (text, ""));
        }
        if let Some(live) = news.live.filter(|_| api.seconds.receiver_count() > 0) {
            let text = serde_json::to_string(&live).unwrap_or_default();
            api.seconds.send_replace(Some(text.into()));
        }
    }
}
