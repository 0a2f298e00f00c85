//! Standard output and standard error of every command: the macros that print.
//!
//! They stand in for those of the standard library, which panic where nobody reads: `disktime demo |
//! head` is no bug. A command whose standard output is gone ends, since nobody hears the rest.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

use crate::{interrupt, terminal};

/// Prints a line on standard output.
macro_rules! println {
    () => { $crate::say::out(format_args!("\n")) };
    ($($text:tt)*) => { $crate::say::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints on standard output.
macro_rules! print {
    ($($text:tt)*) => { $crate::say::out(format_args!($($text)*)) };
}

/// Prints a line on standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::say::err(format_args!("{}\n", format_args!($($text)*))) };
}

/// Writes to standard output; the command ends if it can't be written to.
pub fn out(text: Arguments<'_>) {
    let text = text.to_string();
    let text = terminal::painted(&text);
    let mut out = io::stdout().lock();
    // A text without a line's end, too, is for somebody who waits for it.
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    drop(out);
    let Err(error) = written else { return };
    if interrupt::is_unheard() {
        return;
    }
    unprinted(&error);
    interrupt::unheard();
}

/// Says why standard output can't be written to.
pub fn unprinted(error: &io::Error) {
    // A reader that has gone has its reasons; a full file system is news.
    if error.kind() != ErrorKind::BrokenPipe {
        err(format_args!("disktime: standard output: {error}\n"));
    }
}

/// Writes to standard error, if it can be written to.
pub fn err(text: Arguments<'_>) {
    let _nobody_reads = io::stderr().lock().write_fmt(text);
}

/// Writes a command's last words to standard output, if it can be written to: its exit code says the
/// same.
pub fn last(text: &str) {
    let _nobody_reads = io::stdout().lock().write_all(text.as_bytes());
}
