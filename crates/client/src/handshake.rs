//! Opening: connect, then hand bytes to the sans-IO handshake until it is over or time is up.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use disktime_core::Duration;
use disktime_nbd::reply::ReplyStyle;
use disktime_nbd::{
    ClientHandshake, ClientProgress, ExportInfo, Goal, ListedExport, ProtocolError, ReplyParser,
};

use crate::error::{ConnectError, ConnectionError};
use crate::socket::{Deadline, Socket};
use crate::uri::{Address, Uri};

/// How to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Longest time that opening, and later each call, may take; not zero.
    pub timeout: Duration,
    /// Ask for structured replies; the server may refuse them.
    pub structured_replies: bool,
    /// Ask for the metadata context `base:allocation` beside them; the server may not have it.
    pub allocation: bool,
}

impl Default for Options {
    /// Ten seconds, structured replies, no metadata context.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), structured_replies: true, allocation: false }
    }
}

/// The exports that the server at `address` names, with the default [`Options`].
///
/// # Errors
/// Why there is no list: no server, a refusal, a timeout, nonsense.
pub fn list(address: &Address) -> Result<Vec<ListedExport>, ConnectError> {
    list_with(address, Options::default())
}

/// The exports that the server at `address` names.
///
/// # Errors
/// As for [`list`].
pub fn list_with(address: &Address, options: Options) -> Result<Vec<ListedExport>, ConnectError> {
    let shaken = shake(address, Goal::List, options)?;
    match shaken.end {
        ClientProgress::Listed(exports) => Ok(exports),
        end => unreachable!("a list doesn't end in {end:?}"),
    }
}

/// A connection in the transmission phase.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) socket: Socket,
    pub(crate) export: ExportInfo,
    pub(crate) parser: ReplyParser,
    pub(crate) allocation: bool,
}

/// A connection in the transmission phase for a caller that moves its bytes, on a ring of its own
/// say: requests are [`disktime_nbd::RequestHeader`]s, and the parser finds their replies.
#[derive(Debug)]
pub struct Transmission {
    /// The socket; it blocks, without a timeout.
    pub socket: OwnedFd,
    /// The export as the server described it.
    pub export: ExportInfo,
    /// It has seen all bytes that came so far.
    pub parser: ReplyParser,
    /// Block status describes `base:allocation`.
    pub allocation: bool,
}

impl Transmission {
    /// Connects to an export.
    ///
    /// # Errors
    /// Why there is no connection: no server, a refusal, a timeout, nonsense.
    pub fn open(uri: &Uri, options: Options) -> Result<Self, ConnectError> {
        let Opened { socket, export, parser, allocation } = open(uri, options)?;
        let failed = |errno| ConnectError::Socket { address: uri.address.clone(), errno };
        let socket = socket.into_blocking().map_err(failed)?;
        Ok(Self { socket, export, parser, allocation })
    }
}

pub(crate) fn open(uri: &Uri, options: Options) -> Result<Opened, ConnectError> {
    let goal = Goal::Connect {
        export: uri.export.clone(),
        structured_replies: options.structured_replies,
    };
    let Shaken { socket, end, unread, allocation } = shake(&uri.address, goal, options)?;
    let ClientProgress::Ready(export, style) = end else {
        unreachable!("a connection doesn't end in {end:?}")
    };
    let parser = parser(style, &unread).map_err(|error| ConnectError::Lost {
        address: uri.address.clone(),
        error: error.into(),
    })?;
    Ok(Opened { socket, export, parser, allocation })
}

/// A parser that has seen what came on the handshake's heels. Nothing was asked yet, so no whole
/// reply can be among it.
fn parser(style: ReplyStyle, unread: &[u8]) -> Result<ReplyParser, ProtocolError> {
    let mut parser = ReplyParser::new(style);
    parser.poll(unread, |_| None)?;
    Ok(parser)
}

struct Shaken {
    socket: Socket,
    end: ClientProgress,
    unread: Vec<u8>,
    allocation: bool,
}

fn shake(address: &Address, goal: Goal, options: Options) -> Result<Shaken, ConnectError> {
    let handshake = |error| ConnectError::Handshake { address: address.clone(), error };
    let lost = |error| ConnectError::Lost { address: address.clone(), error };

    let mut state = ClientHandshake::new(goal).map_err(handshake)?;
    if options.allocation {
        state = state.with_context("base:allocation");
    }
    let deadline = Deadline::after(options.timeout);
    let socket = Socket::connect(address, deadline.at)?;
    let mut input = [0; 4096];
    let mut output = Vec::new();
    loop {
        let bytes = receive(&socket, &mut input, deadline).map_err(lost)?;
        let (consumed, progress) =
            state.handle_input(&input[..bytes], &mut output).map_err(handshake)?;
        if progress == ClientProgress::NeedMore {
            send(&socket, &output, deadline).map_err(lost)?;
            output.clear();
            continue;
        }
        // Only a farewell is left to send: that the server may not take it changes nothing.
        let _ = send(&socket, &output, deadline);
        let (unread, allocation) = (input[consumed..bytes].to_vec(), state.has_context());
        return Ok(Shaken { socket, end: progress, unread, allocation });
    }
}

fn receive(
    socket: &Socket,
    input: &mut [u8],
    deadline: Deadline,
) -> Result<usize, ConnectionError> {
    loop {
        let left = deadline.left()?;
        if let Some(bytes) = socket.receive(input)? {
            return Ok(bytes);
        }
        socket.wait(false, None, left)?;
    }
}

fn send(socket: &Socket, mut output: &[u8], deadline: Deadline) -> Result<(), ConnectionError> {
    while !output.is_empty() {
        match socket.send(&[IoSlice::new(output)])? {
            Some(bytes) => output = &output[bytes..],
            None => {
                socket.wait(true, None, deadline.left()?)?;
            }
        }
    }
    Ok(())
}
