//! The fuzz corpus on a stable toolchain: every file in `corpus/` is replayed, and thousands of
//! mutants of them, made with a fixed seed.
//!
//! The files are what [`seeds`] says, plus a few of its mutants; a file that somebody's fuzzer
//! found is simply added. After a change here, `UPDATE_CORPUS=1 cargo test -p disktime-nbd`
//! writes them anew.

mod entries;
mod wire;

use std::fs;
use std::path::PathBuf;

use disktime_nbd::reply::{self, Chunk, ReplyStyle};
use disktime_nbd::{Command, CommandFlags, NbdError, OptionCode, OptionReply, RequestHeader};
use wire::{client_flags, greeting, info_data, option, option_reply};

type Entry = fn(&[u8]);

const TARGETS: [(&str, Entry); 6] = [
    ("server_handshake", entries::server_handshake),
    ("server_transmission", entries::server_transmission),
    ("client_handshake", entries::client_handshake),
    ("client_replies", entries::client_replies),
    ("server_options", entries::server_options),
    ("server_session", entries::server_session),
];

/// Mutants of each target that are kept as files.
const MUTANTS_KEPT: usize = 6;
/// Mutants of each target that a test run tries. `cargo xtask bench fuzz` tries millions.
const MUTANTS_TRIED: usize = 5000;
/// Longest mutant in bytes.
const MUTANT_BYTES_MAX: usize = 4096;

type Seeds = Vec<(&'static str, Vec<u8>)>;

/// The hand-made cases of a target.
fn seeds(target: &str) -> Seeds {
    match target {
        "server_handshake" => server_handshake_seeds(),
        "server_transmission" => server_transmission_seeds(),
        "client_handshake" => client_handshake_seeds(),
        "server_options" => server_options_seeds(),
        "server_session" => server_session_seeds(),
        _ => client_replies_seeds(),
    }
}

fn server_handshake_seeds() -> Seeds {
    let start = |flags| [vec![7], client_flags(flags)].concat();
    let with = |options: &[Vec<u8>]| [start(3), options.concat()].concat();
    let go = option(OptionCode::Go, &info_data("alpha", &[1, 2, 3]));
    let cut_name = [&[0, 0, 0, 9][..], b"alpha", &[0, 0]].concat();
    vec![
        ("flags-unknown", start(0x8000_0003)),
        ("go", with(&[option(OptionCode::StructuredReply, &[]), go.clone()])),
        ("go-then-request", [with(&[go]), vec![0x25, 0x60, 0x95, 0x13]].concat()),
        ("go-unknown", with(&[option(OptionCode::Go, &info_data("nobody", &[]))])),
        ("go-name-too-long-for-data", with(&[option(OptionCode::Go, &cut_name)])),
        ("go-empty", with(&[option(OptionCode::Go, &[])])),
        (
            "info-default-then-abort",
            with(&[
                option(OptionCode::Info, &info_data("", &[0, 3, 9])),
                option(OptionCode::Abort, b"bye"),
            ]),
        ),
        ("list-twice", with(&[option(OptionCode::List, &[]), option(OptionCode::List, b"x")])),
        ("export-name-padded", [start(1), option(OptionCode::ExportName, b"beta")].concat()),
        ("export-name-not-fixed", [start(2), option(OptionCode::ExportName, b"")].concat()),
        ("list-not-fixed", [start(0), option(OptionCode::List, &[])].concat()),
        (
            "unsupported",
            with(&[
                option(OptionCode::StartTls, &[]),
                option(OptionCode::SetMetaContext, &[0; 12]),
                option(OptionCode::ExtendedHeaders, &[]),
                option(OptionCode::Unknown(77), &[1; 40]),
            ]),
        ),
        (
            "length-huge",
            [start(3), {
                let mut bytes = option(OptionCode::Go, &[]);
                bytes[12..].copy_from_slice(&u32::MAX.to_be_bytes());
                bytes
            }]
            .concat(),
        ),
        ("magic-wrong", [start(3), vec![0x49; 16]].concat()),
    ]
}

fn server_transmission_seeds() -> Seeds {
    let request = |command, flags, offset, length: u32| {
        RequestHeader {
            flags,
            command,
            cookie: 0xfeed_0000_0000_0001,
            offset,
            length: u64::from(length),
        }
        .to_bytes()
        .to_vec()
    };
    let (none, fua) = (CommandFlags::EMPTY, CommandFlags::FUA);
    let on = |export: [u8; 3], requests: &[Vec<u8>]| [export.to_vec(), requests.concat()].concat();
    let all = [0x0d, 0x7d, 0x89];
    vec![
        (
            "each-command",
            on(
                all,
                &[
                    request(Command::Read, CommandFlags::DONT_FRAGMENT, 4096, 8192),
                    request(Command::Write, fua, 4096, 512),
                    request(Command::Flush, fua, 0, 0),
                    request(Command::Trim, none, 0, 1 << 20),
                    request(Command::Cache, none, 0, 4096),
                    request(Command::WriteZeroes, CommandFlags::NO_HOLE, 0, 4096),
                    request(Command::WriteZeroes, CommandFlags::FAST_ZERO, 0, 1 << 20),
                    request(Command::BlockStatus, CommandFlags::REQ_ONE, 0, 4096),
                    request(Command::Resize, none, 0, 4096),
                    request(Command::Unknown(999), none, 0, 0),
                    request(Command::Disconnect, none, 0, 0),
                ],
            ),
        ),
        (
            "ranges",
            on(
                all,
                &[
                    request(Command::Read, none, u64::MAX - 511, 512),
                    request(Command::Read, none, u64::MAX, u32::MAX),
                    request(Command::Write, none, 1 << 20, 512),
                    request(Command::Read, none, (1 << 20) - 512, 512),
                    request(Command::Read, none, 1 << 20, 0),
                    request(Command::Read, none, 1, 512),
                    request(Command::Trim, none, 0, 513),
                ],
            ),
        ),
        (
            "payloads",
            on(
                all,
                &[
                    request(Command::Write, none, 0, 1 << 18),
                    request(Command::Write, none, 0, 1 << 25),
                    request(Command::Write, none, 0, (1 << 25) + 1),
                    request(Command::Write, none, 0, 0),
                ],
            ),
        ),
        (
            "read-only",
            on(
                [0, 0x03, 0],
                &[
                    request(Command::Write, none, 0, 1),
                    request(Command::Trim, none, 0, 1),
                    request(Command::WriteZeroes, fua, 0, 1),
                    request(Command::Flush, none, 1, 1),
                    request(Command::Read, none, 3, 5),
                ],
            ),
        ),
        ("magic-wrong", on(all, &[vec![0; 28], vec![0xff; 28]])),
    ]
}

fn client_handshake_seeds() -> Seeds {
    let with = |choice: u8, flags: u16, replies: &[Vec<u8>]| {
        [vec![choice, 5], greeting(flags), replies.concat()].concat()
    };
    let size_and_flags = [&[0, 0, 0, 0, 0, 0x10, 0, 0][..], &[0x0d, 0x6d]].concat();
    let export_fact = [&[0, 0][..], &size_and_flags].concat();
    let block_fact = [0, 3, 0, 0, 2, 0, 0, 0, 0x10, 0, 0xff, 0xff, 0xff, 0xff].to_vec();
    let go = |reply, data: &[u8]| option_reply(OptionCode::Go, reply, data);
    let accepted = [
        option_reply(OptionCode::StructuredReply, OptionReply::Ack, &[]),
        go(OptionReply::Info, &export_fact),
        go(OptionReply::Info, &block_fact),
        go(OptionReply::Info, b"\0\x01alpha"),
        go(OptionReply::Info, b"\0\x02for a human"),
        go(OptionReply::Info, b"\xff\xffwhat is this"),
        go(OptionReply::Ack, &[]),
    ];
    let list = |reply, data: &[u8]| option_reply(OptionCode::List, reply, data);
    let unsupported = go(OptionReply::ErrUnsupported, b"old server");
    vec![
        ("connect", with(2, 3, &accepted)),
        ("connect-refused", with(3, 3, &[go(OptionReply::ErrUnknown, b"nope")])),
        ("connect-fallback", with(3, 3, &[unsupported.clone(), size_and_flags.clone()])),
        (
            "connect-fallback-padded",
            with(3, 1, &[unsupported, size_and_flags.clone(), vec![0; 124], b"next".to_vec()]),
        ),
        ("connect-not-fixed", with(2, 2, &[size_and_flags])),
        ("connect-no-fact", with(3, 3, &[go(OptionReply::Ack, &[])])),
        ("connect-bad-blocks", with(3, 3, &[go(OptionReply::Info, &[0, 3, 0, 0, 0, 3])])),
        ("connect-wrong-option", with(3, 3, &[list(OptionReply::Ack, &[])])),
        (
            "describe",
            with(
                1,
                3,
                &[
                    option_reply(OptionCode::Info, OptionReply::Info, &export_fact),
                    option_reply(OptionCode::Info, OptionReply::Ack, &[]),
                ],
            ),
        ),
        (
            "list",
            with(
                0,
                3,
                &[
                    list(OptionReply::Server, b"\0\0\0\x05alphathe first"),
                    list(OptionReply::Server, b"\0\0\0\x00"),
                    list(OptionReply::Ack, &[]),
                ],
            ),
        ),
        ("list-cut", with(0, 3, &[list(OptionReply::Server, b"\0\0\0\x09alpha")])),
        ("list-forbidden", with(0, 3, &[list(OptionReply::ErrPolicy, b"\xff not UTF-8")])),
        ("oldstyle", [&[2, 1][..], b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0"].concat()),
        ("not-nbd", b"\x02\x01SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
    ]
}

fn server_options_seeds() -> Seeds {
    let with =
        |choice, options: &[Vec<u8>]| [vec![choice, 9], client_flags(3), options.concat()].concat();
    let go = option(OptionCode::Go, &info_data("alpha", &[3]));
    let structured = option(OptionCode::StructuredReply, &[]);
    let (extended, tls) =
        (option(OptionCode::ExtendedHeaders, &[]), option(OptionCode::StartTls, &[]));
    let query = |name: &[u8]| {
        let length = u32::try_from(name.len()).expect("a short name").to_be_bytes();
        [&length[..], name].concat()
    };
    let asks = |count: u8, queries: &[Vec<u8>]| {
        [query(b"alpha"), vec![0, 0, 0, count], queries.concat()].concat()
    };
    let allocation = asks(1, &[query(b"base:allocation")]);
    let set = option(OptionCode::SetMetaContext, &allocation);
    let list = option(OptionCode::ListMetaContext, &asks(2, &[query(b"qemu:"), query(b"")]));
    let lie = option(OptionCode::SetMetaContext, &asks(200, &[query(b"base:")]));
    vec![
        ("set", with(0, &[structured.clone(), set.clone(), go.clone()])),
        ("list", with(0, &[structured.clone(), list, lie, go.clone()])),
        ("extended", with(0, &[extended.clone(), structured.clone(), set.clone(), go.clone()])),
        ("tls", with(1, &[tls.clone(), extended.clone(), set.clone(), go.clone()])),
        ("tls-forgets", with(0, &[structured, set.clone(), tls.clone(), go.clone()])),
        ("tls-twice", with(0, &[tls.clone(), tls, go.clone()])),
        ("tls-required", with(1, &[extended, set, go])),
    ]
}

fn server_session_seeds() -> Seeds {
    let request = |command: Command, flags: u16, offset: u64, length: u64| {
        let head = [&[0x21, 0xe4, 0x1c, 0x71][..], &flags.to_be_bytes()].concat();
        let head = [&head[..], &command.to_wire().to_be_bytes(), &[7; 8]].concat();
        [&head[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
    };
    let on = |flags: u8, requests: &[Vec<u8>]| [vec![flags], requests.concat()].concat();
    vec![
        ("status", on(0, &[request(Command::BlockStatus, 8, 0, 1 << 20)])),
        ("status-of-nothing", on(0, &[request(Command::BlockStatus, 0, 512, 0)])),
        ("status-past-the-end", on(0, &[request(Command::BlockStatus, 0, 1 << 20, u64::MAX)])),
        ("status-with-payload", on(0, &[request(Command::BlockStatus, 0x20, 0, 24)])),
        ("write", on(0, &[request(Command::Write, 0x21, 512, 1 << 16)])),
        ("write-far-too-long", on(0, &[request(Command::Write, 0x20, 0, 1 << 40)])),
        ("zero-all", on(0, &[request(Command::WriteZeroes, 0x12, 0, 1 << 20)])),
        ("trim-read-only", on(2, &[request(Command::Trim, 1, 0, 1 << 20)])),
    ]
}

fn client_replies_seeds() -> Seeds {
    let simple = |parts: &[&[u8]]| [&[0, 3][..], &parts.concat()].concat();
    let structured = |parts: &[&[u8]]| [&[1, 3][..], &parts.concat()].concat();
    let (data, half) = ([0xa5; 512], [0x5a; 256]);
    let (old, new) = (ReplyStyle::Simple, ReplyStyle::Structured);
    let at = 2 << 12;
    let error_at = reply::error_offset_chunk(Chunk::More, 2, NbdError::Io, at, "bad sector");
    vec![
        (
            "simple",
            simple(&[
                &reply::read_ok_header(old, 2, at, 512),
                &data,
                &reply::done(old, Command::Write, 1),
                &reply::error(old, 4, NbdError::Io, ""),
            ]),
        ),
        ("simple-unknown-error", simple(&[&[0x67, 0x44, 0x66, 0x98, 0, 0, 9, 9], &[0; 8]])),
        (
            "structured",
            structured(&[
                &reply::read_ok_header(new, 2, at, 512),
                &data,
                &reply::done(new, Command::Flush, 3),
                &reply::error(new, 5, NbdError::NoSpace, "full"),
            ]),
        ),
        (
            "chunks-interleaved",
            structured(&[
                &reply::data_chunk_header(Chunk::More, 2, at + 256, 256),
                &half,
                &reply::hole_chunk(Chunk::Last, 4, 4 << 12, 512),
                &reply::hole_chunk(Chunk::More, 2, at, 256),
                &reply::none(2),
            ]),
        ),
        (
            "error-then-data",
            structured(&[&error_at, &reply::data_chunk_header(Chunk::Last, 2, at, 256), &half]),
        ),
        ("short", structured(&[&reply::hole_chunk(Chunk::Last, 2, at, 256)])),
        (
            "twice",
            structured(&[
                &reply::hole_chunk(Chunk::More, 2, at, 512),
                &reply::hole_chunk(Chunk::Last, 2, at, 512),
            ]),
        ),
        ("outside", structured(&[&reply::hole_chunk(Chunk::Last, 2, at + 1, 512)])),
        ("data-to-flush", structured(&[&reply::hole_chunk(Chunk::Last, 3, 0, 1)])),
        ("cookie-unknown", structured(&[&reply::none(99)])),
        ("simple-to-read", structured(&[&reply::done(old, Command::Read, 2)])),
        ("chunk-not-negotiated", simple(&[&reply::none(2)])),
    ]
}

/// `splitmix64`: all the randomness of this file.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, or 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() >> 1).expect("63 bits") % bound.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.roll().to_be_bytes()[0]
    }
}

fn mutate(dice: &mut Dice, pool: &[Vec<u8>]) -> Vec<u8> {
    const NUMBERS: [u32; 8] = [0, 1, 8, 0xffff, 0x7fff_ffff, 0x8000_0001, 0xffff_fff8, 0xffff_ffff];
    let mut bytes = pool[dice.below(pool.len())].clone();
    for _ in 0..=dice.below(6) {
        let at = dice.below(bytes.len());
        let end = at + dice.below(bytes.len() - at);
        match dice.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
            1 if !bytes.is_empty() => bytes[at] = dice.byte(),
            2 if bytes.len() >= at + 4 => {
                let number = NUMBERS[dice.below(NUMBERS.len())];
                bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
            }
            3 => bytes.truncate(end),
            4 => bytes.extend_from_within(at..end),
            5 => drop(bytes.drain(at..end)),
            _ => {
                let other = &pool[dice.below(pool.len())];
                bytes.truncate(end);
                bytes.extend_from_slice(&other[dice.below(other.len())..]);
            }
        }
        bytes.truncate(MUTANT_BYTES_MAX);
    }
    bytes
}

fn folder(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "corpus", target].iter().collect()
}

/// The files of a target that this test vouches for.
fn generated(target: &str) -> Vec<(String, Vec<u8>)> {
    let seeds = seeds(target);
    let pool: Vec<_> = seeds.iter().map(|(_, bytes)| bytes.clone()).collect();
    let mut dice = Dice(0xd15c);
    let mutants = (0..MUTANTS_KEPT).map(|n| (format!("mutant-{n}"), mutate(&mut dice, &pool)));
    seeds.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).chain(mutants).collect()
}

#[test]
fn files_are_what_the_seeds_say() {
    for (target, _) in TARGETS {
        let folder = folder(target);
        for (name, bytes) in generated(target) {
            let file = folder.join(name);
            if std::env::var_os("UPDATE_CORPUS").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&file, &bytes).unwrap();
            }
            assert_eq!(fs::read(&file).ok(), Some(bytes), "{}", file.display());
        }
    }
}

#[test]
fn every_file_replays() {
    for (target, entry) in TARGETS {
        let mut files = 0;
        for file in fs::read_dir(folder(target)).unwrap() {
            entry(&fs::read(file.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files >= MUTANTS_KEPT, "{target}: the corpus is gone");
    }
}

#[test]
fn mutants_break_no_promise() {
    for (target, entry) in TARGETS {
        let pool: Vec<_> = generated(target).into_iter().map(|(_, bytes)| bytes).collect();
        let mut dice = Dice(0x5eed);
        for _ in 0..MUTANTS_TRIED {
            entry(&mutate(&mut dice, &pool));
        }
    }
}

/// The canary: a parser whose result depends on fragmentation must be caught.
#[test]
#[should_panic(expected = "differs from all at once")]
fn a_planted_bug_is_caught() {
    entries::agree(|step| step.min(9), 3);
}
