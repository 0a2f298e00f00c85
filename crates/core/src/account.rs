//! Accounts: how the device's time is divided, and what each stream has used of it. It does not know
//! why a request went out, or what it was expected to cost.

pub(crate) mod ledger;
pub(crate) mod served;
pub(crate) mod settling;
pub(crate) mod stream_accounts;
pub(crate) mod usage;
