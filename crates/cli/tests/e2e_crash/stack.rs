//! A daemon under test on a back end of each kind.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use disktime_client::Connection;
use tempfile::TempDir;

use crate::lower::{Below, Lower, nap, wait_until};

/// Bytes of the virtual disk.
pub const BYTES: u64 = 12 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Directory,
    Image,
    Raid0,
    Tiers,
    Nbd,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Image => "image",
            Self::Raid0 => "raid0",
            Self::Tiers => "tiered",
            Self::Nbd => "nbd",
        }
    }

    /// Bytes of the two files, devices or exports. The fast tier has room for the map and three
    /// extents.
    fn bytes(self) -> [u64; 2] {
        match self {
            Self::Directory | Self::Image | Self::Nbd => [BYTES, 4096],
            Self::Raid0 => [BYTES / 2, BYTES / 2],
            Self::Tiers => [4 << 20, BYTES],
        }
    }

    fn back_end(self, directory: &Path, lower: &Lower) -> String {
        let [one, other] = [0, 1].map(|at| lower.path(at).display().to_string());
        match self {
            Self::Directory => format!("\"file:{}/pool\"\ncreate = true", directory.display()),
            Self::Image => format!("\"file:{one}\""),
            Self::Raid0 => format!("\"raid0:{one},{other}\""),
            Self::Tiers => format!("\"tiered:{one},{other}\"\npromotion = \"100%\""),
            Self::Nbd => format!("\"{}\"", lower.uri(0)),
        }
    }
}

/// The daemon, and what lies below. The daemon ends first.
pub struct Stack {
    daemon: Option<Child>,
    pub lower: Lower,
    directory: TempDir,
}

impl Stack {
    pub fn new(kind: Kind, below: Below) -> Self {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("pool")).unwrap();
        let files: [PathBuf; 2] = match kind {
            Kind::Directory => [at("pool/v.raw"), at("other")],
            _ => [at("one"), at("other")],
        };
        let lower = Lower::new(below, directory.path(), files, kind.bytes());
        let back_end = kind.back_end(directory.path(), &lower);
        let text = format!(
            "[server]\nnbd = [\"unix:{here}/upper.sock\"]\nstate = \"{here}/state\"\n\
             [[device]]\nname = \"d\"\nback_end = {back_end}\nqueue_depth = 8\n\
             [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"{BYTES}B\"\n",
            here = directory.path().display()
        );
        std::fs::write(at("disktime.toml"), text).unwrap();
        let mut stack = Self { daemon: None, lower, directory };
        stack.start();
        stack
    }

    /// Starts the daemon, at once after a kill too: it waits for what the dying one still holds.
    pub fn start(&mut self) {
        assert!(self.try_start(false), "the daemon does not start: {}", self.said());
    }

    /// Another daemon takes this one's place, which ends.
    pub fn take_over(&mut self) {
        let predecessor = self.daemon.take();
        let taken = self.try_start(true);
        if let Some(mut predecessor) = predecessor {
            assert!(taken, "no take-over: {}", self.said());
            assert!(predecessor.wait().unwrap().success(), "{}", self.said());
        }
    }

    /// The daemon's log since its start.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("daemon.log")).unwrap()
    }

    fn try_start(&mut self, takes_over: bool) -> bool {
        let path = self.directory.path().join("daemon.log");
        if !takes_over {
            File::create(&path).unwrap();
        }
        let log = File::options().append(true).open(path).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        command.arg("serve").args(takes_over.then_some("--take-over")).arg("--config");
        command.arg(self.directory.path().join("disktime.toml"));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        // The first line is printed once clients can connect.
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        if line.is_empty() {
            let _status = child.wait();
            return false;
        }
        self.daemon = Some(child);
        true
    }

    /// Waits until nothing is written below any more.
    pub fn rest(&self) {
        let mut seen = self.lower.disk.seen();
        wait_until("tiers never rest", || {
            nap(Duration::from_millis(200));
            let now = self.lower.disk.seen();
            now == std::mem::replace(&mut seen, now)
        });
    }

    /// Restarts tiers with what is promoted by now, and moves no more.
    pub fn stop_moving(&mut self) {
        self.kill();
        let path = self.directory.path().join("disktime.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text.replace("\"100%\"", "\"0%\"")).unwrap();
        self.start();
    }

    pub fn connect(&self) -> Connection {
        let socket = self.directory.path().join("upper.sock");
        let uri = format!("nbd+unix:///v?socket={}", socket.display());
        Connection::open(&uri.parse().unwrap()).unwrap()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ended_already = daemon.kill();
            let _status = daemon.wait();
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.kill();
    }
}
