//! Answers: what there is, how it does, what would fit, what happened, what is wrong.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DeviceSpec, VdiskSpec};

/// The daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Server {
    /// Its version.
    pub version: String,
    /// Whether devices, virtual disks and contracts can be changed here; else a file is the truth.
    pub writable: bool,
    /// Why not, if they can't be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The caller's role: `operate` may change things, `view` may not.
    #[serde(default)]
    pub role: String,
}

/// The terms that the engine keeps for a virtual disk, goals made reservations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Contract {
    /// Share of disk time that it gets whenever it wants it, 0 to 1.
    pub reserve: f64,
    /// Share of disk time that it never exceeds for long, 0 to 1.
    pub limit: f64,
    /// Its part of what others leave.
    pub weight: u32,
    /// Its class.
    pub class: String,
}

/// Figures of a virtual disk. Rates are of the last ten seconds, counts since the daemon's start.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// Share of the device's time that it got, 0 to 1.
    pub utilization: f64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second, read and written.
    pub bytes_per_second: f64,
    /// Part of the time in which it had requests in the daemon, 0 to 1.
    #[serde(default)]
    pub wanting: f64,
    /// The reason that held it back most: a part of [`Held`], `idle` left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// How long its requests took.
    #[serde(flatten)]
    pub latency: Latency,
    /// Requests that wait now.
    pub waiting: u32,
    /// Pieces at the device now.
    pub in_flight: u32,
    /// Clients connected now.
    pub connections: u64,
    /// Requests completed.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Disk time charged, in nanoseconds.
    pub charged_ns: u64,
    /// How its promises were kept.
    #[serde(flatten)]
    pub promises: Promises,
    /// Time for which its requests waited.
    #[serde(default)]
    pub waited: Waited,
}

/// How promises were kept since the daemon's start.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Promises {
    /// How often it was further behind its reservation than is promised.
    pub promises_broken: u64,
    /// Cycles of a guaranteed rate that began with work waiting and are over.
    #[serde(default)]
    pub cycles: u64,
    /// Cycles of a guaranteed rate that were not kept.
    #[serde(default)]
    pub cycles_missed: u64,
    /// How often its users have said that they missed a deadline.
    #[serde(default)]
    pub deadlines_missed: u64,
}

/// Seconds since the daemon's start in which a virtual disk had requests in the daemon, by what they
/// waited for: together all that time, in steps of the looks at it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Waited {
    /// All that it had sent was at the device.
    pub own_depth: f64,
    /// It was at the device and more of it waited.
    pub device: f64,
    /// Its limit or its part of the queue depth kept it from the device: it was throttled.
    pub limit: f64,
    /// Others had the device.
    pub others: f64,
    /// The device was left idle, to switch between streams or for another's next request.
    pub switching: f64,
}

/// Response times of the last five to ten seconds, in microseconds; nothing if no request ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// The median of waiting times.
    pub queue_us_p50: Option<f64>,
    /// The 99th percentile of waiting times.
    pub queue_us_p99: Option<f64>,
    /// The median of times at the device.
    pub service_us_p50: Option<f64>,
    /// The 99th percentile of times at the device.
    pub service_us_p99: Option<f64>,
}

/// A virtual disk.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Vdisk {
    /// Its name.
    pub name: String,
    /// Its device's name.
    pub device: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its terms.
    #[serde(flatten)]
    pub contract: Contract,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Where clients reach it.
    pub uris: Vec<String>,
    /// The wish that made it, where the daemon keeps that; a change states its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<VdiskSpec>,
}

/// A stream of a mount that is a guest of a device: an open file with a contract, or all files without
/// one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MountStream {
    /// The path of its file when it got its contract; `(shared)` for all files without one.
    pub name: String,
    /// `mount`.
    pub kind: String,
    /// Its device's name.
    pub device: String,
    /// The directory that its mount is at.
    pub mount: String,
    /// Its number there, as in `.disktime/streams`.
    pub stream: u32,
    /// Its terms.
    #[serde(flatten)]
    pub contract: Contract,
    /// Its figures. `connections` is 1: its mount.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A mount that is a guest of a device: all its streams together, those of files that have been closed
/// among them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Mount {
    /// The directory that it is at.
    pub name: String,
    /// Its device's name.
    pub device: String,
    /// How many streams of each class it has now.
    pub streams: BTreeMap<String, usize>,
    /// The sum of their reservations, 0 to 1.
    pub reserve: f64,
    /// Contracts that its files asked for and got. The one of files without a contract counts, too.
    pub granted: u64,
    /// Contracts that its files asked for and did not get.
    pub refused: u64,
    /// The sums of its streams' figures. `connections` is 1.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its back end.
    pub back_end: String,
    /// The emulated device, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulate: Option<String>,
    /// How many virtual disks it has.
    pub vdisks: usize,
    /// How many mounts are its guests.
    #[serde(default)]
    pub mounts: usize,
    /// The sum of all reservations, 0 to 1.
    pub reserved: f64,
    /// Share that may still be reserved, 0 to 1.
    pub available: f64,
    /// Time with at least one piece at the device, in nanoseconds since the start.
    pub busy_ns: u64,
    /// Busy time that no stream is charged for, in nanoseconds.
    pub spare_ns: u64,
    /// Time held idle for a stream, in nanoseconds.
    pub held_ns: u64,
    /// Pieces that the device may hold.
    pub queue_depth: u32,
    /// Pieces at the device now.
    pub in_flight: u32,
    /// CPU time of its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// The wish that made it, where the daemon keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<DeviceSpec>,
}

/// Whether a virtual disk would fit, found out without making it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// Whether its device would take it.
    pub fits: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reservation that it would have, 0 to 1; a goal's share, if it fits.
    pub reserve: f64,
    /// The largest reservation that would fit beside all others, 0 to 1.
    pub would_fit: f64,
}

/// Reasons that held a virtual disk back over the last seconds: parts of 100 %, from samples.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Held {
    /// Seconds that the parts are of.
    pub seconds: f64,
    /// Samples that the parts are of.
    pub samples: usize,
    /// Percent: it sent nothing.
    pub idle: f64,
    /// Percent: all that it had sent was at the device; more requests at once would get more.
    pub own_depth: f64,
    /// Percent: it was at the device and more of it waited.
    pub device: f64,
    /// Percent: its limit or its part of the queue depth kept it from the device.
    pub limit: f64,
    /// Percent: others had the device.
    pub others: f64,
    /// Percent: the device was left idle, to switch between streams or for another's next request.
    pub switching: f64,
    /// The same in seconds since the daemon's start.
    #[serde(default)]
    pub waited: Waited,
}

/// The past of a device, in columns: entry `i` of each list is of moment `i`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Seconds between two moments: 1 or 10.
    pub step_seconds: u32,
    /// Milliseconds since 1970 at the end of each moment.
    pub at_ms: Vec<u64>,
    /// Virtual disks that got something, 32 at most; those beyond are one, named `others`.
    pub vdisks: Vec<Track>,
    /// Mounts that got something, as many as virtual disks.
    #[serde(default)]
    pub mounts: Vec<Track>,
    /// Share of the time with pieces at the device that is charged to no stream.
    pub spare: Vec<f64>,
    /// Share of the time that the device was held idle for a stream.
    pub held: Vec<f64>,
    /// The longest time of each row of latencies, in microseconds.
    pub edges_us: Vec<f64>,
    /// Requests by the time that they waited: for each moment a count for each row.
    pub queue: Vec<Vec<u32>>,
    /// Requests by their time at the device.
    pub service: Vec<Vec<u32>>,
}

/// The past of a virtual disk or of a mount.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Track {
    /// Its name.
    pub name: String,
    /// Share of the device's time that it got.
    pub got: Vec<f64>,
    /// Share that it had reserved; nothing where it was not there or got nothing.
    pub reserved: Vec<Option<f64>>,
}

/// The last second, as `GET /v1/live` sends it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Live {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The devices.
    pub devices: Vec<LiveDevice>,
}

/// A device in the last second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LiveDevice {
    /// Its name.
    pub name: String,
    /// Sum of reservations, 0 to 1.
    pub reserved: f64,
    /// Share of the time with a piece at the device.
    pub busy: f64,
    /// Share of the time charged to no stream.
    pub spare: f64,
    /// Share of the time held idle for a stream.
    pub held: f64,
    /// Virtual disks that have done something in the last minute, 32 at most.
    pub vdisks: Vec<LiveVdisk>,
    /// Mounts that have done something in the last minute, 32 at most.
    #[serde(default)]
    pub mounts: Vec<LiveVdisk>,
    /// Requests by the time that they waited, a count for each row of [`History::edges_us`].
    pub queue: Vec<u32>,
    /// Requests by their time at the device.
    pub service: Vec<u32>,
}

/// A virtual disk or a mount in the last second.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct LiveVdisk {
    /// Its name.
    pub name: String,
    /// Share of the device's time that it got.
    pub got: f64,
    /// Share that it has reserved.
    pub reserved: f64,
    /// Share of the device's time that it got in the last ten seconds.
    pub utilization: f64,
    /// Part of the last ten seconds in which it had requests in the daemon.
    pub wanting: f64,
    /// Requests per second, of the last ten seconds.
    pub iops: f64,
    /// Bytes per second, of the last ten seconds.
    pub bytes_per_second: f64,
    /// The reason that held it back most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    /// How long its requests took.
    #[serde(flatten)]
    pub latency: Latency,
}

/// Something that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number; each is one more than the one before.
    pub id: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// `created`, `changed`, `deleted`, `promise-broken`, `gap`.
    pub kind: String,
    /// The kind of thing that it happened to: `device`, `vdisk` or `events`.
    pub what: String,
    /// Its name.
    pub name: String,
    /// For a person.
    pub text: String,
    /// The one who did it: a user of this machine by number, or a token by its role. Empty if nobody did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// Why a request was not done (RFC 9457).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The kind of problem.
    pub title: String,
    /// The fault, the values allowed, the remedy.
    pub detail: String,
    /// The key that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The values that are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// The largest reservation that would fit, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_fit: Option<f64>,
}
