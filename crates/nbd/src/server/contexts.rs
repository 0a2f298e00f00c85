//! Metadata contexts ("Metadata querying"): which of an export's contexts a client's queries name.
//!
//! Does not know what a context describes.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Cursor, wire_str};
use crate::code::{OptionCode, OptionReply};
use crate::limits::STRING_BYTES_MAX;

/// A metadata context of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its identifier on the wire, another one than any other context's of the export.
    pub id: u32,
    /// Its name, as `namespace:leaf`.
    pub name: String,
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
pub(super) struct ContextQuery<'a> {
    /// The export's name.
    pub(super) export: &'a str,
    queries: &'a [u8],
    count: u32,
}

impl<'a> ContextQuery<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, OptionReply> {
        let mut fields = Cursor(data);
        let export = fields.counted().ok_or(OptionReply::ErrInvalid)?;
        let count = fields.u32().ok_or(OptionReply::ErrInvalid)?;
        let queries = fields.0;
        if export.len() > STRING_BYTES_MAX {
            return Err(OptionReply::ErrTooBig);
        }
        let export = wire_str(export).ok_or(OptionReply::ErrInvalid)?;
        // Every query takes bytes of the data, which are bounded: so is the loop.
        for _ in 0..count {
            let query = fields.counted().ok_or(OptionReply::ErrInvalid)?;
            if query.len() > STRING_BYTES_MAX {
                return Err(OptionReply::ErrTooBig);
            }
        }
        if fields.0.is_empty() {
            Ok(Self { export, queries, count })
        } else {
            Err(OptionReply::ErrInvalid)
        }
    }

    /// The offered contexts that the queries name, each once, in the order in which they are offered. A list without queries names all of them; in a list a query that ends with
    /// a colon names all that begin so.
    pub(super) fn names<'b>(&self, option: OptionCode, offered: &'b [Context]) -> Vec<&'b Context> {
        let lists = option == OptionCode::ListMetaContext;
        let mut named: Vec<bool> = offered.iter().map(|_| lists && self.count == 0).collect();
        let mut fields = Cursor(self.queries);
        while let Some(query) = fields.counted() {
            for (context, named) in offered.iter().zip(&mut named) {
                let context = context.name.as_bytes();
                *named |= context == query
                    || (lists && query.ends_with(b":") && context.starts_with(query));
            }
        }
        offered.iter().zip(named).filter_map(|(context, named)| named.then_some(context)).collect()
    }
}
