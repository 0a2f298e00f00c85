//! Accounts: how the device's time is divided, and what each stream has used of it; no account knows the
//! queues, or how a cost was estimated.

pub(crate) mod late;
pub(crate) mod ledger;
pub(crate) mod posting;
pub(crate) mod settling;
pub(crate) mod stalls;
pub(crate) mod stream_accounts;
pub(crate) mod usage;
pub(crate) mod write_back;
