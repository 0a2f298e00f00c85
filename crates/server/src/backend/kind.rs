//! The back ends that a configuration can name.

use std::path::PathBuf;

use disktime_client::Uri;

use crate::buffers::ALIGN;

/// Bytes of a stripe on one member unless `chunk` says otherwise.
pub const CHUNK_DEFAULT: u64 = 64 << 10;
const CHUNK_MAX: u64 = 64 << 20;
/// Members of a striped device.
const MEMBERS_MAX: usize = 32;

const KNOWN: &str = "use `memory`; `file:PATH` of a directory, a regular file or a block device; \
                     `raid0:PATH,PATH` of files and block devices; `tiered:FAST,SLOW`, each a file or \
                     block device; `nbd://HOST:PORT/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`";

/// The back ends there are. Parses from the key `back_end`; other keys add the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackEndKind {
    /// Contents in this process's memory, gone when it ends.
    Memory,
    /// Extents of a regular file or block device; or one raw file per virtual disk in a directory.
    File(PathBuf),
    /// Extents of regular files or block devices that take turns, a chunk each.
    Raid0 {
        /// The members, in the order in which they take turns.
        members: Vec<PathBuf>,
        /// Bytes of a turn.
        chunk: u64,
    },
    /// Extents of a slow regular file or block device, the hottest of them on a fast one.
    Tiered {
        /// The fast tier.
        fast: PathBuf,
        /// The slow tier.
        slow: PathBuf,
    },
    /// Extents of an NBD server's export.
    Nbd {
        /// Which.
        uri: Uri,
        /// Connections to it; else four if the server says that several see one device, and one
        /// if not.
        connections: Option<u32>,
        /// How long requests are held while the server is gone; else they fail at once.
        hold: Option<disktime_core::Duration>,
    },
}

impl BackEndKind {
    /// The paths that it names.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Memory | Self::Nbd { .. } => Vec::new(),
            Self::File(path) => vec![path.clone()],
            Self::Raid0 { members, .. } => members.clone(),
            Self::Tiered { fast, slow } => vec![fast.clone(), slow.clone()],
        }
    }

    /// How a layout's record names the device: whatever changes this changes what is where.
    #[must_use]
    pub fn identity(&self) -> PathBuf {
        match self {
            Self::Memory => "memory".into(),
            Self::File(path) => path.clone(),
            Self::Raid0 { members, chunk } => {
                let members: Vec<_> = members.iter().map(|path| path.to_string_lossy()).collect();
                format!("raid0:{} in chunks of {chunk} bytes", members.join(",")).into()
            }
            Self::Tiered { fast, slow } => {
                format!("tiered:{},{}", fast.to_string_lossy(), slow.to_string_lossy()).into()
            }
            Self::Nbd { uri, .. } => uri.to_string().into(),
        }
    }
}

impl std::str::FromStr for BackEndKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "memory" => Ok(Self::Memory),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("raid0", paths)) => {
                let members = members("raid0", paths, MEMBERS_MAX)?;
                Ok(Self::Raid0 { members, chunk: CHUNK_DEFAULT })
            }
            Some(("tiered", paths)) => {
                let mut tiers = members("tiered", paths, 2)?.into_iter();
                let next =
                    |tiers: &mut std::vec::IntoIter<PathBuf>| tiers.next().expect("two paths");
                Ok(Self::Tiered { fast: next(&mut tiers), slow: next(&mut tiers) })
            }
            Some(("nbd" | "nbd+unix", _)) => {
                let uri = text.parse::<Uri>().map_err(|error| error.to_string())?;
                Ok(Self::Nbd { uri, connections: None, hold: None })
            }
            _ => Err(format!("`{text}` is no back end: {KNOWN}")),
        }
    }
}

fn members(kind: &str, paths: &str, most: usize) -> Result<Vec<PathBuf>, String> {
    let members: Vec<PathBuf> = paths.split(',').map(|path| path.trim().into()).collect();
    if !(2..=most).contains(&members.len()) || members.iter().any(|path| *path == *"") {
        let range = if most == 2 { "2".to_owned() } else { format!("2 to {most}") };
        return Err(format!("{kind} has {range} paths with commas between them"));
    }
    for (at, path) in members.iter().enumerate() {
        if members[..at].contains(path) {
            return Err(format!("{} is named twice: each member is another one", path.display()));
        }
    }
    Ok(members)
}

/// Whether a stripe may be so long.
///
/// # Errors
/// If not, the error says what is allowed.
pub fn check_chunk(bytes: u64) -> Result<(), String> {
    if (ALIGN as u64..=CHUNK_MAX).contains(&bytes) && bytes.is_multiple_of(ALIGN as u64) {
        return Ok(());
    }
    Err(format!("a chunk is 4KiB to {}MiB in steps of 4KiB", CHUNK_MAX >> 20))
}
