//! Where callers come in: a Unix socket, and a TCP address with or without TLS. Connections are
//! bounded, and so is the time for which they may say nothing.
//!
//! Does not know: addresses of the API, who may do what.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::serve::Listener;
use disktime_server::Tls;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections at one door; more wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a caller may take for the header of its next request.
const HEADER: Duration = Duration::from_secs(10);
/// How long a caller may take nothing of what is sent to it.
const STUCK: Duration = Duration::from_secs(30);

/// The one at the other end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A process of this machine that may open the Unix socket.
    Unix {
        /// Its user's number.
        uid: u32,
        /// Its number, where the system tells.
        pid: Option<i32>,
    },
    /// One who came over TCP.
    Tcp {
        /// The address that it came from.
        from: SocketAddr,
        /// The address that it came to.
        to: SocketAddr,
        /// Whether the connection is protected by TLS.
        tls: bool,
    },
}

/// A connection.
pub enum Io {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that counts.
pub struct Counted {
    io: Io,
    /// When its caller is given up, while that takes nothing.
    stuck: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Counted {
    fn new(io: Io, place: Option<OwnedSemaphorePermit>) -> Self {
        Self { io, stuck: None, _place: place }
    }

    /// The outcome of sending; an error once its caller has taken nothing for too long.
    fn sent<T>(
        &mut self,
        context: &mut Context<'_>,
        sent: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.stuck = None;
            return sent;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(STUCK)));
        stuck.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Unix(stream) => Pin::new(stream).poll_read(context, into),
            Io::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Io::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = match &mut self.io {
            Io::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Io::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Io::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.sent(context, sent)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = match &mut self.io {
            Io::Unix(stream) => Pin::new(stream).poll_flush(context),
            Io::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Io::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        self.sent(context, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = match &mut self.io {
            Io::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Io::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        };
        self.sent(context, sent)
    }
}

/// A listener whose connections are counted.
pub struct Door {
    came: mpsc::Receiver<(Counted, Peer)>,
}

impl Door {
    /// Callers at a Unix socket.
    pub fn unix(listener: UnixListener) -> Self {
        let (to, came) = mpsc::channel(1);
        tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            let mut listener = listener;
            loop {
                let place = Arc::clone(&places).acquire_owned().await.ok();
                let (stream, _) = Listener::accept(&mut listener).await;
                let Ok(peer) = stream.peer_cred() else { continue };
                let (uid, pid) = (peer.uid(), peer.pid());
                tracing::debug!(uid, pid, "a caller of the control API");
                let counted = Counted::new(Io::Unix(stream), place);
                if to.send((counted, Peer::Unix { uid, pid })).await.is_err() {
                    return;
                }
            }
        });
        Self { came }
    }

    /// Callers at a TCP address.
    pub fn tcp(listener: TcpListener, to: SocketAddr, tls: Option<Arc<Tls>>) -> Self {
        let (sender, came) = mpsc::channel(1);
        tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            let mut listener = listener;
            loop {
                let place = Arc::clone(&places).acquire_owned().await.ok();
                let (stream, from) = Listener::accept(&mut listener).await;
                let _slower = stream.set_nodelay(true);
                let peer = Peer::Tcp { from, to, tls: tls.is_some() };
                let Some(tls) = &tls else {
                    let counted = Counted::new(Io::Tcp(stream), place);
                    if sender.send((counted, peer)).await.is_err() {
                        return;
                    }
                    continue;
                };
                // A caller that does not shake hands keeps its own place, and nobody else waiting.
                let (acceptor, sender) = (TlsAcceptor::from(tls.settings()), sender.clone());
                tokio::spawn(async move {
                    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            let counted = Counted::new(Io::Tls(Box::new(stream)), place);
                            let _ended = sender.send((counted, peer)).await;
                        }
                        Ok(Err(error)) => tracing::debug!(%from, %error, "no TLS with a caller"),
                        Err(_) => {
                            tracing::debug!(%from, "a caller did not finish its TLS handshake");
                        }
                    }
                });
            }
        });
        Self { came }
    }

    /// The next caller; `None` once nobody accepts any more.
    pub async fn next(&mut self) -> Option<(Counted, Peer)> {
        self.came.recv().await
    }
}

/// Answers a caller's requests until it goes, or takes too long for the next one. An answer may take as
/// long as it likes.
pub async fn serve(io: Counted, peer: Peer, router: Router) {
    let routed = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        routed.call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER);
    if let Err(error) = http.serve_connection(TokioIo::new(io), service).await {
        tracing::debug!(%error, "a caller of the control API is let go");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream as Near;

    use axum::response::sse::{Event, Sse};
    use axum::routing::{get, post};
    use futures_util::stream;
    use tokio::time::{self, Instant};

    use super::*;
    use crate::problem::Body;

    /// The seconds until a caller that has sent this is let go, and all that it was told.
    async fn told(sent: &[u8]) -> (u64, String) {
        let hourly = |left: u32| async move {
            time::interval_at(Instant::now() + HOUR, HOUR).tick().await;
            (left > 0).then(|| (Ok::<_, io::Error>(Event::default().data("tick")), left - 1))
        };
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/large", get(async || vec![0; 8 << 20]))
            .route("/body", post(async |_: Body| "read"))
            .route("/stream", get(move || async move { Sse::new(stream::unfold(3, hourly)) }));
        let (mut near, far) = Near::pair().unwrap();
        near.write_all(sent).unwrap();
        far.set_nonblocking(true).unwrap();
        let io = Io::Unix(UnixStream::from_std(far).unwrap());
        let began = Instant::now();
        serve(Counted::new(io, None), Peer::Unix { uid: 0, pid: None }, router).await;
        let mut said = String::new();
        near.read_to_string(&mut said).unwrap();
        (began.elapsed().as_secs(), said)
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// 256 callers that sent half a header kept all others out for as long as they liked.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_says_nothing_is_let_go() {
        assert_eq!(told(b"GET / HTTP/1.1\r\nhost:").await.0, 10);
        assert_eq!(told(b"").await, (10, String::new()));
        let (seconds, said) = told(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert!(said.ends_with("here"), "{said}");
        assert_eq!(seconds, 10, "it has sent no second request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_takes_nothing_is_let_go() {
        let (seconds, said) = told(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!((seconds, said.len() < 8 << 20), (30, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let header = "POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n";
        let (seconds, said) = told(format!("{header}half").as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        assert!(said.contains("application/problem+json"), "{said}");
        assert_eq!(seconds, 10);
        assert!(told(format!("{header}123456789").as_bytes()).await.1.ends_with("read"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_goes_on_for_hours() {
        let (seconds, said) = told(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(said.matches("tick").count(), 3, "{said}");
        assert!(seconds >= 4 * 3600, "{seconds} s");
    }
}
