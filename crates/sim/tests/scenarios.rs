//! Scenario files: what they say, and an error for every way to get one wrong.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::path::Path;

use disktime_core::{Duration, Instant};
use disktime_sim::{Scenario, simulate, simulate_watched};

const GOOD: &str = r#"
[scenario]
duration = "20s"
window = "500ms"
seeds = [1, 2]
policy = "zygaria"

[device]
preset = "deskstar-34gxp"

[[stream]]
name = "sequential"
reserve = "70%"
[[stream.phases]]
spec = { pattern = { runs = { length = 1024 } }, extent = { end = "9GiB" }, sizes = "4KiB" }
pace = { closed = { outstanding = 8 } }

[[stream]]
name = "random"
reserve = "30%"
base = "9GiB"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "9GiB" }, sizes = "4KiB" }
pace = { closed = { outstanding = 8 } }

[[change]]
at = "10s"
stream = "sequential"
reserve = "20%"
"#;

fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let scenario = Scenario::parse(Path::new("s.toml"), &GOOD.replacen(from, to, 1));
    let plan = scenario.and_then(|scenario| scenario.plan(1));
    plan.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_scenario_runs_and_its_changes_take_effect() {
    let scenario = Scenario::parse(Path::new("s.toml"), GOOD).unwrap();
    assert_eq!(scenario.seeds(), [1, 2]);
    let outcome = simulate(scenario.plan(1).unwrap()).unwrap();
    assert_eq!((outcome.violations.len(), outcome.windows.len()), (0, 2 * 40));
    let random = &outcome.streams[1];
    assert_eq!(random.service.count(), random.counters.completed);
    assert!((0.010..0.020).contains(&random.service.mean_secs()), "{}", random.service.mean_secs());
    let (p50, p99) = (random.queue.quantile(0.5), random.queue.quantile(0.99));
    assert!(p50.as_secs_f64() > 0.1 && p99 > p50, "{p50:?} {p99:?}");
    let share = |from: u32, to: u32| {
        let rows = outcome
            .windows
            .iter()
            .filter(|row| row.stream.0 == 0 && (from..to).contains(&row.index));
        rows.map(|row| row.charged.as_secs_f64()).sum::<f64>() / (f64::from(to - from) * 0.5)
    };
    assert!((share(4, 20) - 0.70).abs() < 0.03, "{}", share(4, 20));
    // 20 % and 30 % reserved; the slack evens recent usage out.
    assert!((0.40..0.60).contains(&share(30, 40)), "{}", share(30, 40));
}

#[test]
fn each_error_names_file_key_and_what_is_allowed() {
    for (from, to, says) in [
        ("window", "windows", "unknown field `windows`"),
        ("\"70%\"", "\"70\"", "stream sequential: reserve = \"70\": a share is 0% to 100%"),
        ("\"70%\"", "\"170%\"", "reserve = \"170%\": a share is 0% to 100%"),
        ("\"20s\"", "\"20\"", "s.toml: "),
        ("deskstar-34gxp", "deskstar", "s.toml: device.preset: `deskstar`; not known; there are: "),
        ("seeds = [1, 2]", "seeds = []", "scenario.seeds = \"0 seeds\": 1 to 1000 are possible"),
        (
            "seeds",
            "feedback = \"kind\"\nseeds",
            "scenario.feedback = \"kind\": known are none, adaptive, fixed; to compare with, optimistic",
        ),
        (
            "seeds",
            "feedback_token = \"byte\"\nseeds",
            "scenario.feedback_token = \"byte\": no such token",
        ),
        (
            "seeds",
            "feedback_min = 0\nseeds",
            "scenario.feedback_min = \"0\": feedback.rate_min = 0: it must",
        ),
        (
            "seeds",
            "feedback = \"fixed\"\nseeds",
            "scenario.feedback = \"fixed\": state `feedback_rate`",
        ),
        (
            "seeds",
            "feedback_rate = 50\nseeds",
            "scenario.feedback_rate = \"50\": only controller `fixed` has a rate",
        ),
        (
            "seeds",
            "feedback = \"fixed\"\nfeedback_rate = 9\nseeds",
            "scenario.feedback_rate = \"9\": feedback.rate_start = 9: it must be 10 to 1000000",
        ),
        (
            "stream = \"sequential\"",
            "stream = \"nobody\"",
            "change.stream = \"nobody\": no stream has this name",
        ),
        ("base = \"9GiB\"", "base = \"12GiB\"", "stream random: extent = "),
    ] {
        let error = error(from, to);
        assert!(error.contains(says) && error.starts_with("s.toml: "), "{to}: {error}");
    }
    let missing = Scenario::read(Path::new("no-such.toml")).unwrap_err().to_string();
    assert!(missing.contains("no-such.toml: No such file"), "{missing}");
}

#[test]
fn a_stream_that_the_engine_refuses_is_refused_by_name() {
    let text = GOOD.replace("\"30%\"", "\"40%\"");
    let plan = Scenario::parse(Path::new("s.toml"), &text).unwrap().plan(1).unwrap();
    let error = simulate(plan).unwrap_err().to_string();
    assert!(error.contains("stream random: reservations would come to 110.0000%"), "{error}");
    let none = "[scenario]\nduration = \"1s\"\n[device]\npreset = \"deskstar-34gxp\"\n";
    let plan = Scenario::parse(Path::new("s.toml"), none).unwrap().plan(1).unwrap();
    assert!(simulate(plan).unwrap_err().to_string().contains("at least 1"));
}

#[test]
fn traces_are_found_beside_the_scenario_and_missing_ones_are_named() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("t.csv"),
        "time_ns,op,offset,bytes\n0,read,0,4096\n1000000,read,4096,4096\n",
    )
    .unwrap();
    let text = r#"
[scenario]
duration = "1s"
[device]
preset = "deskstar-34gxp"
[[stream]]
name = "recorded"
[stream.replay]
path = "t.csv"
extent = { end = "1GiB" }
"#;
    let path = directory.path().join("s.toml");
    let plan = Scenario::parse(&path, text).unwrap().plan(1).unwrap();
    assert_eq!(simulate(plan).unwrap().requests, 2);
    let missing = text.replace("t.csv", "nothing.csv");
    let error = Scenario::parse(&path, &missing).unwrap().plan(1).err().unwrap().to_string();
    assert!(error.contains("nothing.csv: can't be opened"), "{error}");
}

const PROMISES: &str = r#"
[scenario]
duration = "9s"
policy = "elevator"
[device]
preset = "st318437lw"
profile = "measured"

[[stream]]
name = "film"
class = "guaranteed-rate"
rate = "8MB/s"
cycle = "1s"
access = "read"
base = "4GB"
[[stream.phases]]
spec = { pattern = "sequential", extent = { start = "1GB", end = "2GB" }, sizes = "128KiB" }
pace = { cycles = { rate = "8MB/s", cycle = "1s" } }

[[stream]]
name = "click"
class = "guaranteed-latency"
reserve = "10%"
latency = "130ms"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "1GB" }, sizes = "4KiB" }
pace = { closed = { outstanding = 1, think = "1s" } }

[[stream]]
name = "copy"
class = "background"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "18GB" }, sizes = "1MiB" }
pace = { closed = { outstanding = 4 } }
"#;

#[test]
fn classes_rates_and_bounds_are_kept() {
    let plan = Scenario::parse(Path::new("s.toml"), PROMISES).unwrap().plan(1).unwrap();
    assert_eq!(plan.streams[0].extent, Some((5_000_000_000, 6_000_000_000)));
    let outcome = simulate(plan).unwrap();
    assert_eq!(outcome.violations, []);
    let film = outcome.streams[0].counters;
    assert_eq!((film.cycles, film.cycles_missed), (9, 0));
    let click = &outcome.streams[1].response;
    let [half, most] = [click.quantile(0.5), click.max()].map(Duration::as_secs_f64);
    assert!(half > 0.005 && half <= most && most < 0.130, "{half} {most}");
    assert!(outcome.streams[2].counters.completed > 20, "background gets the rest");
}

/// Random reads in a fifth of the disk's time, with 30 % of it reserved, beside someone with large requests.
const BOUNDED: &str = r#"
[scenario]
duration = "300s"
[device]
preset = "deskstar-34gxp"

[[stream]]
name = "light"
class = "soft-real-time"
reserve = "30%"
latency = "40ms"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "19GiB" }, sizes = "4KiB" }
pace = { open = { poisson = { mean = "73ms" } } }

[[stream]]
name = "hog"
reserve = "70%"
base = "9GiB"
[[stream.phases]]
spec = { pattern = "sequential", extent = { end = "512MiB" }, sizes = "1MiB" }
pace = { closed = { outstanding = 2 } }
"#;

#[test]
fn a_latency_bound_without_a_promise_is_what_the_default_policy_turns_to() {
    let p99_ms = |text: &str| {
        let plan = Scenario::parse(Path::new("s.toml"), text).unwrap().plan(1).unwrap();
        assert_eq!(plan.scheduling.policy.name, "disktime");
        let outcome = simulate(plan).unwrap();
        assert_eq!(outcome.violations, []);
        outcome.streams[0].response.quantile(0.99).as_secs_f64() * 1e3
    };
    let best_effort = BOUNDED.replace("class = \"soft-real-time\"", "");
    let [bounded, also, unbounded] =
        [BOUNDED, &best_effort, &BOUNDED.replace("latency = \"40ms\"", "")].map(p99_ms);
    assert!(bounded <= 45.0 && also <= 45.0 && unbounded > 70.0, "{bounded} {also} {unbounded}");
}

#[test]
fn promises_that_can_not_be_made_are_refused_with_the_streams_name() {
    let refused = |from: &str, to: &str| {
        assert!(PROMISES.contains(from), "{from}");
        let text = PROMISES.replacen(from, to, 1);
        let plan = Scenario::parse(Path::new("s.toml"), &text).and_then(|it| it.plan(1));
        match plan {
            Ok(plan) => simulate(plan).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    for (from, to, says) in [
        ("rate = \"8MB/s\"\ncycle", "rate = \"39MB/s\"\ncycle", "stream film: rate = "),
        ("latency = \"130ms\"", "latency = \"1ms\"", "stream click: latency = "),
        (
            "reserve = \"10%\"\n",
            "",
            "stream click: reserve = \"0%\": above 0% with a latency bound",
        ),
        ("profile = \"measured\"", "", "stream film needs a profile"),
        (
            "profile = \"measured\"",
            "profile = \"no.json\"",
            "device.profile = \"no.json\": No such",
        ),
        (
            "rate = \"8MB/s\"\ncycle",
            "cycle",
            "stream film: class = \"guaranteed-rate\": state the rate to be kept",
        ),
        (
            "\"guaranteed-rate\"",
            "\"best-effort\"",
            "stream film: rate = \"8MB/s\": only with `class",
        ),
        (
            "\"guaranteed-rate\"",
            "\"gold\"",
            "stream film: class = \"gold\": no such class; there are: ",
        ),
        ("rate = \"8MB/s\"\ncycle", "rate = \"8MB\"\ncycle", "rate = \"8MB\": a rate is"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
}

/// The tables that a block of the documentation leaves out.
const REST: &str = r#"
[scenario]
duration = "1s"
[[stream]]
name = "random"
reserve = "50%"
[[stream.phases]]
spec = { pattern = "random", extent = { end = "500MB" }, sizes = "4KiB", reads = "70%" }
pace = { closed = { outstanding = 4 } }
"#;

#[test]
fn every_example_of_the_documentation_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.toml");
    std::fs::write(
        directory.path().join("trace.csv"),
        "time_ns,op,offset,bytes\n0,read,0,4096\n1000000,write,99999997952,4096\n",
    )
    .unwrap();
    let pages =
        [include_str!("../../../docs/simulator.md"), include_str!("../../../docs/devices.md")];
    let blocks = pages.iter().flat_map(|page| page.split("```toml\n").skip(1));
    let blocks: Vec<_> = blocks.map(|block| block.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 9);
    for block in blocks {
        let whole = block.contains("[scenario]");
        let text = if whole { block.to_owned() } else { REST.to_owned() + block };
        let plan = Scenario::parse(&path, &text).unwrap().plan(1).unwrap();
        let outcome = simulate(plan).unwrap();
        assert!(outcome.requests > 20 && outcome.failures.is_empty(), "{block}");
    }
}

#[test]
fn a_described_device_that_makes_no_sense_is_refused_with_its_key() {
    let described = |model: &str| {
        let text = format!("{REST}[device]\n{model}");
        Scenario::parse(Path::new("s.toml"), &text).err().map(|it| it.to_string())
    };
    for (model, says) in [
        (
            "model = { kind = \"disk\", based_on = \"ibm18es\", heads = 0 }",
            "s.toml: device.model.heads: 0; 1 to 256 is needed",
        ),
        (
            "model = { kind = \"raid0\", chunk = \"0B\", members = [\"exp\"] }",
            "s.toml: device.model.chunk: `0B`; a multiple of 512B",
        ),
        (
            "queue_depth = 1",
            "s.toml: device.emulate, preset, model: none of them; state exactly one",
        ),
        ("model = { kind = \"tape\" }", "kind: \"tape\" is not known; there are: preset, disk"),
    ] {
        let error = described(model);
        assert!(error.as_ref().is_some_and(|it| it.contains(says)), "{model}: {error:?}");
    }
    // Maps of 64 drives took more memory than there is.
    let drives = ["{ kind = \"flash\", capacity = \"3TiB\" }"; 6].join(", ");
    let set = format!("model = {{ kind = \"raid0\", chunk = \"4KiB\", members = [{drives}] }}");
    let error = described(&set).unwrap_or_default();
    assert!(
        error.contains("device.model.members: 19791209299968B in all flash drives; at most 1759"),
        "{error}"
    );
}

#[test]
fn a_traces_requests_past_the_end_are_refused_or_wrap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.toml");
    let trace = "time_ns,op,offset,bytes\n0,read,0,4096\n1000000,read,99999997952,4096\n";
    std::fs::write(directory.path().join("t.csv"), trace).unwrap();
    let run = |past_end: &str, end: &str| {
        let text = format!(
            "[scenario]\nduration = \"1s\"\n[device]\npreset = \"deskstar-34gxp\"\n[[stream]]\n\
             name = \"recorded\"\n[stream.replay]\npath = \"t.csv\"\n\
             extent = {{ end = \"{end}\" }}\n{past_end}\n"
        );
        Scenario::parse(&path, &text).unwrap().plan(1).map(|plan| simulate(plan).unwrap())
    };
    for refuse in ["", "past_end = \"refuse\""] {
        let refused = run(refuse, "20GB").unwrap();
        assert_eq!(refused.requests, 1);
        let failure = &refused.failures[0].1;
        assert!(
            failure.contains("t.csv:3: offset: 4096 bytes at byte 99999997952 pass the end at")
        );
    }
    let wrapped = run("past_end = \"wrap\"", "20GB").unwrap();
    assert_eq!((wrapped.requests, wrapped.failures.len()), (2, 0));
    let beyond = run("past_end = \"wrap\"", "21GB").err().unwrap().to_string();
    assert!(
        beyond.contains("stream recorded: extent = \"0 to 21000000000\": base + end is above"),
        "{beyond}"
    );
}

#[test]
fn watching_a_run_changes_nothing_in_it() {
    let scenario = Scenario::parse(Path::new("s.toml"), GOOD).unwrap();
    let mut moments = Vec::new();
    let watched =
        simulate_watched(scenario.plan(1).unwrap(), |moment| moments.push(moment)).unwrap();
    let unwatched = simulate(scenario.plan(1).unwrap()).unwrap();
    assert_eq!(watched.windows, unwatched.windows);
    assert!(moments.len() > 1 && moments.is_sorted_by_key(|moment| moment.now));
    let last = moments.last().unwrap();
    assert!(last.requests > 0 && last.requests <= watched.requests);
}

/// `/dev/zero` was read until memory ended, as a scenario and as the profile that one names.
#[test]
fn what_has_no_end_is_no_scenario_and_no_profile() {
    let endless = Scenario::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert_eq!(endless, "/dev/zero: it has more than 16777216 bytes");
    let text = GOOD.replace("preset =", "profile = \"/dev/zero\"\npreset =");
    let plan = Scenario::parse(Path::new("s.toml"), &text).unwrap().plan(1);
    let error = plan.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("device.profile = \"/dev/zero\": no regular file: name one"), "{error}");
}

/// Each of them took all memory, or all time, or panicked.
#[test]
fn numbers_that_no_machine_has_room_for_are_refused() {
    let closed = "pace = { closed = { outstanding = 8 } }";
    for (from, to, says) in [
        ("sizes = \"4KiB\"", "sizes = \"5GiB\"", "sizes: 5368709120 bytes; 1 to 4294967296 are"),
        (
            "\"500ms\"",
            "\"1us\"",
            "scenario.window = \"1µs\": at least 20µs is needed for so long a run of 2 streams",
        ),
        (
            closed,
            "pace = { cycles = { rate = \"1MB/s\", cycle = \"999ns\" } }",
            "phase 1: cycle: 999ns; at least 1µs is needed",
        ),
        (
            closed,
            "pace = { open = { on-off = { interval = \"1s\", on = \"1ns\", off = \"0s\" } } }",
            "phase 1: on and off: 1ns together; at least 1µs is needed",
        ),
    ] {
        let text = if from.starts_with("sizes") {
            GOOD.replacen("{ runs = { length = 1024 } }", "\"sequential\"", 1)
        } else {
            GOOD.to_owned()
        };
        let scenario = Scenario::parse(Path::new("s.toml"), &text.replacen(from, to, 1));
        let error = scenario.and_then(|scenario| scenario.plan(1)).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(says), "{to}: {error}");
    }
}

/// Two streams of one name drew the same numbers, and a change took the first.
#[test]
fn a_name_is_one_streams() {
    let error = error("name = \"random\"", "name = \"sequential\"");
    assert!(
        error.contains("stream.name = \"sequential\": another stream has this name"),
        "{error}"
    );
}

/// The requests of a load by time alone that a disk can't keep up with waited until memory ended.
#[test]
fn a_load_that_the_device_cannot_keep_up_with_ends_the_run() {
    let flood = "pace = { open = { constant = { interval = \"1us\" } } }";
    let text = GOOD.replacen("pace = { closed = { outstanding = 8 } }", flood, 1);
    let plan = Scenario::parse(Path::new("s.toml"), &text).unwrap().plan(1).unwrap();
    let outcome = simulate(plan).unwrap();
    let (stream, error) = &outcome.failures[0];
    assert_eq!(stream.0, 0);
    assert!(error.starts_with("stream sequential: load: at "), "{error}");
    assert!(error.contains("more than 2000000 requests of all streams wait"), "{error}");
}

/// A request of a trace that is longer than requests can be was a panic, and so was a flush with a length.
#[test]
fn a_traces_request_above_4_gib_is_refused_and_a_flush_has_no_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.toml");
    let run = |line: &str| {
        let trace = format!("time_ns,op,offset,bytes\n0,read,0,4096\n{line}\n2000,read,0,4096\n");
        std::fs::write(directory.path().join("t.csv"), trace).unwrap();
        let text = "[scenario]\nduration = \"1s\"\n[device]\npreset = \"deskstar-34gxp\"\n[[stream]]\n\
                    name = \"recorded\"\n[stream.replay]\npath = \"t.csv\"\nextent = { end = \"20GB\" }\n";
        simulate(Scenario::parse(&path, text).unwrap().plan(1).unwrap()).unwrap()
    };
    let long = run("1000,read,0,4294967297");
    let failure = &long.failures[0].1;
    assert!(
        failure.contains("t.csv:3: bytes: 4294967297 bytes; at most 4294967296 are"),
        "{failure}"
    );
    let flushed = run("1000,flush,0,18446744073709551615");
    assert_eq!((flushed.requests, flushed.failures.len()), (3, 0));
}

/// The sums of times in a window were of 64 bits: a mean of 100 days was shown as half an hour.
#[test]
fn means_of_a_window_hold_however_long_requests_wait() {
    let text = "[scenario]\nduration = \"9000h\"\nwindow = \"9000h\"\n[device]\n\
                model = { kind = \"exponential\", mean = \"1000s\" }\n[[stream]]\nname = \"a\"\n\
                [[stream.phases]]\npace = { open = { constant = { interval = \"500s\" } } }\n\
                [stream.phases.spec]\npattern = \"random\"\nextent = { end = \"1GiB\" }\n\
                sizes = \"4KiB\"\n";
    let plan = Scenario::parse(Path::new("s.toml"), text).unwrap().plan(1).unwrap();
    let outcome = simulate(plan).unwrap();
    let by_window = outcome.windows[0].queue_mean.as_secs_f64();
    let whole = outcome.streams[0].queue.mean_secs();
    assert!((by_window / whole - 1.0).abs() < 0.02, "{by_window} {whole}");
}

/// A log of decisions that had no room for all of them ended without a word.
#[test]
fn decisions_beyond_the_room_for_them_are_counted() {
    let mut text = "[scenario]\nduration = \"300ms\"\n[device]\npreset = \"flash-generic\"\n\
                    queue_depth = 32\npolicy = \"fifo\"\n"
        .to_owned();
    for stream in 0..100 {
        text += &format!(
            "[[stream]]\nname = \"s{stream}\"\n[[stream.phases]]\n\
             pace = {{ closed = {{ outstanding = 4 }} }}\nspec = {{ pattern = \"random\", \
             extent = {{ end = \"1GiB\" }}, sizes = \"4KiB\" }}\n"
        );
    }
    let mut plan = Scenario::parse(Path::new("s.toml"), &text).unwrap().plan(1).unwrap();
    plan.decisions = Some((Instant::ZERO, Instant::MAX));
    let outcome = simulate(plan).unwrap();
    let candidates: usize = outcome.decisions.iter().map(|it| it.candidates.len()).sum();
    assert!((3_999_900..=4_000_000).contains(&candidates), "{candidates}");
    let all = outcome.decisions.len() as u64 + outcome.decisions_left_out;
    assert!(outcome.decisions_left_out > 0 && all >= outcome.requests, "{all}");
}
