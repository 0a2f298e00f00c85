//! Where clients connect: `unix:PATH` or `tcp:ADDRESS:PORT`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use disktime_client::{Address, Uri};

/// The longest path of a Unix socket in bytes: the system's 108, one of them for the end.
const PATH_MAX: usize = 107;

/// Users that may connect to a Unix socket, beside root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketAccess {
    /// The mode of the socket's file.
    pub mode: u32,
    /// Its group, by number; else the daemon's own.
    pub group: Option<u32>,
    /// Its owner, by number; else the daemon's user.
    pub owner: Option<u32>,
}

impl Default for SocketAccess {
    /// The daemon's user alone.
    fn default() -> Self {
        Self { mode: 0o600, group: None, owner: None }
    }
}

impl SocketAccess {
    /// From the keys `mode` and `group`; or which of them is wrong, and what is allowed.
    pub(super) fn parse(
        mode: Option<&str>,
        group: Option<&str>,
    ) -> Result<Self, (&'static str, String)> {
        let group = group.map(group_number).transpose().map_err(|why| ("group", why))?;
        // A group that may not connect would be of no use.
        let usual = if group.is_some() { 0o660 } else { 0o600 };
        let Some(text) = mode else {
            return Ok(Self { mode: usual, group, owner: None });
        };
        let digits = text.len() <= 4 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let mode = u32::from_str_radix(text, 8).ok().filter(|_| digits);
        let mode = mode.filter(|mode| mode & !0o777 == 0 && mode & 0o600 == 0o600);
        let why = "an octal mode from `0600` to `0777` that lets the daemon's user read and write, \
                   like `0660`";
        mode.map(|mode| Self { mode, group, owner: None }).ok_or_else(|| ("mode", why.to_owned()))
    }
}

/// A group of this machine, by its name or number.
fn group_number(text: &str) -> Result<u32, String> {
    number_in(GROUPS, "group", text)
}

/// A user of this machine, by its name or number.
pub(super) fn user_number(text: &str) -> Result<u32, String> {
    number_in(USERS, "user", text)
}

/// The number of a name in one of the system's lists.
fn number_in(list: &str, what: &str, text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let lines = std::fs::read_to_string(list).unwrap_or_default();
    let number = lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| format!("no {what} of that name in {list}: name one, or say its number"))
}

/// Where the system's groups and users are listed.
const GROUPS: &str = "/etc/group";
const USERS: &str = "/etc/passwd";

/// A listener's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address on this machine.
    Tcp(SocketAddr),
}

impl Listen {
    /// The URI under which an export is reached here with TLS.
    #[must_use]
    pub fn tls_uri(&self, export: &str) -> String {
        self.uri(export).replacen("nbd", "nbds", 1)
    }

    /// The URI under which an export is reached here.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        match self {
            Self::Unix(path) => {
                let address = Address::Unix { path: path.clone() };
                Uri { address, export: export.to_owned() }.to_string()
            }
            Self::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    /// Any address: whether it may be one beyond this machine depends on its TLS.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if path.len() > PATH_MAX => Err(format!(
                "a Unix socket's path has at most {PATH_MAX} bytes, this one has {}: choose a shorter one",
                path.len()
            )),
            Some(("unix", path)) if path.contains('\0') => {
                Err("a path has no NUL: name the file of a Unix socket".to_owned())
            }
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => match address.parse::<SocketAddr>() {
                Ok(address) => Ok(Self::Tcp(address)),
                Err(_) => {
                    Err("an address is like `tcp:127.0.0.1:10809` or `tcp:[::1]:10809`, with a \
                               port from 0 to 65535"
                        .to_owned())
                }
            },
            _ => Err("a listener is `unix:PATH` or `tcp:ADDRESS:PORT`".to_owned()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_groups() {
        let parse = |mode, group| SocketAccess::parse(mode, group);
        assert_eq!(parse(None, None), Ok(SocketAccess::default()));
        let group = |mode| Ok(SocketAccess { mode, group: Some(0), owner: None });
        assert_eq!(parse(None, Some("root")), group(0o660));
        assert_eq!(parse(Some("600"), Some("0")), group(0o600));
        assert_eq!(parse(Some("0666"), None).map(|it| it.mode), Ok(0o666));
        for mode in ["0440", "1660", "0o660", "rw", "", "+660", "00660", "88"] {
            assert!(parse(Some(mode), None).is_err_and(|(key, _)| key == "mode"), "{mode}");
        }
        let unknown = parse(None, Some("no such group"));
        assert!(unknown.is_err_and(|(key, why)| key == "group" && why.contains("/etc/group")));
    }

    /// libnbd did not understand the address that was printed for a directory with a blank in its name.
    #[test]
    fn what_is_no_part_of_an_address_is_encoded_in_it() {
        let uri = |path: &str| Listen::Unix(path.into()).uri("db");
        assert_eq!(uri("/run/nbd.sock"), "nbd+unix:///db?socket=/run/nbd.sock");
        assert_eq!(uri("/my disks/a#b?.sock"), "nbd+unix:///db?socket=/my%20disks/a%23b%3F.sock");
        let read: Uri = uri("/my disks/100%.sock").parse().unwrap();
        assert_eq!(read.address, Address::Unix { path: "/my disks/100%.sock".into() });
    }

    /// A path of 108 bytes and more was only found out at the bind, as "is another server running?".
    #[test]
    fn a_path_is_no_longer_than_the_system_takes() {
        let path = |bytes: usize| format!("unix:/{}", "x".repeat(bytes - 1)).parse::<Listen>();
        assert!(path(107).is_ok());
        let why = path(108).unwrap_err();
        assert!(why.contains("at most 107 bytes, this one has 108"), "{why}");
        let why = "unix:a\0b".parse::<Listen>().unwrap_err();
        assert!(
            why.contains("no NUL"),
            "it passed `--check`, and was refused by the system: {why}"
        );
    }
}
