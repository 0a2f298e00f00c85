//! Whether two descriptors are of one file. A file system has a handle for each of its files that is as good as the
//! file's number or better (`name_to_handle_at(2)`).
#![allow(unsafe_code, reason = "no safe wrapper has this call")]

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// Room for the longest handle (`MAX_HANDLE_SZ`).
const ROOM: u32 = 128;

/// `struct file_handle`, with room behind its head.
#[repr(C)]
#[derive(PartialEq, Eq)]
struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u8; ROOM as usize],
}

/// Whether two descriptors with the same device and number are of one file. It is so where their file system has
/// no handles.
pub(crate) fn are_of_one_file(one: &OwnedFd, other: &OwnedFd) -> bool {
    match (handle(one), handle(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

fn handle(file: &OwnedFd) -> Option<Handle> {
    // One that is not to be opened by is there on more file systems. Linux before 6.5 does not know that flag.
    match ask(file, libc::AT_EMPTY_PATH | libc::AT_HANDLE_FID) {
        Err(Errno::INVAL) => ask(file, libc::AT_EMPTY_PATH).ok(),
        asked => asked.ok(),
    }
}

fn ask(file: &OwnedFd, flags: i32) -> Result<Handle, Errno> {
    let mut handle = Handle { bytes: ROOM, kind: 0, handle: [0; ROOM as usize] };
    let mut mount = 0;
    let at = (&raw mut handle).cast::<libc::file_handle>();
    // SAFETY: the kernel writes the head and at most as many bytes behind it as the head says that there is room
    // for. `Handle` has the fields of the head first, and that room.
    let asked = unsafe {
        libc::name_to_handle_at(file.as_raw_fd(), c"".as_ptr(), at, &raw mut mount, flags)
    };
    if asked == 0 {
        return Ok(handle);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_by_any_descriptor_and_another_is_not() {
        let (one, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let again = OwnedFd::from(one.try_clone().unwrap());
        let (one, other) = (OwnedFd::from(one), OwnedFd::from(other));
        assert!(are_of_one_file(&one, &again));
        // Where the file system has handles at all.
        assert_eq!(are_of_one_file(&one, &other), handle(&one).is_none());
    }
}
