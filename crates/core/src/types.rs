//! Vocabulary: numbers, names, and what requests and contracts say; no type here knows what waits, what was
//! used, or what anything costs.

pub(crate) mod bucket;
pub(crate) mod by_stream;
pub(crate) mod contract;
pub(crate) mod heap;
pub(crate) mod ids;
pub(crate) mod limit;
pub(crate) mod order;
pub(crate) mod piece;
pub(crate) mod rank;
pub(crate) mod ratio;
pub(crate) mod request;
pub(crate) mod share;
pub(crate) mod tiers;
pub(crate) mod time;
