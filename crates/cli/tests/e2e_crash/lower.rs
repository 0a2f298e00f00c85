//! The storage below the daemon under test: files of this machine, or a disk with a write cache
//! that forgets, served by this process and reached over NBD, FUSE or a loop device on FUSE.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use disktime_server::backend::volatile::Volatile;
use disktime_server::{Config, Server, Wrap};

/// The kind of storage below the back end's files or exports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Below {
    /// The file system that temporary files are on.
    Own,
    /// Files that nbdfuse shows of the lower server.
    Fuse,
    /// Loop devices with direct I/O on those.
    Loop,
    /// The lower server itself.
    Remote,
}

impl Below {
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "this machine's",
            Self::Fuse => "fuse",
            Self::Loop => "loop on fuse",
            Self::Remote => "nbd",
        }
    }
}

/// Two files, devices or exports.
pub struct Lower {
    below: Below,
    pub disk: Volatile,
    directory: PathBuf,
    files: [PathBuf; 2],
    bytes: [u64; 2],
    server: Option<Server>,
    mounts: Vec<Child>,
    loops: Vec<String>,
}

impl Lower {
    /// Makes them; regular files have these paths.
    pub fn new(below: Below, directory: &Path, files: [PathBuf; 2], bytes: [u64; 2]) -> Self {
        for (path, bytes) in files.iter().zip(bytes) {
            let file = File::create(path).unwrap();
            if below == Below::Own {
                file.set_len(bytes).unwrap();
            }
        }
        let mut lower = Self {
            below,
            disk: Volatile::new(&bytes),
            directory: directory.to_owned(),
            files,
            bytes,
            server: None,
            mounts: Vec::new(),
            loops: Vec::new(),
        };
        lower.up();
        lower
    }

    /// The path of the file or block device; the same after each start.
    pub fn path(&self, at: usize) -> PathBuf {
        if self.below == Below::Loop { self.link(at) } else { self.files[at].clone() }
    }

    fn link(&self, at: usize) -> PathBuf {
        self.directory.join(format!("device-{at}"))
    }

    pub fn uri(&self, at: usize) -> String {
        format!("nbd+unix:///d{at}?socket={}/lower.sock", self.directory.display())
    }

    /// Brings up everything that lies below, with what has survived.
    pub fn up(&mut self) {
        if self.below == Below::Own {
            return;
        }
        self.server = Some(self.serve());
        if self.below == Below::Remote {
            return;
        }
        for (at, path) in self.files.iter().enumerate() {
            let mut command = Command::new("nbdfuse");
            let mount = command.arg(path).arg(self.uri(at)).stderr(Stdio::null()).spawn();
            self.mounts.push(mount.unwrap());
            let shown = || std::fs::metadata(path).is_ok_and(|it| it.len() == self.bytes[at]);
            wait_until(&format!("{} is not mounted", path.display()), shown);
        }
        if self.below == Below::Loop {
            for at in 0..self.files.len() {
                let device = attach(&self.files[at]);
                let link = self.link(at);
                let _not_there_yet = std::fs::remove_file(&link);
                symlink(&device, link).unwrap();
                self.loops.push(device);
            }
        }
    }

    fn serve(&self) -> Server {
        let mut text = format!(
            "[server]\nnbd = [\"unix:{}/lower.sock\"]\n[[device]]\nname = \"d\"\n\
             back_end = \"memory\"\nqueue_depth = 8\n",
            self.directory.display()
        );
        for (at, bytes) in self.bytes.iter().enumerate() {
            text += &format!("[[vdisk]]\nname = \"d{at}\"\ndevice = \"d\"\nsize = \"{bytes}B\"\n");
        }
        let disk = self.disk.clone();
        let wrap: Wrap = Arc::new(move |_, _| Box::new(disk.back_end()));
        Server::start_wrapped(Config::parse(&text).unwrap(), &wrap).unwrap()
    }

    /// Takes it all down, even while it is used: only bytes in a disk's cache survive.
    pub fn down(&mut self) {
        for device in self.loops.drain(..) {
            run_quietly("losetup", &["-d", &device]);
        }
        for (mount, path) in self.mounts.drain(..).zip(&self.files) {
            let mut mount = mount;
            run_quietly("fusermount3", &["-u", "-z", &path.to_string_lossy()]);
            // Its connection ends, and with it whatever a killed daemon had under way there.
            let _ended_already = mount.kill();
            let _status = mount.wait();
        }
        if let Some(server) = self.server.take() {
            server.shutdown().unwrap();
        }
    }
}

impl Drop for Lower {
    fn drop(&mut self) {
        self.down();
    }
}

fn attach(file: &Path) -> String {
    let mut command = Command::new("losetup");
    let output = command.args(["--find", "--show", "--direct-io=on"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn run_quietly(program: &str, arguments: &[&str]) {
    let _says_why_itself = Command::new(program).args(arguments).stdin(Stdio::null()).status();
}

/// Waits for something that comes soon.
pub fn wait_until(otherwise: &str, mut there: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if there() {
            return;
        }
        nap(Duration::from_millis(5));
    }
    panic!("{otherwise} after 10 s");
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test waits in real time")]
pub fn nap(span: Duration) {
    std::thread::sleep(span);
}

#[expect(clippy::disallowed_methods, reason = "an end-to-end test takes real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Why this can't lie below here, if so: tried once, with what it takes.
pub fn lacking(below: Below) -> Option<String> {
    let programs: &[&str] = match below {
        Below::Own | Below::Remote => &[],
        Below::Fuse => &["nbdfuse", "fusermount3"],
        Below::Loop => &["nbdfuse", "fusermount3", "losetup"],
    };
    let runs = |program: &&&str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if let Some(program) = programs.iter().find(|program| !runs(program)) {
        return Some(format!("{program} is not installed"));
    }
    let devices: &[&str] = match below {
        Below::Own | Below::Remote => &[],
        Below::Fuse => &["/dev/fuse"],
        Below::Loop => &["/dev/fuse", "/dev/loop-control"],
    };
    let opens = |path: &&&str| File::options().read(true).write(true).open(path).is_ok();
    devices.iter().find(|path| !opens(path)).map(|path| format!("{path} can't be opened"))
}
