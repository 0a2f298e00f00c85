//! The codec's paths, to be counted: `paths PATH TIMES` takes a path so often and prints nothing.
//! `cargo xtask bench instructions` runs it under valgrind and compares the instructions of one time with
//! `xtask/instructions.txt`. Without words it prints the names of paths.
#![allow(missing_docs, reason = "a program")]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that has no input but its own"
)]

use std::hint::black_box;

use disktime_nbd::reply::{ReplyStyle, ReplyTo};
use disktime_nbd::{
    BlockSizes, Command, CommandFlags, ExportInfo, RequestHeader, TransmissionFlags,
};

const PATHS: [(&str, Command, ReplyStyle); 3] = [
    ("read/simple", Command::Read, ReplyStyle::Simple),
    ("read/structured", Command::Read, ReplyStyle::Structured),
    ("write/structured", Command::Write, ReplyStyle::Structured),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [name, times] = &words[..] else {
        PATHS.iter().for_each(|(name, ..)| println!("{name}"));
        return;
    };
    let (_, command, style) = *PATHS.iter().find(|path| path.0 == name).expect("a path's name");
    let export = export();
    for time in 0..times.parse::<u64>().expect("a number of times") {
        answer(command, style, &export, time);
    }
}

/// A request's header is read and checked, and its reply's is made.
fn answer(command: Command, style: ReplyStyle, export: &ExportInfo, cookie: u64) {
    let flags = CommandFlags::EMPTY;
    let asked = RequestHeader { flags, command, cookie, offset: cookie << 12, length: 4096 };
    let header = RequestHeader::parse(black_box(&asked.to_bytes())).unwrap();
    let checked = header.validate(export, 32 << 20).unwrap();
    let to = ReplyTo { style, cookie: checked.cookie, offset: checked.offset };
    match command {
        Command::Read => black_box(to.read_ok_header(4096)),
        _ => black_box(to.done(command)),
    };
}

fn export() -> ExportInfo {
    ExportInfo {
        name: "disk".to_owned(),
        description: String::new(),
        size_bytes: u64::MAX >> 1,
        flags: TransmissionFlags::KNOWN.without(TransmissionFlags::READ_ONLY),
        block_sizes: BlockSizes::new(1, 4096, 32 << 20).unwrap(),
    }
}
