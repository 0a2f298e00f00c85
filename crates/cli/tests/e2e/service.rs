//! The daemon as a service: its sockets from systemd, what it tells systemd; and TLS with other
//! projects' clients.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::needs;
use crate::support::{DISKS, finish, python, run, words};

/// Ends the daemon that it holds.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

fn configured(directory: &Path, server: &str) -> String {
    let text =
        format!("[server]\n{server}{DISKS}").replace("DIRECTORY", directory.to_str().unwrap());
    let path = directory.join("disktime.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The daemon starts with its first client, which waits for it and notices nothing; the socket stays
/// when the daemon ends.
#[test]
fn systemd_hands_over_its_sockets() {
    needs!("systemd_hands_over_its_sockets", "systemd-socket-activate", "nbdinfo");
    let directory = tempfile::TempDir::new().unwrap();
    let socket = directory.path().join("nbd.sock");
    let nbd = format!("nbd = [\"unix:{}\"]\n", socket.display());
    let config = configured(directory.path(), &nbd);
    let mut command = Command::new("systemd-socket-activate");
    command.arg("-l").arg(&socket).args([env!("CARGO_BIN_EXE_disktime"), "serve", "--config"]);
    let quiet = command.arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    let daemon = Ends(quiet.spawn().unwrap());
    while !socket.exists() {
        std::thread::yield_now();
    }
    let uri = format!("nbd+unix:///file?socket={}", socket.display());
    let info = words(&["nbdinfo", "--json", &uri]);
    assert!(info.contains("\"export-size\": 67108864"), "{info}");
    words(&["kill", "-TERM", &daemon.0.id().to_string()]);
    let mut daemon = daemon;
    assert!(daemon.0.wait().unwrap().success());
    assert!(socket.exists(), "the socket is systemd's");
}

/// Waits for a datagram; answers its lines.
fn told(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let count = socket.recv(&mut bytes).expect("the daemon tells systemd in time");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn systemd_is_told_how_the_daemon_stands() {
    let directory = tempfile::TempDir::new().unwrap();
    let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    // The control plane asks every 200 ms: the thread that feeds the watchdog was never without a
    // question for half its span, and a daemon with a control socket was killed as one that hangs.
    let sockets =
        "nbd = [\"unix:DIRECTORY/nbd.sock\"]\ncontrol = \"unix:DIRECTORY/control.sock\"\n";
    let config = configured(directory.path(), sockets);
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["serve", "--config", &config]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("NOTIFY_SOCKET", directory.path().join("notify")).env("WATCHDOG_USEC", "900000");
    let mut daemon = Ends(command.spawn().unwrap());
    assert_eq!(told(&socket).trim(), "READY=1");
    assert_eq!(told(&socket).trim(), "WATCHDOG=1", "every thread answers");
    let next = |socket: &UnixDatagram| loop {
        let text = told(socket);
        if text.trim() != "WATCHDOG=1" {
            return text;
        }
    };
    words(&["kill", "-HUP", &daemon.0.id().to_string()]);
    let reloading = next(&socket);
    assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="));
    assert_eq!(next(&socket).trim(), "READY=1\nSTATUS=");
    // `systemctl reload` succeeds, and the reason for which nothing changed was in the journal alone.
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("queue_depth = 8", "queue_depth = 4")).unwrap();
    words(&["kill", "-HUP", &daemon.0.id().to_string()]);
    assert!(next(&socket).contains("RELOADING=1"));
    let status =
        "STATUS=The last reload changed nothing: disk: queue_depth 8 -> 4 can't be changed";
    let told = next(&socket);
    assert!(told.contains(status), "{told}");
    words(&["kill", "-TERM", &daemon.0.id().to_string()]);
    assert_eq!(next(&socket).trim(), "STOPPING=1");
    assert!(daemon.0.wait().unwrap().success());
}

/// Makes a certificate of its own for a name, and a directory as other projects' clients want it.
fn certificates(directory: &Path) {
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    words(&[
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-keyout",
        &path("server-key.pem"),
        "-out",
        &path("ca-cert.pem"),
    ]);
}

/// Clients with GnuTLS: libnbd's programs and QEMU's.
#[test]
fn other_clients_come_under_tls() {
    needs!(
        "other_clients_come_under_tls",
        "openssl",
        "nbdinfo",
        "nbdcopy",
        "nbdsh",
        "qemu-img",
        "qemu-nbd"
    );
    let directory = tempfile::TempDir::new().unwrap();
    certificates(directory.path());
    let server = "nbd = [\"unix:DIRECTORY/nbd.sock\", \"tcp:127.0.0.1:0\"]\ntls = \"require\"\n\
                  [tls]\ncertificate = \"DIRECTORY/ca-cert.pem\"\nkey = \"DIRECTORY/server-key.pem\"\n";
    let config = configured(directory.path(), server);
    let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
    command.args(["serve", "--json", "--config", &config]).stderr(Stdio::null());
    let mut daemon = Ends(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    let output = daemon.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    let disks: serde_json::Value = serde_json::from_str(&line).unwrap();
    let uri = disks[1]["uris"][1].as_str().unwrap().replace("127.0.0.1", "localhost");
    assert!(uri.starts_with("nbds://"), "{uri}");
    let secure = format!("{uri}?tls-certificates={}", directory.path().display());
    let info = words(&["nbdinfo", "--json", &secure]);
    assert!(info.contains("\"TLS\": true") && info.contains("67108864"), "{info}");
    let list = words(&["nbdinfo", "--list", &secure]);
    assert!(list.contains("export=\"mem\""), "{list}");
    let data: Vec<u8> = (0..9_000_001u32).map(|at| at.wrapping_mul(77).to_le_bytes()[2]).collect();
    let (source, copy) = (directory.path().join("in"), directory.path().join("out"));
    std::fs::write(&source, &data).unwrap();
    words(&["nbdcopy", source.to_str().unwrap(), &secure]);
    words(&["nbdcopy", &secure, copy.to_str().unwrap()]);
    assert!(std::fs::read(&copy).unwrap()[..data.len()] == data);
    let port = uri.split([':', '/']).nth(4).unwrap();
    let credentials =
        format!("tls-creds-x509,id=t,endpoint=client,dir={}", directory.path().display());
    let options = format!("driver=nbd,host=localhost,port={port},export=file,tls-creds=t");
    let compared = words(&[
        "qemu-img",
        "compare",
        "--object",
        &credentials,
        "--image-opts",
        &options,
        &format!("driver=raw,file.driver=file,file.filename={}", copy.display()),
    ]);
    assert!(compared.contains("identical"), "{compared}");
    let list = words(&[
        "qemu-nbd",
        "--list",
        "--object",
        &credentials,
        "--tls-creds",
        "t",
        "--bind",
        "localhost",
        "--port",
        port,
    ]);
    assert!(list.contains("export: 'mem'") && list.contains("base:allocation"), "{list}");
    let script = "
import nbd, sys
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_certificates(sys.argv[1])
h.set_tls_verify_peer(True)
h.set_export_name('file')
h.connect_tcp('localhost', sys.argv[2])
assert h.get_tls_negotiated() and h.get_size() == 64 << 20
h.pwrite(b'under TLS' * 1000, 1 << 20)
h.flush()
assert h.pread(9000, 1 << 20) == b'under TLS' * 1000
h.shutdown()
";
    run(python(script).arg(directory.path()).arg(port));
    // In the clear nothing is told.
    let plain = uri.replace("nbds:", "nbd:");
    let refused = finish(Command::new("nbdinfo").arg(&plain));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("replied with error"), "{said}");
}
