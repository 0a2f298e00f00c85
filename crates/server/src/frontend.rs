//! Front ends: how clients reach virtual disks.

pub mod nbd;
pub mod request;
