//! `/metrics` for Prometheus: what the API shows, as counters and gauges by virtual disk and device.
//!
//! The figures are read when they are asked for; nothing is counted here. Does not know: where the
//! figures come from.

use std::sync::atomic::AtomicU64;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use disktime_api::{Device, Vdisk};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::ask::Api;
use crate::problem::Refusal;
use crate::sampler::Sampler;

/// The format of the answer.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct VdiskLabels {
    vdisk: String,
    device: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct DeviceLabels {
    device: String,
}

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

/// The names of all metrics, as they are asked for.
#[must_use]
pub fn names() -> Vec<String> {
    fn of<T>(rows: &[Row<T>]) -> impl Iterator<Item = String> {
        rows.iter().map(|(rises, name, ..)| format!("{name}{}", if *rises { "_total" } else { "" }))
    }
    of(VDISK).chain(of(DEVICE)).collect()
}

/// Its addresses.
pub fn routes() -> Router<Api> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(api): State<Api>) -> Result<impl IntoResponse, Refusal> {
    let look = |server: &mut disktime_server::Server, plane: &mut crate::Plane, seen: &Sampler| {
        server.refresh();
        Ok::<_, Refusal>((plane.vdisks(server, seen), plane.devices(server)?))
    };
    let (vdisks, devices) = api.ask_seen(look).await??;
    let text = text(&vdisks, &devices)
        .map_err(|error| Refusal::bad_request(format!("no metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, TEXT)], text))
}

fn text(vdisks: &[Vdisk], devices: &[Device]) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::default();
    let of_vdisk = |it: &Vdisk| VdiskLabels { vdisk: it.name.clone(), device: it.device.clone() };
    register(&mut registry, VDISK, vdisks, of_vdisk);
    let of_device = |it: &Device| DeviceLabels { device: it.name.clone() };
    register(&mut registry, DEVICE, devices, of_device);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

fn register<T, L>(registry: &mut Registry, rows: &[Row<T>], all: &[T], labels: fn(&T) -> L)
where
    L: EncodeLabelSet + Clone + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static,
{
    for (rises, name, help, value) in rows {
        if *rises {
            let family = Family::<L, Counter<f64, AtomicU64>>::default();
            for it in all {
                family.get_or_create(&labels(it)).inc_by(value(it));
            }
            registry.register(*name, *help, family);
        } else {
            let family = Family::<L, Gauge<f64, AtomicU64>>::default();
            for it in all {
                family.get_or_create(&labels(it)).set(value(it));
            }
            registry.register(*name, *help, family);
        }
    }
}
