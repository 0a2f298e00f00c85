//! `record`: a virtual disk's live requests as a trace.

use disktime_client::{Connection, Uri};

use crate::support::{DISKS, Daemon};

#[test]
fn live_requests_become_a_trace() {
    let recorded =
        DISKS.replacen("name = \"mem\"", "name = \"mem\"\nrecord = \"DIRECTORY/t.csv\"", 1);
    let daemon = Daemon::start(&recorded);
    let mut client = Connection::open(&daemon.uri("mem").parse::<Uri>().unwrap()).unwrap();
    client.write(4096, &[1; 8192], false).unwrap();
    client.read(5000, &mut [0; 100]).unwrap();
    client.flush().unwrap();
    client.trim(0, 4096).unwrap();
    client.disconnect().unwrap();
    let (directory, ended_well) = daemon.end("TERM");
    assert!(ended_well);
    let text = std::fs::read_to_string(directory.path().join("t.csv")).unwrap();
    let (times, rest): (Vec<u64>, Vec<&str>) = text
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').unwrap())
        .map(|(time, rest)| (time.parse::<u64>().unwrap(), rest))
        .unzip();
    assert_eq!(text.lines().next(), Some("time_ns,op,offset,bytes"));
    assert_eq!(rest, ["write,4096,8192", "read,5000,100", "flush,0,0", "trim,0,4096"]);
    assert!(times[0] == 0 && times.is_sorted() && times[3] > 0, "{times:?}");
}
