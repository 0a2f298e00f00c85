//! Tables of a file: keys of their own, and keys that both files have.
//!
//! A key is stated once, in the list of its macro. Serde's own way to share fields, `flatten`, loses
//! the lines and the known keys in its messages; so the macros write the fields out.

/// Declares a struct that reads a table with keys of its own, and the keys of a contract beside them.
/// It has a method `contract()` that answers these as [`ContractKeys`](crate::ContractKeys).
///
/// Each key may be left out. A key's type is as it is written; what it may say is checked by
/// [`ContractKeys::check`](crate::ContractKeys::check).
#[macro_export]
macro_rules! contract_table {
    ($($declared:tt)*) => {
        $crate::table_with! {
            contract: $crate::ContractKeys;
            /// Which class goes first: `guaranteed-latency` to `background`.
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
            /// The kind of admission of the rate.
            admission: $crate::AdmissionName,
            /// The operations of its requests: `read`, `write` or `both`.
            access: String,
            /// The bound on its response times.
            latency: String;
            $($declared)*
        }
    };
}

/// Declares a struct that reads a table with keys of its own, and the keys beside them that say how a
/// device's time is shared. It has a method `scheduling()` that answers these as
/// [`SchedulingKeys`](crate::SchedulingKeys).
///
/// Each key may be left out. A key's type is as it is written; what it may say is checked by
/// [`SchedulingKeys::check`](crate::SchedulingKeys::check).
#[macro_export]
macro_rules! scheduling_table {
    ($($declared:tt)*) => {
        $crate::table_with! {
            scheduling: $crate::SchedulingKeys;
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
            /// Pieces at the device at once, or `auto`.
            queue_depth: $crate::DepthText,
            /// The response of the device above which a stream's part of its queue shrinks.
            depth_latency: String,
            /// Share of disk time that admission keeps free.
            headroom: String,
            /// A file that says what the device does.
            profile: ::std::path::PathBuf,
            /// Whether the device is looked at for a moment first, to know what requests cost.
            quick_profile: bool;
            $($declared)*
        }
    };
}

/// Declares a table with a set of shared keys; with nothing declared, the set itself.
#[doc(hidden)]
#[macro_export]
macro_rules! table_with {
    (
        $set:ident: $keys:ty; $($(#[$doc:meta])* $key:ident: $type:ty),*;
    ) => {
        /// The shared keys of a table as they are written; `None` where one is left out.
        #[derive(Clone, Debug, Default)]
        pub struct Keys {
            $($(#[$doc])* pub $key: Option<$type>,)*
        }

        impl Keys {
            /// Every key by name.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($key)),*];
        }
    };
    (
        $set:ident: $keys:ty; $($(#[$doc:meta])* $key:ident: $type:ty),*;
        $(#[$meta:meta])* $vis:vis struct $name:ident { $($own:tt)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, ::serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $vis struct $name {
            $($own)*
            $($(#[$doc])* $key: Option<$type>,)*
        }

        impl $name {
            /// The keys that the daemon's configuration and a scenario both have.
            fn $set(&self) -> $keys {
                type Shared = $keys;
                Shared { $($key: self.$key.clone()),* }
            }
        }
    };
}
