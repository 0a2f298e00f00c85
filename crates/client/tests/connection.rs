//! Calls on a connection, to a server that behaves and to all the others.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod support;

use disktime_client::{
    Address, ConnectError, Connection, ConnectionError, Errno, OUTSTANDING_MAX, Options, Request,
    RequestError, Uri, list, list_with,
};
use disktime_nbd::{
    ClientError, Command, CommandFlags, NbdError, ProtocolError, TransmissionFlags,
};
use proptest::prelude::*;
use support::{Conduct, DESCRIPTION, EXPORT, REQUEST_BYTES_MAX, TestServer, impatient};

const SIZE: usize = 64 << 10;

fn open(conduct: Conduct) -> (TestServer, Connection) {
    let server = TestServer::start(conduct, SIZE);
    let connection = Connection::open(&server.uri).unwrap();
    (server, connection)
}

fn request(command: Command, offset: u64, length: u32) -> Request {
    Request { command, flags: CommandFlags::EMPTY, offset, length }
}

fn lost<T>(address: &Address, error: ConnectionError) -> Result<T, ConnectError> {
    Err(ConnectError::Lost { address: address.clone(), error })
}

#[test]
fn the_export_is_described_and_listed() {
    let (server, connection) = open(Conduct::Honest);
    let export = connection.export();
    assert_eq!((export.name.as_str(), export.size_bytes), (EXPORT, SIZE as u64));
    assert!(export.flags.contains(TransmissionFlags::FLUSH.with(TransmissionFlags::FUA)));
    assert_eq!(export.block_sizes.max(), REQUEST_BYTES_MAX);
    let exports = list(&server.uri.address).unwrap();
    assert_eq!(exports.len(), 1);
    assert_eq!((exports[0].name.as_str(), exports[0].description.as_str()), (EXPORT, DESCRIPTION));
}

#[test]
fn an_export_that_does_not_exist_is_refused_by_name() {
    let server = TestServer::start(Conduct::Honest, SIZE);
    let uri = Uri { export: "other".into(), ..server.uri.clone() };
    let error = Connection::open(&uri).unwrap_err();
    let ConnectError::Handshake { error: ClientError::Refused { .. }, .. } = error else {
        panic!("{error}");
    };
}

#[test]
fn every_command_arrives_as_it_was_meant() {
    let (server, mut connection) = open(Conduct::Honest);
    connection.write(4096, &[7; 512], true).unwrap();
    connection.write(8192, &[8; 512], false).unwrap();
    connection.flush().unwrap();
    connection.trim(4096, 256).unwrap();
    connection.zeroes(8192, 128, CommandFlags::NO_HOLE.with(CommandFlags::FUA)).unwrap();
    let mut buffer = [1; 512];
    connection.read(4096, &mut buffer).unwrap();
    assert_eq!(buffer, *[[0; 256], [7; 256]].as_flattened());
    connection.read(0, &mut []).unwrap();
    connection.disconnect().unwrap();

    let seen: Vec<_> = server
        .taken
        .iter()
        .take(8)
        .map(|header| (header.command, header.flags, header.offset, header.length))
        .collect();
    let (none, fua) = (CommandFlags::EMPTY, CommandFlags::FUA);
    assert_eq!(
        seen,
        [
            (Command::Write, fua, 4096, 512),
            (Command::Write, none, 8192, 512),
            (Command::Flush, none, 0, 0),
            (Command::Trim, none, 4096, 256),
            (Command::WriteZeroes, CommandFlags::NO_HOLE.with(fua), 8192, 128),
            (Command::Read, none, 4096, 512),
            (Command::Read, none, 0, 0),
            (Command::Disconnect, none, 0, 0),
        ]
    );
}

#[test]
fn a_failed_request_leaves_the_connection_usable() {
    for structured_replies in [false, true] {
        let server = TestServer::start(Conduct::Honest, SIZE);
        let options = Options { structured_replies, ..Options::default() };
        let mut connection = Connection::open_with(&server.uri, options).unwrap();
        let end = SIZE as u64;
        let mut buffer = [3; 16];
        let read = connection.read(end - 8, &mut buffer);
        assert_eq!(read, Err(RequestError::Failed(NbdError::Invalid)));
        assert_eq!(buffer, [3; 16], "a buffer that was not read into is untouched");
        let written = connection.write(end - 8, &[1; 16], false);
        assert_eq!(written, Err(RequestError::Failed(NbdError::NoSpace)));
        connection.write(end - 16, &[1; 16], false).unwrap();
        connection.read(end - 16, &mut buffer).unwrap();
        assert_eq!(buffer, [1; 16]);
    }
}

#[test]
fn replies_in_any_order_find_their_requests() {
    let (_server, mut connection) = open(Conduct::Backwards(5));
    let mut cookies: Vec<_> = (0..4_u8)
        .map(|at| {
            let write = request(Command::Write, u64::from(at) * 100, 100);
            connection.send(write, &[at + 1; 100]).unwrap()
        })
        .collect();
    cookies.push(connection.send(request(Command::Flush, 0, 0), &[]).unwrap());
    assert_eq!(connection.outstanding(), 5);
    for cookie in cookies.iter().rev() {
        let reply = connection.receive().unwrap().unwrap();
        assert_eq!((reply.cookie, reply.result, reply.data), (*cookie, Ok(()), vec![]));
    }
    assert_eq!(connection.receive(), Ok(None));

    // A plain call among them: what was answered before it is kept for `receive`.
    let reads: Vec<_> = (0..4)
        .map(|at| connection.send(request(Command::Read, at * 100 + 50, 100), &[]).unwrap())
        .collect();
    connection.flush().unwrap();
    for (at, cookie) in reads.iter().enumerate().rev() {
        let reply = connection.receive().unwrap().unwrap();
        assert_eq!((reply.cookie, reply.result), (*cookie, Ok(())));
        let byte = u8::try_from(at).unwrap() + 1;
        let next = if byte == 4 { 0 } else { byte + 1 };
        assert_eq!(reply.data, *[[byte; 50], [next; 50]].as_flattened());
    }
    assert_eq!(connection.outstanding(), 0);
}

#[test]
fn more_than_fits_in_the_socket_goes_both_ways_at_once() {
    let server = TestServer::start(Conduct::Honest, 1 << 20);
    let mut connection = Connection::open(&server.uri).unwrap();
    let data: Vec<u8> = (0..1 << 20).map(|at: u32| at.to_le_bytes()[at as usize % 3]).collect();
    // The server blocks in its answers to the reads while these writes are still being sent.
    for _ in 0..8 {
        connection.send(request(Command::Read, 0, 1 << 20), &[]).unwrap();
        connection.send(request(Command::Write, 0, 1 << 20), &data).unwrap();
    }
    let mut replies = 0;
    while let Some(reply) = connection.receive().unwrap() {
        assert_eq!(reply.result, Ok(()));
        replies += 1;
    }
    assert_eq!(replies, 16);
    assert!(*server.memory.lock().unwrap() == data);
}

#[test]
fn outstanding_requests_are_bounded() {
    let server = TestServer::start(Conduct::Silent, SIZE);
    let mut connection = Connection::open_with(&server.uri, impatient()).unwrap();
    for _ in 0..OUTSTANDING_MAX {
        connection.send(request(Command::Flush, 0, 0), &[]).unwrap();
    }
    let refused = connection.send(request(Command::Flush, 0, 0), &[]);
    assert_eq!(refused, Err(RequestError::TooMany(OUTSTANDING_MAX)));
}

#[test]
fn each_way_to_break_the_transmission_has_its_error_and_keeps_it() {
    let timeout = impatient().timeout;
    for (conduct, expected) in [
        (Conduct::ClosesMidReply, ConnectionError::Closed),
        (Conduct::UnknownCookie, ProtocolError::UnknownCookie(!0).into()),
        (Conduct::Garbage, ProtocolError::ReplyMagic(u32::from_be_bytes(*b"200 ")).into()),
        (Conduct::Silent, ConnectionError::Timeout { timeout }),
    ] {
        let server = TestServer::start(conduct, SIZE);
        let mut connection = Connection::open_with(&server.uri, impatient()).unwrap();
        let mut buffer = [0; 4096];
        for _ in 0..2 {
            let result = connection.read(0, &mut buffer);
            assert_eq!(result, Err(RequestError::Connection(expected)), "{conduct:?}");
        }
        assert_eq!(connection.flush(), Err(RequestError::Connection(expected)), "{conduct:?}");
        assert_eq!(connection.receive(), Err(expected), "{conduct:?}");
        assert_eq!(connection.disconnect(), Err(expected), "{conduct:?}");
    }
}

/// A server that went on talking, and ended no reply, was listened to without end.
#[test]
fn a_server_that_never_ends_its_reply_is_not_waited_for_longer_than_a_silent_one() {
    let timeout = impatient().timeout;
    let server = TestServer::start(Conduct::Endless, SIZE);
    let (tell, told) = std::sync::mpsc::channel();
    let uri = server.uri.clone();
    std::thread::spawn(move || {
        let mut connection = Connection::open_with(&uri, impatient()).unwrap();
        tell.send(connection.flush())
    });
    let flushed = told.recv_timeout(std::time::Duration::from_secs(10));
    let late = RequestError::Connection(ConnectionError::Timeout { timeout });
    assert_eq!(flushed, Ok(Err(late)));
}

#[test]
fn a_second_answer_is_an_error_even_though_the_first_was_good() {
    let (_server, mut connection) = open(Conduct::AnswersTwice);
    let error = loop {
        // Whether the second answer comes along with the first is up to the socket.
        if let Err(error) = connection.flush() {
            break error;
        }
    };
    let RequestError::Connection(ConnectionError::Protocol(ProtocolError::UnknownCookie(_))) =
        error
    else {
        panic!("{error}");
    };
}

#[test]
fn each_way_to_break_the_handshake_has_its_error() {
    let timeout = impatient().timeout;
    let attempt = |conduct| {
        let server = TestServer::start(conduct, SIZE);
        let opened = Connection::open_with(&server.uri, impatient()).map(drop);
        let listed = list_with(&server.uri.address, impatient()).map(drop);
        assert_eq!(opened, listed, "{conduct:?}");
        (server.uri.address.clone(), opened)
    };
    let (address, result) = attempt(Conduct::SilentGreeting);
    assert_eq!(result, lost(&address, ConnectionError::Timeout { timeout }));
    let (address, result) = attempt(Conduct::ShortGreeting);
    assert_eq!(result, lost(&address, ConnectionError::Closed));
    let (address, result) = attempt(Conduct::GarbageGreeting);
    assert_eq!(result, Err(ConnectError::Handshake { address, error: ClientError::NotNbd }));
}

#[test]
fn an_answer_before_the_first_question_is_an_error() {
    let (server, mut result) = {
        let server = TestServer::start(Conduct::Hasty, SIZE);
        let opened = Connection::open_with(&server.uri, impatient());
        (server, opened)
    };
    let unknown = ConnectionError::Protocol(ProtocolError::UnknownCookie(1 << 32));
    // It may come with the handshake's last bytes or after them.
    match &mut result {
        Ok(connection) => {
            assert_eq!(connection.flush(), Err(RequestError::Connection(unknown)));
        }
        Err(error) => assert_eq!(Err::<(), _>(error.clone()), lost(&server.uri.address, unknown)),
    }
}

#[test]
fn where_nobody_listens_the_address_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none");
    let address = Address::Unix { path: path.clone() };
    let error = list(&address).unwrap_err();
    assert_eq!(error, ConnectError::Socket { address, errno: Errno::NOENT });
    assert_eq!(
        error.to_string(),
        format!("unix:{}: No such file or directory (os error 2)", path.display())
    );

    // A listener without room for one more: connecting would wait for ever.
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let address = Address::Unix { path };
    let error = list_with(&address, impatient()).unwrap_err();
    assert_eq!(error, ConnectError::Socket { address, errno: Errno::TIMEDOUT });
}

#[test]
fn tcp_works_as_unix_sockets_do() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let uri =
        Uri { address: Address::Tcp { host: "localhost".into(), port }, export: String::new() };
    let timeout = impatient().timeout;
    let result = Connection::open_with(&uri, impatient()).map(drop);
    assert_eq!(result, lost(&uri.address, ConnectionError::Timeout { timeout }));
    drop(listener);
    let error = Connection::open_with(&uri, impatient()).unwrap_err();
    assert_eq!(error, ConnectError::Socket { address: uri.address, errno: Errno::CONNREFUSED });
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: usize, data: Vec<u8>, fua: bool },
    Zeroes { at: usize, length: usize },
    Trim { at: usize, length: usize },
    Read { at: usize, length: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..SIZE, 0..=SIZE / 4).prop_map(|(at, length)| (at, length.min(SIZE - at)));
    let data = (0..SIZE, prop::collection::vec(any::<u8>(), 0..2000), any::<bool>());
    prop_oneof![
        data.prop_map(|(at, mut data, fua)| {
            data.truncate(SIZE - at);
            Step::Write { at, data, fua }
        }),
        range.clone().prop_map(|(at, length)| Step::Zeroes { at, length }),
        range.clone().prop_map(|(at, length)| Step::Trim { at, length }),
        range.prop_map(|(at, length)| Step::Read { at, length }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_bytes_are_read_back(
        steps in prop::collection::vec(step(), 1..40),
        structured_replies: bool,
        in_pieces: bool,
    ) {
        let conduct = if in_pieces && structured_replies { Conduct::Pieces } else { Conduct::Honest };
        let server = TestServer::start(conduct, SIZE);
        let options = Options { structured_replies, ..Options::default() };
        let mut connection = Connection::open_with(&server.uri, options).unwrap();
        let mut expected = vec![0; SIZE];
        let mut buffer = vec![0xaa; SIZE];
        for step in steps {
            match step {
                Step::Write { at, data, fua } => {
                    connection.write(at as u64, &data, fua).unwrap();
                    expected[at..at + data.len()].copy_from_slice(&data);
                }
                Step::Zeroes { at, length } => {
                    let bytes = u32::try_from(length).unwrap();
                    connection.zeroes(at as u64, bytes, CommandFlags::EMPTY).unwrap();
                    expected[at..at + length].fill(0);
                }
                Step::Trim { at, length } => {
                    connection.trim(at as u64, u32::try_from(length).unwrap()).unwrap();
                    expected[at..at + length].fill(0);
                }
                Step::Read { at, length } => {
                    connection.read(at as u64, &mut buffer[..length]).unwrap();
                    prop_assert_eq!(&buffer[..length], &expected[at..at + length]);
                }
            }
        }
        connection.read(0, &mut buffer).unwrap();
        prop_assert!(buffer == expected);
    }
}
