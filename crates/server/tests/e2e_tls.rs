//! TLS, listeners with terms of their own, and who may have what.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use disktime_server::{Server, Tls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

mod shards;

type Secure = StreamOwned<ClientConnection, TcpStream>;

/// An authority and what it has signed, as files in a directory: `ca.pem`, and for each name `NAME.pem`
/// and `NAME.key`.
struct Papers {
    directory: TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Papers {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let papers = Self { directory: TempDir::new().unwrap(), ca };
        papers.write("ca.pem", &papers.ca.pem());
        for (name, serial) in [("server.test", 1), ("db.test", 2), ("backup.test", 3)] {
            papers.sign(name, name, serial, 2090);
        }
        papers.sign("old.test", "db.test", 4, 2001);
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(3),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        let issuer: &Issuer<'_, KeyPair> = &papers.ca;
        papers.write("revoked.pem", &list.signed_by(issuer).unwrap().pem().unwrap());
        papers
    }

    fn sign(&self, file: &str, name: &str, serial: u64, until: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let issuer: &Issuer<'_, KeyPair> = &self.ca;
        self.write(&format!("{file}.pem"), &params.signed_by(&key, issuer).unwrap().pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Serves on one TCP port with TLS as said, and more of the configuration.
    fn serve(&self, tls: &str, more: &str) -> Server {
        let text = format!(
            r#"
[server]
nbd = ["tcp:127.0.0.1:0"]
tls = "{tls}"
{more}
[[device]]
name = "d"
back_end = "memory"
[[vdisk]]
name = "open"
device = "d"
size = "8MiB"
"#
        );
        let text = text.replace("DIRECTORY", self.path().to_str().unwrap());
        Server::start(shards::parse(&text).unwrap()).unwrap()
    }

    /// A client's trust, and the certificate that it shows.
    fn client(&self, shows: Option<&str>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path().join("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match shows {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let file = |end: &str| self.path().join(format!("{name}.{end}"));
                let chain = vec![CertificateDer::from_pem_file(file("pem")).unwrap()];
                let key = PrivateKeyDer::from_pem_file(file("key")).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

const TLS: &str =
    "[tls]\ncertificate = \"DIRECTORY/server.test.pem\"\nkey = \"DIRECTORY/server.test.key\"\n";

fn connect(server: &Server) -> TcpStream {
    let uri = &server.vdisks()[0].uris()[0];
    let address = uri.split('/').nth(2).unwrap().to_owned();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    socket
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [b"IHAVEOPT", &number.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
}

/// The answer to an option: its kind, and its data.
fn answer(socket: &mut impl Read) -> std::io::Result<(u32, Vec<u8>)> {
    let mut header = [0; 20];
    socket.read_exact(&mut header)?;
    let field = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
    let mut data = vec![0; field(16) as usize];
    socket.read_exact(&mut data)?;
    Ok((field(12), data))
}

/// A client that has said hello in the clear.
fn greeted(server: &Server) -> TcpStream {
    let mut socket = connect(server);
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(&[0, 0, 0, 3]).unwrap();
    socket
}

/// A client under TLS, with what it shows.
fn secured(server: &Server, papers: &Papers, shows: Option<&str>) -> Secure {
    let mut socket = greeted(server);
    socket.write_all(&option(5, &[])).unwrap();
    assert_eq!(answer(&mut socket).unwrap(), (1, Vec::new()), "STARTTLS is acknowledged");
    let name = ServerName::try_from("server.test").unwrap();
    let session = ClientConnection::new(papers.client(shows), name).unwrap();
    StreamOwned::new(session, socket)
}

/// Goes to an export; the kind of the last answer.
fn go(socket: &mut (impl Read + Write), export: &str) -> std::io::Result<u32> {
    let length = u32::try_from(export.len()).unwrap().to_be_bytes();
    let data = [&length[..], export.as_bytes(), &[0, 0]].concat();
    socket.write_all(&option(7, &data))?;
    loop {
        match answer(socket)?.0 {
            3 => {}
            end => return Ok(end),
        }
    }
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn simple_reply(socket: &mut impl Read) -> (u32, u64) {
    let mut bytes = [0; 16];
    socket.read_exact(&mut bytes).unwrap();
    let error = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    (error, u64::from_be_bytes(bytes[8..].try_into().unwrap()))
}

/// Data of every length pass through the ring both ways, in requests one by one and many at once.
#[test]
fn data_pass_under_tls() {
    let papers = Papers::new();
    let server = papers.serve("allow", TLS);
    let mut socket = secured(&server, &papers, None);
    assert_eq!(go(&mut socket, "open").unwrap(), 1);
    let noise: Vec<u8> =
        (0..4u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (cookie, length) in [1, 27, 4096, 16_384, 65_536, 131_073, 4 << 20].into_iter().enumerate()
    {
        let cookie = cookie as u64;
        let bytes = u32::try_from(length).unwrap();
        socket.write_all(&[&request(1, cookie, 5, bytes)[..], &noise[..length]].concat()).unwrap();
        assert_eq!(simple_reply(&mut socket), (0, cookie));
        socket.write_all(&request(0, cookie, 5, bytes)).unwrap();
        assert_eq!(simple_reply(&mut socket), (0, cookie));
        let mut back = vec![0; length];
        socket.read_exact(&mut back).unwrap();
        assert!(back == noise[..length], "{length} bytes");
    }
    let many: Vec<u8> = (0..300).flat_map(|at| request(0, at, at * 4096, 4096)).collect();
    socket.write_all(&many).unwrap();
    for _ in 0..300 {
        let (error, cookie) = simple_reply(&mut socket);
        let mut back = [0; 4096];
        socket.read_exact(&mut back).unwrap();
        let at = usize::try_from(cookie).unwrap() * 4096;
        assert!(error == 0 && (cookie == 0 || back == noise[at - 5..at + 4091]), "{cookie}");
    }
    // Beside it, a client in the clear.
    let mut plain = greeted(&server);
    assert_eq!(go(&mut plain, "open").unwrap(), 1);
}

/// Requests that came with their client's goodbye were dropped, and the server said none: the end of a session
/// looked like an attack.
#[test]
fn what_comes_before_a_goodbye_is_done_and_the_server_says_goodbye_too() {
    let papers = Papers::new();
    let server = papers.serve("allow", TLS);
    let mut socket = secured(&server, &papers, None);
    assert_eq!(go(&mut socket, "open").unwrap(), 1);
    let last = [&request(1, 1, 0, 512)[..], &[7; 512], &request(2, 2, 0, 0)].concat();
    let (session, mut wire) = (&mut socket.conn, Vec::new());
    session.writer().write_all(&last).unwrap();
    session.send_close_notify();
    while session.wants_write() {
        session.write_tls(&mut wire).unwrap();
    }
    socket.sock.write_all(&wire).unwrap();
    assert_eq!(simple_reply(&mut socket), (0, 1));
    assert_eq!(socket.read(&mut [0]).unwrap(), 0, "an end without goodbye is an error");
}

/// A goodbye that came while replies were due ended the connection without them, though TLS lets the other
/// side go on.
#[test]
fn a_client_that_says_goodbye_has_the_replies_to_all_it_has_asked() {
    let papers = Papers::new();
    let server = papers.serve("allow", TLS);
    for apart in [false, true] {
        let mut socket = secured(&server, &papers, None);
        assert_eq!(go(&mut socket, "open").unwrap(), 1);
        // More than a socket takes, so that replies are due when the goodbye comes.
        let reads: Vec<u8> = (1..=16).flat_map(|name| request(0, name, 0, 1 << 20)).collect();
        socket.write_all(&reads).unwrap();
        if apart {
            socket.flush().unwrap();
        }
        socket.conn.send_close_notify();
        let mut wire = Vec::new();
        while socket.conn.wants_write() {
            socket.conn.write_tls(&mut wire).unwrap();
        }
        socket.sock.write_all(&wire).unwrap();
        let mut replies = Vec::new();
        socket.read_to_end(&mut replies).unwrap();
        assert_eq!(replies.len(), 16 * (16 + (1 << 20)), "apart: {apart}");
    }
}

#[test]
fn required_tls_is_required() {
    let papers = Papers::new();
    let server = papers.serve("require", TLS);
    assert!(server.vdisks()[0].uris()[0].starts_with("nbds://"));
    let mut plain = greeted(&server);
    assert_eq!(go(&mut plain, "open").unwrap(), 0x8000_0005, "TLS first");
    plain.write_all(&option(3, &[])).unwrap();
    assert_eq!(answer(&mut plain).unwrap().0, 0x8000_0005);
    plain.write_all(&option(1, b"open")).unwrap();
    assert_eq!(plain.read(&mut [0; 9]).unwrap(), 0, "no other answer to EXPORT_NAME");
    let mut socket = secured(&server, &papers, None);
    assert_eq!(go(&mut socket, "open").unwrap(), 1);
}

/// Options that follow `STARTTLS` in the clear could be an attacker's who can't read what follows.
#[test]
fn plain_words_after_the_upgrade_end_the_connection() {
    let papers = Papers::new();
    let server = papers.serve("allow", TLS);
    for after in [option(3, &[]), request(0, 1, 0, 512), vec![0; 100], vec![0xff; 40_000]] {
        let mut socket = greeted(&server);
        socket.write_all(&[option(5, &[]), after].concat()).unwrap();
        assert_eq!(answer(&mut socket).unwrap().0, 1);
        let mut rest = Vec::new();
        let _reset_or_end = socket.read_to_end(&mut rest);
        assert!(rest.len() < 20, "an alert at most: {rest:?}");
    }
    // In the transmission phase too.
    let mut socket = secured(&server, &papers, None);
    assert_eq!(go(&mut socket, "open").unwrap(), 1);
    let mut plain = socket.sock.try_clone().unwrap();
    plain.write_all(&request(0, 1, 0, 512)).unwrap();
    let mut rest = Vec::new();
    let _reset_or_end = plain.read_to_end(&mut rest);
    assert!(rest.len() < 100, "no data for those who don't have the key");
}

/// A hundred clients that stop in the middle of their handshake keep no other one out.
#[test]
fn half_open_handshakes_harm_nobody() {
    let papers = Papers::new();
    let server = papers.serve("allow", TLS);
    let half: Vec<TcpStream> = (0..100)
        .map(|at| {
            let mut socket = greeted(&server);
            socket.write_all(&option(5, &[])).unwrap();
            assert_eq!(answer(&mut socket).unwrap().0, 1);
            // The first bytes of a record that never ends.
            socket.write_all(&[22, 3, 1, 0x3f, 0xff, 1][..1 + at % 6]).unwrap();
            socket
        })
        .collect();
    let mut socket = secured(&server, &papers, None);
    assert_eq!(go(&mut socket, "open").unwrap(), 1);
    drop(half);
}

const NAMED: &str = r#"
[tls]
certificate = "DIRECTORY/server.test.pem"
key = "DIRECTORY/server.test.key"
client_ca = "DIRECTORY/ca.pem"
revoked = "DIRECTORY/revoked.pem"
[[vdisk]]
name = "named"
device = "d"
size = "1MiB"
clients = ["db.test", "web.test"]
"#;

#[test]
fn certificates_say_who_may_have_what() {
    let papers = Papers::new();
    let server = papers.serve("allow", NAMED);
    let goes =
        |shows: Option<&str>, export: &str| go(&mut secured(&server, &papers, shows), export).ok();
    assert_eq!(goes(Some("db.test"), "named"), Some(1));
    assert_eq!(goes(Some("db.test"), "open"), Some(1));
    assert_eq!(goes(Some("server.test"), "open"), Some(1), "any name is good for the other one");
    assert_eq!(goes(Some("server.test"), "named"), Some(0x8000_0002), "not this one");
    assert_eq!(goes(None, "open"), None, "no certificate");
    assert_eq!(goes(Some("old.test"), "named"), None, "an expired one");
    assert_eq!(goes(Some("backup.test"), "open"), None, "a revoked one");
    let stranger = Papers::new();
    let theirs = |socket: TcpStream| {
        let name = ServerName::try_from("server.test").unwrap();
        std::fs::copy(papers.path().join("ca.pem"), stranger.path().join("ca.pem")).unwrap();
        let session = ClientConnection::new(stranger.client(Some("db.test")), name).unwrap();
        go(&mut StreamOwned::new(session, socket), "named").ok()
    };
    let mut socket = greeted(&server);
    socket.write_all(&option(5, &[])).unwrap();
    assert_eq!(answer(&mut socket).unwrap().0, 1);
    assert_eq!(theirs(socket), None, "another authority's");
    let mut plain = greeted(&server);
    assert_eq!(go(&mut plain, "named").unwrap(), 0x8000_0002, "in the clear there is no name");
    assert_eq!(go(&mut plain, "open").unwrap(), 1);
}

/// A certificate that was renewed was served only after a restart.
#[test]
fn certificates_are_read_again() {
    let papers = Papers::new();
    let mut server = papers.serve("require", TLS);
    let shown = |server: &Server| {
        let mut socket = secured(server, &papers, None);
        assert_eq!(go(&mut socket, "open").unwrap(), 1);
        socket.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let mut before = secured(&server, &papers, None);
    assert_eq!(go(&mut before, "open").unwrap(), 1);
    let first = shown(&server);
    papers.sign("server.test", "server.test", 9, 2091);
    assert_eq!(shown(&server), first, "not by itself");
    let again = |server: &mut Server, more: &str| {
        let text = "[server]\nnbd = [\"tcp:127.0.0.1:0\"]\ntls = \"require\"\n".to_owned()
            + TLS
            + "[[device]]\nname = \"d\"\nback_end = \"memory\"\n"
            + "[[vdisk]]\nname = \"open\"\ndevice = \"d\"\nsize = \"8MiB\"\n"
            + more;
        let text = text.replace("DIRECTORY", papers.path().to_str().unwrap());
        server.reload(shards::parse(&text).unwrap())
    };
    again(&mut server, "").unwrap();
    let second = shown(&server);
    assert_ne!(second, first);
    papers.write("server.test.key", "no key");
    let refused = again(&mut server, "weight = 9\n").unwrap_err().to_string();
    assert!(refused.contains("server.test.key"), "{refused}");
    assert_eq!(shown(&server), second, "what can't be read changes nothing");
    // Contracts had been changed, and the log said that nothing was.
    papers.sign("server.test", "server.test", 10, 2091);
    assert_eq!(again(&mut server, "weight = 9\n").unwrap().len(), 1, "they had stayed as well");
    before.write_all(&request(0, 1, 0, 512)).unwrap();
    assert_eq!(simple_reply(&mut before), (0, 1), "connections stay as they are");
}

fn unix(server: &Server, at: usize) -> std::os::unix::net::UnixStream {
    let disktime_server::config::Listen::Unix(path) = &server.listen()[at] else { panic!() };
    let mut socket = std::os::unix::net::UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(&[0, 0, 0, 3]).unwrap();
    socket
}

#[test]
fn a_listener_has_exports_of_its_own() {
    use std::os::unix::fs::PermissionsExt;
    let papers = Papers::new();
    let more = r#"
[[listener]]
nbd = "unix:DIRECTORY/some.sock"
mode = "0666"
owner = "root"
vdisks = ["second", "third"]
[[listener]]
nbd = "unix:DIRECTORY/one.sock"
vdisks = ["second"]
[[vdisk]]
name = "second"
device = "d"
size = "1001B"
description = "the second one"
[[vdisk]]
name = "third"
device = "d"
size = "1MiB"
default = true
read_only = true
"#;
    let server = papers.serve("off", more);
    let mode = std::fs::metadata(papers.path().join("some.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let uris = |name: &str| server.vdisks().iter().find(|it| it.name == name).unwrap().uris().len();
    assert_eq!((uris("open"), uris("third"), uris("second")), (1, 2, 3));
    let listed = |socket: &mut dyn Talk| {
        socket.write_all(&option(3, &[])).unwrap();
        let mut names = Vec::new();
        loop {
            let (kind, data) = answer(&mut &mut *socket).unwrap();
            if kind == 1 {
                return names;
            }
            let length = u32::from_be_bytes(data[..4].try_into().unwrap()) as usize;
            let name = String::from_utf8(data[4..4 + length].to_vec()).unwrap();
            names.push((name, String::from_utf8(data[4 + length..].to_vec()).unwrap()));
        }
    };
    let names =
        |listed: Vec<(String, String)>| listed.into_iter().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(names(listed(&mut greeted(&server))), ["second", "third", "open"]);
    let some = listed(&mut unix(&server, 1));
    assert_eq!(some[0].1, "the second one");
    assert_eq!(names(some), ["second", "third"]);
    let mut one = unix(&server, 2);
    assert_eq!(names(listed(&mut one)), ["second"]);
    assert_eq!(go(&mut one, "third").unwrap(), 0x8000_0006, "there is no such export here");
    assert_eq!(go(&mut one, "").unwrap(), 1, "the only one is the default");
    // The marked one, which is read-only.
    let mut some = unix(&server, 1);
    assert_eq!(go(&mut some, "").unwrap(), 1);
    some.write_all(&[&request(1, 7, 0, 512)[..], &[1; 512]].concat()).unwrap();
    assert_eq!(simple_reply(&mut some), (1, 7), "EPERM");
    some.write_all(&request(0, 8, (1 << 20) - 512, 512)).unwrap();
    assert_eq!(simple_reply(&mut some), (0, 8));
    // The last bytes of a size that is odd.
    let mut odd = unix(&server, 2);
    assert_eq!(go(&mut odd, "second").unwrap(), 1);
    odd.write_all(&[&request(1, 7, 900, 101)[..], &[9; 101]].concat()).unwrap();
    assert_eq!(simple_reply(&mut odd), (0, 7));
    odd.write_all(&request(0, 8, 1000, 1)).unwrap();
    assert_eq!(simple_reply(&mut odd), (0, 8));
    let mut byte = [0];
    odd.read_exact(&mut byte).unwrap();
    assert_eq!(byte, [9]);
    odd.write_all(&request(0, 9, 1000, 2)).unwrap();
    assert_eq!(simple_reply(&mut odd), (22, 9), "past the end");
}

trait Talk: Read + Write {}
impl<T: Read + Write> Talk for T {}

#[test]
fn what_is_wrong_is_said() {
    let start = "[server]\nnbd = [\"tcp:127.0.0.1:0\"]\n";
    let rest = "[[device]]\nname = \"d\"\nback_end = \"memory\"\n\
                [[vdisk]]\nname = \"a\"\ndevice = \"d\"\nsize = \"1MiB\"\n";
    let tls = "[tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n";
    for (more, expected) in [
        ("tls = \"on\"\n", "tls = \"on\": `off`, `allow` or `require`"),
        ("tls = \"require\"\n", "a table `[tls]` must name"),
        ("[[listener]]\nnbd = \"tcp:0.0.0.0:1\"\n", "only with `tls = \"require\"`"),
        (
            "[[listener]]\nnbd = \"tcp:0.0.0.0:1\"\ntls = \"allow\"\n[tls]\ncertificate = \"a\"\nkey = \"b\"\n",
            "only with `tls = \"require\"`",
        ),
        ("[[listener]]\nnbd = \"tcp:127.0.0.1:0\"\n", "the address of another one too"),
        (
            "[[listener]]\nnbd = \"unix:/x\"\nvdisks = [\"b\"]\n",
            "no such virtual disk; there are: a",
        ),
        ("[[listener]]\nnbd = \"unix:/x\"\nvdisks = []\n", "name at least one"),
        ("[[listener]]\nnbd = \"tcp:127.0.0.1:1\"\nmode = \"0660\"\n", "only a `unix:` listener"),
        ("[[listener]]\nnbd = \"unix:/x\"\nowner = \"no such user\"\n", "no user of that name"),
        ("[tls]\ncertificate = \"a\"\nkey = \"b\"\nrevoked = \"c\"\n", "`client_ca`"),
    ] {
        let error = shards::parse(&format!("{start}{more}{rest}")).unwrap_err().to_string();
        assert!(error.contains(expected), "{more}: {error}");
    }
    for (more, expected) in [
        ("clients = [\"db.test\"]\n", "`client_ca`"),
        ("clients = []\n", "name at least one"),
        ("clients = [\"not a name\"]\n", "like `backup.example.org`"),
        (
            "default = true\n[[vdisk]]\nname = \"b\"\ndevice = \"d\"\nsize = \"1MiB\"\ndefault = true\n",
            "vdisk a is the default already",
        ),
    ] {
        let error = shards::parse(&format!("{start}{tls}{rest}{more}")).unwrap_err().to_string();
        assert!(error.contains(expected), "{more}: {error}");
    }
    // Beyond loopback with TLS that is required.
    let text =
        format!("{start}[[listener]]\nnbd = \"tcp:0.0.0.0:0\"\ntls = \"require\"\n{tls}{rest}");
    assert!(shards::parse(&text).is_ok());
}

/// A device was read without end, and a pipe was waited for by `--check`, a start and SIGHUP.
#[test]
fn a_certificate_or_key_is_a_regular_file() {
    let papers = Papers::new();
    let at = |name: &str| papers.path().join(name);
    let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap();
    assert!(made.success());
    let good = TlsFiles {
        certificate: at("server.test.pem"),
        key: at("server.test.key"),
        client_ca: Some(at("ca.pem")),
        revoked: Some(at("revoked.pem")),
    };
    assert!(Tls::load(&good).is_ok());
    for wrong in [at("pipe"), "/dev/zero".into(), papers.path().to_owned()] {
        for files in [
            TlsFiles { certificate: wrong.clone(), ..good.clone() },
            TlsFiles { key: wrong.clone(), ..good.clone() },
            TlsFiles { client_ca: Some(wrong.clone()), ..good.clone() },
            TlsFiles { revoked: Some(wrong.clone()), ..good.clone() },
        ] {
            let said = Tls::load(&files).unwrap_err().to_string();
            assert_eq!(said, format!("{}: no regular file: name one", wrong.display()));
        }
    }
}
