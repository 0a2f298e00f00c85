//! `/metrics` for Prometheus: what the API shows, as counters and gauges by virtual disk,
//! mount and device.
//!
//! The figures are read when they are asked for; nothing is counted here. Does not know: where the
//! figures come from.

use std::fmt;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use disktime_api::{Device, Figures, Mount, Problem, Vdisk, Waited};
use disktime_server::{Server, Snapshot, VdiskStats, VdiskView, Watch, WatchedMount};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde::Deserialize;

use crate::ask::Api;
use crate::problem::Refusal;
use crate::sampler::Sampler;

/// The format of the answer.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric: whether it only rises, the end of its name, its text, its value.
type Row<T> = (bool, &'static str, &'static str, fn(&T) -> f64);

const NANOS: f64 = 1e-9;

/// Metrics of each virtual disk and of each mount.
const FIGURES: &[Row<Figures>] = &[
    (true, "requests", "Requests completed", |it| it.requests as f64),
    (true, "failed", "Requests that failed", |it| it.failed as f64),
    (true, "bytes", "Bytes read and written", |it| it.bytes as f64),
    (true, "charged_seconds", "Disk time charged", |it| it.charged_ns as f64 * NANOS),
    (true, "promises_broken", "Times behind the reservation by more than is promised", |it| {
        it.promises.promises_broken as f64
    }),
    (true, "cycles", "Cycles of guaranteed rates that are over", |it| it.promises.cycles as f64),
    (true, "cycles_missed", "Cycles of guaranteed rates that were not kept", |it| {
        it.promises.cycles_missed as f64
    }),
    (true, "deadlines_missed", "Missed deadlines that clients or programs have reported", |it| {
        it.promises.deadlines_missed as f64
    }),
    (false, "used_ratio", "Share of disk time of the last ten seconds", |it| it.utilization),
    (false, "waiting", "Requests that wait", |it| f64::from(it.waiting)),
    (false, "in_flight", "Pieces at the device", |it| f64::from(it.in_flight)),
    (false, "queue_p99_seconds", "99th percentile of waiting times", |it| {
        it.latency.queue_us_p99.unwrap_or(0.0) * 1e-6
    }),
    (false, "service_p99_seconds", "99th percentile of times at the device", |it| {
        it.latency.service_us_p99.unwrap_or(0.0) * 1e-6
    }),
];

/// Metrics of each virtual disk alone.
const VDISK: &[Row<Vdisk>] = &[
    (false, "reserve_ratio", "Share of disk time reserved", |it| it.contract.reserve),
    (false, "limit_ratio", "Share of disk time never exceeded", |it| it.contract.limit),
    (false, "size_bytes", "Size", |it| it.size_bytes as f64),
    (false, "connections", "Clients", |it| it.figures.connections as f64),
];

/// Metrics of each mount alone.
const MOUNT: &[Row<Mount>] = &[
    (false, "reserve_ratio", "Share of disk time reserved for its files", |it| it.reserve),
    (true, "contracts_granted", "Contracts that its files asked for and got", |it| {
        it.granted as f64
    }),
    (true, "contracts_refused", "Contracts that its files asked for and did not get", |it| {
        it.refused as f64
    }),
];

/// Metrics of each device.
const DEVICE: &[Row<Device>] = &[
    (true, "busy_seconds", "Time with pieces at the device", |it| it.busy_ns as f64 * NANOS),
    (true, "spare_seconds", "Busy time charged to no stream", |it| it.spare_ns as f64 * NANOS),
    (true, "held_seconds", "Time held idle on purpose", |it| it.held_ns as f64 * NANOS),
    (true, "cpu_seconds", "CPU time of the device's threads", |it| it.cpu_ns as f64 * NANOS),
    (false, "reserved_ratio", "Share of disk time reserved", |it| it.reserved),
    (false, "available_ratio", "Share that may still be reserved", |it| it.available),
    (false, "queue_depth", "Pieces that the device may hold", |it| f64::from(it.queue_depth)),
    (false, "in_flight", "Pieces at the device", |it| f64::from(it.in_flight)),
    (false, "vdisks", "Virtual disks", |it| it.vdisks as f64),
    (false, "mounts", "Mounts", |it| it.mounts as f64),
];

/// Streams of a mount by class: a label for each file would be one for each that was ever opened.
const STREAMS: (&str, &str) =
    ("streams", "Open files with a contract, and one for all files without; by their class");

/// Time that virtual disks and mounts waited, by reason.
const WAITED: (&str, &str) = (
    "waited_seconds",
    "Time with requests in the daemon, by what they waited for; reason `limit` is throttled time",
);

/// A reason's name, and the time in seconds.
type Reason = (&'static str, fn(&Waited) -> f64);

const REASONS: [Reason; 5] = [
    ("own_depth", |it| it.own_depth),
    ("device", |it| it.device),
    ("limit", |it| it.limit),
    ("others", |it| it.others),
    ("switching", |it| it.switching),
];

/// Histograms of each virtual disk and of each mount, for those who ask for them.
const TIMES: [(&str, &str); 2] = [
    ("queue_seconds", "Waiting times of requests; their sum takes 3/4 of each bucket's edge"),
    (
        "service_seconds",
        "Times of requests at the device; their sum takes 3/4 of each bucket's edge",
    ),
];

/// The names of all metrics, as they are asked for.
#[must_use]
pub fn names() -> Vec<String> {
    listed().into_iter().map(|[name, ..]| name).collect()
}

/// Every metric as it is asked for, its labels, and its text: for the manual's reference page.
#[must_use]
pub fn listed() -> Vec<[String; 3]> {
    fn of<T>(kind: &str, rows: &[Row<T>], more: &str) -> Vec<[String; 3]> {
        let row = |(rises, name, text, _): &Row<T>| {
            let name = format!("disktime_{kind}_{name}{}", if *rises { "_total" } else { "" });
            let device = if kind == "device" { "" } else { ", device" };
            [name, format!("{kind}{device}{more}"), (*text).to_owned()]
        };
        rows.iter().map(row).collect()
    }
    // Values of metrics with more labels are elsewhere.
    let row = |rises, (name, text)| -> [Row<()>; 1] { [(rises, name, text, |()| 0.0)] };
    let waited = |kind| of(kind, &row(true, WAITED), ", reason");
    [
        of("vdisk", FIGURES, ""),
        of("vdisk", VDISK, ""),
        waited("vdisk"),
        of("mount", FIGURES, ""),
        of("mount", MOUNT, ""),
        of("mount", &row(false, STREAMS), ", class"),
        waited("mount"),
        of("device", DEVICE, ""),
    ]
    .concat()
}

/// The histograms that are answered where they are asked for, as [`listed`].
#[must_use]
pub fn listed_histograms() -> Vec<[String; 3]> {
    let of = |kind: &str, (name, text): (&str, &str)| {
        [format!("disktime_{kind}_{name}"), format!("{kind}, device, le"), text.to_owned()]
    };
    ["vdisk", "mount"].into_iter().flat_map(|kind| TIMES.map(|it| of(kind, it))).collect()
}

/// Its addresses.
pub fn routes() -> Router<Api> {
    Router::new().route("/metrics", get(metrics))
}

/// The wishes of a scrape.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default)]
    histograms: bool,
}

/// Metrics in the text format of OpenMetrics.
#[utoipa::path(get, path = "/metrics", params(("histograms" = Option<bool>, Query)),
    responses((status = 200, body = String, content_type = "application/openmetrics-text"),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn metrics(
    State(api): State<Api>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<impl IntoResponse, Refusal> {
    let Query(Wanted { histograms }) = wanted?;
    let look = move |server: &mut Server, plane: &mut crate::Plane, seen: &Sampler| {
        server.refresh();
        let times = if histograms { times(server) } else { Vec::new() };
        let mounts = plane.mount_sums(server, seen);
        let (vdisks, devices) = (plane.vdisks(server, seen), plane.devices(server));
        Found { vdisks, mounts, devices, times }
    };
    let text = text(api.ask_seen(look).await?)
        .map_err(|error| Refusal::bad_request(format!("no metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, TEXT)], text))
}

/// The times of virtual disks and mounts that had a request.
fn times(server: &Server) -> Vec<Times> {
    let of = |kind, name: &str, device: &str, stats: &VdiskStats| {
        let times = [&stats.queue_time, &stats.service_time];
        let octaves = times.map(|histogram| histogram.counts().octaves());
        let (name, device) = (name.to_owned(), device.to_owned());
        (stats.requests() > 0).then_some(Times { kind, name, device, octaves })
    };
    let of_vdisk = |it: &VdiskView| of("vdisk", &it.name, &it.device, &it.stats);
    let vdisks = server.vdisks().iter().filter_map(of_vdisk);
    let devices = server.config().devices.iter().zip(server.watch(Watch::Busy));
    let mounts = devices.flat_map(|(device, watched)| {
        let of_mount = |it: &WatchedMount| of("mount", &it.view.name, &device.name, &it.view.stats);
        let mounts = watched.map_or_else(Vec::new, |it| it.mounts);
        mounts.iter().filter_map(of_mount).collect::<Vec<_>>()
    });
    vdisks.chain(mounts).collect()
}

fn text(found: Found) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(found));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The figures of one scrape, written out from where they are.
#[derive(Debug)]
struct Found {
    vdisks: Vec<Vdisk>,
    mounts: Vec<Mount>,
    devices: Vec<Device>,
    times: Vec<Times>,
}

/// Waiting times of a virtual disk or a mount, and times at the device, counted by octave.
#[derive(Debug)]
struct Times {
    kind: &'static str,
    name: String,
    device: String,
    octaves: [[u64; Snapshot::OCTAVES]; 2],
}

/// A name and its device's name, which label a metric.
type Named<'a> = (&'a str, &'a str);

impl Collector for Found {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let vdisks = self.vdisks.iter().map(|it| ((&*it.name, &*it.device), it));
        let mounts = self.mounts.iter().map(|it| ((&*it.name, &*it.device), it));
        // One that does not answer has no lines: its counters would fall to 0, and rise again.
        let devices = self.devices.iter().filter(|it| it.queue_depth > 0);
        let devices = devices.map(|it| ((&*it.name, ""), it));
        let encoder = &mut encoder;
        of_kind(encoder, "vdisk", vdisks.clone().map(|(named, it)| (named, &it.figures)))?;
        rows(encoder, ("vdisk", VDISK), &vdisks)?;
        of_kind(encoder, "mount", mounts.clone().map(|(named, it)| (named, &it.figures)))?;
        rows(encoder, ("mount", MOUNT), &mounts)?;
        streams(encoder, &self.mounts)?;
        rows(encoder, ("device", DEVICE), &devices)?;
        ["vdisk", "mount"].into_iter().try_for_each(|kind| histograms(encoder, kind, &self.times))
    }
}

/// The metrics that virtual disks and mounts have.
fn of_kind<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    kind: &str,
    all: impl Iterator<Item = (Named<'a>, &'a Figures)> + Clone,
) -> Result<(), fmt::Error> {
    rows(encoder, (kind, FIGURES), &all)?;
    waited(encoder, kind, all)
}

fn rows<'a, T: 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (of, rows): (&str, &[Row<T>]),
    all: &(impl Iterator<Item = (Named<'a>, &'a T)> + Clone),
) -> Result<(), fmt::Error> {
    for (rises, name, help, value) in rows {
        let kind = if *rises { MetricType::Counter } else { MetricType::Gauge };
        let name = format!("disktime_{of}_{name}");
        let mut metric = encoder.encode_descriptor(&name, help, None, kind)?;
        for ((name, device), it) in all.clone() {
            let labels = [(of, name), ("device", device)];
            // A device's own name says it all.
            let count = if device.is_empty() { 1 } else { 2 };
            let labels = &labels[..count];
            let mut one = metric.encode_family(&labels)?;
            if *rises {
                one.encode_counter::<NoLabelSet, _, f64>(&value(it), None)?;
            } else {
                one.encode_gauge(&value(it))?;
            }
        }
    }
    Ok(())
}

/// A virtual disk that never waited has no such lines: there may be many of them.
fn waited<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    kind: &str,
    all: impl Iterator<Item = (Named<'a>, &'a Figures)>,
) -> Result<(), fmt::Error> {
    let name = format!("disktime_{kind}_{}", WAITED.0);
    let mut metric = encoder.encode_descriptor(&name, WAITED.1, None, MetricType::Counter)?;
    for ((name, device), it) in all.filter(|(_, it)| it.waited != Waited::default()) {
        for (reason, of) in REASONS {
            let labels = [(kind, name), ("device", device), ("reason", reason)];
            let value = of(&it.waited);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
    }
    Ok(())
}

fn streams(encoder: &mut DescriptorEncoder<'_>, mounts: &[Mount]) -> Result<(), fmt::Error> {
    let name = format!("disktime_mount_{}", STREAMS.0);
    let mut metric = encoder.encode_descriptor(&name, STREAMS.1, None, MetricType::Gauge)?;
    for it in mounts {
        for (class, count) in &it.streams {
            let labels = [("mount", &*it.name), ("device", &*it.device), ("class", class)];
            metric.encode_family(&labels)?.encode_gauge(&(*count as f64))?;
        }
    }
    Ok(())
}

fn histograms(
    encoder: &mut DescriptorEncoder<'_>,
    kind: &str,
    all: &[Times],
) -> Result<(), fmt::Error> {
    if !all.iter().any(|it| it.kind == kind) {
        return Ok(());
    }
    let edges = Snapshot::edges().map(|edge| edge.as_secs_f64());
    for (which, (name, help)) in TIMES.into_iter().enumerate() {
        let name = format!("disktime_{kind}_{name}");
        let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Histogram)?;
        for Times { name, device, octaves, .. } in all.iter().filter(|it| it.kind == kind) {
            let octaves = &octaves[which];
            let mut buckets: Vec<_> = edges.into_iter().zip(*octaves).collect();
            // An octave's times are 0.75 of its edge on average, if they are spread evenly.
            let sum = buckets.iter().map(|(edge, count)| 0.75 * edge * *count as f64).sum();
            if let Some((edge, _)) = buckets.last_mut() {
                *edge = f64::INFINITY;
            }
            let labels = [(kind, &**name), ("device", &**device)];
            let mut one = metric.encode_family(&labels)?;
            one.encode_histogram::<NoLabelSet>(sum, octaves.iter().sum(), &buckets, None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The busy time of a device was 0 while its thread did not answer: rates over it were far too high then.
    #[test]
    fn a_device_that_does_not_answer_has_no_counters_that_fall() {
        let device = |name: &str, queue_depth| Device {
            name: name.to_owned(),
            back_end: "memory".to_owned(),
            emulate: None,
            vdisks: 0,
            mounts: 0,
            reserved: 0.0,
            available: 1.0,
            busy_ns: 0,
            spare_ns: 0,
            held_ns: 0,
            queue_depth,
            in_flight: 0,
            cpu_ns: 0,
            spec: None,
        };
        let devices = vec![device("disk", 32), device("silent", 0)];
        let (vdisks, mounts, times) = Default::default();
        let text = text(Found { vdisks, mounts, devices, times }).unwrap();
        assert!(text.contains("disktime_device_busy_seconds_total{device=\"disk\"} 0.0"), "{text}");
        assert!(!text.contains("silent"), "{text}");
    }
}
