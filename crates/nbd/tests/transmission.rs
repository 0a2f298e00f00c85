//! Requests and replies: every reason for a refusal, and every reply through the client's parser.

mod entries;

use disktime_nbd::limits::{
    ERROR_MESSAGE_BYTES_MAX, ERROR_PAYLOAD_BYTES_MAX, OPEN_REPLIES_MAX, WRITE_DRAIN_BYTES_MAX,
};
use disktime_nbd::reply::{self, Chunk, ReplyStyle, ReplyTo};
use disktime_nbd::{
    BlockSizes, ChunkType, Command, CommandFlags, ExportInfo, NbdError, Operation, Pending,
    ProtocolError, Reject, RequestHeader, Session, TransmissionFlags, magic,
};
use entries::{Event, export, outstanding, replies};
use proptest::prelude::*;

const MIB: u32 = 1 << 20;
const PAYLOAD_MAX: u32 = MIB;

/// 1 MiB of 512-byte blocks that takes every command; requests of up to 256 KiB.
fn able() -> ExportInfo {
    let flags = TransmissionFlags::KNOWN.without(TransmissionFlags::READ_ONLY);
    export("able", flags.advertised(true))
}

fn request(command: Command, flags: CommandFlags, offset: u64, length: u32) -> RequestHeader {
    RequestHeader { flags, command, cookie: 7, offset, length: length.into() }
}

fn plain(command: Command, offset: u64, length: u32) -> RequestHeader {
    request(command, CommandFlags::EMPTY, offset, length)
}

/// The error of a refused request; the payload to drain must be the write's.
fn refused(request: &RequestHeader, export: &ExportInfo) -> NbdError {
    match request.validate(export, PAYLOAD_MAX) {
        Err(Reject::Reply { error, payload_bytes, .. }) => {
            let expected = if request.command == Command::Write { request.length } else { 0 };
            assert_eq!(u64::from(payload_bytes), expected);
            error
        }
        other => panic!("{request:?} gave {other:?}"),
    }
}

fn accepted(request: &RequestHeader, export: &ExportInfo) -> Operation {
    let checked = request.validate(export, PAYLOAD_MAX).expect("a good request");
    assert_eq!(checked.cookie, request.cookie);
    checked.operation
}

#[test]
fn a_header_lies_as_the_protocol_says() {
    let request = RequestHeader {
        flags: CommandFlags::FUA,
        command: Command::WriteZeroes,
        cookie: 0x0102_0304_0506_0708,
        offset: 0x1112_1314_1516_1718,
        length: 0x2122_2324,
    };
    let bytes = *b"\x25\x60\x95\x13\0\x01\0\x06\x01\x02\x03\x04\x05\x06\x07\x08\
        \x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24";
    assert_eq!(request.to_bytes(), bytes);
    assert_eq!(RequestHeader::parse(&bytes), Ok(request));
    assert_eq!(RequestHeader::parse(&[0; 28]), Err(ProtocolError::RequestMagic(0)));
}

#[test]
fn good_requests_pass() {
    let export = able();
    let pass = |command, flags| accepted(&request(command, flags, 512, 1024), &export);
    let (none, fua) = (CommandFlags::EMPTY, CommandFlags::FUA);
    assert_eq!(pass(Command::Read, fua), Operation::Read { dont_fragment: false });
    let dont_fragment = CommandFlags::DONT_FRAGMENT;
    assert_eq!(pass(Command::Read, dont_fragment), Operation::Read { dont_fragment: true });
    assert_eq!(pass(Command::Write, none), Operation::Write { fua: false });
    assert_eq!(pass(Command::Write, fua), Operation::Write { fua: true });
    assert_eq!(pass(Command::Trim, fua), Operation::Trim { fua: true });
    assert_eq!(pass(Command::Cache, fua), Operation::Cache);
    let zeroes = fua.with(CommandFlags::NO_HOLE).with(CommandFlags::FAST_ZERO);
    assert_eq!(
        pass(Command::WriteZeroes, zeroes),
        Operation::WriteZeroes { fua: true, no_hole: true, fast: true }
    );
    assert_eq!(accepted(&request(Command::Flush, fua, 0, 0), &export), Operation::Flush);
    // A disconnect has no reply to refuse it with.
    let untidy = request(Command::Disconnect, CommandFlags::KNOWN, 9, 9);
    assert_eq!(accepted(&untidy, &export), Operation::Disconnect);
}

#[test]
fn ranges_end_with_the_export() {
    let export = able();
    let end = u64::from(MIB);
    assert!(plain(Command::Read, end - 512, 512).validate(&export, PAYLOAD_MAX).is_ok());
    for (offset, length) in [(end, 512), (end - 512, 1024), (u64::MAX - 511, 512), (1 << 63, 0)] {
        for (command, error) in [
            (Command::Read, NbdError::Invalid),
            (Command::Trim, NbdError::Invalid),
            (Command::Cache, NbdError::Invalid),
            (Command::Write, NbdError::NoSpace),
            (Command::WriteZeroes, NbdError::NoSpace),
        ] {
            assert_eq!(refused(&plain(command, offset, length), &export), error);
        }
    }
}

#[test]
fn ranges_of_no_bytes_are_nothing_to_do() {
    let export = able();
    for command in
        [Command::Read, Command::Write, Command::Trim, Command::Cache, Command::WriteZeroes]
    {
        assert_eq!(accepted(&plain(command, 512, 0), &export), Operation::Nothing);
        assert_eq!(accepted(&plain(command, MIB.into(), 0), &export), Operation::Nothing);
        assert_eq!(refused(&plain(command, 1, 0), &export), NbdError::Invalid);
    }
}

#[test]
fn blocks_are_respected() {
    let export = able();
    for command in
        [Command::Read, Command::Write, Command::Trim, Command::Cache, Command::WriteZeroes]
    {
        assert_eq!(refused(&plain(command, 1, 512), &export), NbdError::Invalid);
        assert_eq!(refused(&plain(command, 512, 513), &export), NbdError::Invalid);
        let long = plain(command, 0, export.block_sizes.max() + 512);
        match command {
            Command::Read | Command::Write => {
                assert_eq!(refused(&long, &export), NbdError::Invalid);
            }
            _ => assert!(long.validate(&export, PAYLOAD_MAX).is_ok(), "{command:?}"),
        }
    }
}

/// Zeroes of more than 32 MiB were `EINVAL`: the kernel's driver told its users `EIO` for
/// `blkdiscard -z`, and mkfs.ext4 logged errors.
#[test]
fn a_request_without_payload_may_be_as_long_as_the_export() {
    let export = ExportInfo { size_bytes: 1 << 50, ..able() };
    for command in [Command::Trim, Command::WriteZeroes, Command::Cache] {
        let whole = RequestHeader { length: 1 << 50, ..plain(command, 0, 0) };
        assert_eq!(whole.validate(&export, PAYLOAD_MAX).expect("it fits").length, 1 << 50);
        let beyond = RequestHeader { length: (1 << 50) + 512, ..whole };
        assert!(beyond.validate(&export, PAYLOAD_MAX).is_err());
    }
}

/// A session with every ability and one metadata context.
fn session(style: ReplyStyle) -> Session {
    Session { export: able(), style, contexts: vec![0] }
}

#[test]
fn block_status_takes_a_context_and_a_range() {
    let good = request(Command::BlockStatus, CommandFlags::REQ_ONE, 512, 1024);
    let (plain_session, mut none) =
        (session(ReplyStyle::Structured), session(ReplyStyle::Structured));
    let checked = plain_session.check(&good, PAYLOAD_MAX).expect("a good request");
    assert_eq!(checked.operation, Operation::BlockStatus { one: true });
    none.contexts.clear();
    let refused = |session: &Session, request: &RequestHeader| {
        matches!(
            session.check(request, PAYLOAD_MAX),
            Err(Reject::Reply { error: NbdError::Invalid, .. })
        )
    };
    assert!(refused(&none, &good), "no context is chosen");
    for (offset, length) in [(0, 0), (u64::from(MIB), 512), (0, u64::MAX), (u64::MAX - 511, 512)] {
        let bad = RequestHeader { offset, length, ..good };
        for style in [ReplyStyle::Structured, ReplyStyle::Extended] {
            assert!(refused(&session(style), &bad), "{offset} {length}");
        }
    }
}

/// With extended headers a payload is announced by a flag: one that is not drained would be taken for
/// requests.
#[test]
fn announced_payloads_are_drained_or_end_the_connection() {
    let extended = session(ReplyStyle::Extended);
    let flagged = |command, length| RequestHeader {
        length,
        ..request(command, CommandFlags::PAYLOAD_LEN, 0, 0)
    };
    let write = extended.check(&flagged(Command::Write, 512), PAYLOAD_MAX);
    assert_eq!(write.expect("writes have payloads").operation, Operation::Write { fua: false });
    for command in [Command::Read, Command::BlockStatus, Command::Trim, Command::Unknown(77)] {
        match extended.check(&flagged(command, 4096), PAYLOAD_MAX) {
            Err(Reject::Reply { payload_bytes: 4096, .. }) => {}
            other => panic!("{command:?}: {other:?}"),
        }
        for long in [u64::from(WRITE_DRAIN_BYTES_MAX) + 1, 1 << 40, u64::MAX] {
            assert_eq!(extended.check(&flagged(command, long), PAYLOAD_MAX), Err(Reject::Close));
        }
    }
    let compact = session(ReplyStyle::Structured);
    let refused = compact.check(&flagged(Command::Read, 4096), PAYLOAD_MAX);
    assert!(matches!(refused, Err(Reject::Reply { payload_bytes: 0, .. })));
}

#[test]
fn extended_headers_lie_as_the_protocol_says() {
    let header = *b"\x21\xe4\x1c\x71\0\x01\0\x06\x01\x02\x03\x04\x05\x06\x07\x08\
        \x11\x12\x13\x14\x15\x16\x17\x18\x20\x21\x22\x23\x24\x25\x26\x27";
    let request = RequestHeader::parse_extended(&header).expect("a good header");
    assert_eq!((request.flags, request.command), (CommandFlags::FUA, Command::WriteZeroes));
    assert_eq!((request.cookie, request.offset), (0x0102_0304_0506_0708, 0x1112_1314_1516_1718));
    assert_eq!(request.length, 0x2021_2223_2425_2627);
    assert!(RequestHeader::parse_extended(&[0; 32]).is_err());
    let to =
        ReplyTo { style: ReplyStyle::Extended, cookie: request.cookie, offset: request.offset };
    let chunk = |kind: &[u8; 2], payload: u8| {
        let start = [b"\x6e\x8a\x27\x8c\0\x01".as_slice(), kind, &header[8..24]].concat();
        [&start[..], &[0, 0, 0, 0, 0, 0, 0, payload]].concat()
    };
    assert_eq!(*to.done(Command::Write), chunk(b"\0\0", 0));
    assert_eq!(to.read_ok_header(512)[..24], chunk(b"\0\x01", 0)[..24]);
    assert_eq!(to.read_ok_header(512)[24..32], (520_u64).to_be_bytes());
    let error = to.error(NbdError::Io, "why");
    assert_eq!(*error, [&chunk(b"\x80\x01", 9)[..], b"\0\0\0\x05\0\x03why"].concat());
    let status = to.status_header(Chunk::Last, 3, 1);
    assert_eq!(*status, [&chunk(b"\0\x06", 24)[..], b"\0\0\0\x03\0\0\0\x01"].concat());
    assert_eq!(*to.extent(1 << 40, 3), *b"\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\x03");
}

/// Our client hears of the extents that our server tells.
#[test]
fn block_status_arrives() {
    let to = ReplyTo { style: ReplyStyle::Structured, cookie: 9, offset: 4096 };
    let mut bytes = to.status_header(Chunk::Last, 0, 2).to_vec();
    bytes.extend_from_slice(&to.extent(1024, 3));
    bytes.extend_from_slice(&to.extent(512, 0));
    let asked = |cookie| {
        let status = Pending { command: Command::BlockStatus, offset: 4096, length: 1536 };
        (cookie == 9).then_some(status)
    };
    for step in [1, 7, 100] {
        let (events, error) = replies(ReplyStyle::Structured, &bytes, step, asked);
        let extents = [Event::Extent(9, 1024, 3), Event::Extent(9, 512, 0)];
        assert_eq!((&events[..2], error), (&extents[..], None));
        assert_eq!(events[2..], [Event::Done(9, Ok(()))]);
    }
    // Extents of no bytes would never end.
    let at = bytes.len() - 8;
    bytes[at..at + 4].fill(0);
    assert!(replies(ReplyStyle::Structured, &bytes, 100, asked).1.is_some());
}

#[test]
fn payloads_are_drained_up_to_a_point() {
    let export = ExportInfo { block_sizes: BlockSizes::DEFAULT, size_bytes: 1 << 40, ..able() };
    let write = |length| plain(Command::Write, 0, length);
    assert_eq!(accepted(&write(PAYLOAD_MAX), &export), Operation::Write { fua: false });
    assert_eq!(refused(&write(PAYLOAD_MAX + 1), &export), NbdError::Invalid);
    assert_eq!(refused(&write(WRITE_DRAIN_BYTES_MAX), &export), NbdError::Invalid);
    for length in [WRITE_DRAIN_BYTES_MAX + 1, u32::MAX] {
        assert_eq!(write(length).validate(&export, PAYLOAD_MAX), Err(Reject::Close));
    }
    // With buffers enough, long writes are welcome.
    assert!(write(WRITE_DRAIN_BYTES_MAX + 1).validate(&export, u32::MAX).is_ok());
    // A read's length must leave room for its offset in one chunk.
    assert!(plain(Command::Read, 0, u32::MAX).validate(&export, u32::MAX).is_err());
    assert!(plain(Command::Read, 0, u32::MAX - 8).validate(&export, u32::MAX).is_ok());
}

#[test]
fn a_command_that_is_not_offered_is_refused() {
    use TransmissionFlags as Flags;
    let without = |flag| ExportInfo { flags: able().flags.without(flag), ..able() };
    for (flag, command) in [
        (Flags::TRIM, Command::Trim),
        (Flags::CACHE, Command::Cache),
        (Flags::WRITE_ZEROES, Command::WriteZeroes),
    ] {
        assert_eq!(refused(&plain(command, 0, 512), &without(flag)), NbdError::Invalid);
    }
    let flush = plain(Command::Flush, 0, 0);
    assert_eq!(refused(&flush, &without(Flags::FLUSH)), NbdError::Invalid);
    for (flag, command, command_flag) in [
        (Flags::FUA, Command::Write, CommandFlags::FUA),
        (Flags::FUA, Command::Flush, CommandFlags::FUA),
        (Flags::DONT_FRAGMENT, Command::Read, CommandFlags::DONT_FRAGMENT),
        (Flags::FAST_ZERO, Command::WriteZeroes, CommandFlags::FAST_ZERO),
    ] {
        let request = request(command, command_flag, 0, 0);
        assert_eq!(refused(&request, &without(flag)), NbdError::Invalid);
        assert!(request.validate(&able(), PAYLOAD_MAX).is_ok());
    }
}

#[test]
fn a_command_that_makes_no_sense_is_refused() {
    let export = able();
    for command in [Command::BlockStatus, Command::Resize, Command::Unknown(99)] {
        assert_eq!(refused(&plain(command, 0, 512), &export), NbdError::Invalid);
    }
    for (command, flags) in [
        (Command::Read, CommandFlags::NO_HOLE),
        (Command::Write, CommandFlags::DONT_FRAGMENT),
        (Command::Trim, CommandFlags::FAST_ZERO),
        (Command::Cache, CommandFlags::REQ_ONE),
        (Command::WriteZeroes, CommandFlags::from_wire(1 << 15)),
    ] {
        assert_eq!(refused(&request(command, flags, 0, 512), &export), NbdError::Invalid);
    }
    assert_eq!(refused(&plain(Command::Flush, 512, 0), &export), NbdError::Invalid);
    assert_eq!(refused(&plain(Command::Flush, 0, 512), &export), NbdError::Invalid);
}

#[test]
fn read_only_exports_refuse_writes() {
    let flags = able().flags.with(TransmissionFlags::READ_ONLY);
    let export = ExportInfo { flags, ..able() };
    for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
        assert_eq!(refused(&plain(command, 0, 512), &export), NbdError::NotPermitted);
    }
    assert!(plain(Command::Read, 0, 512).validate(&export, PAYLOAD_MAX).is_ok());
    assert!(plain(Command::Flush, 0, 0).validate(&export, PAYLOAD_MAX).is_ok());
}

#[test]
fn headers_lie_as_the_protocol_says() {
    let (cookie, offset) = (0x0102_0304_0506_0708, 0x1112_1314_1516_1718);
    let simple = b"\x67\x44\x66\x98\0\0\0\x05\x01\x02\x03\x04\x05\x06\x07\x08";
    assert_eq!(*reply::error(ReplyStyle::Simple, cookie, NbdError::Io, "unsaid"), *simple);
    let data = b"\x66\x8e\x33\xef\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\0\0\x02\x08\
        \x11\x12\x13\x14\x15\x16\x17\x18";
    assert_eq!(*reply::read_ok_header(ReplyStyle::Structured, cookie, offset, 512), *data);
    let hole = b"\x66\x8e\x33\xef\0\0\0\x02\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x0c\
        \x11\x12\x13\x14\x15\x16\x17\x18\0\0\x02\0";
    assert_eq!(*reply::hole_chunk(Chunk::More, cookie, offset, 512), *hole);
    let none = b"\x66\x8e\x33\xef\0\x01\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0";
    assert_eq!(*reply::done(ReplyStyle::Structured, Command::Read, cookie), *none);
    assert_eq!(*reply::read_ok_header(ReplyStyle::Structured, cookie, offset, 0), *none);
    let error = b"\x66\x8e\x33\xef\0\x01\x80\x02\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x11\
        \0\0\0\x05\0\x03bad\x11\x12\x13\x14\x15\x16\x17\x18";
    let encoded = reply::error_offset_chunk(Chunk::Last, cookie, NbdError::Io, offset, "bad");
    assert_eq!(*encoded, *error);
}

#[test]
fn messages_are_cut_between_characters() {
    let long = "é".repeat(ERROR_MESSAGE_BYTES_MAX);
    let text = format!("x{long}");
    let bytes = reply::error(ReplyStyle::Structured, 2, NbdError::Io, &text);
    assert_eq!(bytes.len(), 20 + 6 + ERROR_MESSAGE_BYTES_MAX - 1);
    let (events, error) = replies(ReplyStyle::Structured, &bytes, 1, outstanding);
    assert_eq!((events, error), (vec![Event::Done(2, Err(NbdError::Io))], None));
}

#[test]
fn error_numbers_survive() {
    for number in 0..200 {
        match NbdError::from_wire(number) {
            None => assert_eq!(number, 0),
            Some(NbdError::Invalid) => {}
            Some(error) => assert_eq!(error.to_wire(), number),
        }
    }
    assert_eq!(NbdError::from_wire(NbdError::Invalid.to_wire()), Some(NbdError::Invalid));
}

/// A structured chunk made by hand.
fn chunk(flags: u16, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    let magic = magic::STRUCTURED_REPLY.to_be_bytes();
    let (flags, kind) = (flags.to_be_bytes(), kind.to_be_bytes());
    [&magic[..], &flags, &kind, &cookie.to_be_bytes(), &length, payload].concat()
}

/// The error that ends the parser on these structured replies.
fn broken(bytes: &[u8]) -> ProtocolError {
    replies(ReplyStyle::Structured, bytes, 1, outstanding).1.expect("a violation")
}

#[test]
fn violations_end_the_connection() {
    let cookie = 2;
    let offset = 2u64 << 12;
    let malformed = |chunk| ProtocolError::MalformedChunk { cookie, chunk };
    let hole = |offset, length| reply::hole_chunk(Chunk::Last, cookie, offset, length);
    assert_eq!(broken(&[0; 4]), ProtocolError::ReplyMagic(0));
    assert_eq!(broken(&reply::none(8)), ProtocolError::UnknownCookie(8));
    let simple = reply::done(ReplyStyle::Simple, Command::Read, cookie);
    assert_eq!(broken(&simple), ProtocolError::SimpleReplyToRead { cookie });
    assert_eq!(broken(&chunk(1, 0, cookie, &[0])), malformed(ChunkType::None));
    assert_eq!(broken(&chunk(0, 0, cookie, &[])), malformed(ChunkType::None));
    assert_eq!(broken(&chunk(1, 1, cookie, &[0; 8])), malformed(ChunkType::OffsetData));
    assert_eq!(broken(&chunk(1, 2, cookie, &[0; 11])), malformed(ChunkType::OffsetHole));
    assert_eq!(broken(&hole(offset, 0)), malformed(ChunkType::OffsetHole));
    assert_eq!(broken(&chunk(1, 0x8001, cookie, &[0; 6])), malformed(ChunkType::Error));
    assert_eq!(broken(&chunk(1, 0x8001, cookie, &[0, 0, 0, 5])), malformed(ChunkType::Error));
    let message_too_long = [0, 0, 0, 5, 0, 3, b'n', b'o'];
    assert_eq!(broken(&chunk(1, 0x8001, cookie, &message_too_long)), malformed(ChunkType::Error));
    let offset_missing = [0, 0, 0, 5, 0, 2, b'n', b'o'];
    let kind = ChunkType::ErrorOffset;
    assert_eq!(broken(&chunk(1, 0x8002, cookie, &offset_missing)), malformed(kind));
    let endless = vec![1; ERROR_PAYLOAD_BYTES_MAX as usize + 1];
    assert_eq!(broken(&chunk(1, 0x8001, cookie, &endless)), malformed(ChunkType::Error));
    let unexpected = |cookie, chunk| ProtocolError::UnexpectedChunk { cookie, chunk };
    let status = ChunkType::BlockStatus;
    assert_eq!(broken(&chunk(1, 5, cookie, &[0; 12])), unexpected(cookie, status));
    let unknown = ChunkType::Unknown(77);
    assert_eq!(broken(&chunk(1, 77, cookie, &[])), unexpected(cookie, unknown));
    let hole_to_flush = reply::hole_chunk(Chunk::Last, 3, 0, 1);
    assert_eq!(broken(&hole_to_flush), unexpected(3, ChunkType::OffsetHole));
    for (offset, length) in [(offset - 1, 512), (offset + 1, 512), (offset, 513), (u64::MAX, 1)] {
        assert_eq!(broken(&hole(offset, length)), ProtocolError::OutOfRange { cookie });
    }
    let twice = [
        &reply::hole_chunk(Chunk::More, cookie, offset, 300)[..],
        &reply::hole_chunk(Chunk::Last, cookie, offset, 300),
    ];
    assert_eq!(broken(&twice.concat()), ProtocolError::OutOfRange { cookie });
    assert_eq!(broken(&hole(offset, 511)), ProtocolError::ShortRead { cookie });
    assert_eq!(broken(&reply::none(cookie)), ProtocolError::ShortRead { cookie });
    let (_, error) = replies(ReplyStyle::Simple, &reply::none(2), 1, outstanding);
    assert_eq!(error, Some(ProtocolError::ReplyMagic(magic::STRUCTURED_REPLY)));
}

#[test]
fn an_error_chunk_fails_the_reply_whatever_follows() {
    let offset = 2u64 << 12;
    let bytes = [
        &reply::error_offset_chunk(Chunk::More, 2, NbdError::Io, offset, "bad sector")[..],
        &reply::done(ReplyStyle::Simple, Command::Write, 1),
        // A kind of error that isn't known, with fields that aren't either.
        &chunk(0, 0xffff, 2, &[0, 0, 0, 12, 0, 1, b'?', 1, 2, 3]),
        &reply::hole_chunk(Chunk::Last, 2, offset, 512),
    ]
    .concat();
    let (events, error) = replies(ReplyStyle::Structured, &bytes, 1, outstanding);
    let expected = vec![
        Event::Done(1, Ok(())),
        Event::Hole(2, offset, 512),
        Event::Done(2, Err(NbdError::Io)),
    ];
    assert_eq!((events, error), (expected, None));
}

#[test]
fn replies_begun_are_bounded() {
    let reads = |_| Some(Pending { command: Command::Read, offset: 0, length: 2 });
    let begun = |count: usize| -> Vec<u8> {
        (0..count as u64).flat_map(|n| reply::hole_chunk(Chunk::More, n, 0, 1).to_vec()).collect()
    };
    let run = |count| replies(ReplyStyle::Structured, &begun(count), usize::MAX, reads).1;
    assert_eq!(run(OPEN_REPLIES_MAX), None);
    assert_eq!(run(OPEN_REPLIES_MAX + 1), Some(ProtocolError::TooManyOpenReplies));
}

/// A read's reply cut into chunks, and how to shuffle those among the replies to other reads.
#[derive(Clone, Debug)]
struct Plan {
    cookie: u64,
    pieces: Vec<(u32, bool)>,
    error: Option<NbdError>,
}

fn arb_plan(cookie: u64) -> impl Strategy<Value = Plan> {
    let pieces = proptest::collection::vec((1u32..300, any::<bool>()), 1..5);
    let error = proptest::option::of(prop_oneof![Just(NbdError::Io), Just(NbdError::Shutdown)]);
    (pieces, error).prop_map(move |(pieces, error)| Plan { cookie, pieces, error })
}

impl Plan {
    fn pending(&self) -> Pending {
        let length = self.pieces.iter().map(|(length, _)| length).sum();
        Pending { command: Command::Read, offset: self.cookie << 40, length }
    }

    fn byte(at: u64) -> u8 {
        at.to_be_bytes()[7] ^ at.to_be_bytes()[6]
    }

    /// The reply's chunks, each a message of its own.
    fn chunks(&self) -> Vec<Vec<u8>> {
        let mut offset = self.pending().offset;
        let mut chunks = Vec::new();
        for (length, hole) in &self.pieces {
            let (start, length) = (offset, *length);
            offset += u64::from(length);
            chunks.push(if *hole {
                reply::hole_chunk(Chunk::More, self.cookie, start, length).to_vec()
            } else {
                let mut chunk =
                    reply::data_chunk_header(Chunk::More, self.cookie, start, length).to_vec();
                chunk.extend((start..offset).map(Self::byte));
                chunk
            });
        }
        chunks.push(match self.error {
            None => reply::none(self.cookie).to_vec(),
            Some(error) => reply::error(ReplyStyle::Structured, self.cookie, error, "why").to_vec(),
        });
        chunks
    }
}

proptest! {
    #[test]
    fn interleaved_replies_are_told_apart(
        plans in (arb_plan(1), arb_plan(2), arb_plan(3)),
        order in proptest::collection::vec(0usize..3, 0..20),
        step in 1usize..400,
    ) {
        let plans = [plans.0, plans.1, plans.2];
        let mut queues = plans.each_ref().map(|plan| plan.chunks().into_iter());
        let mut bytes = Vec::new();
        for turn in order.into_iter().chain([0, 1, 2].repeat(6)) {
            bytes.extend(queues[turn].next().unwrap_or_default());
        }
        let pending = |cookie| plans.iter().find(|p| p.cookie == cookie).map(Plan::pending);
        let (events, error) = replies(ReplyStyle::Structured, &bytes, step, pending);
        prop_assert_eq!(error, None);
        for plan in plans {
            let asked = plan.pending();
            let mut buffer = vec![None; asked.length as usize];
            let mut results = Vec::new();
            for event in &events {
                let (cookie, start, content) = match event {
                    Event::Data(cookie, start, data) => (*cookie, *start, data.clone()),
                    Event::Hole(cookie, start, length) => {
                        (*cookie, *start, vec![0; *length as usize])
                    }
                    Event::Extent(..) => panic!("no block status was asked"),
                    Event::Done(cookie, result) => {
                        if *cookie == plan.cookie { results.push(*result); }
                        continue;
                    }
                };
                if cookie == plan.cookie {
                    prop_assert!(results.is_empty(), "content after the end");
                    let start = usize::try_from(start - asked.offset).unwrap();
                    for (slot, byte) in buffer[start..].iter_mut().zip(content) {
                        prop_assert_eq!(slot.replace(byte), None);
                    }
                }
            }
            prop_assert_eq!(results, vec![plan.error.map_or(Ok(()), Err)]);
            let mut expected = Vec::new();
            for (length, hole) in &plan.pieces {
                for _ in 0..*length {
                    let at = asked.offset + expected.len() as u64;
                    expected.push(Some(if *hole { 0 } else { Plan::byte(at) }));
                }
            }
            prop_assert_eq!(buffer, expected);
        }
    }

    #[test]
    fn simple_replies_carry_what_was_read(length in 0u32..3000, step in 1usize..400) {
        let asked = Pending { command: Command::Read, offset: 99, length };
        let data: Vec<u8> = (0..u64::from(length)).map(Plan::byte).collect();
        let header = reply::read_ok_header(ReplyStyle::Simple, 5, 99, length);
        let flush = reply::done(ReplyStyle::Simple, Command::Flush, 6);
        let bytes = [&header[..], &data, &flush].concat();
        let pending = |cookie| match cookie {
            5 => Some(asked),
            6 => Some(Pending { command: Command::Flush, offset: 0, length: 0 }),
            _ => None,
        };
        let (events, error) = replies(ReplyStyle::Simple, &bytes, step, pending);
        prop_assert_eq!(error, None);
        let mut expected = vec![Event::Done(5, Ok(())), Event::Done(6, Ok(()))];
        if length > 0 {
            expected.insert(0, Event::Data(5, 99, data));
        }
        prop_assert_eq!(events, expected);
    }

    #[test]
    fn any_request_is_judged(
        export in any::<[u8; 3]>(), flags: u16, command in 0u16..10, cookie: u64,
        offset in prop_oneof![any::<u64>(), 0u64..(2 << 20)],
        length in prop_oneof![any::<u32>(), 0u32..(2 << 20), Just(0), Just(512)],
    ) {
        let request = RequestHeader {
            flags: CommandFlags::from_wire(flags & 0x1f),
            command: Command::from_wire(command),
            cookie, offset, length: length.into(),
        };
        entries::server_transmission(&[&export[..], &request.to_bytes()].concat());
    }

    #[test]
    fn any_replies_are_survived(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        entries::server_transmission(&data);
        entries::client_replies(&data);
        let chunk = [&[1, 3][..], &magic::STRUCTURED_REPLY.to_be_bytes(), &data].concat();
        entries::client_replies(&chunk);
    }
}
