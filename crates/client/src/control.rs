//! Requests to a daemon's control API: HTTP at a Unix socket, over TCP on this machine with a token, or
//! under TLS anywhere; one request a connection.
//!
//! Does not know: what bodies mean.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

mod place;

use place::{Place, Protected, Stream};

/// How long a request and its whole answer may take: a daemon may wait for the clients of a virtual disk that goes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest line of an answer's head in bytes, and the most lines.
const LINE_MAX: u64 = 16 << 10;
const LINES_MAX: usize = 100;
/// The longest body in bytes.
const BODY_MAX: u64 = 256 << 20;

/// A daemon's control API.
#[derive(Clone, Debug)]
pub struct ControlApi {
    place: Place,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The tag of what is answered.
    pub etag: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// The head of an answer.
#[derive(Default)]
struct Head {
    answer: Answer,
    length: Option<u64>,
    chunked: bool,
}

impl ControlApi {
    /// The API at a socket.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { place: Place::Unix(path.to_owned()) }
    }

    /// The API at a TCP address of this machine, with a token: without TLS it must not leave it.
    #[must_use]
    pub fn at_tcp(address: SocketAddr, token: &str) -> Self {
        Self { place: Place::Tcp { address, token: token.to_owned() } }
    }

    /// The API under TLS at `HOST:PORT`, with a token. The daemon shows a certificate for that host which
    /// one in the file `authorities`, in PEM, vouches for.
    ///
    /// # Errors
    /// If the address or the file is not what it should be.
    pub fn at_tls(address: &str, token: &str, authorities: &Path) -> io::Result<Self> {
        let place = Protected::new(address, token, authorities)?;
        Ok(Self { place: Place::Tls(Box::new(place)) })
    }

    /// Where it is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        self.place.to_string()
    }

    /// Sends a request and waits for the answer, for 30 s with all of it.
    ///
    /// # Errors
    /// If no daemon is there, it is late, or what it says is no HTTP.
    pub fn request(
        &self,
        method: &str,
        target: &str,
        (body, if_match): (Option<&[u8]>, Option<&str>),
    ) -> io::Result<Answer> {
        let mut reader = self.send(method, target, (body, if_match, None))?;
        let Head { mut answer, length, chunked } = read_head(&mut reader)?;
        if chunked {
            while let Some(mut chunk) = read_chunk(&mut reader)? {
                if (answer.body.len() + chunk.len()) as u64 > BODY_MAX {
                    return Err(wrong("its body is too long"));
                }
                answer.body.append(&mut chunk);
            }
        } else {
            let most = length.unwrap_or(BODY_MAX).min(BODY_MAX);
            reader.take(most).read_to_end(&mut answer.body)?;
            if length.is_some_and(|length| answer.body.len() as u64 != length) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(answer)
    }

    /// Hands on each event's text as it comes, after the one of that number, until told to stop.
    ///
    /// # Errors
    /// If no daemon is there, it ends, or what it says is no stream of events.
    pub fn events(&self, after: Option<u64>, mut each: impl FnMut(&str) -> bool) -> io::Result<()> {
        let after = after.map(|id| id.to_string());
        let mut reader = self.send("GET", "/v1/events", (None, None, after.as_deref()))?;
        let Head { answer, chunked, .. } = read_head(&mut reader)?;
        if answer.status != 200 || !chunked {
            return Err(wrong("it has no stream of events"));
        }
        // The next event may be hours away.
        reader.get_mut().wait_without_end();
        let mut text = Vec::new();
        while let Some(mut chunk) = read_chunk(&mut reader)? {
            text.append(&mut chunk);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if let Some(data) = line.trim_end().strip_prefix("data: ")
                    && !each(data)
                {
                    return Ok(());
                }
            }
            if text.len() as u64 > BODY_MAX {
                return Err(wrong("a line is too long"));
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn send(
        &self,
        method: &str,
        target: &str,
        (body, if_match, after): (Option<&[u8]>, Option<&str>, Option<&str>),
    ) -> io::Result<BufReader<Stream>> {
        let mut stream = self.place.connect(TIMEOUT)?;
        let (host, bearer) = (self.place.host(), self.place.bearer());
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
        for (name, value) in
            [("if-match", if_match), ("last-event-id", after), ("authorization", bearer.as_deref())]
        {
            if let Some(value) = value.filter(|value| !value.contains(['\r', '\n'])) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        if let Some(body) = body {
            let length = body.len();
            head += &format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.unwrap_or_default())?;
        stream.flush()?;
        Ok(BufReader::new(stream))
    }
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no answer of a daemon: {why}"))
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(LINE_MAX).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8(line).map_err(|_| wrong("its head is no text"))?;
    Ok(line.trim_end().to_owned())
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Head> {
    let first = read_line(reader)?;
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| wrong("it begins with no status"))?;
    let mut head = Head { answer: Answer { status, ..Answer::default() }, ..Head::default() };
    for _ in 0..LINES_MAX {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok(head);
        }
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("a line has no name"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "etag" => head.answer.etag = Some(value.to_owned()),
            "content-length" => {
                let length = value.parse().map_err(|_| wrong("its length is no number"))?;
                head.length = Some(length);
            }
            "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    Err(wrong("its head is too long"))
}

/// A chunk; `None` at the end.
fn read_chunk(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let line = read_line(reader)?;
    let length = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16);
    let length = length.map_err(|_| wrong("a chunk has no length"))?;
    if length > BODY_MAX {
        return Err(wrong("a chunk is too long"));
    }
    let mut chunk = Vec::new();
    reader.take(length).read_to_end(&mut chunk)?;
    if chunk.len() as u64 != length || !read_line(reader)?.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((length > 0).then_some(chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_chunks_are_read() {
        let text = "HTTP/1.1 201 Created\r\nETag: \"7\"\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        let mut reader = text.as_bytes();
        let head = read_head(&mut reader).unwrap();
        assert_eq!((head.answer.status, head.answer.etag.as_deref()), (201, Some("\"7\"")));
        assert!(head.chunked);
        assert_eq!(read_chunk(&mut reader).unwrap().unwrap(), b"abc");
        assert_eq!(read_chunk(&mut reader).unwrap().unwrap(), b"de");
        assert_eq!(read_chunk(&mut reader).unwrap(), None);
    }

    /// A daemon that sent a byte now and then was waited for without end, and one that sent none was told of as
    /// "Resource temporarily unavailable".
    #[test]
    fn an_answer_has_so_long_with_all_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let (tell, told) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            let (mut near, _) = listener.accept().unwrap();
            while near.write_all(b"H").is_ok() {
                // Nobody says anything: this only takes its time.
                let _ended = told.recv_timeout(Duration::from_millis(20));
            }
        });
        let place = Place::Unix(path);
        let mut stream = place.connect(Duration::from_millis(200)).unwrap();
        let late = stream.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(late.to_string(), "it has not answered within 0.2 s");
        drop(tell);

        // A listener without room for one more: connecting would wait for ever.
        let path = directory.path().join("full.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _first = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let full = Place::Unix(path).connect(Duration::from_millis(50)).map(drop);
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in [
            "",
            "HTTP/1.1",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno name\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "SSH-2.0\r\n",
        ] {
            assert!(read_head(&mut text.as_bytes()).is_err(), "{text:?}");
        }
        for text in ["", "g\r\n", "3\r\nab", "3\r\nabcd\r\n", "ffffffffffffffff\r\n"] {
            assert!(read_chunk(&mut text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
