//! The handshake, both sides: against each other under every fragmentation, and each refusal.

mod entries;
mod wire;

use disktime_nbd::limits::{
    HANDSHAKE_REPLY_BYTES_MAX, LIST_REPLY_BYTES_MAX, LISTED_BYTES_MAX, OPTION_DATA_BYTES_MAX,
    OPTION_DRAIN_BYTES_MAX, OPTION_REPLIES_MAX, OPTION_REPLY_BYTES_MAX, OPTIONS_MAX,
    STRING_BYTES_MAX,
};
use disktime_nbd::reply::ReplyStyle;
use disktime_nbd::{
    BlockSizes, BlockSizesError, ClientError, ClientFlags, ClientHandshake, ClientProgress,
    ExportInfo, Goal, Handshake, HandshakeError, OptionCode, OptionReply, ServerHandshake, Session,
    Tls, TransmissionFlags,
};
use entries::{CONTEXTS, CROWDED, Shelf, export, negotiate, serve, shelf};
use proptest::prelude::*;
use wire::{client_flags, greeting, info_data, option, option_reply};

/// Both ends on a wire that delivers `step` bytes at a time.
fn meet(
    shelf: &Shelf,
    goal: Goal,
    step: usize,
) -> (Handshake, Result<ClientProgress, ClientError>) {
    let (mut server, mut client) =
        (ServerHandshake::new(), ClientHandshake::new(goal).expect("a good name"));
    let mut to_client = server.greeting().to_vec();
    let mut to_server = Vec::new();
    let mut served = Handshake::NeedMore;
    let mut progress = Ok(ClientProgress::NeedMore);
    while !to_client.is_empty() || !to_server.is_empty() {
        let rest = to_client.split_off(step.min(to_client.len()));
        if progress == Ok(ClientProgress::NeedMore) && !to_client.is_empty() {
            progress = client.handle_input(&to_client, &mut to_server).map(|(taken, progress)| {
                assert_eq!(taken, to_client.len());
                progress
            });
        }
        to_client = rest;
        let rest = to_server.split_off(step.min(to_server.len()));
        if served == Handshake::NeedMore {
            let (taken, next) =
                server.handle_input(&to_server, shelf, &mut to_client).expect("our client behaves");
            assert_eq!(taken, to_server.len());
            served = next;
        }
        to_server = rest;
    }
    (served, progress)
}

fn connect(name: &str, structured_replies: bool) -> Goal {
    Goal::Connect { export: name.to_owned(), structured_replies }
}

fn arb_export() -> impl Strategy<Value = ExportInfo> {
    let blocks = (0u32..=16, 0u32..=8, 0u32..1000).prop_map(|(min, preferred, max)| {
        let (min, preferred) = (1 << min, (1u32 << min << preferred).max(512));
        let max = if max == 0 { u32::MAX } else { min * max };
        BlockSizes::new(min, preferred, max).expect("allowed sizes")
    });
    ("[^\0]{0,40}", "\\PC{0,60}", any::<u64>(), any::<u16>(), blocks).prop_map(
        |(name, description, size_bytes, flags, block_sizes)| ExportInfo {
            name,
            description,
            size_bytes,
            flags: TransmissionFlags::from_wire(flags),
            block_sizes,
        },
    )
}

proptest! {
    #[test]
    fn ends_agree_on_any_export(
        export in arb_export(), structured_replies: bool, by_default: bool, step in 1usize..200,
    ) {
        let name = if by_default { String::new() } else { export.name.clone() };
        let shelf = Shelf(vec![export.clone()]);
        let (served, progress) = meet(&shelf, connect(&name, structured_replies), step);
        let told = ExportInfo { flags: export.flags.advertised(structured_replies), ..export };
        let style =
            if structured_replies { ReplyStyle::Structured } else { ReplyStyle::Simple };
        prop_assert_eq!(progress, Ok(ClientProgress::Ready(told.clone(), style)));
        prop_assert_eq!(served, Handshake::Transmission(Session {
            export: told, style, contexts: Vec::new(),
        }));
    }

    #[test]
    fn a_list_arrives_whole(
        exports in proptest::collection::vec(arb_export(), 0..12), step in 1usize..200,
    ) {
        let names: Vec<_> =
            exports.iter().map(|e| (e.name.clone(), e.description.clone())).collect();
        let (served, progress) = meet(&Shelf(exports), Goal::List, step);
        prop_assert_eq!(served, Handshake::Aborted);
        let Ok(ClientProgress::Listed(listed)) = progress else { panic!("{progress:?}") };
        let listed: Vec<_> = listed.into_iter().map(|e| (e.name, e.description)).collect();
        prop_assert_eq!(listed, names);
    }

    #[test]
    fn a_description_arrives_whole(export in arb_export(), step in 1usize..200) {
        let goal = Goal::Describe { export: export.name.clone() };
        let (served, progress) = meet(&Shelf(vec![export.clone()]), goal, step);
        prop_assert_eq!(served, Handshake::Aborted);
        let told = ExportInfo { flags: export.flags.advertised(false), ..export };
        prop_assert_eq!(progress, Ok(ClientProgress::Described(told)));
    }

    #[test]
    fn any_bytes_are_survived(
        goal: u8, data in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        entries::server_handshake(&data);
        entries::client_handshake(&data);
        entries::server_handshake(&[&[3][..], &client_flags(3), &data].concat());
        entries::client_handshake(&[&[goal, 3][..], &greeting(3), &data].concat());
    }
}

/// The server's answer to a fixed newstyle client that sends these options.
fn ask(options: &[Vec<u8>]) -> (Result<Handshake, HandshakeError>, Vec<u8>) {
    let input = [client_flags(3), options.concat()].concat();
    let (end, out, _) = serve(&shelf(), &input, usize::MAX);
    (end, out)
}

/// The one reply to one option, and no hang-up.
fn refused_with(code: OptionCode, data: &[u8]) -> OptionReply {
    let (end, out) = ask(&[option(code, data)]);
    assert_eq!(end, Ok(Handshake::NeedMore));
    assert_eq!(out[..12], option_reply(code, OptionReply::Ack, &[])[..12]);
    let field = |at| out[at..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let (reply, length) = field(12).zip(field(16)).expect("a reply's header");
    assert_eq!(out.len(), 20 + length as usize, "one reply only");
    OptionReply::from_wire(reply)
}

#[test]
fn the_greeting_is_fixed_newstyle() {
    assert_eq!(ServerHandshake::new().greeting(), *b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn options_are_refused_by_name() {
    use OptionCode as Code;
    use OptionReply as Reply;
    let long_name = "n".repeat(STRING_BYTES_MAX + 1);
    let too_big = vec![0; OPTION_DATA_BYTES_MAX + 1];
    let cases: [(Code, &[u8], Reply); 17] = [
        (Code::StartTls, &[], Reply::ErrUnsupported),
        (Code::PeekExport, &[], Reply::ErrUnsupported),
        // Contexts describe chunks.
        (Code::ListMetaContext, &[0; 8], Reply::ErrInvalid),
        (Code::SetMetaContext, &[0; 8], Reply::ErrInvalid),
        (Code::Unknown(0), &[9; 100], Reply::ErrUnsupported),
        (Code::Unknown(0xffff_ffff), &too_big, Reply::ErrUnsupported),
        (Code::List, b"x", Reply::ErrInvalid),
        (Code::StructuredReply, b"x", Reply::ErrInvalid),
        (Code::Go, &[], Reply::ErrInvalid),
        (Code::Info, &[0, 0, 0], Reply::ErrInvalid),
        (Code::Go, &[0, 0, 0, 1, b'a', 0], Reply::ErrInvalid),
        (Code::Go, &[0xff, 0xff, 0xff, 0xff, 0, 0], Reply::ErrInvalid),
        (Code::Go, &[0, 0, 0, 0, 0, 2, 0, 1], Reply::ErrInvalid),
        (Code::Go, &info_data("al\0pha", &[]), Reply::ErrInvalid),
        (Code::Go, &[0, 0, 0, 1, 0xff, 0, 0], Reply::ErrInvalid),
        (Code::Go, &info_data(&long_name, &[]), Reply::ErrTooBig),
        (Code::Info, &too_big, Reply::ErrTooBig),
    ];
    for (code, data, reply) in cases {
        assert_eq!(refused_with(code, data), reply, "{code:?} with {} bytes", data.len());
    }
    assert_eq!(refused_with(Code::Go, &info_data("nobody", &[3])), Reply::ErrUnknown);
}

/// The data of an option that asks for metadata contexts.
fn queries(export: &str, queries: &[&str]) -> Vec<u8> {
    let counted = |text: &str| {
        let length = u32::try_from(text.len()).expect("a short text");
        [&length.to_be_bytes()[..], text.as_bytes()].concat()
    };
    let count = u32::try_from(queries.len()).expect("few queries").to_be_bytes();
    let queries: Vec<_> = queries.iter().map(|query| counted(query)).collect();
    [counted(export), count.to_vec(), queries.concat()].concat()
}

/// How a client that sends these options after it asked for structured replies is answered, and the
/// session that it gets if it goes on to `alpha`.
fn chooses(options: &[Vec<u8>]) -> (Vec<u8>, Session) {
    let structured = option(OptionCode::StructuredReply, &[]);
    let go = option(OptionCode::Go, &info_data("alpha", &[3]));
    let before = ask(std::slice::from_ref(&structured)).1;
    let options = [&[structured][..], options].concat();
    let said = ask(&options).1;
    let (end, _) = ask(&[&options[..], &[go]].concat());
    let Ok(Handshake::Transmission(session)) = end else { panic!("{end:?}") };
    (said[before.len()..].to_vec(), session)
}

#[test]
fn contexts_are_chosen_for_one_export() {
    use OptionCode::{ListMetaContext as List, SetMetaContext as Set};
    let told = |code, ids: &[(u32, usize)]| {
        let context = |(id, at): &(u32, usize)| {
            let data = [&id.to_be_bytes()[..], CONTEXTS[*at].as_bytes()].concat();
            option_reply(code, OptionReply::MetaContext, &data)
        };
        let contexts: Vec<_> = ids.iter().map(context).collect();
        [contexts.concat(), option_reply(code, OptionReply::Ack, &[])].concat()
    };
    for (code, asked, ids, chosen) in [
        (Set, vec!["base:allocation"], vec![(0, 0)], vec![0]),
        (Set, vec!["x:y", CONTEXTS[1], CONTEXTS[1]], vec![(1, 1)], vec![1]),
        (Set, vec!["base:"], vec![], vec![]),
        (Set, vec![], vec![], vec![]),
        (List, vec![], vec![(0, 0), (0, 1)], vec![]),
        (List, vec!["qemu:"], vec![(0, 1)], vec![]),
        (List, vec!["qemu:dirty-bitmap:", "base:allocation"], vec![(0, 0), (0, 1)], vec![]),
        (List, vec!["base"], vec![], vec![]),
    ] {
        let (said, session) = chooses(&[option(code, &queries("alpha", &asked))]);
        assert_eq!(said, told(code, &ids), "{code:?} {asked:?}");
        assert_eq!(session.contexts, chosen);
    }
    let set = |export, asked: &[&str]| option(Set, &queries(export, asked));
    let all = set("alpha", &CONTEXTS);
    // The last choice counts, also if it fails, and only for its export.
    assert_eq!(chooses(std::slice::from_ref(&all)).1.contexts, [0, 1]);
    assert!(chooses(&[all.clone(), set("beta", &CONTEXTS)]).1.contexts.is_empty());
    assert!(chooses(&[all.clone(), set("nobody", &CONTEXTS)]).1.contexts.is_empty());
    assert!(chooses(&[all, option(Set, b"junk")]).1.contexts.is_empty());
    assert_eq!(
        chooses(&[set("", &CONTEXTS)]).1.contexts,
        [0, 1],
        "the default export's name is alpha"
    );
}

#[test]
fn contexts_by_the_thousand_are_one_answer() {
    let asked = vec![CONTEXTS[0]; 800];
    let data = queries("alpha", &asked);
    let (said, session) = chooses(&[option(OptionCode::SetMetaContext, &data)]);
    assert!(said.len() < 100 && session.contexts == [0]);
    let many = queries("alpha", &["base:allocation"; 2000]);
    let (said, session) = chooses(&[option(OptionCode::SetMetaContext, &many)]);
    assert_eq!(said, option_reply(OptionCode::SetMetaContext, OptionReply::ErrTooBig, &[]));
    assert!(session.contexts.is_empty());
    // A count that the data don't have is no loop of so many turns.
    let mut lie = queries("alpha", &[]);
    let at = lie.len() - 4;
    lie[at..].copy_from_slice(&u32::MAX.to_be_bytes());
    let (said, _) = chooses(&[option(OptionCode::SetMetaContext, &lie)]);
    assert_eq!(said, option_reply(OptionCode::SetMetaContext, OptionReply::ErrInvalid, &[]));
}

#[test]
fn our_client_chooses_a_context() {
    let mut client =
        ClientHandshake::new(connect("alpha", true)).unwrap().with_context(CONTEXTS[0]);
    let mut server = ServerHandshake::new();
    let (mut to_client, mut to_server) = (server.greeting().to_vec(), Vec::new());
    let session = loop {
        let _progress = client.handle_input(&to_client, &mut to_server).unwrap();
        to_client.clear();
        let (_, served) = server.handle_input(&to_server, &shelf(), &mut to_client).unwrap();
        to_server.clear();
        if let Handshake::Transmission(session) = served {
            break session;
        }
    };
    let (_, progress) = client.handle_input(&to_client, &mut to_server).unwrap();
    assert!(matches!(progress, ClientProgress::Ready(_, ReplyStyle::Structured)));
    assert!(client.has_context() && session.contexts == [0]);
}

#[test]
fn extended_headers_are_chunks_with_more_bits() {
    let extended = option(OptionCode::ExtendedHeaders, &[]);
    let go = option(OptionCode::Go, &info_data("alpha", &[3]));
    let (end, _) = ask(&[extended.clone(), go]);
    let Ok(Handshake::Transmission(session)) = end else { panic!("{end:?}") };
    assert_eq!(session.style, ReplyStyle::Extended);
    assert!(session.export.flags.contains(TransmissionFlags::DONT_FRAGMENT));
    let back = ask(&[extended, option(OptionCode::StructuredReply, &[])]).1;
    let refused =
        option_reply(OptionCode::StructuredReply, OptionReply::ErrExtendedHeadersRequired, &[]);
    assert!(back.ends_with(&refused), "not back to fewer");
}

/// Options in the clear could be an attacker's words; bytes that follow `STARTTLS` in the clear are not
/// read as options.
#[test]
fn tls_forgets_what_was_said_in_the_clear() {
    let start = option(OptionCode::StartTls, &[]);
    let list = option(OptionCode::List, &[]);
    for tls in [Tls::Offered, Tls::Required] {
        let mut server = ServerHandshake::with_tls(tls);
        let mut out = Vec::new();
        let structured = option(OptionCode::StructuredReply, &[]);
        let input = [client_flags(3), structured, start.clone(), list.clone()].concat();
        let (taken, end) = server.handle_input(&input, &shelf(), &mut out).unwrap();
        assert_eq!((taken, end), (input.len() - list.len(), Handshake::StartTls));
        assert!(out.ends_with(&option_reply(OptionCode::StartTls, OptionReply::Ack, &[])));
        out.clear();
        let once = option_reply(OptionCode::StartTls, OptionReply::ErrInvalid, &[]);
        let mut other = ServerHandshake::with_tls(tls);
        let input = [client_flags(3), option(OptionCode::StartTls, b"data")].concat();
        let (_, end) = other.handle_input(&input, &shelf(), &mut out).unwrap();
        assert_eq!((end, &out), (Handshake::NeedMore, &once), "it has no data");
        out.clear();
        let input = [start.clone(), option(OptionCode::Go, &info_data("alpha", &[]))].concat();
        let (_, end) = server.handle_input(&input, &shelf(), &mut out).unwrap();
        assert!(out.starts_with(&once), "TLS within TLS is refused");
        let Handshake::Transmission(session) = end else { panic!("{end:?}") };
        assert_eq!(session.style, ReplyStyle::Simple, "it was agreed to in the clear");
    }
}

#[test]
fn without_the_tls_that_is_required_nothing_is_told() {
    for (code, data) in [
        (OptionCode::List, vec![]),
        (OptionCode::Info, info_data("alpha", &[])),
        (OptionCode::Go, info_data("alpha", &[])),
        (OptionCode::StructuredReply, vec![]),
        (OptionCode::ExtendedHeaders, vec![]),
        (OptionCode::SetMetaContext, queries("alpha", &[])),
    ] {
        let mut server = ServerHandshake::with_tls(Tls::Required);
        let mut out = Vec::new();
        let input = [client_flags(3), option(code, &data)].concat();
        let (_, end) = server.handle_input(&input, &shelf(), &mut out).unwrap();
        assert_eq!(end, Handshake::NeedMore);
        assert_eq!(out, option_reply(code, OptionReply::ErrTlsRequired, &[]));
    }
    let mut server = ServerHandshake::with_tls(Tls::Required);
    let input = [client_flags(3), option(OptionCode::ExportName, b"alpha")].concat();
    let end = server.handle_input(&input, &shelf(), &mut Vec::new());
    assert_eq!(end, Err(HandshakeError::TlsRequired));
}

/// The 17th client was told that it may begin, and was then hung up on without a word.
#[test]
fn a_client_that_is_not_admitted_is_told_why_and_may_go_on() {
    let full = Shelf(vec![export(CROWDED, TransmissionFlags::EMPTY)]);
    let told = meet(&full, connect(CROWDED, true), usize::MAX);
    let refused = ClientError::Refused {
        option: OptionCode::Go,
        reply: OptionReply::ErrPolicy,
        message: "all places are taken".to_owned(),
    };
    assert_eq!(told, (Handshake::NeedMore, Err(refused)));
    // It may ask what the export is, and for another one.
    let info = option(OptionCode::Info, &info_data(CROWDED, &[]));
    let (end, said, _) = serve(&full, &[client_flags(3), info].concat(), usize::MAX);
    assert!(end.is_ok() && !said.is_empty());
    let name = option(OptionCode::ExportName, CROWDED.as_bytes());
    let (end, ..) = serve(&full, &[client_flags(3), name].concat(), usize::MAX);
    assert_eq!(end, Err(HandshakeError::NotAdmitted));
}

#[test]
fn some_clients_are_hung_up_on() {
    let hung_up = |input: Vec<u8>| serve(&shelf(), &input, usize::MAX).0.unwrap_err();
    let fixed = |option: Vec<u8>| hung_up([client_flags(3), option].concat());
    let flags = ClientFlags::from_wire(7);
    assert_eq!(hung_up(client_flags(7)), HandshakeError::UnknownClientFlags(flags));
    assert_eq!(fixed(vec![0; 16]), HandshakeError::OptionMagic(0));
    let list = [client_flags(2), option(OptionCode::List, &[])].concat();
    assert_eq!(hung_up(list), HandshakeError::NotFixedNewstyle(OptionCode::List));
    let export_name = |name: &[u8]| fixed(option(OptionCode::ExportName, name));
    assert_eq!(export_name(b"nobody"), HandshakeError::UnknownExport);
    assert_eq!(export_name(b"\xff"), HandshakeError::ExportName);
    let (code, length_bytes) = (OptionCode::ExportName, 4097);
    assert_eq!(
        export_name(&[b'n'; 4097]),
        HandshakeError::OptionTooLong { option: code, length_bytes }
    );
    // The length alone is enough: nothing was read of it.
    let mut endless = option(OptionCode::Unknown(99), &[]);
    endless[12..].copy_from_slice(&(OPTION_DRAIN_BYTES_MAX + 1).to_be_bytes());
    assert!(matches!(fixed(endless), HandshakeError::OptionTooLong { .. }));
}

#[test]
fn options_and_their_answers_are_rationed() {
    let options = |n: u32| vec![option(OptionCode::StructuredReply, &[]); n as usize];
    assert_eq!(ask(&options(OPTIONS_MAX)).0, Ok(Handshake::NeedMore));
    assert_eq!(ask(&options(OPTIONS_MAX + 1)).0, Err(HandshakeError::TooManyOptions));

    // A megabyte of exports, listed again and again.
    let name_bytes = 1000;
    let many = LIST_REPLY_BYTES_MAX / (name_bytes + 100);
    let mut long = export("long", TransmissionFlags::EMPTY);
    long.description = "d".repeat(name_bytes);
    let lists = [client_flags(3), option(OptionCode::List, &[]).repeat(20)].concat();
    let (end, out, _) = serve(&Shelf(vec![long.clone(); many]), &lists, usize::MAX);
    assert_eq!(end, Err(HandshakeError::TooManyReplies));
    assert!(out.len() <= HANDSHAKE_REPLY_BYTES_MAX && out.len() > HANDSHAKE_REPLY_BYTES_MAX / 2);

    // More than a megabyte isn't listed at all.
    let list = [client_flags(3), option(OptionCode::List, &[])].concat();
    let (end, out, _) = serve(&Shelf(vec![long; many * 2]), &list, usize::MAX);
    assert_eq!(end, Ok(Handshake::NeedMore));
    assert_eq!(out, option_reply(OptionCode::List, OptionReply::ErrTooBig, &[]));
}

#[test]
fn export_name_is_padded_unless_agreed() {
    for (flags, length) in [(3, 10), (2, 10), (1, 134), (0, 134)] {
        let input = [client_flags(flags), option(OptionCode::ExportName, b"beta")].concat();
        let (end, out, _) = serve(&shelf(), &input, usize::MAX);
        assert_eq!(out.len(), length);
        let Ok(Handshake::Transmission(session)) = end else { panic!("{end:?}") };
        assert_eq!(session.style, ReplyStyle::Simple);
        assert_eq!(session.export.name, "beta");
    }
}

#[test]
fn pipelined_requests_are_left_alone() {
    for last in [option(OptionCode::Go, &info_data("", &[])), option(OptionCode::ExportName, b"")] {
        let input = [client_flags(3), last, b"a request".to_vec()].concat();
        let (end, _, consumed) = serve(&shelf(), &input, usize::MAX);
        assert!(matches!(end, Ok(Handshake::Transmission(_))));
        assert_eq!(&input[consumed..], b"a request");
    }
}

#[test]
fn block_sizes_are_always_told_and_names_on_request() {
    let facts = |kinds: &[u16]| {
        let (_, out) = ask(&[option(OptionCode::Info, &info_data("", kinds))]);
        let mut facts = Vec::new();
        let mut rest = &out[..];
        while let Some((header, data)) = rest.split_at_checked(20) {
            let length = u32::from_be_bytes(header[16..].try_into().unwrap()) as usize;
            if length >= 2 {
                facts.push(data[1]);
            }
            rest = &data[length..];
        }
        facts
    };
    assert_eq!(facts(&[]), [0, 3]);
    assert_eq!(facts(&[1, 2, 77]), [0, 3, 1, 2]);
    assert_eq!(facts(&[3, 1]), [0, 3, 1]);
}

#[test]
fn flags_are_told_as_the_session_allows() {
    use TransmissionFlags as Flags;
    let all = Flags::from_wire(u16::MAX);
    assert!(all.advertised(true).contains(Flags::DONT_FRAGMENT));
    assert!(!all.advertised(false).contains(Flags::DONT_FRAGMENT));
    assert!(!all.advertised(true).contains(Flags::RESIZE));
    assert!(all.advertised(true).without(Flags::KNOWN).is_empty());
    assert_eq!(Flags::EMPTY.advertised(false), Flags::HAS_FLAGS);
    assert_eq!(Flags::FAST_ZERO.advertised(false), Flags::HAS_FLAGS);
}

#[test]
fn block_sizes_are_checked() {
    assert_eq!(BlockSizes::new(3, 4096, 6), Err(BlockSizesError::Min(3)));
    assert_eq!(BlockSizes::new(1 << 17, 1 << 17, 1 << 20), Err(BlockSizesError::Min(1 << 17)));
    assert_eq!(BlockSizes::new(0, 4096, 6), Err(BlockSizesError::Min(0)));
    assert_eq!(BlockSizes::new(512, 256, 512), Err(BlockSizesError::Preferred(256)));
    assert_eq!(BlockSizes::new(1, 256, 512), Err(BlockSizesError::Preferred(256)));
    assert_eq!(BlockSizes::new(512, 4096, 1000), Err(BlockSizesError::Max(1000)));
    assert_eq!(BlockSizes::new(1, 512, 0), Err(BlockSizesError::Max(0)));
}

/// How the client's handshake ends on these answers, byte by byte.
fn answered(goal: Goal, flags: u16, replies: &[Vec<u8>]) -> Result<ClientProgress, ClientError> {
    negotiate(goal, &[greeting(flags), replies.concat()].concat(), 1).0
}

#[test]
fn the_client_falls_back_for_old_servers() {
    let mut size_and_flags = 4096u64.to_be_bytes().to_vec();
    size_and_flags.extend([0, 1]);
    let no = |code| option_reply(code, OptionReply::ErrUnsupported, b"too old");
    let (structured, go) = (no(OptionCode::StructuredReply), no(OptionCode::Go));
    let padding = vec![0; 124];
    let fallbacks: [(u16, Vec<Vec<u8>>); 4] = [
        (3, vec![structured.clone(), go.clone(), size_and_flags.clone()]),
        (1, vec![structured, go, size_and_flags.clone(), padding.clone()]),
        (2, vec![size_and_flags.clone()]),
        (0, vec![size_and_flags, padding]),
    ];
    for (flags, replies) in fallbacks {
        let end = answered(connect("disk", true), flags, &replies);
        let Ok(ClientProgress::Ready(export, style)) = end else { panic!("{end:?}") };
        assert_eq!((export.size_bytes, style), (4096, ReplyStyle::Simple));
        assert_eq!(export.block_sizes, BlockSizes::DEFAULT);
    }
    let input = greeting(0);
    let (_, out, _) = negotiate(connect("disk", true), &input, 1);
    assert_eq!(out, [client_flags(0), option(OptionCode::ExportName, b"disk")].concat());
}

#[test]
fn the_client_survives_bad_servers() {
    let go = |reply, data: &[u8]| option_reply(OptionCode::Go, reply, data);
    let on = |replies: &[Vec<u8>]| answered(connect("disk", false), 3, replies).unwrap_err();
    let malformed = ClientError::MalformedReply(OptionReply::Info);
    assert_eq!(on(&[vec![0; 20]]), ClientError::ReplyMagic);
    assert_eq!(on(&[go(OptionReply::Ack, &[])]), ClientError::NoExportInfo);
    assert_eq!(on(&[go(OptionReply::Info, &[0])]), malformed);
    assert_eq!(on(&[go(OptionReply::Info, &[0; 11])]), malformed);
    assert_eq!(on(&[go(OptionReply::Info, &[0, 1, 0xff])]), malformed);
    assert_eq!(on(&[go(OptionReply::Info, &[0, 3, 0])]), malformed);
    let blocks = [&[0, 3][..], &[0; 12]].concat();
    let zero = ClientError::BlockSizes(BlockSizesError::Min(0));
    assert_eq!(on(&[go(OptionReply::Info, &blocks)]), zero);
    let unexpected =
        ClientError::UnexpectedReply { option: OptionCode::Go, reply: OptionReply::Server };
    assert_eq!(on(&[go(OptionReply::Server, &[0; 4])]), unexpected);
    let other = option_reply(OptionCode::Info, OptionReply::Ack, &[]);
    assert_eq!(on(&[other]), ClientError::WrongOption(OptionCode::Info));
    let refused = ClientError::Refused {
        option: OptionCode::Go,
        reply: OptionReply::ErrUnknown,
        message: "no such disk".to_owned(),
    };
    assert_eq!(on(&[go(OptionReply::ErrUnknown, b"no such disk")]), refused);
    let too_long = vec![0; OPTION_REPLY_BYTES_MAX as usize + 1];
    let end = on(&[go(OptionReply::Info, &too_long)]);
    assert!(matches!(end, ClientError::ReplyTooLong { .. }));
    let ignored = go(OptionReply::Info, b"\xff\xff");
    let endless = vec![ignored; OPTION_REPLIES_MAX as usize + 1];
    assert_eq!(on(&endless), ClientError::TooManyReplies);

    assert_eq!(answered(Goal::List, 2, &[]), Err(ClientError::NotFixedNewstyle));
    let oldstyle = b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0";
    assert_eq!(negotiate(Goal::List, oldstyle, 1).0, Err(ClientError::Oldstyle));
    let long = "n".repeat(STRING_BYTES_MAX + 1);
    assert_eq!(ClientHandshake::new(connect(&long, true)).err(), Some(ClientError::Name));
    assert_eq!(ClientHandshake::new(connect("a\0b", true)).err(), Some(ClientError::Name));
}

#[test]
fn the_client_keeps_a_bounded_list() {
    let entry = [&[0, 0, 0, 0][..], &[b'd'; 8000]].concat();
    let entry = option_reply(OptionCode::List, OptionReply::Server, &entry);
    let endless = [greeting(3), entry.repeat(LISTED_BYTES_MAX / 8000 + 1)].concat();
    let (end, ..) = negotiate(Goal::List, &endless, usize::MAX);
    assert_eq!(end, Err(ClientError::TooManyReplies));
}
