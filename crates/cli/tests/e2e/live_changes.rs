//! SIGHUP: contracts change live, whole or not at all.

use crate::support::{DISKS, Daemon};

#[test]
fn contracts_change_whole_or_not_at_all() {
    let mut daemon = Daemon::start(DISKS);
    let said = daemon.reload(&DISKS.replacen("50%", "80%", 1));
    assert!(said.contains("INFO") && said.ends_with("mem: reserve 50% -> 80%\n"), "{said}");
    let said = daemon.reload(&DISKS.replacen("50%", "80%", 1));
    assert!(said.contains("nothing changed: the configuration is as it was"), "{said}");
    let restart = "can't be changed while running: restart";
    let second = DISKS.replace("device = \"disk\"", "device = \"ram\"");
    let said = daemon.reload(&second);
    assert!(
        said.contains(&format!("nothing changed: file: device disk -> ram {restart}")),
        "{said}"
    );
    let said = daemon.reload(&DISKS.replacen("50%", "120%", 1));
    assert!(said.contains("nothing changed") && said.contains("reserve = \"120%\""), "{said}");
    let said = daemon.reload(&DISKS.replacen("64MiB", "65MiB", 1));
    assert!(
        said.contains(&format!("nothing changed: mem: size 64MiB -> 65MiB {restart}")),
        "{said}"
    );
    let said = daemon.reload(DISKS);
    assert!(said.ends_with("mem: reserve 80% -> 50%\n"), "{said}");
    assert!(daemon.end("TERM").1);
}

/// A depth that was found out is no depth for deadlines.
#[test]
fn a_change_that_adds_promises_is_told_why_it_takes_a_restart() {
    let deep = DISKS.replace("queue_depth = 8\n", "");
    let mut daemon = Daemon::start(&deep);
    let rate = "class = \"guaranteed-rate\"\nrate = \"1MB/s\"\nadmission = \"best-effort\"";
    let promises = format!("{}{rate}\n", deep.trim_end().trim_end_matches("reserve = \"50%\""));
    let said = daemon.reload(&promises);
    assert!(
        said.contains("disk: queue_depth auto -> 1") && said.contains("1 beside real-time"),
        "{said}"
    );
    // A found depth is not a stated one.
    let stated = promises.replace("back_end = \"file", "queue_depth = 32\nback_end = \"file");
    let mut said = daemon.reload(&stated);
    while !said.contains("disk: queue_depth auto -> 32 can't be changed") {
        assert!(said.contains("nothing changed: disk: "), "{said}");
        said = daemon.error_line();
    }
    assert!(daemon.end("TERM").1);
}
