//! Random reads under TLS: the certificates of a run, and a client with so many reads outstanding.
//!
//! The client is the same for every server, and plain: one thread, simple replies, one record for
//! the requests that follow one look at the socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use disktime_nbd::{Command as Ask, CommandFlags, OptionCode, RequestHeader, magic};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{NbdError, SIZE};
use crate::live::World;

/// Bytes of a read.
pub(super) const READ_BYTES: u32 = 4096;
/// Reads outstanding.
const OUTSTANDING: usize = 32;
/// Bytes of input taken at once.
const INPUT_BYTES: usize = 256 << 10;
/// Bytes of a simple reply before its data.
const REPLY_BYTES: usize = 16;
/// Longest time without an answer.
const SILENCE_MAX: Duration = Duration::from_secs(10);

type Session = StreamOwned<ClientConnection, UnixStream>;

/// Makes an authority and a server's certificate, as files by the names that QEMU and nbdkit look
/// for. `false` if `openssl` is not installed.
///
/// # Errors
/// If it can't be run, or refuses.
pub fn certificates(directory: &Path) -> Result<bool, NbdError> {
    let authority = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
        -subj /CN=authority -keyout ca-key.pem -out ca-cert.pem";
    let server = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
        -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -addext basicConstraints=critical,CA:FALSE \
        -CA ca-cert.pem -CAkey ca-key.pem -keyout server-key.pem -out server-cert.pem";
    for words in [authority, server] {
        let mut command = Command::new("openssl");
        command.current_dir(directory).args(words.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(NbdError::Secure(format!("openssl ended ({status})"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// A connection with reads outstanding.
pub(super) struct Reader {
    session: Session,
    seed: u64,
    /// When the read of each cookie was sent.
    sent: [Duration; OUTSTANDING],
    /// Cookies of no read.
    free: Vec<u8>,
    /// Bytes that came of replies that are not complete.
    arrived: Vec<u8>,
}

impl Reader {
    /// Attaches the export `disk` at a socket; the certificates lie in `directory`.
    pub(super) fn attach(socket: &Path, directory: &Path) -> Result<Self, NbdError> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(&[0, 0, 0, 3])?;
        stream.write_all(&option(OptionCode::StartTls, &[]))?;
        let mut reply = [0; 20];
        stream.read_exact(&mut reply)?;
        if reply[12..] != [0, 0, 0, 1, 0, 0, 0, 0] {
            return Err(NbdError::Secure("the server refuses STARTTLS".to_owned()));
        }
        let wrong = |error: &dyn std::fmt::Display| NbdError::Secure(error.to_string());
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(directory.join("ca-cert.pem"));
        roots.add(authority.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").map_err(|error| wrong(&error))?;
        let client =
            ClientConnection::new(Arc::new(config), name).map_err(|error| wrong(&error))?;
        let mut session = StreamOwned::new(client, stream);
        session.write_all(&option(OptionCode::ExportName, b"disk"))?;
        session.flush()?;
        // Its size and flags, without the zeroes that this client has declined.
        session.read_exact(&mut [0; 10])?;
        let free = (0..32).collect();
        Ok(Self {
            session,
            seed: 1,
            sent: [Duration::ZERO; OUTSTANDING],
            free,
            arrived: Vec::new(),
        })
    }

    /// Reads until then; answers the response time of each read that was complete by then.
    pub(super) fn read_until(
        &mut self,
        until: Duration,
        world: &dyn World,
    ) -> Result<Vec<Duration>, NbdError> {
        let mut times = Vec::new();
        let mut input = vec![0; INPUT_BYTES];
        let mut requests = Vec::new();
        while world.now() < until {
            // Whether somebody wants the bench to end.
            world.wait(Duration::ZERO)?;
            requests.clear();
            let now = world.now();
            while let Some(cookie) = self.free.pop() {
                self.sent[usize::from(cookie)] = now;
                let block = self.draw() % (SIZE / u64::from(READ_BYTES));
                let header = RequestHeader {
                    flags: CommandFlags::EMPTY,
                    command: Ask::Read,
                    cookie: u64::from(cookie),
                    offset: block * u64::from(READ_BYTES),
                    length: u64::from(READ_BYTES),
                };
                requests.extend_from_slice(&header.to_bytes());
            }
            self.session.write_all(&requests)?;
            let bytes = self.session.read(&mut input)?;
            if bytes == 0 {
                return Err(NbdError::Secure("the server hangs up".to_owned()));
            }
            self.arrived.extend_from_slice(&input[..bytes]);
            self.take(world.now(), &mut times)?;
        }
        Ok(times)
    }

    /// Takes the replies that are complete.
    fn take(&mut self, now: Duration, times: &mut Vec<Duration>) -> Result<(), NbdError> {
        const WHOLE: usize = REPLY_BYTES + READ_BYTES as usize;
        let mut at = 0;
        while self.arrived.len() - at >= WHOLE {
            let head = &self.arrived[at..at + REPLY_BYTES];
            let cookie = usize::from(head[15]);
            let is_ok = head[..4] == magic::SIMPLE_REPLY.to_be_bytes() && head[4..15] == [0; 11];
            if !is_ok || cookie >= OUTSTANDING {
                return Err(NbdError::Secure(format!("a reply begins with {head:02x?}")));
            }
            times.push(now - self.sent[cookie]);
            self.free.push(head[15]);
            at += WHOLE;
        }
        self.arrived.drain(..at);
        Ok(())
    }

    /// `splitmix64`
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn option(code: OptionCode, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("an option's data are short");
    let head = [&magic::OPTION.to_be_bytes()[..], &code.to_wire().to_be_bytes()].concat();
    [&head[..], &length.to_be_bytes(), data].concat()
}
