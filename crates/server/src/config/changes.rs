//! Differences between two configurations, key by key, in the words of their files.
//!
//! Every key of a table has a row here; a test compares the rows with the tables.

use std::fmt;
use std::path::PathBuf;

use disktime_config::quantity::{rate_text, size_text};
use disktime_config::{CLASSES, QueueDepth, TOKENS};
use disktime_core::{Access, Admission, Duration};
use disktime_plan::goal::Demand;

use super::{Config, DeviceConfig, Door, SocketAccess, VdiskConfig};
use crate::backend::BackEndKind;
use crate::emulate::Emulate;
use crate::tls::TlsFiles;

/// A key that has another value than before, or what came or went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The owner of the key: a virtual disk's or a device's name, or `server`.
    pub of: String,
    /// Which of its keys.
    pub key: &'static str,
    /// The old value; empty if the owner was not there.
    pub old: String,
    /// The new value; empty if the owner is gone.
    pub new: String,
    /// Whether it can be changed while the daemon runs.
    pub live: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            |text: &str| if text.is_empty() { "nothing".to_owned() } else { text.to_owned() };
        let Self { of, key, old, new, live } = self;
        write!(f, "{of}: {key} {} -> {}", named(old), named(new))?;
        if *live {
            return Ok(());
        }
        write!(f, " can't be changed while running: restart")?;
        if *key == "queue_depth" {
            write!(f, ", or state a depth: it is 1 beside real-time classes unless it is stated")?;
        }
        Ok(())
    }
}

/// A key, and what it says; nothing if it is left out and has no default to name.
struct Key<Of> {
    name: &'static str,
    /// Whether the first value can become the second one while the daemon runs.
    live: fn(&Of, &Of) -> bool,
    value: fn(&Of) -> String,
}

const fn fixed<Of>(name: &'static str, value: fn(&Of) -> String) -> Key<Of> {
    Key { name, live: |_, _| false, value }
}

const fn live<Of>(name: &'static str, value: fn(&Of) -> String) -> Key<Of> {
    Key { name, live: |_, _| true, value }
}

/// A virtual disk's size, which may grow.
const SIZE: Key<Placed> = Key {
    name: "size",
    live: |(_, old), (_, new)| old.size <= new.size,
    value: |(_, it)| size_text(it.size),
};

const SERVER: [Key<Config>; 13] = [
    fixed("nbd", |it| list(it.listen.iter().map(ToString::to_string))),
    fixed("mode", |it| format!("{:04o}", it.access.mode)),
    fixed("group", |it| maybe(it.access.group, |group| group.to_string())),
    fixed("misses", |it| maybe(it.misses.as_ref(), |path| path.display().to_string())),
    fixed("control", |it| maybe(it.control.as_ref(), |path| path.display().to_string())),
    fixed("control", |it| maybe(it.web.as_ref(), |web| format!("tcp:{}", web.address))),
    fixed("tokens", |it| maybe(it.web.as_ref(), |web| web.tokens.display().to_string())),
    fixed("state", |it| maybe(it.state.as_ref(), |path| path.display().to_string())),
    fixed("memory", |it| size_text(it.memory)),
    fixed("idle_timeout", |it| maybe(it.idle_timeout, span)),
    fixed("tls", |it| format!("{:?}", it.tls).to_lowercase()),
    // Only the contents of the files are read again.
    fixed("table tls", |it| maybe(it.tls_files.as_ref(), files_text)),
    fixed("tables listener", |it| list(it.listeners.iter().map(door_text))),
];

const DEVICE: [Key<DeviceConfig>; 25] = [
    // First: others follow from it.
    fixed("queue_depth", |it| match it.scheduling.queue_depth {
        QueueDepth::Is(depth) => depth.to_string(),
        QueueDepth::Auto(_) => "auto".to_owned(),
    }),
    fixed("back_end", |it| it.back_end.identity().display().to_string()),
    fixed("create", |it| it.create.to_string()),
    fixed("chunk", |it| match &it.back_end {
        BackEndKind::Raid0 { chunk, .. } => size_text(*chunk),
        _ => String::new(),
    }),
    fixed("connections", |it| match &it.back_end {
        BackEndKind::Nbd { connections, .. } => maybe(*connections, |count| count.to_string()),
        _ => String::new(),
    }),
    fixed("hold", |it| match &it.back_end {
        BackEndKind::Nbd { hold, .. } => maybe(*hold, span),
        _ => String::new(),
    }),
    fixed("promotion", |it| it.promotion.to_string()),
    fixed("empty_fast", |it| it.empties_fast.to_string()),
    fixed("shards", |it| it.shards.to_string()),
    fixed("emulate", |it| maybe(it.emulate, Emulate::name)),
    fixed("profile", |it| maybe(it.scheduling.profile.as_ref(), |path| path.display().to_string())),
    fixed("policy", |it| it.scheduling.policy.name.to_owned()),
    fixed("experimental", |it| it.scheduling.experimental.to_string()),
    fixed("slack", |it| maybe(it.scheduling.policy.name.strip_prefix("zygaria-"), str::to_owned)),
    fixed("nominal_iops", |it| it.scheduling.nominal_iops.to_string()),
    fixed("cost_model", |it| it.scheduling.cost_model.clone()),
    fixed("horizon", |it| maybe(it.scheduling.horizon, span)),
    fixed("feedback", |it| it.scheduling.feedback.controller.name.to_owned()),
    fixed("feedback_token", |it| {
        let feedback = &it.scheduling.feedback;
        let token = TOKENS.into_iter().find(|(_, token)| *token == feedback.token);
        maybe(token, |(name, _)| name.to_owned())
    }),
    fixed("feedback_min", |it| it.scheduling.feedback.rate_min.to_string()),
    fixed("feedback_rate", |it| it.scheduling.feedback.rate_start.to_string()),
    fixed("depth_latency", |it| maybe(it.scheduling.depth_latency, span)),
    fixed("headroom", |it| it.scheduling.headroom.to_string()),
    fixed("quick_profile", |it| it.scheduling.quick_profile.to_string()),
    fixed("order of virtual disks", |it| list(it.vdisks.iter().map(|it| it.name.clone()))),
];

/// A virtual disk with its device's name.
type Placed = (String, VdiskConfig);

const VDISK: [Key<Placed>; 24] = [
    fixed("device", |(device, _)| device.clone()),
    SIZE,
    fixed("parent", |(_, it)| maybe(it.parent.clone(), |parent| parent)),
    fixed("zone", |(_, it)| maybe(it.zone, |zone| zone.to_string())),
    live("class", |(_, it)| {
        let class = CLASSES.into_iter().find(|(_, class)| *class == it.contract.class);
        maybe(class, |(name, _)| name.to_owned())
    }),
    live("reserve", |(_, it)| it.contract.reserve.to_string()),
    live("limit", |(_, it)| it.contract.limit.to_string()),
    live("weight", |(_, it)| it.contract.weight.to_string()),
    live("rate", |(_, it)| maybe(it.contract.rate, |rate| rate_text(rate.bytes_per_second))),
    live("cycle", |(_, it)| maybe(it.contract.rate.and_then(|rate| rate.cycle), span)),
    live("admission", |(_, it)| {
        maybe(it.contract.rate, |rate| match rate.admission {
            Admission::Deterministic => "deterministic".to_owned(),
            Admission::Statistical { miss } => format!("statistical {miss}"),
            Admission::BestEffort => "best-effort".to_owned(),
        })
    }),
    live("access", |(_, it)| {
        let access = it.contract.rate.map(|rate| rate.access);
        maybe(access.or(it.goal.map(|goal| goal.access)), |access| {
            match access {
                Access::Read => "read",
                Access::Write => "write",
                Access::Both => "both",
            }
            .to_owned()
        })
    }),
    live("iops", |(_, it)| match it.goal.and_then(|goal| goal.goal.demand) {
        Some(Demand::Requests(rate)) => rate.to_string(),
        _ => String::new(),
    }),
    live("bandwidth", |(_, it)| match it.goal.and_then(|goal| goal.goal.demand) {
        Some(Demand::Bytes(rate)) => rate_text(rate),
        _ => String::new(),
    }),
    live("request", |(_, it)| maybe(it.goal, |goal| size_text(goal.goal.request))),
    live("run", |(_, it)| maybe(it.goal, |goal| goal.goal.run.to_string())),
    live("latency", |(_, it)| maybe(it.contract.latency, span)),
    fixed("record", |(_, it)| maybe(it.record.as_ref(), |path| path.display().to_string())),
    fixed("default", |(_, it)| it.export.is_default.to_string()),
    fixed("read_only", |(_, it)| it.export.read_only.to_string()),
    fixed("description", |(_, it)| it.export.description.clone().unwrap_or_default()),
    fixed("clients", |(_, it)| list(it.export.clients.iter().cloned())),
    live("bitmaps", |(_, it)| list(it.bitmaps.names.iter().cloned())),
    fixed("bitmap_granularity", |(_, it)| size_text(it.bitmaps.granularity)),
];

/// The differences of a second configuration from a first one: server, devices, virtual disks.
pub(crate) fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let mut found = Vec::new();
    compare("server", &SERVER, Some(old), Some(new), &mut found);
    let names = |it: &Config| it.devices.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    let order = |it: &Config| list(names(it).into_iter());
    pairs(&names(old), &names(new), |name| {
        let find = |it: &Config| it.devices.iter().position(|it| it.name == name);
        let [old, new] = [old, new].map(|it| find(it).map(|at| &it.devices[at]));
        compare(name, &DEVICE, old, new, &mut found);
    });
    let disks = |it: &Config| it.vdisks().map(|(_, it)| it.name.clone()).collect::<Vec<_>>();
    pairs(&disks(old), &disks(new), |name| {
        let [old, new] = [old, new].map(|it| -> Option<Placed> {
            let (device, vdisk) = it.vdisks().find(|(_, it)| it.name == name)?;
            Some((device.name.clone(), vdisk.clone()))
        });
        compare(name, &VDISK, old.as_ref(), new.as_ref(), &mut found);
    });
    // Places are names to the engine: a file that swaps them swaps data and contracts.
    if found.is_empty() && order(old) != order(new) {
        let (of, key) = ("server".to_owned(), "order of devices");
        found.push(Change { of, key, old: order(old), new: order(new), live: false });
    }
    // Said once: what came or went changes the order as well.
    let moved = |it: &Change| !it.live && it.key != "order of virtual disks";
    if found.iter().any(moved) {
        found.retain(|it| it.key != "order of virtual disks");
    }
    found
}

/// Differences between two virtual disks of one name on one device.
pub(crate) fn vdisk_changes(device: &str, old: &VdiskConfig, new: &VdiskConfig) -> Vec<Change> {
    let mut found = Vec::new();
    let [before, after] = [old, new].map(|it| (device.to_owned(), it.clone()));
    compare(&old.name, &VDISK, Some(&before), Some(&after), &mut found);
    found
}

/// All names of both, each once: those of the first, then what the second has more.
fn pairs(old: &[String], new: &[String], mut each: impl FnMut(&str)) {
    let more = new.iter().filter(|name| !old.contains(name));
    old.iter().chain(more).for_each(|name| each(name));
}

fn compare<Of>(
    of: &str,
    keys: &[Key<Of>],
    old: Option<&Of>,
    new: Option<&Of>,
    found: &mut Vec<Change>,
) {
    let of = of.to_owned();
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (old, new) => {
            let there = |is: bool| if is { "there" } else { "" }.to_owned();
            let (old, new) = (there(old.is_some()), there(new.is_some()));
            found.push(Change { of, key: "entry", old, new, live: false });
            return;
        }
    };
    for Key { name, live, value } in keys {
        let live = live(old, new);
        let (old, new) = (value(old), value(new));
        if old != new {
            found.push(Change { of: of.clone(), key: name, old, new, live });
        }
    }
}

/// Certificates in the words of their table.
fn files_text(files: &TlsFiles) -> String {
    let TlsFiles { certificate, key, client_ca, revoked } = files;
    let all = [
        ("certificate", Some(certificate)),
        ("key", Some(key)),
        ("client_ca", client_ca.as_ref()),
        ("revoked", revoked.as_ref()),
    ];
    let text = |(name, path): (&str, Option<&PathBuf>)| Some(format!("{name} {}", path?.display()));
    list(all.into_iter().filter_map(text))
}

/// A listener in the words of its table.
fn door_text(door: &Door) -> String {
    let Door { listen, access: SocketAccess { mode, group, owner }, vdisks, tls } = door;
    let tls = format!("{tls:?}").to_lowercase();
    let mut text = format!("{listen} (tls {tls}, mode {mode:04o}");
    for (name, id) in [("owner", owner), ("group", group)] {
        text += &maybe(*id, |id| format!(", {name} {id}"));
    }
    text += &maybe(vdisks.as_ref(), |names| format!(", vdisks {}", list(names.iter().cloned())));
    text + ")"
}

fn maybe<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map(text).unwrap_or_default()
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn span(span: Duration) -> String {
    format!("{span:?}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use disktime_config::{ContractKeys, SchedulingKeys};

    use super::*;

    const TEXT: &str = r#"
[server]
nbd = ["unix:/tmp/a.sock"]
[[device]]
name = "disk"
back_end = "memory"
[[device]]
name = "other"
back_end = "memory"
[[vdisk]]
name = "db"
device = "disk"
size = "8GiB"
reserve = "70%"
[[vdisk]]
name = "mail"
device = "disk"
size = "1000B"
"#;

    fn said(change: impl Fn(String) -> String) -> Vec<String> {
        let read = |text: &str| Config::parse(text).unwrap();
        let text = TEXT.replace("1000B", "1024B");
        let found = changes(&read(&text), &read(&change(text.clone())));
        found.iter().map(ToString::to_string).collect()
    }

    /// The log showed the program's own structures, and a mode as 384.
    #[test]
    fn certificates_and_listeners_are_said_in_words_of_the_file() {
        let more = |text: String| {
            text + "[tls]\ncertificate = \"/a.pem\"\nkey = \"/a.key\"\n\
                    [[listener]]\nnbd = \"unix:/tmp/b.sock\"\nvdisks = [\"db\", \"mail\"]\ntls = \"require\"\n"
        };
        let fixed = "can't be changed while running: restart";
        let expected = [
            format!("server: table tls nothing -> certificate /a.pem, key /a.key {fixed}"),
            format!(
                "server: tables listener nothing -> unix:/tmp/b.sock (tls require, mode 0600, \
                 vdisks db, mail) {fixed}"
            ),
        ];
        assert_eq!(said(more), expected);
    }

    #[test]
    fn each_difference_is_said_with_its_values() {
        assert_eq!(said(|text| text), [""; 0]);
        let both = |text: String| {
            text.replace("70%", "60%")
                .replace("\"1024B\"", "\"1024B\"\nweight = 7\nlatency = \"60ms\"")
        };
        let expected =
            ["db: reserve 70% -> 60%", "mail: weight 100 -> 7", "mail: latency nothing -> 60ms"];
        assert_eq!(said(both), expected);
        let restart = "can't be changed while running: restart";
        assert_eq!(said(|it| it.replace("8GiB", "16GiB")), ["db: size 8GiB -> 16GiB"]);
        let smaller = said(|it| it.replace("8GiB", "4GiB"));
        assert_eq!(smaller, [format!("db: size 8GiB -> 4GiB {restart}")]);
        let gone = said(|it| it[..it.rfind("[[vdisk]]").unwrap()].to_owned());
        assert_eq!(gone, [format!("mail: entry there -> nothing {restart}")]);
        let moved = said(|it| it.replacen("device = \"disk\"", "device = \"other\"", 1));
        assert_eq!(moved, [format!("db: device disk -> other {restart}")]);
        let swapped = said(|it| {
            let (first, rest) = (it.find("[[vdisk]]").unwrap(), it.rfind("[[vdisk]]").unwrap());
            format!("{}{}{}", &it[..first], &it[rest..], &it[first..rest])
        });
        let order = "disk: order of virtual disks db, mail -> mail, db";
        assert_eq!(swapped, [format!("{order} {restart}")]);
        let swapped = said(|it| {
            it.replace("disk\"\nback", "x")
                .replace("\"other\"\nb", "\"disk\"\nb")
                .replace("\"x", "\"other\"\nback")
        });
        assert_eq!(
            swapped,
            [format!("server: order of devices disk, other -> other, disk {restart}")]
        );
    }

    /// Keys that a table takes, as it says itself when it meets another one.
    fn keys_of(table: &str) -> BTreeSet<String> {
        let text = TEXT.replacen(table, &format!("{table}\nno_such_key = 1"), 1);
        let error = Config::parse(&text).unwrap_err().to_string();
        let (_, known) = error.split_once("expected one of ").expect("the keys there are");
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// A reload compared what somebody had thought of: a new key could be changed and was ignored.
    #[test]
    fn every_key_of_the_tables_is_compared() {
        fn rows<Of>(keys: &[Key<Of>], more: &[&str]) -> BTreeSet<String> {
            let names = keys.iter().map(|key| key.name).filter(|name| !name.contains(' '));
            names.chain(more.iter().copied()).map(str::to_owned).collect()
        }
        assert_eq!(keys_of("[server]"), rows(&SERVER, &[]));
        assert_eq!(keys_of("[[device]]"), rows(&DEVICE, &["name"]));
        assert_eq!(keys_of("[[vdisk]]"), rows(&VDISK, &["name"]));
    }

    /// A key that says how time is shared was the daemon's alone until somebody missed it in a
    /// scenario. One that is not shared stands here, and names bytes, places or a profile's use.
    #[test]
    fn keys_that_scenarios_lack_are_few_and_named() {
        let with = |shared: &[&str], own: &[&str]| -> BTreeSet<String> {
            shared.iter().chain(own).map(|key| (*key).to_owned()).collect()
        };
        let bytes =
            ["back_end", "create", "chunk", "connections", "hold", "promotion", "empty_fast"];
        let device = [&["name", "emulate", "shards"][..], &bytes].concat();
        assert_eq!(keys_of("[[device]]"), with(SchedulingKeys::NAMES, &device));
        let place = ["name", "device", "size", "parent", "zone", "record"];
        let goal = ["iops", "bandwidth", "request", "run"];
        let export = ["default", "read_only", "description", "clients"];
        let bitmaps = ["bitmaps", "bitmap_granularity"];
        let vdisk = [&place[..], &goal, &export, &bitmaps].concat();
        assert_eq!(keys_of("[[vdisk]]"), with(ContractKeys::NAMES, &vdisk));
    }
}
