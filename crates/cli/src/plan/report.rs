//! A plan as people read it, and as a document.

use disktime_core::{Access, Contract, Duration, Share};
use disktime_plan::TraceShares;
use disktime_plan::broker::{self, Answer};
use disktime_plan::goal::{Demand, Fitting, Goal};
use disktime_profiler::Method;
use disktime_server::standing::Standing;
use disktime_workload::trace;
use serde_json::{Value, json};

use super::{Arguments, Device};
use crate::table;

/// The result of a plan.
pub(super) struct Report {
    name: String,
    bytes: u64,
    depth: u32,
    stay: Duration,
    confidence: Share,
    percentile: Share,
    pub(super) goal: Option<(Goal, Access)>,
    pub(super) answers: Vec<Answer>,
    pub(super) traces: Vec<TraceShares>,
    pub(super) fitting: Option<Fitting>,
    /// The share that it takes, and the method.
    ppm: u64,
    method: Method,
    available: Share,
    /// The reservations of a configuration, and by how long each can be behind its own.
    reserved: Option<Vec<(String, Share, Option<Duration>)>>,
    /// By how long a virtual disk with the share of the plan can be behind it, if it fits.
    bound: Option<Duration>,
}

impl Report {
    pub(super) fn new(device: &Device, arguments: &Arguments, ppm: u64, method: Method) -> Self {
        let available = device.available();
        let fitting = u32::try_from(ppm).ok().and_then(Share::from_ppm);
        let planned = fitting.filter(|share| *share <= available).map(Contract::reserving);
        let mut terms = device.terms();
        planned.iter().for_each(|contract| terms.add(contract, None));
        let reserved = device.standing.as_ref().map(|Standing { vdisks, contracts, .. }| {
            let of = |((name, share), contract): (&(String, Share), &Contract)| {
                (name.clone(), *share, terms.bound(contract))
            };
            vdisks.iter().zip(contracts).map(of).collect()
        });
        Self {
            name: device.profile.name.clone(),
            bytes: device.profile.profile.size(),
            depth: device.depth,
            stay: device.stay,
            confidence: arguments.confidence,
            percentile: arguments.wish.percentile,
            goal: None,
            answers: Vec::new(),
            traces: Vec::new(),
            fitting: None,
            ppm,
            method,
            available,
            reserved,
            bound: planned.and_then(|contract| terms.bound(&contract)),
        }
    }

    pub(super) fn fits(&self) -> bool {
        self.ppm <= u64::from(self.available.ppm())
    }

    pub(super) fn print(&self) {
        let gb = self.bytes as f64 / 1e9;
        println!("{}: {gb:.3} GB, at most {} at the device", self.name, self.depth);
        if let Some((goal, access)) = &self.goal {
            println!("goal: {}\n", said(goal, *access));
            self.print_answers();
        }
        if let Some(TraceShares { demand, .. }) = self.traces.first() {
            println!("trace: {}\n", summary(demand));
            self.print_traces();
        }
        println!();
        if let Some(reserved) = &self.reserved {
            let names = reserved.iter().filter(|(_, share, _)| *share > Share::ZERO);
            let said =
                |(name, share, _): &(String, Share, Option<Duration>)| format!("{name} {share}");
            let names: Vec<String> = names.map(said).collect();
            println!(
                "reserved: {}",
                if names.is_empty() { "nothing".into() } else { names.join(", ") }
            );
        }
        let behind = |(name, _, bound): &(String, Share, Option<Duration>)| {
            bound.map(|bound| format!("{name} {}", span(bound)))
        };
        let behind = self.reserved.iter().flatten().filter_map(behind).collect::<Vec<_>>();
        if !behind.is_empty() {
            println!("at most behind that while requests wait: {}", behind.join(", "));
        }
        let verdict = if self.fits() { "fits" } else { "does not fit" };
        println!(
            "{} takes {} ({}), {} can be had: {verdict}",
            if self.goal.is_some() { "the goal" } else { "the trace" },
            broker::percent(self.ppm),
            self.sureness(),
            self.available
        );
        if let Some(bound) = self.bound {
            println!("it is at most {} behind that while its requests wait", span(bound));
        }
        if let Some(fitting) = &self.fitting {
            println!("{}", broker::said(fitting));
        }
    }

    /// How sure the answer is.
    fn sureness(&self) -> String {
        match (self.goal.is_some(), self.method) {
            (true, Method::Batches) => format!("in {} of batches of 20", self.confidence),
            (true, method) => format!("{}, on the mean", method.name()),
            (false, method) => format!("{}, in {} of seconds", method.name(), self.percentile),
        }
    }

    fn print_answers(&self) {
        let header = ["method", "first", "next", "run", "takes", "rate", "bound", "share"];
        let mut rows = table::new(&header, 1..8);
        for Answer { method, ground, needs } in &self.answers {
            let part = |ppm: u64| if ppm == 0 { "-".to_owned() } else { broker::percent(ppm) };
            rows.add_row([
                method.name().to_owned(),
                span(ground.costs.first),
                span(ground.costs.next),
                needs.run.to_string(),
                span(needs.run_time),
                part(needs.rate_ppm),
                part(needs.bound_ppm),
                broker::percent(needs.ppm()),
            ]);
        }
        println!("{rows}");
    }

    fn print_traces(&self) {
        let within = format!("{} of seconds", self.percentile);
        let header = ["method", "mean", &within, "worst second"];
        let mut rows = table::new(&header, 1..4);
        for TraceShares { method, mean_ppm, share_ppm, worst_ppm, .. } in &self.traces {
            let [mean, share, worst] = [*mean_ppm, *share_ppm, *worst_ppm].map(broker::percent);
            rows.add_row([method.name().to_owned(), mean, share, worst]);
        }
        println!("{rows}");
    }

    pub(super) fn json(&self) -> Value {
        let answer = |Answer { method, ground, needs }: &Answer| {
            json!({
                "method": method.name(),
                "first_ns": ground.costs.first.as_nanos(),
                "next_ns": ground.costs.next.as_nanos(),
                "ahead_ns": ground.ahead.as_nanos(),
                "run": needs.run,
                "run_ns": needs.run_time.as_nanos(),
                "rate_share": fraction(needs.rate_ppm),
                "bound_share": fraction(needs.bound_ppm),
                "share": fraction(needs.ppm()),
            })
        };
        let trace = |of: &TraceShares| {
            json!({
                "method": of.method.name(),
                "requests": of.demand.requests,
                "writes": of.demand.writes,
                "sequential": of.demand.sequential,
                "bytes": of.demand.bytes,
                "others": of.demand.others,
                "span_ns": of.demand.span.as_nanos(),
                "share_mean": fraction(of.mean_ppm),
                "share": fraction(of.share_ppm),
                "share_worst": fraction(of.worst_ppm),
            })
        };
        let reserved = |(name, share, bound): &(String, Share, Option<Duration>)| {
            json!({
                "name": name,
                "share": share.as_fraction(),
                "behind_ns_max": bound.map(Duration::as_nanos),
            })
        };
        json!({
            "device": self.name,
            "size_bytes": self.bytes,
            "depth": self.depth,
            "stay_ns": self.stay.as_nanos(),
            "confidence": self.confidence.as_fraction(),
            "percentile": self.percentile.as_fraction(),
            "goal": self.goal.as_ref().map(|(goal, access)| goal_json(goal, *access)),
            "answers": self.answers.iter().map(answer).collect::<Vec<_>>(),
            "traces": self.traces.iter().map(trace).collect::<Vec<_>>(),
            "reserved": self.reserved.as_ref().map(|all| all.iter().map(reserved).collect::<Vec<_>>()),
            "method": self.method.name(),
            "share": fraction(self.ppm),
            "available": self.available.as_fraction(),
            "behind_ns_max": self.bound.map(Duration::as_nanos),
            "fits": self.fits(),
            "would_fit": self.fitting.as_ref().map(would_fit),
        })
    }
}

fn would_fit(fitting: &Fitting) -> Value {
    json!({
        "iops": match fitting.demand { Some(Demand::Requests(rate)) => Some(rate), _ => None },
        "bytes_per_second": match fitting.demand { Some(Demand::Bytes(rate)) => Some(rate), _ => None },
        "latency_ns": fitting.latency.map(Duration::as_nanos),
    })
}

fn goal_json(goal: &Goal, access: Access) -> Value {
    let (iops, bytes) = match goal.demand {
        Some(Demand::Requests(rate)) => (Some(rate), None),
        Some(Demand::Bytes(rate)) => (None, Some(rate)),
        None => (None, None),
    };
    json!({
        "iops": iops,
        "bytes_per_second": bytes,
        "request_bytes": goal.request,
        "run": goal.run,
        "access": word(access),
        "latency_ns": goal.bound.map(|bound| bound.latency.as_nanos()),
    })
}

/// 0 to 1, or above; `null` if no share does.
fn fraction(ppm: u64) -> Option<f64> {
    (ppm < u64::MAX).then(|| ppm as f64 / f64::from(Share::PARTS))
}

fn word(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::Both => "both",
    }
}

/// A goal in words.
fn said(goal: &Goal, access: Access) -> String {
    let size = size(goal.request);
    let rate = goal.demand.map(|demand| match demand {
        Demand::Requests(rate) => format!("{rate} requests/s of {size}"),
        Demand::Bytes(rate) => format!("{:.3} MB/s in requests of {size}", rate as f64 / 1e6),
    });
    let rate = rate.unwrap_or_else(|| format!("now and then a request of {size}"));
    let order = match goal.run {
        1 => "at random".to_owned(),
        run => format!("in runs of {run}"),
    };
    let work = match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::Both => "reads or writes",
    };
    let bound = goal
        .bound
        .map(|bound| format!(", {} of them within {:?}", bound.percentile, bound.latency));
    format!("{rate} {order}, {work}{}", bound.unwrap_or_default())
}

fn size(bytes: u64) -> String {
    let units = [("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(name, unit)| format!("{} {name}", bytes / unit))
}

fn summary(demand: &trace::Demand) -> String {
    let part = |count: u64| 100.0 * count as f64 / demand.requests as f64;
    let seconds = demand.span.as_secs_f64();
    format!(
        "{} requests in {seconds:.1} s, {:.1} MB, {:.0} % writes, {:.0} % in sequence",
        demand.requests,
        demand.bytes as f64 / 1e6,
        part(demand.writes),
        part(demand.sequential),
    )
}

/// Four digits.
fn span(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1_000.0 => format!("{micros:.2} µs"),
        ..1_000_000.0 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}
