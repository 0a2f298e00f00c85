//! A recorded virtual disk, replayed by the simulator.

use std::process::Command;

use disktime_client::{Connection, Uri};
use serde_json::Value;

use crate::support::{DISKS, Daemon, run};

const SCENARIO: &str = r#"
[scenario]
duration = "1h"
window = "1h"
[device]
preset = "deskstar-34gxp"
[[stream]]
name = "recorded"
reserve = "50%"
[stream.replay]
path = "t.csv"
extent = { end = "64MiB" }
"#;

#[test]
fn a_recorded_disk_is_replayed_with_all_requests_and_bytes() {
    let recorded =
        DISKS.replacen("name = \"mem\"", "name = \"mem\"\nrecord = \"DIRECTORY/t.csv\"", 1);
    let daemon = Daemon::start(&recorded);
    let mut client = Connection::open(&daemon.uri("mem").parse::<Uri>().unwrap()).unwrap();
    let (mut requests, mut bytes) = (0, 0);
    for index in 0..200_u64 {
        let size = 512 << (index % 8);
        let offset = index * 7919 * 512 % (32 << 20);
        let mut data = vec![1; size];
        if index % 3 == 0 {
            client.write(offset, &data, false).unwrap();
        } else {
            client.read(offset, &mut data).unwrap();
        }
        requests += 1;
        bytes += size as u64;
    }
    client.flush().unwrap();
    requests += 1;
    client.disconnect().unwrap();
    let (directory, ended_well) = daemon.end("TERM");
    assert!(ended_well);
    let scenario = directory.path().join("s.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let out = directory.path().join("reports");
    let text = run(Command::new(env!("CARGO_BIN_EXE_disktime"))
        .args(["sim", "run", "--json", "--out"])
        .args([&out, &scenario]));
    let runs: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(runs[0]["requests"], requests);
    let rate = runs[0]["streams"][0]["bytes_per_second"].as_f64().unwrap();
    assert!((rate * 3600.0 - bytes as f64).abs() < 0.5, "{rate} bytes/s, {bytes} bytes");
    for name in ["utilization", "queue-time", "service-time"] {
        let drawing = std::fs::read_to_string(out.join(format!("seed-1-{name}.svg"))).unwrap();
        assert!(drawing.starts_with("<svg") && drawing.contains("recorded"), "{name}");
    }
    assert_eq!(std::fs::read_to_string(out.join("windows.csv")).unwrap().lines().count(), 2);
}
