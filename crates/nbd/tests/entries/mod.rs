//! Entry points of the corpus replay, the mutation test and the fuzz targets: one function a
//! parser, each taking any bytes, each panicking when a promise of the crate is broken.
#![allow(dead_code, reason = "each fuzz target includes this file for one of its functions")]

use core::fmt::Debug;

use disktime_nbd::limits::{HANDSHAKE_REPLY_BYTES_MAX, WRITE_DRAIN_BYTES_MAX};
use disktime_nbd::reply::{self, ReplyStyle, ReplyTo};
use disktime_nbd::{
    BlockSizes, Checked, ClientError, ClientHandshake, ClientProgress, Command, CommandFlags,
    Context, EXTENDED_REQUEST_BYTES, ExportInfo, Exports, Goal, Handshake, HandshakeError,
    NbdError, Operation, Pending, ProtocolError, REQUEST_BYTES, Reject, ReplyEvent, ReplyParser,
    RequestHeader, ServerHandshake, Session, Tls, TransmissionFlags,
};

/// The server that is attacked: a few exports, the first of which is the default.
pub(crate) struct Shelf(pub(crate) Vec<ExportInfo>);

impl Exports for Shelf {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        self.0.iter().for_each(each);
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        self.0.iter().find(|export| name.is_empty() || export.name == name).cloned()
    }

    fn contexts(&self, _name: &str) -> Vec<Context> {
        let context = |(id, name): (u32, &str)| Context { id, name: name.to_owned() };
        (0..).zip(CONTEXTS).map(context).collect()
    }

    fn admit(&self, name: &str) -> Result<(), String> {
        if name == CROWDED { Err("all places are taken".to_owned()) } else { Ok(()) }
    }
}

/// The metadata contexts of every export.
pub(crate) const CONTEXTS: [&str; 2] = ["base:allocation", "qemu:dirty-bitmap:monday"];

/// An export that takes no more clients, if it is there.
pub(crate) const CROWDED: &str = "crowded";

pub(crate) fn export(name: &str, flags: TransmissionFlags) -> ExportInfo {
    ExportInfo {
        name: name.to_owned(),
        description: format!("the disk called {name}"),
        size_bytes: 1 << 20,
        flags,
        block_sizes: BlockSizes::new(512, 4096, 1 << 18).expect("sizes that the protocol allows"),
    }
}

pub(crate) fn shelf() -> Shelf {
    Shelf(vec![
        export("alpha", TransmissionFlags::KNOWN.without(TransmissionFlags::READ_ONLY)),
        export("beta", TransmissionFlags::READ_ONLY),
    ])
}

/// The fragmentation of input must not matter.
pub(crate) fn agree<T: PartialEq + Debug>(run: impl Fn(usize) -> T, step: usize) {
    let whole = run(usize::MAX);
    assert_eq!(run(1), whole, "byte by byte differs from all at once");
    assert_eq!(run(step.max(1)), whole, "in steps of {step} differs from all at once");
}

/// A client's half of a handshake against our server.
pub(crate) fn server_handshake(data: &[u8]) {
    let Some((&step, data)) = data.split_first() else { return };
    agree(|step| serve(&shelf(), data, step), step.into());
}

/// Runs a server's handshake on `input` in pieces of `step` bytes. Returns how it stood at the
/// end, what it wrote, and how many bytes it consumed (0 if it failed).
pub(crate) fn serve(
    shelf: &Shelf,
    input: &[u8],
    step: usize,
) -> (Result<Handshake, HandshakeError>, Vec<u8>, usize) {
    let mut server = ServerHandshake::new();
    let (mut out, mut consumed) = (Vec::new(), 0);
    let mut last = Ok(Handshake::NeedMore);
    for piece in input.chunks(step) {
        match server.handle_input(piece, shelf, &mut out) {
            Ok((taken, handshake)) => {
                assert!(handshake != Handshake::NeedMore || taken == piece.len());
                consumed += taken;
                last = Ok(handshake);
            }
            Err(error) => (last, consumed) = (Err(error), 0),
        }
        assert!(out.len() <= HANDSHAKE_REPLY_BYTES_MAX);
        if last != Ok(Handshake::NeedMore) {
            let again = server.handle_input(&[], shelf, &mut out);
            assert_eq!(again, Err(HandshakeError::Over));
            break;
        }
    }
    (last, out, consumed)
}

/// Requests against an export: the first two bytes are its flags, the third its minimum block
/// size's logarithm and the style of replies.
pub(crate) fn server_transmission(data: &[u8]) {
    let &[high, low, third, ref requests @ ..] = data else { return };
    let style = if third & 0x80 == 0 { ReplyStyle::Simple } else { ReplyStyle::Structured };
    let flags = TransmissionFlags::from_wire(u16::from_be_bytes([high, low]));
    let min = 1 << (third & 0x0f);
    let export = ExportInfo {
        flags: flags.advertised(style == ReplyStyle::Structured),
        block_sizes: BlockSizes::new(min, min.max(4096), u32::MAX).expect("powers of two"),
        ..export("target", flags)
    };
    for bytes in requests.chunks_exact(REQUEST_BYTES) {
        let mut bytes: [u8; REQUEST_BYTES] = bytes.try_into().expect("an exact chunk");
        match RequestHeader::parse(&bytes) {
            Ok(request) => answer(&request, &export, style),
            Err(error) => {
                assert!(matches!(error, ProtocolError::RequestMagic(_)));
                // Bytes behind a wrong magic are worth a try too.
                bytes[..4].copy_from_slice(&disktime_nbd::magic::REQUEST.to_be_bytes());
                let request = RequestHeader::parse(&bytes).expect("now the magic is right");
                answer(&request, &export, style);
            }
        }
    }
}

/// A handshake with all that can be negotiated before an export is chosen: the first byte says whether
/// TLS is required, the second the fragmentation.
pub(crate) fn server_options(data: &[u8]) {
    let &[choice, step, ref data @ ..] = data else { return };
    let tls = if choice & 1 == 0 { Tls::Offered } else { Tls::Required };
    let run = |step: usize| {
        let (mut server, mut out, mut consumed) = (ServerHandshake::with_tls(tls), Vec::new(), 0);
        let mut upgrades = 0;
        while consumed < data.len() {
            let piece = &data[consumed..data.len().min(consumed.saturating_add(step))];
            let Ok((taken, state)) = server.handle_input(piece, &shelf(), &mut out) else {
                return (None, out, 0);
            };
            consumed += taken;
            match state {
                Handshake::NeedMore => {}
                Handshake::StartTls => {
                    upgrades += 1;
                    assert_eq!(upgrades, 1, "there is no TLS within TLS");
                }
                Handshake::Transmission(session) => {
                    assert!(tls == Tls::Offered || upgrades == 1, "TLS was required");
                    assert!(session.contexts.len() <= CONTEXTS.len());
                    assert!(session.contexts.is_empty() || session.style != ReplyStyle::Simple);
                    return (Some(session), out, consumed);
                }
                Handshake::Aborted => break,
            }
        }
        assert!(out.len() <= HANDSHAKE_REPLY_BYTES_MAX);
        (None, out, consumed)
    };
    agree(run, step.into());
}

/// Requests with 64-bit lengths in a session with metadata contexts: the first byte is the export's
/// flags.
pub(crate) fn server_session(data: &[u8]) {
    let Some((&low, requests)) = data.split_first() else { return };
    let flags = TransmissionFlags::KNOWN.without(TransmissionFlags::from_wire(low.into()));
    let export = export("target", flags.advertised(true));
    let session = Session { export, style: ReplyStyle::Extended, contexts: vec![0] };
    for bytes in requests.chunks_exact(EXTENDED_REQUEST_BYTES) {
        let mut bytes: [u8; EXTENDED_REQUEST_BYTES] = bytes.try_into().expect("an exact chunk");
        bytes[..4].copy_from_slice(&disktime_nbd::magic::EXTENDED_REQUEST.to_be_bytes());
        let request = RequestHeader::parse_extended(&bytes).expect("the magic is right");
        let to = ReplyTo { style: session.style, cookie: request.cookie, offset: request.offset };
        match session.check(&request, PAYLOAD_BYTES_MAX) {
            Ok(checked) => {
                keeps_promises(&request, &checked, &session.export);
                if let Operation::BlockStatus { .. } = checked.operation {
                    assert!(checked.length > 0);
                    assert_eq!(to.extent(checked.length, 3).len(), 16);
                }
            }
            Err(Reject::Reply { error, message, payload_bytes }) => {
                assert!(payload_bytes <= WRITE_DRAIN_BYTES_MAX);
                assert!(to.error(error, message).len() >= 38);
                let announced = request.flags.contains(CommandFlags::PAYLOAD_LEN);
                let comes = request.command == Command::Write || announced;
                assert_eq!(u64::from(payload_bytes), if comes { request.length } else { 0 });
            }
            Err(Reject::Close) => assert!(request.length > WRITE_DRAIN_BYTES_MAX.into()),
        }
    }
}

const PAYLOAD_BYTES_MAX: u32 = 1 << 17;

/// Checks a request, encodes its reply, and has the client's parser read it.
fn answer(request: &RequestHeader, export: &ExportInfo, style: ReplyStyle) {
    assert_eq!(RequestHeader::parse(&request.to_bytes()), Ok(*request));
    let RequestHeader { command, cookie, .. } = *request;
    let length = u32::try_from(request.length).expect("a compact header");
    let pending = Pending { command, offset: request.offset, length };
    let (mut bytes, result) = match request.validate(export, PAYLOAD_BYTES_MAX) {
        Ok(checked) => {
            keeps_promises(request, &checked, export);
            match checked.operation {
                Operation::Disconnect => return,
                Operation::Read { .. } => {
                    let length = u32::try_from(checked.length).expect("a read");
                    let header = reply::read_ok_header(style, cookie, checked.offset, length);
                    let mut bytes = header.to_vec();
                    bytes.resize(bytes.len() + length as usize, 0xa5);
                    (bytes, Ok(()))
                }
                _ => (reply::done(style, command, cookie).to_vec(), Ok(())),
            }
        }
        Err(Reject::Reply { error, message, payload_bytes }) => {
            assert!(payload_bytes <= WRITE_DRAIN_BYTES_MAX);
            let expected = if command == Command::Write { request.length } else { 0 };
            assert_eq!(u64::from(payload_bytes), expected);
            (reply::error(style, cookie, error, message).to_vec(), Err(error))
        }
        Err(Reject::Close) => {
            assert!(command == Command::Write && request.length > WRITE_DRAIN_BYTES_MAX.into());
            return;
        }
    };
    let mut parser = ReplyParser::new(style);
    bytes.push(0x67);
    let reply_bytes = bytes.len() - 1;
    let mut at = 0;
    loop {
        let poll = parser.poll(&bytes[at..], |named| (named == cookie).then_some(pending));
        let (taken, event) = poll.expect("our own replies are well-formed");
        at += taken;
        match event.expect("our own replies are complete") {
            ReplyEvent::Done { result: got, .. } => {
                assert_eq!((got, at), (result, reply_bytes));
                return;
            }
            ReplyEvent::Data { offset, bytes, .. } => {
                assert!(offset == request.offset && bytes.len() as u64 == request.length);
            }
            ReplyEvent::Hole { .. } | ReplyEvent::Extent { .. } => unreachable!("none was encoded"),
        }
    }
}

/// Promises that a server may rely on once a request was checked.
fn keeps_promises(request: &RequestHeader, checked: &Checked, export: &ExportInfo) {
    let writes = matches!(
        checked.operation,
        Operation::Write { .. } | Operation::Trim { .. } | Operation::WriteZeroes { .. }
    );
    assert!(!(writes && export.flags.contains(TransmissionFlags::READ_ONLY)));
    let end = checked.offset.checked_add(checked.length).expect("no overflow");
    assert!(end <= export.size_bytes);
    let min = u64::from(export.block_sizes.min());
    assert!(checked.offset.is_multiple_of(min) && checked.length.is_multiple_of(min));
    if matches!(checked.operation, Operation::Read { .. } | Operation::Write { .. }) {
        assert!((1..=u64::from(PAYLOAD_BYTES_MAX)).contains(&checked.length));
    }
    assert_eq!(checked.cookie, request.cookie);
}

/// A server's half of a handshake against our client: the first byte chooses the client's goal.
pub(crate) fn client_handshake(data: &[u8]) {
    let &[choice, step, ref data @ ..] = data else { return };
    let goal = match choice % 4 {
        0 => Goal::List,
        1 => Goal::Describe { export: "alpha".to_owned() },
        n => Goal::Connect { export: "alpha".to_owned(), structured_replies: n == 2 },
    };
    agree(|step| negotiate(goal.clone(), data, step), step.into());
}

/// Runs a client's handshake on `input` in pieces of `step` bytes. Returns how it stood at the
/// end, what it wrote, and how many bytes it consumed (0 if it failed).
pub(crate) fn negotiate(
    goal: Goal,
    input: &[u8],
    step: usize,
) -> (Result<ClientProgress, ClientError>, Vec<u8>, usize) {
    let mut client = ClientHandshake::new(goal).expect("a good name");
    let (mut out, mut consumed) = (Vec::new(), 0);
    for piece in input.chunks(step) {
        match client.handle_input(piece, &mut out) {
            Ok((taken, progress)) => {
                consumed += taken;
                // At most flags, three options with a name, and a farewell.
                assert!(out.len() <= 256);
                if progress != ClientProgress::NeedMore {
                    assert_eq!(client.handle_input(&[], &mut out), Err(ClientError::Over));
                    return (Ok(progress), out, consumed);
                }
                assert_eq!(taken, piece.len());
            }
            Err(error) => return (Err(error), out, 0),
        }
    }
    (Ok(ClientProgress::NeedMore), out, consumed)
}

/// Replies to requests of which the cookies 0 to 7 are outstanding: the first byte chooses the
/// style, the second the fragmentation.
pub(crate) fn client_replies(data: &[u8]) {
    let &[choice, step, ref data @ ..] = data else { return };
    let style = if choice % 2 == 0 { ReplyStyle::Simple } else { ReplyStyle::Structured };
    agree(|step| replies(style, data, step, outstanding), step.into());
}

/// Even cookies are reads, odd ones other commands.
pub(crate) fn outstanding(cookie: u64) -> Option<Pending> {
    let command = match cookie {
        0 | 2 | 4 | 6 => Command::Read,
        1 => Command::Write,
        3 => Command::Flush,
        5 => Command::Trim,
        7 => Command::WriteZeroes,
        _ => return None,
    };
    Some(Pending { command, offset: cookie << 12, length: 1 << 9 })
}

/// An event whose data fragments are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Data(u64, u64, Vec<u8>),
    Hole(u64, u64, u32),
    Extent(u64, u32, u32),
    Done(u64, Result<(), NbdError>),
}

/// Runs the parser on `input` in pieces of `step` bytes. Returns the events and the error that
/// ended it, if one did.
pub(crate) fn replies(
    style: ReplyStyle,
    input: &[u8],
    step: usize,
    pending: impl Fn(u64) -> Option<Pending>,
) -> (Vec<Event>, Option<ProtocolError>) {
    let mut parser = ReplyParser::new(style);
    let mut events = Vec::new();
    for piece in input.chunks(step) {
        let mut at = 0;
        loop {
            match parser.poll(&piece[at..], &pending) {
                Err(error) => {
                    assert_eq!(parser.poll(&[], &pending), Err(error));
                    return (events, Some(error));
                }
                Ok((taken, event)) => {
                    at += taken;
                    let Some(event) = event else { break };
                    join(&mut events, event, &pending);
                }
            }
        }
        assert_eq!(at, piece.len(), "without an event, all input is consumed");
    }
    (events, None)
}

fn join(events: &mut Vec<Event>, event: ReplyEvent<'_>, pending: impl Fn(u64) -> Option<Pending>) {
    let inside = |cookie, offset: u64, length: u64| {
        let asked = pending(cookie).expect("events are about outstanding requests");
        assert!(asked.command == Command::Read && length > 0);
        assert!(offset >= asked.offset);
        assert!(offset + length <= asked.offset + u64::from(asked.length));
    };
    match event {
        ReplyEvent::Data { cookie, offset, bytes } => {
            inside(cookie, offset, bytes.len() as u64);
            match events.last_mut() {
                Some(Event::Data(named, start, data))
                    if *named == cookie && *start + data.len() as u64 == offset =>
                {
                    data.extend_from_slice(bytes);
                }
                _ => events.push(Event::Data(cookie, offset, bytes.to_vec())),
            }
        }
        ReplyEvent::Hole { cookie, offset, length } => {
            inside(cookie, offset, length.into());
            events.push(Event::Hole(cookie, offset, length));
        }
        ReplyEvent::Extent { cookie, length, state } => {
            let asked = pending(cookie).expect("events are about outstanding requests");
            assert!(asked.command == Command::BlockStatus && length > 0);
            events.push(Event::Extent(cookie, length, state));
        }
        ReplyEvent::Done { cookie, result } => events.push(Event::Done(cookie, result)),
    }
}
