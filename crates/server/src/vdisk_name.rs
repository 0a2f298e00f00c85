//! Names of virtual disks and devices, which are names of files too.

/// The longest name of a device or virtual disk in bytes.
pub(crate) const NAME_MAX: usize = 64;

/// Whether a name is 1 to [`NAME_MAX`] plain characters, the first of them no dot.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=NAME_MAX).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('.')
}
