//! Costs of pieces, as a running daemon and a simulation show them.

use std::path::Path;
use std::process::Command;

use disktime_client::{Connection, Uri};

use crate::support::{DISKS, Daemon, run};

/// Nothing was sent, then reads of 4 KiB.
#[test]
fn a_daemon_that_is_asked_shows_what_it_knows_of_costs() {
    let mut daemon = Daemon::start(DISKS);
    daemon.signal("USR1");
    let said = daemon.error_line();
    assert!(said.contains("no costs are known"), "{said}");
    for disk in ["mem", "file"] {
        let mut client = Connection::open(&daemon.uri(disk).parse::<Uri>().unwrap()).unwrap();
        let mut data = vec![0; 4096];
        (0..20).for_each(|at| client.read(at * 65_536, &mut data).unwrap());
    }
    daemon.signal("USR1");
    let header = daemon.error_line();
    assert!(header.contains("costs µs") && header.contains("drift %"), "{header}");
    let mut rows = [daemon.error_line(), daemon.error_line()];
    rows.sort();
    for (row, disk) in rows.iter().zip(["file", "mem"]) {
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[..3], [disk, "random-read", "4096"], "{row}");
        assert!(words[3].parse::<f64>().unwrap() > 0.0, "{row}");
    }
    assert!(daemon.end("TERM").1);
}

#[test]
fn a_simulation_shows_what_was_learned() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flash.toml");
    let text = r#"
[scenario]
duration = "5s"
[device]
queue_depth = 32
[device.model]
kind = "flash"
capacity = "8GiB"
channels = 2
dies_per_channel = 2
later = { after = "3s", program = "1200us" }
[[stream]]
name = "reads"
reserve = "30%"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "1GiB" }, sizes = "64KiB" }
pace = { closed = { outstanding = 16 } }
[[stream]]
name = "writes"
reserve = "60%"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "1GiB" }, sizes = "64KiB", reads = "0%" }
pace = { closed = { outstanding = 16 } }
[[stream]]
name = "one at a time"
reserve = "10%"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "1GiB" }, sizes = "64KiB" }
pace = { closed = { outstanding = 1 } }
"#;
    std::fs::write(&path, text).unwrap();
    let sim = |arguments: &[&str], path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        run(command.args(["sim", "run"]).arg(path).args(arguments))
    };
    let runs: serde_json::Value = serde_json::from_str(&sim(&["--json"], &path)).unwrap();
    // The third is the others' guest: it makes their pieces longer than it takes alone.
    let prices = [(0, "random-read", Some(1.933)), (1, "random-write", Some(46.148))];
    for (stream, kind, price) in prices.into_iter().chain([(2, "random-read", None)]) {
        let costs = runs[0]["streams"][stream]["costs"].as_array().unwrap();
        // Now and then a random request lands behind the one before: that is another kind.
        let cost = costs.iter().find(|cost| cost["kind"] == kind).unwrap();
        assert_eq!(cost["basis"], "learned", "{costs:?}");
        assert!(cost["cost_ns"].as_u64().unwrap() > 1000, "{costs:?}");
        assert!(cost["plus_minus_percent"].is_number(), "{costs:?}");
        assert!(cost["drift_percent"].is_null(), "no profile, no drift: {costs:?}");
        assert_eq!(cost["guest_price"].as_f64(), price, "{costs:?}");
    }
    let text = sim(&[], &path);
    assert!(text.contains("drift %") && text.contains("random-write"), "{text}");
}
