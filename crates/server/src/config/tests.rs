//! Good configurations, and an error for every way to get one wrong.

use disktime_config::QueueDepth;
use disktime_core::{Access, Admission, Class, Contract, Duration};
use disktime_plan::goal::Demand;

use super::*;
use crate::backend::BackEndKind;

const GOOD: &str = r#"
[server]
nbd = ["unix:/run/disktime.sock", "tcp:127.0.0.1:10809"]

[[device]]
name = "disk"
back_end = "memory"
emulate = "deskstar-34gxp"
headroom = "5%"

[[vdisk]]
name = "a"
device = "disk"
size = "1GiB"
reserve = "70%"
zone = "inner"

[[vdisk]]
name = "b"
device = "disk"
size = "1000MB"
reserve = "12.5%"
limit = "50%"
weight = 300
class = "best-effort"
"#;

fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    Config::parse(&GOOD.replacen(from, to, 1)).expect_err(to).to_string()
}

#[test]
fn a_good_one_says_what_it_says() {
    let config = Config::parse(GOOD).unwrap();
    let device = &config.devices[0];
    let layout = device.lay_out(device.room(), &[]).unwrap();
    assert_eq!(layout.iter().map(|extent| extent.start).collect::<Vec<_>>(), [0, 18_550 << 20]);
    assert_eq!(
        (device.scheduling.policy.name, device.scheduling.queue_depth),
        ("disktime", QueueDepth::Is(1))
    );
    assert_eq!(device.scheduling.horizon, None);
    let contract = device.vdisks[1].contract;
    assert_eq!(
        (contract.reserve.ppm(), contract.limit.ppm(), contract.weight),
        (125_000, 500_000, 300)
    );
    assert_eq!(contract.class, Class::BestEffort);
    let background = GOOD.replacen("best-effort", "background", 1).replacen("12.5%", "0%", 1);
    let background = Config::parse(&background).unwrap();
    assert_eq!(background.devices[0].vdisks[1].contract.class, Class::Background);
    let uris: Vec<_> = config.listen.iter().map(|listen| listen.uri("a")).collect();
    assert_eq!(uris, ["nbd+unix:///a?socket=/run/disktime.sock", "nbd://127.0.0.1:10809/a"]);
}

/// With one text in place of another the configuration is refused, and the error says so.
fn says(cases: &[(&str, &str, &str)]) {
    for (from, to, says) in cases {
        let error = error(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn bitmaps_that_can_not_be_are_refused() {
    let with = |keys: &str| format!("{keys}\nreserve = \"70%\"");
    let says_of = |keys: &str, says: &str| {
        self::says(&[("reserve = \"70%\"", &with(keys), says)]);
    };
    says_of("bitmaps = [\"a\"]", "bitmaps = \"a\": bitmaps are kept in the directory that `state`");
    says_of("bitmaps = [\"a\", \"a\"]", "bitmaps = \"a\": the name of another one too");
    says_of("bitmaps = [\"a b\"]", "bitmaps = \"a b\": 1 to");
    let nine = (0..9).map(|at| format!("\"b{at}\"")).collect::<Vec<_>>().join(", ");
    says_of(&format!("bitmaps = [{nine}]"), "at most 8 bitmaps");
    for granularity in ["2KiB", "128MiB", "65KiB"] {
        let keys = format!("bitmap_granularity = \"{granularity}\"");
        let says =
            format!("bitmap_granularity = \"{granularity}\": a power of two from 4KiB to 64MiB");
        says_of(&keys, &says);
    }
    let large = TEXT_OF_LARGE.replace("GRANULARITY", "64KiB");
    let error = Config::parse(&large).unwrap_err().to_string();
    assert!(error.contains("at most 67108864 blocks: for 8TiB at least 128KiB"), "{error}");
    assert!(Config::parse(&TEXT_OF_LARGE.replace("GRANULARITY", "128KiB")).is_ok());
}

const TEXT_OF_LARGE: &str = r#"
[server]
nbd = ["unix:/tmp/a.sock"]
state = "/var/lib/disktime"
[[device]]
name = "disk"
back_end = "file:/srv/disks"
[[vdisk]]
name = "db"
device = "disk"
size = "8TiB"
bitmaps = ["daily"]
bitmap_granularity = "GRANULARITY"
"#;

#[test]
fn each_error_names_the_key_the_value_and_what_is_allowed() {
    says(&[
        ("\"70%\"", "\"30\"", "vdisk a: reserve = \"30\": a share is 0% to 100%"),
        ("\"70%\"", "\"-5%\"", "vdisk a: reserve = \"-5%\": a share is 0% to 100%"),
        ("\"70%\"", "\"90%\"", "reservations come to 102.5000%, 95% may be reserved"),
        ("\"50%\"", "\"10%\"", "reserve = \"12.5%\": at most the limit, 10%"),
        ("\"50%\"", "\"0%\"", "limit = \"0%\": above 0%"),
        ("300", "0", "weight = \"0\": a weight is 1 to 10000"),
        ("\"best-effort\"", "\"fast\"", "no such class; there are: guaranteed-latency"),
        ("\"1GiB\"", "\"1\"", "size = \"1\": a size is a whole number and a unit"),
        ("\"1GiB\"", "\"511B\"", "a size is 512 to"),
        ("\"1GiB\"", "\"100GiB\"", "the largest free extent has 20525137920: make it smaller"),
        ("reserve = \"70%\"", "reserves = \"70%\"", "unknown field `reserves`"),
        ("headroom = \"5%\"", "queue_depth = 1.5", "a queue depth is a whole number, or `auto`"),
        ("[server]", "[server]\ntls = \"yes\"", "server.tls = \"yes\": "),
        ("[server]", "[server]\ncontrol = 3", "`unix:PATH` or `tcp:ADDRESS:PORT`, or a list"),
        (
            "[server]",
            "[server]\ncontrol = \"tcp:127.0.0.1:99999\"",
            "server.control = \"tcp:127.0.0.1:99999\": an address is like `tcp:127.0.0.1:10809` or \
             `tcp:[::1]:10809`, with a port from 0 to 65535",
        ),
        (
            "[server]",
            "[server]\ncontrol = \"tcp:0.0.0.0:7070\"",
            "in a table `[tls]` or by --tls-certificate and --tls-key",
        ),
        ("headroom", "head_room", "unknown field `head_room`"),
        (
            "[server]",
            "[server]\nmisses = \"unix:\"",
            "server.misses = \"unix:\": a Unix datagram socket",
        ),
        (
            "[server]",
            "[server]\nmisses = \"tcp:127.0.0.1:1\"",
            "a Unix datagram socket is `unix:PATH`",
        ),
        (
            "[server]",
            "[server]\nmisses = \"unix:/run/disktime.sock\"",
            "a listener's path: choose another",
        ),
        ("\"memory\"", "\"tape\"", "back_end = \"tape\": `tape` is no back end: use `memory`"),
        ("\"memory\"", "\"memory\"\ncreate = true", "only a `file:` back end's directory is made"),
        ("\"memory\"", "\"raid0:/a\"", "back_end = \"raid0:/a\": raid0 has 2 to 32 paths"),
        ("\"memory\"", "\"raid0:/a,/b,/a\"", "/a is named twice"),
        ("\"memory\"", "\"memory\"\nchunk = \"64KiB\"", "only a `raid0:` back end has chunks"),
        ("\"memory\"", "\"tiered:/a\"", "back_end = \"tiered:/a\": tiered has 2 paths"),
        ("\"memory\"", "\"tiered:/a,/b,/c\"", "tiered has 2 paths with commas between them"),
        ("\"memory\"", "\"tiered:/a,/a\"", "/a is named twice"),
        ("\"memory\"", "\"tiered:/a,/b\"", "tiers are emulated one by one: name two presets"),
        ("\"deskstar-34gxp\"", "\"exp-ssd,exp\"", "only a `tiered:` back end has two presets"),
        (
            "\"memory\"",
            "\"memory\"\npromotion = \"5%\"",
            "promotion = \"5%\": only a `tiered:` back end promotes extents",
        ),
        (
            "\"memory\"",
            "\"memory\"\nempty_fast = true",
            "empty_fast = \"true\": only a `tiered:` back end has a fast tier",
        ),
        (
            "\"memory\"\nemulate = \"deskstar-34gxp\"",
            "\"tiered:/a,/b\"\nempty_fast = true\npromotion = \"0%\"",
            "empty_fast = \"true\": moving needs time, and `promotion` gives it none",
        ),
        (
            "\"memory\"",
            "\"raid0:/a,/b\"\nchunk = \"6000B\"",
            "a chunk is 4KiB to 64MiB in steps of",
        ),
        ("\"memory\"", "\"raid0:/a,/b\"\nchunk = \"1GiB\"", "chunk = \"1GiB\": a chunk is 4KiB to"),
        ("\"memory\"", "\"nbd+unix:///x\"", "socket: nbd+unix needs it"),
        (
            "\"memory\"",
            "\"nbd://h/x\"\nconnections = 17",
            "connections = \"17\": a server gets 1 to 16",
        ),
        ("\"memory\"", "\"memory\"\nshards = 0", "shards = \"0\": a device has 1 to 9 threads"),
        ("\"memory\"", "\"memory\"\nshards = 10", "shards = \"10\": a device has 1 to 9 threads"),
        ("\"memory\"", "\"memory\"\nconnections = 2", "only an `nbd:` or `nbd+unix:` back end"),
        ("\"deskstar-34gxp\"", "\"deskstar\"", "no such preset; there are: "),
        ("name = \"b\"", "name = \"a\"", "vdisk.name = \"a\": the name of another one too"),
        ("name = \"b\"", "name = \"../b\"", "letters, digits"),
        ("device = \"disk\"", "device = \"dusk\"", "no such device; there are: disk"),
        ("127.0.0.1", "0.0.0.0", "beyond loopback addresses"),
        ("unix:/run/disktime.sock", "/run/disktime.sock", "a listener is `unix:PATH`"),
    ]);
    let none = Config::parse("[server]\nnbd = []").expect_err("no listener").to_string();
    assert!(none.contains("at least one"), "{none}");
}

/// These keys state in which order requests go, and in which unit accounts count.
#[test]
fn each_error_of_an_order_names_the_key_the_value_and_what_is_allowed() {
    says(&[
        (
            "headroom = \"5%\"",
            "policy = \"best\"",
            "policy = \"best\": known are disktime, zygaria, edf, scan-edf; with `experimental = true`",
        ),
        (
            "headroom = \"5%\"",
            "policy = \"fifo\"",
            "policy = \"fifo\": known are disktime, zygaria, edf, scan-edf; with `experimental = true`",
        ),
        (
            "headroom = \"5%\"",
            "policy = \"fifo\"\nexperimental = false",
            "also, to compare with, zygaria-reward, zygaria-iops, fifo, elevator",
        ),
        (
            "headroom = \"5%\"",
            "policy = \"best\"\nexperimental = true",
            "policy = \"best\": policy `best` is not known; known are: disktime zygaria",
        ),
        (
            "headroom = \"5%\"",
            "policy = \"zygaria\"\nslack = \"reward\"",
            "slack = \"reward\": policy zygaria-reward, which orders slack so, is there to compare with: set",
        ),
        ("headroom = \"5%\"", "cost_model = \"best\"", "known are: fixed"),
        (
            "headroom = \"5%\"",
            "slack = \"reward\"",
            "policy disktime has no such rule, only `zygaria`",
        ),
        (
            "headroom = \"5%\"",
            "policy = \"zygaria\"\nslack = \"last\"",
            "slack = \"last\": slack goes by `usage` or in the order of `reward`",
        ),
        (
            "headroom = \"5%\"",
            "horizon = \"350\"",
            "device disk: horizon = \"350\": a time is a whole number and a unit",
        ),
        (
            "headroom = \"5%\"",
            "depth_latency = \"40ms\"",
            "depth_latency = \"40ms\": with a queue_depth of 1 no depth can shrink",
        ),
        (
            "\"deskstar-34gxp\"",
            "\"nearline-7200\"\nqueue_depth = 2\ndepth_latency = \"11s\"",
            "depth_latency = \"11s\": the device may take 10µs to 10s",
        ),
        (
            "\"deskstar-34gxp\"",
            "\"nearline-7200\"\nqueue_depth = 2\ndepth_latency = \"40\"",
            "depth_latency = \"40\": a time is a whole number and a unit",
        ),
        ("headroom = \"5%\"", "horizon = \"0ms\"", "horizon = \"0ms\": a horizon is 1ms to 10s"),
        ("headroom = \"5%\"", "horizon = \"11s\"", "horizon = \"11s\": a horizon is 1ms to 10s"),
        ("headroom = \"5%\"", "feedback = \"kind\"", "known are none, adaptive, fixed; with"),
        (
            "headroom = \"5%\"",
            "feedback = \"adaptive\"\nfeedback_token = \"byte\"",
            "feedback_token = \"byte\": no such token; there are: time, data, request",
        ),
        (
            "headroom = \"5%\"",
            "feedback_token = \"data\"",
            "feedback_token = \"data\": only a `feedback` controller has it",
        ),
        (
            "headroom = \"5%\"",
            "feedback = \"adaptive\"\nfeedback_min = 0",
            "feedback_min = \"0\": feedback.rate_min = 0: it must be 1 to 10000",
        ),
        ("headroom = \"5%\"", "feedback_min = 5", "only a `feedback` controller has it"),
        (
            "headroom = \"5%\"",
            "feedback = \"fixed\"",
            "feedback = \"fixed\": state `feedback_rate`, in tokens per second",
        ),
        (
            "headroom = \"5%\"",
            "feedback = \"adaptive\"\nfeedback_rate = 50",
            "feedback_rate = \"50\": only controller `fixed` has a rate",
        ),
        ("headroom = \"5%\"", "feedback_rate = 50", "only controller `fixed` has a rate"),
        (
            "headroom = \"5%\"",
            "feedback = \"fixed\"\nfeedback_min = 20\nfeedback_rate = 19",
            "feedback_rate = \"19\": feedback.rate_start = 19: it must be 20 to 1000000; `feedback_min`",
        ),
        (
            "headroom = \"5%\"",
            "nominal_iops = 90",
            "nominal_iops = \"90\": policy disktime counts disk time, only zygaria-iops, mclock",
        ),
        (
            "headroom = \"5%\"",
            "policy = \"mclock\"\nexperimental = true\nnominal_iops = 0",
            "nominal_iops = \"0\": a device does 1 to 1000000000 requests a second",
        ),
        ("headroom = \"5%\"", "queue_depth = 2", "queue_depth = \"2\": this device takes 1 to 1"),
        ("headroom = \"5%\"", "queue_depth = -1", "queue_depth = \"-1\": this device takes"),
        ("headroom = \"5%\"", "queue_depth = \"deep\"", "this device takes 1 to 1, or `auto`"),
        ("weight = 300", "zone = \"middle\"", "zone = \"middle\": a zone is `outer`"),
        ("emulate = \"deskstar-34gxp\"", "", "zone = \"inner\": device disk has no start and end"),
    ]);
}

/// How deep its device goes if no number says so.
fn depth_of(back_end: &str, lines: &str, vdisk: &str) -> QueueDepth {
    let text = format!(
        "[server]\nnbd = [\"unix:/x\"]\n[[device]]\nname = \"d\"\nback_end = \"{back_end}\"\n{lines}\n\
         [[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"1GiB\"\n{vdisk}\n"
    );
    let config = Config::parse(&text).unwrap();
    config.devices[0].scheduling.queue_depth
}

#[test]
fn a_queue_depth_is_found_out_where_costs_are_learned_and_there_are_no_deadlines() {
    use QueueDepth::{Auto, Is};
    let file = "file:/srv";
    assert_eq!(depth_of(file, "", ""), Auto(1024));
    assert_eq!(depth_of(file, "queue_depth = \"auto\"", "class = \"background\""), Auto(1024));
    assert_eq!(depth_of(file, "cost_model = \"learned\"", "reserve = \"5%\""), Auto(1024));
    assert_eq!(depth_of("memory", "emulate = \"nearline-7200\"", ""), Auto(32));
    let promise = "class = \"guaranteed-rate\"\nrate = \"1MB/s\"\nadmission = \"best-effort\"";
    for (back_end, lines, vdisk) in [
        (file, "", promise),
        (file, "", "class = \"soft-real-time\""),
        (file, "policy = \"zygaria\"", ""),
        (file, "cost_model = \"fixed\"", ""),
        ("memory", "", ""),
        ("memory", "emulate = \"deskstar-34gxp\"", ""),
    ] {
        assert_eq!(depth_of(back_end, lines, vdisk), Is(1), "{back_end} {lines} {vdisk}");
    }
    assert_eq!(depth_of(file, "queue_depth = 9", promise), Is(9), "whoever says so");
    assert_eq!((Auto(1024).on(None), Auto(8).on(None), Is(7).on(Some(9))), (32, 8, 7));
}

/// A file's disk in a tenant's: reservations of children are parts of their parent's.
#[test]
fn a_parent_is_a_virtual_disk_before_its_children() {
    let child = |keys: &str| error("class = \"best-effort\"", keys);
    let good = GOOD.replacen("class = \"best-effort\"", "parent = \"a\"", 1);
    let config = Config::parse(&good.replace("12.5%", "45%")).unwrap();
    let device = &config.devices[0];
    let places: Vec<_> = device.vdisks.iter().map(|vdisk| device.parent_of(vdisk)).collect();
    assert_eq!(places, [None, Some(0)]);
    let allowed =
        "name a virtual disk of device disk that stands before this one and has no parent";
    for name in ["b", "c"] {
        let said = child(&format!("parent = \"{name}\""));
        assert!(said.contains(allowed) && said.contains("vdisk b"), "{said}");
    }
    let said = error("zone = \"inner\"", "parent = \"b\"");
    assert!(said.contains(allowed) && said.contains("vdisk a"), "{said}");
    let third = "parent = \"a\"\n[[vdisk]]\nname = \"c\"\ndevice = \"disk\"\nsize = \"1GiB\"\nparent = \"b\"";
    let said = child(third);
    assert!(said.contains(allowed) && said.contains("vdisk c"), "{said}");
    let goal = GOOD.replacen("reserve = \"12.5%\"", "iops = 5\nparent = \"a\"", 1);
    let said = Config::parse(&goal).unwrap_err().to_string();
    assert!(said.contains("parent = \"a\": a goal makes a reservation of its own"), "{said}");
}

/// Nothing but the key lets a device have a policy that promises nothing.
#[test]
fn a_device_has_a_rival_where_experimental_says_so() {
    for entry in disktime_rivals::REGISTRY {
        let keys = |experimental| format!("policy = \"{}\"\n{experimental}", entry.name);
        let parse = |keys: &str| Config::parse(&GOOD.replacen("headroom = \"5%\"", keys, 1));
        assert!(parse(&keys("")).is_err(), "{entry:?}");
        let config = parse(&keys("experimental = true")).unwrap();
        assert_eq!(config.devices[0].scheduling.policy, entry);
    }
}

#[test]
fn a_device_has_a_controller_to_compare_with_where_experimental_says_so() {
    for entry in disktime_rivals::CONTROLLERS {
        let keys = |experimental| format!("feedback = \"{}\"\n{experimental}", entry.name);
        let parse = |keys: &str| Config::parse(&GOOD.replacen("headroom = \"5%\"", keys, 1));
        let error = parse(&keys("")).unwrap_err().to_string();
        assert!(error.contains("with `experimental = true` also"), "{error}");
        let config = parse(&keys("experimental = true")).unwrap();
        assert_eq!(config.devices[0].scheduling.feedback.controller, *entry);
    }
}

#[test]
fn slack_in_rewards_order_is_a_policy() {
    for (slack, policy) in [("usage", "zygaria"), ("reward", "zygaria-reward")] {
        let keys = format!("policy = \"zygaria\"\nexperimental = true\nslack = \"{slack}\"");
        let config = Config::parse(&GOOD.replacen("headroom = \"5%\"", &keys, 1)).unwrap();
        assert_eq!(config.devices[0].scheduling.policy.name, policy);
    }
}

#[test]
fn a_controller_says_how_it_shapes() {
    use disktime_core::feedback::{FeedbackConfig, Token};
    let keys = "feedback = \"adaptive\"\nfeedback_token = \"data\"\nfeedback_min = 25";
    let config = Config::parse(&GOOD.replacen("headroom = \"5%\"", keys, 1)).unwrap();
    let named = |name| disktime_rivals::controller(name).unwrap();
    let (controller, token, rate_min) = (named("adaptive"), Token::Data, 25);
    let expected = FeedbackConfig { controller, token, rate_min, ..FeedbackConfig::default() };
    assert_eq!(config.devices[0].scheduling.feedback, expected);
    let keys = "feedback = \"fixed\"\nfeedback_rate = 50";
    let config = Config::parse(&GOOD.replacen("headroom = \"5%\"", keys, 1)).unwrap();
    let (controller, rate_start) = (named("fixed"), 50);
    let expected = FeedbackConfig { controller, rate_start, ..FeedbackConfig::default() };
    assert_eq!(config.devices[0].scheduling.feedback, expected);
}

#[test]
fn a_policy_that_counts_requests_is_told_how_many_there_are() {
    let device = |keys: &str| {
        let config = Config::parse(&GOOD.replacen("headroom = \"5%\"", keys, 1)).unwrap();
        config.devices[0].clone()
    };
    let usual = device("policy = \"zygaria-iops\"\nexperimental = true");
    let told = device("policy = \"zygaria-iops\"\nexperimental = true\nnominal_iops = 90");
    assert_eq!((usual.scheduling.nominal_iops, told.scheduling.nominal_iops), (60, 90));
}

#[test]
fn a_horizon_says_how_long() {
    for (text, millis) in [("1ms", 1), ("350ms", 350), ("10s", 10_000)] {
        let text = GOOD.replacen("headroom = \"5%\"", &format!("horizon = \"{text}\""), 1);
        let horizon = Config::parse(&text).unwrap().devices[0].scheduling.horizon;
        assert_eq!(horizon, Some(Duration::from_millis(millis)));
    }
}

#[test]
fn tiers_say_where_they_are_and_what_moving_may_take() {
    let tiered = |more: &str| {
        let text = GOOD.replacen("\"memory\"", &format!("\"tiered:/fast, /slow\"{more}"), 1);
        let text = text.replacen("\"deskstar-34gxp\"", "\"exp-ssd, exp\"", 1);
        Config::parse(&text).unwrap().devices.remove(0)
    };
    let device = tiered("");
    let (fast, slow) = ("/fast".into(), "/slow".into());
    assert_eq!(device.back_end, BackEndKind::Tiered { fast, slow });
    assert_eq!(device.back_end.identity(), Path::new("tiered:/fast,/slow"));
    assert_eq!(device.emulate.unwrap().name(), "exp-ssd,exp");
    assert_eq!((device.promotion.ppm(), device.promotes()), (100_000, true));
    assert!(!tiered("\npromotion = \"0%\"").promotes());
}

#[test]
fn back_ends_say_what_they_are() {
    let kind = |text: &str| {
        let config = Config::parse(&GOOD.replacen("\"memory\"", text, 1)).unwrap();
        config.devices[0].back_end.clone()
    };
    let members = || vec!["/a".into(), "/b".into()];
    let raid0 = |chunk| BackEndKind::Raid0 { members: members(), chunk };
    assert_eq!(kind("\"raid0:/a, /b\""), raid0(64 << 10));
    assert_eq!(kind("\"raid0:/a,/b\"\nchunk = \"1MiB\""), raid0(1 << 20));
    // In another order, or in other chunks, they are another device.
    assert_ne!(kind("\"raid0:/b,/a\"").identity(), raid0(64 << 10).identity());
    assert_ne!(raid0(4096).identity(), raid0(64 << 10).identity());
    let nbd = kind("\"nbd+unix:///x?socket=/s\"\nconnections = 2");
    let uri = "nbd+unix:///x?socket=/s".parse().unwrap();
    assert_eq!(nbd, BackEndKind::Nbd { uri, connections: Some(2), hold: None });
}

/// One virtual disk `v` with these lines, on a device with a profile.
fn promised(lines: &str) -> Result<Contract, String> {
    Ok(vdisk(lines)?.contract)
}

fn vdisk(lines: &str) -> Result<VdiskConfig, String> {
    let device = "[[device]]\nname = \"d\"\nback_end = \"memory\"\nprofile = \"d.profile\"";
    let vdisk = "[[vdisk]]\nname = \"v\"\ndevice = \"d\"\nsize = \"1GiB\"";
    let text = format!("[server]\nnbd = [\"unix:/x\"]\n{device}\n{vdisk}\n{lines}");
    let config = Config::parse(&text).map_err(|error| error.to_string())?;
    Ok(config.devices[0].vdisks[0].clone())
}

#[test]
fn promises_say_what_they_say() {
    let contract = promised("class = \"guaranteed-rate\"\nrate = \"8MB/s\"").unwrap();
    let rate = contract.rate.unwrap();
    assert_eq!((rate.bytes_per_second, rate.cycle), (8_000_000, None));
    assert_eq!((rate.admission, rate.access), (Admission::Deterministic, Access::Both));
    let lines = "class = \"guaranteed-rate\"\nrate = \"500kB/s\"\ncycle = \"4s\"\n\
                 admission = { statistical = \"1.5%\" }\naccess = \"read\"";
    let rate = promised(lines).unwrap().rate.unwrap();
    assert_eq!(rate.cycle, Some(Duration::from_secs(4)));
    let miss = Share::from_ppm(15_000).unwrap();
    assert_eq!((rate.admission, rate.access), (Admission::Statistical { miss }, Access::Read));
    let lines = "class = \"guaranteed-latency\"\nreserve = \"5%\"\nlatency = \"60ms\"";
    assert_eq!(promised(lines).unwrap().latency, Some(Duration::from_millis(60)));
    for class in ["soft-real-time", "best-effort"] {
        let contract = promised(&format!("class = \"{class}\"\nlatency = \"40ms\"")).unwrap();
        assert_eq!(contract.latency, Some(Duration::from_millis(40)), "{class}");
        assert_eq!(contract.reserve, Share::ZERO, "{class}: no reservation is asked for");
    }
}

#[test]
fn promises_that_can_not_be_are_refused() {
    let rate = "class = \"guaranteed-rate\"\nrate = ";
    let latency = "class = \"guaranteed-latency\"\nlatency = ";
    for (lines, says) in [
        (
            "rate = \"8MB/s\"".to_owned(),
            "rate = \"8MB/s\": only with `class = \"guaranteed-rate\"`",
        ),
        ("class = \"guaranteed-rate\"".to_owned(), "class = \"guaranteed-rate\": state the rate"),
        ("cycle = \"4s\"".to_owned(), "cycle = \"4s\": only beside a `rate`"),
        ("admission = \"best-effort\"".to_owned(), "admission = \"best-effort\": only beside"),
        ("access = \"read\"".to_owned(), "access = \"read\": only beside"),
        (format!("{rate}\"8MB/s\"\nreserve = \"10%\""), "reserve = \"10%\": it follows from"),
        (format!("{rate}\"8MB\""), "rate = \"8MB\": a rate is a size per second, like `8MB/s`"),
        (format!("{rate}\"0B/s\""), "rate = \"0B/s\": a rate is 1B/s to 1TB/s"),
        (format!("{rate}\"2TB/s\""), "rate = \"2TB/s\": a rate is 1B/s to 1TB/s"),
        (format!("{rate}\"99999999999TB/s\""), "a rate is a size per second"),
        (format!("{rate}\"8MB/s\"\ncycle = \"4\""), "cycle = \"4\": a time is a whole number"),
        (format!("{rate}\"8MB/s\"\ncycle = \"0s\""), "cycle = \"0s\": a cycle is 50ms to 60s"),
        (format!("{rate}\"8MB/s\"\ncycle = \"61s\""), "cycle = \"61s\": a cycle is 50ms to 60s"),
        (format!("{rate}\"8MB/s\"\nadmission = {{ statistical = \"0%\" }}"), "above 0% and below"),
        (
            format!("{rate}\"8MB/s\"\nadmission = {{ statistical = \"1\" }}"),
            "a share is 0% to 100%",
        ),
        (format!("{rate}\"8MB/s\"\naccess = \"some\""), "an access is `read`, `write` or `both`"),
        (format!("{rate}\"8MB/s\"\nlatency = \"1s\""), "only with class `guaranteed-latency`"),
        (
            "class = \"background\"\nlatency = \"60ms\"".to_owned(),
            "latency = \"60ms\": only with class `guaranteed-latency`, `soft-real-time`",
        ),
        ("latency = \"0s\"".to_owned(), "latency = \"0s\": a latency bound is above"),
        ("class = \"guaranteed-latency\"".to_owned(), "state the bound to be kept"),
        (format!("{latency}\"60ms\""), "reserve = \"0%\": above 0% with a latency bound"),
        (
            format!("{latency}\"0s\"\nreserve = \"5%\""),
            "latency = \"0s\": a latency bound is above",
        ),
        (format!("{latency}\"2min\"\nreserve = \"5%\""), "above 0s and at most 60s"),
    ] {
        let error = promised(&lines).expect_err(&lines);
        assert!(error.contains("vdisk v: ") && error.contains(says), "{lines}: {error}");
    }
    let error = promised(&format!("{rate}\"8MB/s\"\nadmission = \"maybe\"")).expect_err("maybe");
    assert!(
        error.contains("expected one of `deterministic`, `statistical`, `best-effort`"),
        "{error}"
    );
}

#[test]
fn a_promise_needs_a_profile_and_the_error_says_how_to_get_one() {
    let rate = "class = \"guaranteed-rate\"\nrate = \"8MB/s\"";
    let says = error("class = \"best-effort\"", rate).replace("reserve", "");
    assert!(says.contains("it follows from the rate"), "{says}");
    let unprofiled =
        GOOD.replace("reserve = \"12.5%\"", "").replace("class = \"best-effort\"", rate);
    let says = Config::parse(&unprofiled).expect_err("no profile").to_string();
    assert!(
        says.contains("vdisk b: rate = \"8000000B/s\": device disk has no `profile`"),
        "{says}"
    );
    assert!(says.contains("`disktime device profile`"), "{says}");
    let bounded = GOOD.replace("class = \"best-effort\"", "latency = \"40ms\"");
    Config::parse(&bounded).expect("a bound that no class promises needs none");
    let unchecked = format!("{unprofiled}\nadmission = \"best-effort\"");
    Config::parse(&unchecked).expect("best effort needs none");
}

#[test]
fn goals_say_what_they_say() {
    let goal = |lines: &str| vdisk(lines).unwrap().goal.unwrap();
    let VdiskGoal { goal: asked, access } = goal("iops = 2000");
    assert_eq!(asked.demand, Some(Demand::Requests(2_000)));
    assert_eq!((asked.request, asked.run, access), (4096, 1, Access::Read));
    let lines = "bandwidth = \"80MB/s\"\nrun = 64\nrequest = \"64KiB\"\naccess = \"both\"";
    let VdiskGoal { goal: asked, access } = goal(lines);
    assert_eq!(asked.demand, Some(Demand::Bytes(80_000_000)));
    assert_eq!((asked.request, asked.run, access), (65_536, 64, Access::Both));
    assert_eq!(goal("bandwidth = \"1MB/s\"").goal.request, 128 << 10);
    let lines = "iops = 50\nclass = \"guaranteed-latency\"\nlatency = \"60ms\"";
    let disk = vdisk(lines).unwrap();
    assert_eq!(disk.contract.reserve, Share::ZERO, "until the profile is at hand");
    assert!(disk.goal.is_some());
}

/// A device in place of the file was read until memory ended, and a pipe without a writer waited for.
#[test]
fn a_configuration_is_a_regular_file() {
    let said = Config::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert_eq!(said, "/dev/zero: no regular file: name one");
}

#[test]
fn goals_that_can_not_be_are_refused() {
    for (lines, says) in [
        ("iops = 0", "iops = \"0\": rate: 0 each second; 1 to"),
        ("bandwidth = \"0B/s\"", "bandwidth = \"0B/s\": rate: 0 each second"),
        ("bandwidth = \"80\"", "bandwidth = \"80\": a rate is a size per second"),
        ("iops = 5\nbandwidth = \"1MB/s\"", "iops = \"5\": either this or `bandwidth`"),
        ("iops = 5\nrequest = \"0B\"", "request = \"0B\": request: 0 bytes; 1 to"),
        ("iops = 5\nrequest = \"2GiB\"", "request = \"2GiB\": request: 2147483648 bytes; 1 to"),
        ("iops = 5\nrequest = \"big\"", "request = \"big\": a size is"),
        ("iops = 5\nrun = 0", "run = \"0\": run: 0 requests; 1 to"),
        ("iops = 5\naccess = \"some\"", "an access is `read`, `write` or `both`"),
        ("iops = 5\nreserve = \"5%\"", "reserve = \"5%\": it follows from `iops`"),
        ("iops = 5\nclass = \"guaranteed-rate\"", "has its `rate`: leave this out"),
        ("iops = 5\nclass = \"background\"", "iops = \"5\": class `background` gets only time"),
        ("class = \"background\"\nreserve = \"1%\"", "reserve = \"1%\": class `background`"),
        ("iops = 5\ncycle = \"4s\"", "cycle = \"4s\": only beside a `rate`"),
        ("run = 5", "run = \"5\": only beside `iops` or `bandwidth`"),
        ("request = \"4KiB\"", "request = \"4KiB\": only beside"),
    ] {
        let error = vdisk(lines).expect_err(lines);
        assert!(error.contains("vdisk v: ") && error.contains(says), "{lines}: {error}");
    }
    let says = vdisk("iops = -5").expect_err("negative");
    assert!(says.contains("iops = -5"), "{says}");
    let says = error("reserve = \"12.5%\"", "iops = 50");
    assert!(says.contains("vdisk b: iops = \"50\": device disk has no `profile`"), "{says}");
}

#[test]
fn a_device_is_looked_at_where_its_costs_are_learned_and_nothing_says_more() {
    let looks = |lines: &str| {
        let text = GOOD.replacen("headroom = \"5%\"", lines, 1);
        Config::parse(&text).map(|config| config.devices[0].scheduling.quick_profile)
    };
    assert!(!looks("").unwrap(), "one piece at a time shows what it takes");
    assert!(looks("quick_profile = true").unwrap());
    assert!(!looks("quick_profile = false").unwrap());
    let says = looks("quick_profile = true\nprofile = \"d.json\"").unwrap_err().to_string();
    assert!(says.contains("quick_profile = \"true\": profile = \"d.json\" says more"), "{says}");
}
