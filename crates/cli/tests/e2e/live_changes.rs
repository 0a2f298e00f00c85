//! SIGHUP: contracts change live, whole or not at all.

use crate::support::{DISKS, Daemon};

#[test]
fn contracts_change_whole_or_not_at_all() {
    let mut daemon = Daemon::start(DISKS);
    let said = daemon.reload(&DISKS.replacen("50%", "80%", 1));
    assert!(said.contains("contracts changed"), "{said}");
    let second = DISKS.replace("device = \"disk\"", "device = \"ram\"");
    let said = daemon.reload(&second);
    assert!(
        said.contains("nothing changed") && said.contains("the list of virtual disks"),
        "{said}"
    );
    let said = daemon.reload(&DISKS.replacen("50%", "120%", 1));
    assert!(said.contains("nothing changed") && said.contains("reserve = \"120%\""), "{said}");
    let said = daemon.reload(&DISKS.replacen("64MiB", "65MiB", 1));
    assert!(said.contains("nothing changed") && said.contains("a size"), "{said}");
    let said = daemon.reload(DISKS);
    assert!(said.contains("contracts changed"), "{said}");
    assert!(daemon.end("TERM").1);
}
