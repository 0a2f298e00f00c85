//! Every key of the daemon's tables can be stated in a scenario, and reaches the engine.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::collections::BTreeSet;
use std::path::Path;

use disktime_config::{ContractKeys, SchedulingKeys};
use disktime_core::Contract;
use disktime_sim::{Cut, Plan, Scenario, fingerprint, simulate};

/// A player that misses deadlines beside two greedy streams.
const SCENE: &str = r#"
[scenario]
duration = "9s"
[device]
emulate = "nearline-7200"
KEYS
[[stream]]
name = "film"
class = "soft-real-time"
reserve = "5%"
[[stream.phases]]
spec = { pattern = "sequential", extent = { end = "1GB" }, sizes = "128KiB" }
pace = { player = { rate = "60MB/s", buffer = "400ms", outstanding = 1 } }
[[stream]]
name = "random"
reserve = "20%"
base = "40GB"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "40GB" }, sizes = "16KiB", reads = "70%" }
pace = { closed = { outstanding = 8 } }
[[stream]]
name = "sequential"
reserve = "60%"
base = "100GB"
[[stream.phases]]
spec = { pattern = "sequential", extent = { end = "9GB" }, sizes = "256KiB" }
pace = { closed = { outstanding = 4 } }
"#;

fn plan(text: &str) -> Result<Plan, String> {
    let scenario = Scenario::parse(Path::new("s.toml"), text);
    scenario.and_then(|scenario| scenario.plan(1)).map_err(|error| error.to_string())
}

/// A run in which the film's rate is promised, which takes a profile.
fn promised(keys: &str) -> Result<(), String> {
    let promise = "class = \"guaranteed-rate\"\nrate = \"1MB/s\"";
    let film = "class = \"soft-real-time\"\nreserve = \"5%\"";
    let plan = plan(&SCENE.replace("KEYS", keys).replacen(film, promise, 1))?;
    simulate(plan).map(drop).map_err(|error| error.to_string())
}

/// Hashes of a run with these lines in `[device]`, or why there is none.
fn run(keys: &str) -> Result<[u64; 2], String> {
    let plan = plan(&SCENE.replace("KEYS", keys))?;
    let (outcome, taken) = fingerprint(Cut::NONE, || simulate(plan));
    outcome.map_err(|error| error.to_string())?;
    Ok([taken.decisions, taken.counters])
}

/// A scenario could not state `horizon`, `headroom`, `slack` and `depth_latency`: the daemon's table and
/// the simulator's were two lists. Each key stands beside those that it needs.
#[test]
fn every_key_of_scheduling_changes_a_run() {
    let both = |key: &str| match key {
        "policy" => ("", "policy = \"zygaria\""),
        "experimental" => ("", "experimental = false"),
        "slack" => ("policy = \"zygaria\"", "slack = \"reward\""),
        "nominal_iops" => ("policy = \"zygaria-iops\"", "nominal_iops = 500"),
        "cost_model" => ("", "cost_model = \"fixed\""),
        "horizon" => ("", "horizon = \"20ms\""),
        "feedback" => ("", "feedback = \"adaptive\""),
        "feedback_token" => ("feedback = \"adaptive\"", "feedback_token = \"data\""),
        "feedback_min" => ("feedback = \"adaptive\"", "feedback_min = 40"),
        "feedback_rate" => ("feedback = \"fixed\"", "feedback_rate = 11"),
        "queue_depth" => ("", "queue_depth = 4"),
        "depth_latency" => ("queue_depth = 8", "depth_latency = \"5ms\""),
        "headroom" => ("", "headroom = \"20%\""),
        "profile" => ("", "profile = \"measured\""),
        "quick_profile" => ("cost_model = \"learned\"\nqueue_depth = 4", "quick_profile = true"),
        _ => panic!("`{key}` is a new key: state a value of it that changes a run"),
    };
    for key in SchedulingKeys::NAMES {
        let (needed, stated) = both(key);
        assert!(stated.starts_with(key), "{key}");
        let with = run(&format!("{needed}\n{stated}"));
        match *key {
            // Keeping a fifth free leaves too little.
            "headroom" => assert!(with.unwrap_err().contains("80% may be reserved"), "{key}"),
            // Rivals need no leave in a scenario, but it can be withdrawn.
            "experimental" => {
                let policy = "policy = \"fifo\"";
                assert!(run(policy).is_ok());
                let refused = run(&format!("{policy}\n{stated}")).unwrap_err();
                assert!(refused.contains("with `experimental = true` also"), "{refused}");
            }
            "profile" => {
                assert!(promised(needed).unwrap_err().contains("needs a profile"), "{key}");
                assert_eq!(promised(stated), Ok(()), "{key}");
            }
            "feedback_rate" => assert_ne!(with.unwrap(), run("feedback = \"adaptive\"").unwrap()),
            _ => assert_ne!(with.unwrap(), run(needed).unwrap(), "{key}"),
        }
    }
}

#[test]
fn every_key_of_a_contract_is_in_a_streams_contract() {
    let rate = "class = \"guaranteed-rate\"\nrate = \"1MB/s\"\nadmission = \"best-effort\"";
    let both = |key: &str| match key {
        "class" => ("", "class = \"background\""),
        "reserve" => ("", "reserve = \"7%\""),
        "limit" => ("", "limit = \"50%\""),
        "weight" => ("", "weight = 7"),
        "rate" => ("class = \"guaranteed-rate\"", "rate = \"2MB/s\""),
        "cycle" => (rate, "cycle = \"250ms\""),
        "admission" => (rate, "admission = { statistical = \"1%\" }"),
        "access" => (rate, "access = \"write\""),
        "latency" => ("", "latency = \"60ms\""),
        _ => panic!("`{key}` is a new key: state a value of it that changes a contract"),
    };
    let contract = |keys: &str| -> Result<Contract, String> {
        let text = SCENE.replace("KEYS", "").replacen(
            "class = \"soft-real-time\"\nreserve = \"5%\"",
            keys,
            1,
        );
        Ok(plan(&text)?.streams[0].contract)
    };
    for key in ContractKeys::NAMES {
        let (needed, stated) = both(key);
        assert!(stated.starts_with(key), "{key}");
        let needed = needed.replace(&format!("\n{key} = \"best-effort\""), "");
        let with = contract(&format!("{needed}\n{stated}")).unwrap();
        assert_ne!(Ok(with), contract(&needed), "{key}");
    }
}

/// Keys that a table takes, as it says itself when it meets another one.
fn keys_of(table: &str) -> BTreeSet<String> {
    let text = SCENE.replace("KEYS", "").replacen(table, &format!("{table}\nno_such_key = 1"), 1);
    let error = plan(&text).err().expect("an unknown key is refused");
    let (_, known) = error.split_once("expected one of ").expect("the keys there are");
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The same test of the daemon's tables is in `server`: a key that one file has and the other lacks is
/// stated there or here.
#[test]
fn a_scenario_has_the_shared_keys_and_few_of_its_own() {
    let with = |shared: &[&str], own: &[&str]| -> BTreeSet<String> {
        shared.iter().chain(own).map(|key| (*key).to_owned()).collect()
    };
    let device = with(SchedulingKeys::NAMES, &["emulate", "preset", "model"]);
    assert_eq!(keys_of("[device]"), device);
    let stream = with(ContractKeys::NAMES, &["name", "base", "parent", "phases", "replay"]);
    assert_eq!(keys_of("[[stream]]"), stream);
}

#[test]
fn keys_of_a_device_may_stand_in_the_scenarios_own_table_as_they_did() {
    let old = "policy = \"zygaria-iops\"\nnominal_iops = 90\nfeedback = \"fixed\"\nfeedback_rate = 50\n\
               feedback_min = 20\nfeedback_token = \"data\"\ncost_model = \"priced\"\n";
    let new = plan(&SCENE.replace("KEYS", old)).unwrap();
    let scene = SCENE.replace("KEYS", "").replace("[device]", &format!("{old}[device]"));
    let old = plan(&scene.replace("emulate", "preset")).unwrap();
    assert_eq!(old.scheduling, new.scheduling);
    // It said nothing there, and the documentation had it so.
    let idle = plan(&SCENE.replace("KEYS", "").replace("[device]", "nominal_iops = 60\n[device]"));
    assert_eq!(idle.unwrap().scheduling, plan(&SCENE.replace("KEYS", "")).unwrap().scheduling);
    let twice = scene.replace("[device]", "[device]\npolicy = \"fifo\"");
    let says = plan(&twice).err().unwrap();
    assert!(
        says.contains("scenario.policy = \"zygaria-iops\": `[device]` states it, too"),
        "{says}"
    );
}

/// A depth by latency that was found in the daemon alone: with a threshold that the disk never keeps,
/// each stream is left with its part.
#[test]
fn depth_latency_takes_streams_depths_back() {
    let mean = |keys: &str| {
        let outcome = simulate(plan(&SCENE.replace("KEYS", keys)).unwrap()).unwrap();
        outcome.streams[1].service.mean_secs()
    };
    let (free, held) =
        (mean("queue_depth = 16"), mean("queue_depth = 16\ndepth_latency = \"1ms\""));
    assert!(held < free * 0.85, "{held} {free}");
}
