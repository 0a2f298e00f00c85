//! Handshake messages built field by field, independently of the crate's own encoders.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use disktime_nbd::{OptionCode, OptionReply, magic};

pub(crate) fn length_of(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).expect("test data is short").to_be_bytes()
}

pub(crate) fn greeting(flags: u16) -> Vec<u8> {
    let (first, second) = (magic::GREETING.to_be_bytes(), magic::OPTION.to_be_bytes());
    [&first[..], &second, &flags.to_be_bytes()].concat()
}

pub(crate) fn client_flags(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

pub(crate) fn option(code: OptionCode, data: &[u8]) -> Vec<u8> {
    let (magic, code) = (magic::OPTION.to_be_bytes(), code.to_wire().to_be_bytes());
    [&magic[..], &code, &length_of(data), data].concat()
}

pub(crate) fn option_reply(code: OptionCode, reply: OptionReply, data: &[u8]) -> Vec<u8> {
    let magic = magic::OPTION_REPLY.to_be_bytes();
    let (code, reply) = (code.to_wire().to_be_bytes(), reply.to_wire().to_be_bytes());
    [&magic[..], &code, &reply, &length_of(data), data].concat()
}

pub(crate) fn info_data(name: &str, kinds: &[u16]) -> Vec<u8> {
    let count = u16::try_from(kinds.len()).expect("test data is short").to_be_bytes();
    let kinds: Vec<u8> = kinds.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    [&length_of(name.as_bytes())[..], name.as_bytes(), &count, &kinds].concat()
}
