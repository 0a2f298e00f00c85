//! Wishes: what a device or virtual disk is to be.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Declares an object whose keys may be left out but for the first ones.
macro_rules! spec {
    (
        $(#[$meta:meta])* $name:ident {
            $($(#[$must_doc:meta])* $must:ident: $must_type:ty,)*;
            $($(#[$doc:meta])* $key:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$must_doc])* pub $must: $must_type,)*
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )*
        }

        impl $name {
            /// Every key, in order.
            pub const KEYS: &'static [&'static str] =
                &[$(stringify!($must),)* $(stringify!($key),)*];
        }
    };
}

spec! {
    /// A device as `[[device]]` of a configuration has it.
    DeviceSpec {
        /// Its name: 1 to 64 letters, digits, `-`, `_` and `.`.
        name: String,
        /// The back end, which stores the bytes: `memory`, `file:PATH`, `raid0:PATH,PATH`,
        /// `tiered:PATH,PATH`, `nbd://HOST:PORT/EXPORT`.
        back_end: String,;
        /// Whether a directory of raw files is made where nothing is.
        create: bool,
        /// Bytes of a stripe's chunk.
        chunk: String,
        /// Connections to a server.
        connections: u32,
        /// How long requests wait for a server that is gone.
        hold: String,
        /// The most disk time of migrations between tiers.
        promotion: String,
        /// Whether the fast tier is to be emptied.
        empty_fast: bool,
        /// How many threads serve it.
        shards: u32,
        /// The preset of an emulated device.
        emulate: String,
        /// Which policy orders requests.
        policy: String,
        /// Whether the policy may be one that is there to compare with.
        experimental: bool,
        /// The order in which policy `zygaria` gives away unreserved time.
        slack: String,
        /// Requests per second of the whole device, for policies that count requests.
        nominal_iops: u32,
        /// How the cost of a request is estimated.
        cost_model: String,
        /// How long the policy may stay with one stream.
        horizon: String,
        /// Which controller shapes best effort for soft real time.
        feedback: String,
        /// The unit of the controller's tokens.
        feedback_token: String,
        /// The least rate that the controller leaves, in tokens per second.
        feedback_min: u32,
        /// The rate of controller `fixed`, in tokens per second.
        feedback_rate: u32,
        /// Pieces at the device at once; left out, as few as make it fast.
        queue_depth: u32,
        /// The response time above which a stream's part of the queue shrinks.
        depth_latency: String,
        /// Share of disk time that admission keeps free.
        headroom: String,
        /// A file that says what the device does.
        profile: String,
        /// Whether the device is looked at for a moment first, to know what requests cost.
        quick_profile: bool,
    }
}

spec! {
    /// A virtual disk as `[[vdisk]]` of a configuration has it.
    VdiskSpec {
        /// Its name, and its export's: 1 to 64 letters, digits, `-`, `_` and `.`.
        name: String,
        /// Its device's name.
        device: String,
        /// Its size: `10GiB`.
        size: String,;
        /// The virtual disk of its device whose limit and reservation hold for it, too.
        parent: String,
        /// Its end of the device: `outer` or `inner`.
        zone: String,
        /// Its class: `guaranteed-latency` to `background`.
        class: String,
        /// Share of disk time that it gets whenever it wants it.
        reserve: String,
        /// Share of disk time that it never exceeds for long.
        limit: String,
        /// Its part of what others leave, against their weights.
        weight: u32,
        /// The bytes per second that class `guaranteed-rate` keeps.
        rate: String,
        /// How often the rate is kept.
        cycle: String,
        /// The kind of admission of the rate: `deterministic` or `best-effort`.
        admission: String,
        /// The operations of its requests: `read`, `write` or `both`.
        access: String,
        /// The bound on its response times.
        latency: String,
        /// A goal in requests per second, from which the reservation follows.
        iops: u64,
        /// A goal in bytes per second, from which the reservation follows.
        bandwidth: String,
        /// Bytes of a request of the goal.
        request: String,
        /// Requests in sequence of the goal.
        run: u64,
        /// A file for a trace of its requests.
        record: String,
        /// It is what a client gets that names no export.
        default: bool,
        /// Clients can't change it.
        read_only: bool,
        /// Text for a person.
        description: String,
        /// Names of certificates, one of which a client must show.
        clients: Vec<String>,
        /// Bitmaps of blocks that have changed.
        bitmaps: Vec<String>,
        /// Bytes of a bitmap's block.
        bitmap_granularity: String,
    }
}

spec! {
    /// A change of a virtual disk: keys that are left out stay as they are; `null` or an empty text takes
    /// a key away.
    VdiskChange {;
        /// Another name. It changes alone.
        #[serde(deserialize_with = "taken_away")]
        name: String,
        /// A size that is not smaller, unless `shrink` is true.
        #[serde(deserialize_with = "taken_away")]
        size: String,
        /// Whether the size may be smaller: data beyond are lost. It goes with `size` alone, and while no
        /// client is connected.
        shrink: bool,
        /// Its class.
        #[serde(deserialize_with = "taken_away")]
        class: String,
        /// Share of disk time that it gets whenever it wants it.
        #[serde(deserialize_with = "taken_away")]
        reserve: String,
        /// Share of disk time that it never exceeds for long.
        #[serde(deserialize_with = "taken_away")]
        limit: String,
        /// Its part of what others leave.
        #[serde(deserialize_with = "null_or")]
        weight: Option<u32>,
        /// Bytes per second of class `guaranteed-rate`.
        #[serde(deserialize_with = "taken_away")]
        rate: String,
        /// How often the rate is kept.
        #[serde(deserialize_with = "taken_away")]
        cycle: String,
        /// The kind of admission of the rate.
        #[serde(deserialize_with = "taken_away")]
        admission: String,
        /// The operations of its requests.
        #[serde(deserialize_with = "taken_away")]
        access: String,
        /// The bound on its response times.
        #[serde(deserialize_with = "taken_away")]
        latency: String,
        /// A goal in requests per second; 0 takes it away.
        #[serde(deserialize_with = "taken_away")]
        iops: u64,
        /// A goal in bytes per second.
        #[serde(deserialize_with = "taken_away")]
        bandwidth: String,
        /// Bytes of a request of the goal.
        #[serde(deserialize_with = "taken_away")]
        request: String,
        /// Requests in sequence of the goal; 0 takes it away.
        #[serde(deserialize_with = "taken_away")]
        run: u64,
    }
}

/// `null` says the same as an empty text, or as 0.
fn taken_away<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Some(Option::deserialize(from)?.unwrap_or_default()))
}

/// `null` takes away what is no text, and for which 0 is a mistake.
fn null_or<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl VdiskChange {
    /// The virtual disk with this change of its contract or size.
    #[must_use]
    pub fn of(self, before: &VdiskSpec) -> VdiskSpec {
        let mut after = before.clone();
        if let Some(size) = self.size {
            after.size = size;
        }
        for (key, new) in [
            (&mut after.class, self.class),
            (&mut after.reserve, self.reserve),
            (&mut after.limit, self.limit),
            (&mut after.rate, self.rate),
            (&mut after.cycle, self.cycle),
            (&mut after.admission, self.admission),
            (&mut after.access, self.access),
            (&mut after.latency, self.latency),
            (&mut after.bandwidth, self.bandwidth),
            (&mut after.request, self.request),
        ] {
            match new {
                Some(text) if text.is_empty() => *key = None,
                Some(text) => *key = Some(text),
                None => {}
            }
        }
        after.weight = self.weight.unwrap_or(after.weight);
        for (key, new) in [(&mut after.iops, self.iops), (&mut after.run, self.run)] {
            match new {
                Some(0) => *key = None,
                Some(_) => *key = new,
                None => {}
            }
        }
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_sets_keeps_and_takes_away() {
        let before = VdiskSpec {
            name: "db".to_owned(),
            reserve: Some("30%".to_owned()),
            limit: Some("60%".to_owned()),
            weight: Some(7),
            ..VdiskSpec::default()
        };
        let text = r#"{"reserve": "40%", "limit": ""}"#;
        let after = serde_json::from_str::<VdiskChange>(text).expect("a change").of(&before);
        assert_eq!(after.reserve.as_deref(), Some("40%"));
        assert_eq!((after.limit, after.weight), (None, Some(7)));
        let text = r#"{"reserve": null, "iops": 5, "run": null, "request": "64KiB"}"#;
        let after = serde_json::from_str::<VdiskChange>(text).expect("a change").of(&before);
        assert_eq!(
            (&after.reserve, after.iops, after.run),
            (&None, Some(5), None),
            "null takes away"
        );
        for (text, expected) in [("null", None), ("0", Some(0)), ("9", Some(9))] {
            let text = format!("{{\"weight\": {text}}}");
            let change = serde_json::from_str::<VdiskChange>(&text).expect("a change");
            assert_eq!(serde_json::to_string(&change).expect("JSON"), text.replace(' ', ""));
            assert_eq!(change.of(&before).weight, expected, "{text}");
        }
        assert_eq!(after.request.as_deref(), Some("64KiB"));
    }

    #[test]
    fn unknown_keys_and_wrong_types_are_errors() {
        for text in [r#"{"reserved": "40%"}"#, r#"{"weight": "heavy"}"#, r#"{"weight": -1}"#] {
            assert!(serde_json::from_str::<VdiskChange>(text).is_err(), "{text}");
        }
        let missing = r#"{"name": "db", "device": "disk"}"#;
        let error = serde_json::from_str::<VdiskSpec>(missing).expect_err("no size");
        assert!(error.to_string().contains("size"), "{error}");
    }
}
