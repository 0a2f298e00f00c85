//! Where callers come in: a Unix socket, and a TCP address with or without TLS. Connections are
//! bounded.
//!
//! Does not know: HTTP, who may do what.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use disktime_server::Tls;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Connections at one door; more wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

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
    _place: Option<OwnedSemaphorePermit>,
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
        match &mut self.io {
            Io::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Io::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Io::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Unix(stream) => Pin::new(stream).poll_flush(context),
            Io::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Io::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Io::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
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
                let counted = Counted { io: Io::Unix(stream), _place: place };
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
                    let counted = Counted { io: Io::Tcp(stream), _place: place };
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
                            let counted = Counted { io: Io::Tls(Box::new(stream)), _place: place };
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
}

impl Listener for Door {
    type Io = Counted;
    type Addr = Option<Peer>;

    async fn accept(&mut self) -> (Counted, Option<Peer>) {
        match self.came.recv().await {
            Some((stream, peer)) => (stream, Some(peer)),
            // The task that accepts goes with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Option<Peer>> {
        Ok(None)
    }
}

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        let nobody = Self::Unix { uid: u32::MAX, pid: None };
        stream.remote_addr().clone().unwrap_or(nobody)
    }
}
