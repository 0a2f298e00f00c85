//! Vocabulary: numbers, and what requests and contracts are. It does not know of queues, accounts or
//! devices.

pub(crate) mod bucket;
pub(crate) mod contract;
pub(crate) mod heap;
pub(crate) mod ids;
pub(crate) mod rank;
pub(crate) mod request;
pub(crate) mod share;
pub(crate) mod tiers;
pub(crate) mod time;
