//! Every key of a configuration, for the manual's reference page and for people who look one up.
//!
//! A test compares the keys with those that the tables read.

/// A key of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRow {
    /// The table that has it: `server`, `listener`, `tls`, `device` or `vdisk`.
    pub table: &'static str,
    /// Its name.
    pub key: &'static str,
    /// The meaning, the values allowed and their units, in Markdown; links are from `docs/reference`.
    pub is: &'static str,
    /// The value that holds where it is left out.
    pub usual: &'static str,
}

const fn row(
    table: &'static str,
    key: &'static str,
    is: &'static str,
    usual: &'static str,
) -> KeyRow {
    KeyRow { table, key, is, usual }
}

/// Every key, table by table.
pub const KEYS: &[KeyRow] = &[
    row(
        "server",
        "nbd",
        "where clients connect, a list: `unix:PATH`, `tcp:ADDRESS:PORT`, beyond loopback \
         only under TLS; more, with virtual disks of their own, in tables `[[listener]]` \
         ([nbd.md](../nbd.md))",
        "has to be stated",
    ),
    row(
        "server",
        "tls",
        "whether they use TLS: `off`, `allow`, `require`; table `[tls]` names the \
         certificates ([nbd.md](../nbd.md))",
        "`off`",
    ),
    row("server", "mode", "the mode of its Unix sockets, octal", "`0600`; with a `group` `0660`"),
    row("server", "group", "the group of its Unix sockets, by name or number", "the daemon's"),
    row(
        "server",
        "memory",
        "the most memory for clients' data, `16MiB` to `1TiB`; a connection that finds no \
         room is refused",
        "a quarter of the machine's, at most `1GiB`",
    ),
    row(
        "server",
        "idle_timeout",
        "a client is disconnected when no byte came or went for so long, `1s` to `86400s`",
        "never",
    ),
    row(
        "server",
        "misses",
        "`unix:PATH` of a datagram socket where programs report missed deadlines",
        "none",
    ),
    row(
        "server",
        "state",
        "a directory that records where virtual disks lie, and which pool a device has",
        "beside the device's file or directory",
    ),
    row(
        "server",
        "control",
        "where operators find the API and the page, `unix:PATH`, `tcp:ADDRESS:PORT` or a \
         list of one of each; with a configuration it changes nothing \
         ([control.md](../control.md))",
        "none",
    ),
    row("server", "tokens", "the file of tokens for `control` over TCP", "`tokens` in `state`"),
    row(
        "listener",
        "nbd",
        "where clients connect: `unix:PATH` or `tcp:ADDRESS:PORT`",
        "has to be stated",
    ),
    row("listener", "vdisks", "names of the virtual disks that it reaches", "all"),
    row("listener", "tls", "as in `[server]`", "`off`"),
    row("listener", "mode", "the mode of a Unix socket, octal", "`0600`; with a `group` `0660`"),
    row("listener", "owner", "the owner of a Unix socket, by name or number", "the daemon's"),
    row("listener", "group", "the group of a Unix socket, by name or number", "the daemon's"),
    row(
        "tls",
        "certificate",
        "the server's certificate, and those between it and the authority, in PEM",
        "has to be stated",
    ),
    row("tls", "key", "its key, in PEM", "has to be stated"),
    row(
        "tls",
        "client_ca",
        "the authority of clients' certificates; then each client under TLS shows one",
        "clients show none",
    ),
    row("tls", "revoked", "lists of revoked certificates, in PEM; beside a `client_ca`", "none"),
    row("device", "name", "its name", "has to be stated"),
    row(
        "device",
        "back_end",
        "`memory`; `file:PATH` of a directory (a file for each disk), a regular file or a \
         block device (an extent for each disk); `raid0:PATH,PATH` (extents of stripes over \
         files or block devices); `tiered:FAST,SLOW` (extents of a slow file or block \
         device, the hottest of them on a fast one, [tiers.md](../tiers.md)); \
         `nbd://HOST:PORT/EXPORT` or `nbd+unix:///EXPORT?socket=PATH` (extents of another \
         server's export)",
        "has to be stated",
    ),
    row(
        "device",
        "create",
        "of `file:`, whether a directory is made where nothing is and nothing was recorded; \
         else a back end that is missing is an error",
        "`false`",
    ),
    row(
        "device",
        "chunk",
        "of `raid0:`, bytes of a stripe on one member, `4KiB` to `64MiB`",
        "`64KiB`",
    ),
    row(
        "device",
        "hold",
        "of an export, how long requests wait while its server is gone, `100ms` to `3600s`",
        "they fail at once",
    ),
    row(
        "device",
        "connections",
        "of an export, 1 to 16; more than one only where the server says that all see one \
         device",
        "4, else 1",
    ),
    row(
        "device",
        "profile",
        "the measured device profile, as `disktime device profile` saves it; rates and \
         latency bounds are admitted by it, and goals become shares",
        "none",
    ),
    row(
        "device",
        "quick_profile",
        "whether to probe the device for up to 2 s before serving, reads only, so that a \
         cost model that learns starts from a cost table; not beside a `profile`",
        "where the model learns",
    ),
    row(
        "device",
        "promotion",
        "of `tiered:`, the most disk time for migrations, when no other stream wants it or, \
         after a second, as best effort of weight 1; `0%` for none",
        "`10%`",
    ),
    row("device", "empty_fast", "of `tiered:`, everything goes back to the slow tier", "`false`"),
    row("device", "shards", "threads of the device, 1 to 9 ([shards.md](../shards.md))", "1"),
    row(
        "device",
        "emulate",
        "a preset, like `deskstar-34gxp` or `nearline-7200`; of `tiered:` one for each \
         tier, `flash-generic,nearline-7200`",
        "none",
    ),
    row(
        "device",
        "policy",
        "`disktime`; `zygaria` shares time without slices; `edf` and `scan-edf` order by \
         deadlines and keep no reservations; with `experimental = true` also those to \
         compare with ([rivals.md](../appendix/rivals.md)): `mclock`, `bfq`, `fifo` and \
         others",
        "`disktime`; `zygaria` on `memory`, where a switch costs nothing, unless its time is \
         emulated",
    ),
    row(
        "device",
        "experimental",
        "whether the device may have a policy to compare with, which keeps no promise",
        "`false`",
    ),
    row(
        "device",
        "slack",
        "of policy `zygaria`: the order in which streams get unclaimed time, by recent \
         `usage` or, with `experimental = true`, as `reward` does, requests of low cost \
         first",
        "`usage`",
    ),
    row(
        "device",
        "horizon",
        "the range of a stream's lag, `1ms` to `10s`: longer slices waste fewer seeks and \
         keep others waiting",
        "`350ms`",
    ),
    row(
        "device",
        "nominal_iops",
        "of the experimental policies that count requests (`mclock`, `zygaria-iops`): \
         requests per second that the whole device is taken for",
        "60",
    ),
    row(
        "device",
        "cost_model",
        "how the costs of pieces are estimated: `learned` while it runs \
         ([black-box.md](../black-box.md)), `fixed`, `priced`",
        "`learned` for `disktime`, else `fixed`",
    ),
    row(
        "device",
        "feedback",
        "the controller that shapes best effort when `soft-real-time` disks miss deadlines: \
         `adaptive`, `fixed`, `none`; experimental: `optimistic`, `pessimistic`; \
         [soft-real-time.md](../soft-real-time.md)",
        "`none`",
    ),
    row(
        "device",
        "feedback_token",
        "the unit in which best effort is counted: `time`, `data`, `request`",
        "`time`",
    ),
    row(
        "device",
        "feedback_min",
        "tokens per second that best effort always keeps; of `time`, 200 are the whole device",
        "10",
    ),
    row(
        "device",
        "feedback_rate",
        "of controller `fixed`: tokens per second that best effort has",
        "none",
    ),
    row(
        "device",
        "queue_depth",
        "requests at the device at once, 1 to 1024; at 1 charges are exact. `auto`: as few \
         as make it fast, within a tenth, by its `profile` or the quick probe, 32 where \
         neither says",
        "`auto` where costs are learned and no virtual disk is of a guaranteed class or \
         soft real time, else 1",
    ),
    row(
        "device",
        "depth_latency",
        "a virtual disk may have fewer requests at the device while the device answers it \
         later than that, `10us` to `10s` ([tiers.md](../tiers.md))",
        "no such law",
    ),
    row("device", "headroom", "share that can't be reserved", "`0%`"),
    row("vdisk", "name", "its name, which is the name of its export", "has to be stated"),
    row("vdisk", "device", "the name of its device", "has to be stated"),
    row("vdisk", "size", "its size: `10GiB`, a multiple of 512 bytes or not", "has to be stated"),
    row("vdisk", "reserve", "share of disk time it gets whenever it wants it", "`0%`"),
    row("vdisk", "limit", "share it never exceeds for long", "`100%`"),
    row(
        "vdisk",
        "iops",
        "in place of `reserve`: requests per second that it shall be enough for, by the \
         device's profile ([planning.md](../planning.md))",
        "none",
    ),
    row(
        "vdisk",
        "bandwidth",
        "in place of `reserve`: bytes per second that it shall be enough for",
        "none",
    ),
    row("vdisk", "request", "of a goal: bytes of a request", "`4KiB`, of a bandwidth `128KiB`"),
    row("vdisk", "run", "of a goal: how many requests follow one another in sequence", "1"),
    row(
        "vdisk",
        "weight",
        "its part of the disk time that is not reserved or not used, 1 to 10000",
        "100",
    ),
    row(
        "vdisk",
        "record",
        "a file for the trace of its requests, for the simulator; beside an older trace \
         `trace.1.csv`, `trace.2.csv` and so on",
        "none",
    ),
    row(
        "vdisk",
        "class",
        "its place in the order of service: `guaranteed-latency`, `guaranteed-rate`, \
         `best-effort` (and `soft-real-time`), `background`",
        "`best-effort`",
    ),
    row(
        "vdisk",
        "rate",
        "of a `guaranteed-rate` disk: kept in every cycle, like `8MB/s`; its reservation \
         follows from it",
        "none",
    ),
    row("vdisk", "cycle", "how often the rate is kept, `50ms` to `60s`", "chosen"),
    row(
        "vdisk",
        "admission",
        "`\"deterministic\"`, `{ statistical = \"1%\" }` (of cycles may be missed) or \
         `\"best-effort\"`",
        "`deterministic`",
    ),
    row(
        "vdisk",
        "access",
        "the operations at that rate: `read`, `write` or `both`",
        "`both`; of `iops` and `bandwidth` `read`",
    ),
    row(
        "vdisk",
        "latency",
        "of a `guaranteed-latency` disk: the bound on its response times while its load \
         stays within `reserve`, like `60ms`. For a `best-effort` or `soft-real-time` disk \
         it is no promise: such a disk goes at once whenever it was idle and its lag is \
         positive",
        "none",
    ),
    row("vdisk", "default", "whether it is the export of clients that name none", "`false`"),
    row("vdisk", "read_only", "whether clients can't change it", "`false`"),
    row("vdisk", "description", "a text for people who list exports", "its device's name"),
    row(
        "vdisk",
        "clients",
        "names in certificates, one of which a client must show",
        "all clients",
    ),
    row(
        "vdisk",
        "parent",
        "the virtual disk of whose contract its own is a part, on the same device and before it \
         in the file ([streams.md](../streams.md#families)): its `reserve` is a part of the \
         parent's, and the parent's `limit` holds for both",
        "none",
    ),
    row(
        "vdisk",
        "zone",
        "where it lies: `outer`, the start of the device, or `inner`, its end",
        "first fit from the start",
    ),
    row(
        "vdisk",
        "bitmaps",
        "names of bitmaps for incremental backups, up to 8 \
         ([how-to/incremental-backup.md](../how-to/incremental-backup.md))",
        "none",
    ),
    row(
        "vdisk",
        "bitmap_granularity",
        "bytes of a bitmap's block: a power of two, `4KiB` to `64MiB`",
        "`64KiB`",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Config;

    /// The keys that a table reads, as the error about an unknown one lists them.
    fn known(text: &str) -> BTreeSet<String> {
        let error = Config::parse(text).expect_err("no table has such a key").to_string();
        let (_, expected) = error.split_once("expected one of").expect("the error lists keys");
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_list_has_every_key_that_is_read_and_no_other() {
        for (table, text) in [
            ("server", "[server]\nzz = 1\n"),
            ("listener", "[server]\n[[listener]]\nzz = 1\n"),
            ("tls", "[server]\n[tls]\nzz = 1\n"),
            ("device", "[server]\n[[device]]\nzz = 1\n"),
            ("vdisk", "[server]\n[[vdisk]]\nzz = 1\n"),
        ] {
            let rows = KEYS.iter().filter(|row| row.table == table);
            let listed: Vec<String> = rows.map(|row| row.key.to_owned()).collect();
            let set: BTreeSet<String> = listed.iter().cloned().collect();
            assert_eq!(set.len(), listed.len(), "{table}: a key is listed twice");
            assert_eq!(set, known(text), "{table}: mend the list in config/reference.rs");
        }
    }
}
