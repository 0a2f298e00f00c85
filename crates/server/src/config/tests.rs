//! Good configurations, and an error for every way to get one wrong.

use super::*;

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

[[vdisk]]
name = "b"
device = "disk"
size = "1000MB"
reserve = "12.5%"
limit = "50%"
weight = 300
class = "background"
"#;

fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    Config::parse(&GOOD.replacen(from, to, 1)).expect_err(to).to_string()
}

#[test]
fn a_good_one_says_what_it_says() {
    let config = Config::parse(GOOD).unwrap();
    let device = &config.devices[0];
    assert_eq!(device.places(), (vec![0, 1 << 30], 1978 << 20));
    assert_eq!((device.policy.as_str(), device.queue_depth), ("zygaria", 1));
    let contract = device.vdisks[1].contract;
    assert_eq!(
        (contract.reserve.ppm(), contract.limit.ppm(), contract.weight),
        (125_000, 500_000, 300)
    );
    assert_eq!(contract.class, Class::Background);
    let uris: Vec<_> = config.listen.iter().map(|listen| listen.uri("a")).collect();
    assert_eq!(uris, ["nbd+unix:///a?socket=/run/disktime.sock", "nbd://127.0.0.1:10809/a"]);
}

#[test]
fn each_error_names_the_key_the_value_and_what_is_allowed() {
    for (from, to, says) in [
        ("\"70%\"", "\"30\"", "vdisk a: reserve = \"30\": a share is 0% to 100%"),
        ("\"70%\"", "\"-5%\"", "vdisk a: reserve = \"-5%\": a share is 0% to 100%"),
        ("\"70%\"", "\"90%\"", "reservations come to 102.5000%, 95% may be reserved"),
        ("\"50%\"", "\"10%\"", "reserve = \"12.5%\": at most the limit, 10%"),
        ("\"50%\"", "\"0%\"", "limit = \"0%\": above 0%"),
        ("300", "0", "weight = \"0\": a weight is 1 to 10000"),
        ("\"background\"", "\"fast\"", "no such class; there are: guaranteed-latency"),
        ("\"1GiB\"", "\"1\"", "size = \"1\": a size is a whole number and a unit"),
        ("\"1GiB\"", "\"1000B\"", "a multiple of 512"),
        ("\"1GiB\"", "\"100GiB\"", "it has 20525137920: make one smaller"),
        ("reserve = \"70%\"", "reserves = \"70%\"", "unknown field `reserves`"),
        ("headroom", "head_room", "unknown field `head_room`"),
        ("\"memory\"", "\"tape\"", "back_end = \"tape\": `tape` is no back end: use `memory`"),
        ("\"deskstar-34gxp\"", "\"deskstar\"", "no such preset; there are: "),
        ("name = \"b\"", "name = \"a\"", "vdisk.name = \"a\": the name of another one too"),
        ("name = \"b\"", "name = \"../b\"", "letters, digits"),
        ("device = \"disk\"", "device = \"dusk\"", "no such device; there are: disk"),
        ("127.0.0.1", "0.0.0.0", "only loopback addresses"),
        ("unix:/run/disktime.sock", "/run/disktime.sock", "a listener is `unix:PATH`"),
        ("headroom = \"5%\"", "policy = \"best\"", "known are: zygaria"),
        ("headroom = \"5%\"", "cost_model = \"best\"", "known are: fixed"),
        ("headroom = \"5%\"", "queue_depth = 2", "this device takes 1 to 1"),
    ] {
        let error = error(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
    let none = Config::parse("[server]\nnbd = []").expect_err("no listener").to_string();
    assert!(none.contains("at least one"), "{none}");
}
