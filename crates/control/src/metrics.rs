//! `/metrics` for Prometheus: what the API shows, as counters and gauges by virtual disk and device.
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
use disktime_api::{Device, Problem, Vdisk, Waited};
use disktime_server::{Server, Snapshot, VdiskView};
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

/// A metric: whether it only rises, its name, its text, its value.
type Row<T> = (bool, &'static str, &'static str, fn(&T) -> f64);

const NANOS: f64 = 1e-9;

/// Metrics of each virtual disk.
const VDISK: &[Row<Vdisk>] = &[
    (true, "disktime_vdisk_requests", "Requests completed", |it| it.figures.requests as f64),
    (true, "disktime_vdisk_failed", "Requests that failed", |it| it.figures.failed as f64),
    (true, "disktime_vdisk_bytes", "Bytes read and written", |it| it.figures.bytes as f64),
    (true, "disktime_vdisk_charged_seconds", "Disk time charged", |it| {
        it.figures.charged_ns as f64 * NANOS
    }),
    (
        true,
        "disktime_vdisk_promises_broken",
        "Times behind the reservation by more than is promised",
        |it| it.figures.promises_broken as f64,
    ),
    (false, "disktime_vdisk_reserve_ratio", "Share of disk time reserved", |it| {
        it.contract.reserve
    }),
    (false, "disktime_vdisk_limit_ratio", "Share of disk time never exceeded", |it| {
        it.contract.limit
    }),
    (false, "disktime_vdisk_used_ratio", "Share of disk time of the last ten seconds", |it| {
        it.figures.utilization
    }),
    (false, "disktime_vdisk_size_bytes", "Size", |it| it.size_bytes as f64),
    (false, "disktime_vdisk_waiting", "Requests that wait", |it| f64::from(it.figures.waiting)),
    (false, "disktime_vdisk_in_flight", "Pieces at the device", |it| {
        f64::from(it.figures.in_flight)
    }),
    (false, "disktime_vdisk_connections", "Clients", |it| it.figures.connections as f64),
    (false, "disktime_vdisk_queue_p99_seconds", "99th percentile of waiting times", |it| {
        it.figures.latency.queue_us_p99.unwrap_or(0.0) * 1e-6
    }),
    (false, "disktime_vdisk_service_p99_seconds", "99th percentile of times at the device", |it| {
        it.figures.latency.service_us_p99.unwrap_or(0.0) * 1e-6
    }),
];

/// Metrics of each device.
const DEVICE: &[Row<Device>] = &[
    (true, "disktime_device_busy_seconds", "Time with pieces at the device", |it| {
        it.busy_ns as f64 * NANOS
    }),
    (true, "disktime_device_spare_seconds", "Busy time charged to no virtual disk", |it| {
        it.spare_ns as f64 * NANOS
    }),
    (true, "disktime_device_held_seconds", "Time held idle on purpose", |it| {
        it.held_ns as f64 * NANOS
    }),
    (true, "disktime_device_cpu_seconds", "CPU time of the device's thread", |it| {
        it.cpu_ns as f64 * NANOS
    }),
    (false, "disktime_device_reserved_ratio", "Share of disk time reserved", |it| it.reserved),
    (false, "disktime_device_available_ratio", "Share that may still be reserved", |it| {
        it.available
    }),
    (false, "disktime_device_queue_depth", "Pieces that the device may hold", |it| {
        f64::from(it.queue_depth)
    }),
    (false, "disktime_device_in_flight", "Pieces at the device", |it| f64::from(it.in_flight)),
    (false, "disktime_device_vdisks", "Virtual disks", |it| it.vdisks as f64),
];

/// Time that virtual disks waited, by reason.
const WAITED: (&str, &str) = (
    "disktime_vdisk_waited_seconds",
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

/// Histograms of each virtual disk, for those who ask for them.
const TIMES: [(&str, &str); 2] = [
    (
        "disktime_vdisk_queue_seconds",
        "Waiting times of requests; their sum takes 3/4 of each bucket's edge",
    ),
    (
        "disktime_vdisk_service_seconds",
        "Times of requests at the device; their sum takes 3/4 of each bucket's edge",
    ),
];

/// The names of all metrics, as they are asked for.
#[must_use]
pub fn names() -> Vec<String> {
    fn of<T>(rows: &[Row<T>]) -> impl Iterator<Item = String> {
        rows.iter().map(|(rises, name, ..)| format!("{name}{}", if *rises { "_total" } else { "" }))
    }
    let waited = std::iter::once(format!("{}_total", WAITED.0));
    of(VDISK).chain(waited).chain(of(DEVICE)).collect()
}

/// Every metric as it is asked for, its labels, and its text: for the manual's reference page.
#[must_use]
pub fn listed() -> Vec<[String; 3]> {
    fn of<T>(rows: &[Row<T>], labels: &str) -> Vec<[String; 3]> {
        let row = |(rises, name, text, _): &Row<T>| {
            let name = format!("{name}{}", if *rises { "_total" } else { "" });
            [name, labels.to_owned(), (*text).to_owned()]
        };
        rows.iter().map(row).collect()
    }
    [of(VDISK, "vdisk, device"), of(DEVICE, "device")].concat()
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
        let (vdisks, devices) = (plane.vdisks(server, seen), plane.devices(server));
        Found { vdisks, devices, times }
    };
    let text = text(api.ask_seen(look).await?)
        .map_err(|error| Refusal::bad_request(format!("no metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, TEXT)], text))
}

/// The times of virtual disks that had a request.
fn times(server: &Server) -> Vec<Times> {
    let used = server.vdisks().iter().filter(|it| it.stats.requests() > 0);
    let of = |it: &VdiskView| {
        let times = [&it.stats.queue_time, &it.stats.service_time];
        let octaves = times.map(|histogram| histogram.counts().octaves());
        Times { vdisk: it.name.clone(), device: it.device.to_string(), octaves }
    };
    used.map(of).collect()
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
    devices: Vec<Device>,
    times: Vec<Times>,
}

/// Waiting times of a virtual disk, and times at the device, counted by octave.
#[derive(Debug)]
struct Times {
    vdisk: String,
    device: String,
    octaves: [[u64; Snapshot::OCTAVES]; 2],
}

impl Collector for Found {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        rows(&mut encoder, VDISK, &self.vdisks, |it| {
            [("vdisk", it.name.as_str()), ("device", it.device.as_str())]
        })?;
        waited(&mut encoder, &self.vdisks)?;
        rows(&mut encoder, DEVICE, &self.devices, |it| [("device", it.name.as_str())])?;
        histograms(&mut encoder, &self.times)
    }
}

fn rows<'a, T, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    rows: &[Row<T>],
    all: &'a [T],
    labels: impl Fn(&'a T) -> [(&'static str, &'a str); N],
) -> Result<(), fmt::Error> {
    for (rises, name, help, value) in rows {
        let kind = if *rises { MetricType::Counter } else { MetricType::Gauge };
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for it in all {
            let labels = labels(it);
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

/// Virtual disks that never waited have no such lines: there may be many of them.
fn waited(encoder: &mut DescriptorEncoder<'_>, vdisks: &[Vdisk]) -> Result<(), fmt::Error> {
    let (name, help) = WAITED;
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for it in vdisks.iter().filter(|it| it.figures.waited != Waited::default()) {
        for (reason, of) in REASONS {
            let labels = [("vdisk", &*it.name), ("device", &*it.device), ("reason", reason)];
            let value = of(&it.figures.waited);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
    }
    Ok(())
}

fn histograms(encoder: &mut DescriptorEncoder<'_>, all: &[Times]) -> Result<(), fmt::Error> {
    if all.is_empty() {
        return Ok(());
    }
    let edges = Snapshot::edges().map(|edge| edge.as_secs_f64());
    for (which, (name, help)) in TIMES.into_iter().enumerate() {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for Times { vdisk, device, octaves } in all {
            let octaves = &octaves[which];
            let mut buckets: Vec<_> = edges.into_iter().zip(*octaves).collect();
            // An octave's times are 0.75 of its edge on average, if they are spread evenly.
            let sum = buckets.iter().map(|(edge, count)| 0.75 * edge * *count as f64).sum();
            if let Some((edge, _)) = buckets.last_mut() {
                *edge = f64::INFINITY;
            }
            let labels = [("vdisk", &**vdisk), ("device", &**device)];
            let mut one = metric.encode_family(&labels)?;
            one.encode_histogram::<NoLabelSet>(sum, octaves.iter().sum(), &buckets, None)?;
        }
    }
    Ok(())
}
