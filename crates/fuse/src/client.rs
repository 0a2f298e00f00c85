//! A program's side: the ioctls on an open file.
#![allow(unsafe_code, reason = "ioctls write into memory of this process")]

use std::os::fd::AsFd;

use disktime_core::Contract;
use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Getter, NoArg, Setter, Updater};

use crate::abi;

/// The contract of an open file as a `struct disktime_qos`.
///
/// # Errors
/// `ENOTTY` if the file is on no such mount.
pub fn get(file: impl AsFd) -> Result<[u8; abi::QOS_BYTES]> {
    // SAFETY: the number says that the kernel writes as many bytes as the array has.
    unsafe { ioctl::ioctl(file, Getter::<{ abi::GET }, [u8; abi::QOS_BYTES]>::new()) }
}

/// Asks for a contract. If it is refused, the structure that comes back says why and what would fit.
///
/// # Errors
/// The kernel's, with the structure.
pub fn set(
    file: impl AsFd,
    contract: &Contract,
) -> std::result::Result<(), (Errno, [u8; abi::QOS_BYTES])> {
    let mut qos = abi::qos(contract, &abi::Refused::default());
    // SAFETY: the number says that the kernel reads and writes as many bytes as the array has.
    let set =
        unsafe { ioctl::ioctl(file, Updater::<{ abi::SET }, [u8; abi::QOS_BYTES]>::new(&mut qos)) };
    set.map_err(|error| (error, qos))
}

/// Asks for a priority: 0 background, 1 usual, 2 the largest weight.
///
/// # Errors
/// `EPERM` if this user may not, `ENOTTY` if the file is on no such mount.
pub fn prioritize(file: impl AsFd, priority: u32) -> Result<()> {
    // SAFETY: the number says that the kernel reads 4 bytes.
    unsafe { ioctl::ioctl(file, Setter::<{ abi::PRIORITY }, u32>::new(priority)) }
}

/// The figures of the device below the mount, as a `struct disktime_device`.
///
/// # Errors
/// `ENOTTY` if the file is on no such mount.
pub fn device(file: impl AsFd) -> Result<[u8; abi::DEVICE_BYTES]> {
    // SAFETY: the number says that the kernel writes as many bytes as the array has.
    unsafe { ioctl::ioctl(file, Getter::<{ abi::DEVICE }, [u8; abi::DEVICE_BYTES]>::new()) }
}

/// Says that data came too late.
///
/// # Errors
/// `EINVAL` if the file has no contract.
pub fn late(file: impl AsFd) -> Result<()> {
    // SAFETY: the call has no data.
    unsafe { ioctl::ioctl(file, NoArg::<{ abi::LATE }>::new()) }
}
