//! The server's half of the handshake ("Fixed newstyle negotiation", "Option types").

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Cursor, Gather, prefix, wire_str};
use crate::code::{InfoType, OptionCode, OptionReply};
use crate::export::ExportInfo;
use crate::flags::{ClientFlags, HandshakeFlags};
use crate::limits::{
    HANDSHAKE_REPLY_BYTES_MAX, LIST_REPLY_BYTES_MAX, OPTION_DATA_BYTES_MAX, OPTION_DRAIN_BYTES_MAX,
    OPTIONS_MAX, STRING_BYTES_MAX,
};
use crate::magic;
use crate::server::GREETING_BYTES;
use crate::server::contexts::{Context, ContextQuery};
use crate::server::error::HandshakeError;
use crate::server::reply::ReplyStyle;

const OPTION_HEADER_BYTES: usize = 16;
const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Padding after the answer to `EXPORT_NAME`, unless `NO_ZEROES` was agreed.
const EXPORT_NAME_PADDING: [u8; 124] = [0; 124];

/// The exports that a server offers. Called by [`ServerHandshake::handle_input`] on its caller's
/// thread, each at most once per option of the client; must not block.
pub trait Exports {
    /// Hands every export to `each`, in the order in which they shall be listed. Only names and
    /// descriptions are used; what exceeds [`LIST_REPLY_BYTES_MAX`] is ignored.
    fn list(&self, each: &mut dyn FnMut(&ExportInfo));

    /// The export of this name. The empty name asks for the default export; whether there is
    /// one is for the implementation to say.
    fn find(&self, name: &str) -> Option<ExportInfo>;

    /// Whether a client that chooses this export, which was found, may begin; if not, why not, in a
    /// sentence for a person. Asked right before the client is told that it may.
    ///
    /// # Errors
    /// Why it may not.
    fn admit(&self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    /// An export's metadata contexts. A session names those that its client chose by their
    /// identifiers.
    fn contexts(&self, _name: &str) -> Vec<Context> {
        Vec::new()
    }
}

/// Whether a client may, or must, go on under TLS before it chooses an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// Not offered.
    #[default]
    Off,
    /// Offered; a client may do without.
    Offered,
    /// Every option but `STARTTLS` and `ABORT` is refused before it.
    Required,
    /// The connection is under TLS.
    On,
}

/// Where the handshake stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Send what was written, read more.
    NeedMore,
    /// Send what was written, then serve requests; bytes not consumed are the first of them.
    Transmission(Session),
    /// Send what was written, then do the TLS handshake, of which bytes not consumed are the first
    /// (so nothing that came in the clear is taken for an option); then go on with what TLS
    /// protected.
    StartTls,
    /// The client leaves: send what was written, then close.
    Aborted,
}

/// The outcome of a negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The export, with the flags that this client was told.
    pub export: ExportInfo,
    /// How to answer reads.
    pub style: ReplyStyle,
    /// The metadata contexts that the client chose, by their identifiers. Block status describes each
    /// of them.
    pub contexts: Vec<u32>,
}

/// One client's handshake.
///
/// Send [`greeting`](Self::greeting) first; then hand every piece of input, of any length, to
/// [`handle_input`](Self::handle_input) until it returns something other than
/// [`Handshake::NeedMore`]. It does no input or output, keeps at most [`OPTION_DATA_BYTES_MAX`]
/// bytes, and doesn't know time: how long a client may take is for the caller to decide.
#[derive(Debug, Default)]
pub struct ServerHandshake {
    state: State,
    input: Gather,
    flags: ClientFlags,
    style: ReplyStyle,
    tls: Tls,
    /// The export whose metadata contexts were chosen, and which.
    contexts: Option<(String, Vec<u32>)>,
    options_seen: u32,
    reply_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    ClientFlags,
    OptionHeader,
    /// An option whose data matters.
    OptionData {
        option: OptionCode,
        length: usize,
    },
    /// An option that is answered whatever the rest of its data says.
    Drain {
        option: OptionCode,
        bytes_left: u32,
        reply: OptionReply,
    },
    Over,
}

/// The consequence of one option.
enum Verdict {
    Answered,
    Begin(Session),
    StartTls,
}

impl ServerHandshake {
    /// A handshake that has yet to begin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A handshake that has yet to begin, with TLS or without.
    #[must_use]
    pub fn with_tls(tls: Tls) -> Self {
        Self { tls, ..Self::default() }
    }

    /// The first bytes that the server sends.
    #[must_use]
    pub fn greeting(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        let flags = HandshakeFlags::FIXED_NEWSTYLE.with(HandshakeFlags::NO_ZEROES);
        bytes[0..8].copy_from_slice(&magic::GREETING.to_be_bytes());
        bytes[8..16].copy_from_slice(&magic::OPTION.to_be_bytes());
        bytes[16..18].copy_from_slice(&flags.to_wire().to_be_bytes());
        bytes
    }

    /// Takes input and appends the answers to `out`. Returns how many bytes of `input` were
    /// consumed: all of them, unless the handshake ended before.
    ///
    /// Over its life a handshake appends at most [`HANDSHAKE_REPLY_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// The connection must be closed, after sending what was written so far. Every later call
    /// returns [`HandshakeError::Over`].
    pub fn handle_input(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Handshake), HandshakeError> {
        let mut rest = input;
        let result = self.advance(&mut rest, exports, out);
        if !matches!(result, Ok(Handshake::NeedMore | Handshake::StartTls)) {
            self.state = State::Over;
        }
        result.map(|handshake| (input.len() - rest.len(), handshake))
    }

    /// Every turn of the loop consumes a message or part of a drain, so input bounds it.
    fn advance(
        &mut self,
        input: &mut &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Handshake, HandshakeError> {
        loop {
            match self.state {
                State::ClientFlags => {
                    let Some(bytes) = self.input.array(input) else {
                        return Ok(Handshake::NeedMore);
                    };
                    self.client_flags(ClientFlags::from_wire(u32::from_be_bytes(bytes)))?;
                }
                State::OptionHeader => {
                    let Some(bytes) = self.input.array(input) else {
                        return Ok(Handshake::NeedMore);
                    };
                    self.option_header(&bytes)?;
                }
                State::OptionData { option, length } => {
                    let Some(data) = self.input.message(length, input) else {
                        return Ok(Handshake::NeedMore);
                    };
                    self.state = State::OptionHeader;
                    match self.option(option, &data, exports, out)? {
                        Verdict::Answered => {}
                        Verdict::Begin(session) => return Ok(Handshake::Transmission(session)),
                        Verdict::StartTls => return Ok(Handshake::StartTls),
                    }
                }
                State::Drain { option, bytes_left, reply } => {
                    let bytes_left = drain(bytes_left, input);
                    if bytes_left > 0 {
                        self.state = State::Drain { option, bytes_left, reply };
                        return Ok(Handshake::NeedMore);
                    }
                    self.state = State::OptionHeader;
                    self.reply(out, option, reply, &[])?;
                    if option == OptionCode::Abort {
                        return Ok(Handshake::Aborted);
                    }
                }
                State::Over => return Err(HandshakeError::Over),
            }
        }
    }

    fn client_flags(&mut self, flags: ClientFlags) -> Result<(), HandshakeError> {
        if !flags.without(ClientFlags::KNOWN).is_empty() {
            return Err(HandshakeError::UnknownClientFlags(flags));
        }
        self.flags = flags;
        self.state = State::OptionHeader;
        Ok(())
    }

    /// Decides what to do with an option before its data is read.
    fn option_header(&mut self, bytes: &[u8; OPTION_HEADER_BYTES]) -> Result<(), HandshakeError> {
        let mut fields = Cursor(bytes);
        let (Some(magic), Some(number), Some(length)) = (fields.u64(), fields.u32(), fields.u32())
        else {
            return Err(HandshakeError::OptionMagic(0));
        };
        if magic != magic::OPTION {
            return Err(HandshakeError::OptionMagic(magic));
        }
        let option = OptionCode::from_wire(number);
        self.options_seen += 1;
        if self.options_seen > OPTIONS_MAX {
            return Err(HandshakeError::TooManyOptions);
        }
        if option != OptionCode::ExportName && !self.flags.contains(ClientFlags::FIXED_NEWSTYLE) {
            return Err(HandshakeError::NotFixedNewstyle(option));
        }
        if self.tls == Tls::Required && option == OptionCode::ExportName {
            return Err(HandshakeError::TlsRequired);
        }
        self.state = match self.refusal(option, length) {
            Some(_) if option == OptionCode::ExportName || length > OPTION_DRAIN_BYTES_MAX => {
                return Err(HandshakeError::OptionTooLong { option, length_bytes: length });
            }
            Some(reply) => State::Drain { option, bytes_left: length, reply },
            None => State::OptionData { option, length: length as usize },
        };
        Ok(())
    }

    /// Answers an option that is understood.
    fn option(
        &mut self,
        option: OptionCode,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Verdict, HandshakeError> {
        match option {
            OptionCode::ExportName => self.export_name(data, exports, out),
            OptionCode::List => self.list(exports, out),
            OptionCode::StructuredReply => {
                self.style = ReplyStyle::Structured;
                self.reply(out, option, OptionReply::Ack, &[])?;
                Ok(Verdict::Answered)
            }
            OptionCode::ExtendedHeaders => {
                self.style = ReplyStyle::Extended;
                self.reply(out, option, OptionReply::Ack, &[])?;
                Ok(Verdict::Answered)
            }
            OptionCode::StartTls => {
                self.reply(out, option, OptionReply::Ack, &[])?;
                // Words in the clear may be an attacker's.
                (self.tls, self.style, self.contexts) = (Tls::On, ReplyStyle::Simple, None);
                Ok(Verdict::StartTls)
            }
            OptionCode::ListMetaContext | OptionCode::SetMetaContext => {
                self.meta_contexts(option, data, exports, out)
            }
            _ => self.info(option, data, exports, out),
        }
    }

    fn export_name(
        &mut self,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Verdict, HandshakeError> {
        let name = wire_str(data).ok_or(HandshakeError::ExportName)?;
        let export = exports.find(name).ok_or(HandshakeError::UnknownExport)?;
        exports.admit(name).map_err(|_| HandshakeError::NotAdmitted)?;
        let session = self.session(export);
        let padding: &[u8] = match self.flags.contains(ClientFlags::NO_ZEROES) {
            true => &[],
            false => &EXPORT_NAME_PADDING,
        };
        let size = session.export.size_bytes.to_be_bytes();
        let flags = session.export.flags.to_wire().to_be_bytes();
        self.write(out, &[&size, &flags, padding])?;
        Ok(Verdict::Begin(session))
    }

    fn list(
        &mut self,
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Verdict, HandshakeError> {
        let mut listed = Vec::new();
        let mut too_big = false;
        exports.list(&mut |export| {
            let description = prefix(&export.description, STRING_BYTES_MAX);
            let entry_bytes = OPTION_REPLY_HEADER_BYTES + 4 + export.name.len() + description.len();
            too_big |= listed.len() + entry_bytes > LIST_REPLY_BYTES_MAX;
            if !too_big && export.name.len() <= STRING_BYTES_MAX {
                let length = length_field(export.name.len());
                let parts = [&length[..], export.name.as_bytes(), description.as_bytes()];
                append_reply(&mut listed, OptionCode::List, OptionReply::Server, &parts);
            }
        });
        if too_big {
            self.reply(out, OptionCode::List, OptionReply::ErrTooBig, &[])?;
        } else {
            self.write(out, &[&listed])?;
            self.reply(out, OptionCode::List, OptionReply::Ack, &[])?;
        }
        Ok(Verdict::Answered)
    }

    /// Names the contexts of an export that the client's queries ask for, and chooses them if the
    /// client wants that; what it chose before is forgotten.
    fn meta_contexts(
        &mut self,
        option: OptionCode,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Verdict, HandshakeError> {
        let sets = option == OptionCode::SetMetaContext;
        if sets {
            self.contexts = None;
        }
        let found = match ContextQuery::parse(data) {
            Ok(query) => match exports.find(query.export) {
                Some(export) => Ok((query, export)),
                None => Err(OptionReply::ErrUnknown),
            },
            Err(reply) => Err(reply),
        };
        let (query, export) = match found {
            Ok(found) => found,
            Err(reply) => {
                self.reply(out, option, reply, &[])?;
                return Ok(Verdict::Answered);
            }
        };
        let offered = exports.contexts(&export.name);
        let named = query.names(option, &offered);
        for context in &named {
            let id = if sets { context.id } else { 0 };
            let parts = [&id.to_be_bytes()[..], context.name.as_bytes()];
            self.reply(out, option, OptionReply::MetaContext, &parts)?;
        }
        self.reply(out, option, OptionReply::Ack, &[])?;
        if sets {
            let chosen = named.iter().map(|context| context.id).collect();
            self.contexts = Some((export.name, chosen));
        }
        Ok(Verdict::Answered)
    }

    /// `INFO` and `GO`, which differ only in what follows success.
    fn info(
        &mut self,
        option: OptionCode,
        data: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Verdict, HandshakeError> {
        let request = match InfoRequest::parse(data) {
            Ok(request) => request,
            Err(reply) => {
                self.reply(out, option, reply, &[])?;
                return Ok(Verdict::Answered);
            }
        };
        let Some(export) = exports.find(request.name) else {
            self.reply(out, option, OptionReply::ErrUnknown, &[b"no such export"])?;
            return Ok(Verdict::Answered);
        };
        if let (OptionCode::Go, Err(reason)) = (option, exports.admit(request.name)) {
            self.reply(out, option, OptionReply::ErrPolicy, &[reason.as_bytes()])?;
            return Ok(Verdict::Answered);
        }
        let session = self.session(export);
        self.describe(option, &session.export, &request, out)?;
        self.reply(out, option, OptionReply::Ack, &[])?;
        Ok(match option {
            OptionCode::Go => Verdict::Begin(session),
            _ => Verdict::Answered,
        })
    }

    fn describe(
        &mut self,
        option: OptionCode,
        export: &ExportInfo,
        request: &InfoRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), HandshakeError> {
        let mut fact = |kind: InfoType, parts: [&[u8]; 3]| {
            let kind = kind.to_wire().to_be_bytes();
            let parts = [&kind[..], parts[0], parts[1], parts[2]];
            self.reply(out, option, OptionReply::Info, &parts)
        };
        let size = export.size_bytes.to_be_bytes();
        let flags = export.flags.to_wire().to_be_bytes();
        fact(InfoType::Export, [&size, &flags, &[]])?;
        let block = export.block_sizes;
        let (min, preferred, max) = (block.min(), block.preferred(), block.max());
        fact(
            InfoType::BlockSize,
            [&min.to_be_bytes(), &preferred.to_be_bytes(), &max.to_be_bytes()],
        )?;
        if request.asks(InfoType::Name) {
            fact(InfoType::Name, [prefix(&export.name, STRING_BYTES_MAX).as_bytes(), &[], &[]])?;
        }
        if request.asks(InfoType::Description) {
            let description = prefix(&export.description, STRING_BYTES_MAX);
            fact(InfoType::Description, [description.as_bytes(), &[], &[]])?;
        }
        Ok(())
    }

    fn session(&self, mut export: ExportInfo) -> Session {
        export.flags = export.flags.advertised(self.style != ReplyStyle::Simple);
        let chosen = self.contexts.as_ref().filter(|(name, _)| *name == export.name);
        let contexts = chosen.map_or_else(Vec::new, |(_, contexts)| contexts.clone());
        Session { export, style: self.style, contexts }
    }

    /// How an option is answered without a look at its data; `None` if its data matters.
    fn refusal(&self, option: OptionCode, length: u32) -> Option<OptionReply> {
        use OptionCode::{
            Abort, ExportName, ExtendedHeaders, Go, Info, List, ListMetaContext, SetMetaContext,
            StartTls, StructuredReply,
        };
        let length = length as usize;
        match option {
            // Data with an abort is ignored.
            Abort => Some(OptionReply::Ack),
            StartTls if self.tls == Tls::Off => Some(OptionReply::ErrUnsupported),
            StartTls if self.tls == Tls::On => Some(OptionReply::ErrInvalid),
            StartTls if length > 0 => Some(OptionReply::ErrInvalid),
            StartTls => None,
            _ if self.tls == Tls::Required => Some(OptionReply::ErrTlsRequired),
            List | StructuredReply | ExtendedHeaders if length > 0 => Some(OptionReply::ErrInvalid),
            StructuredReply if self.style == ReplyStyle::Extended => {
                Some(OptionReply::ErrExtendedHeadersRequired)
            }
            List | StructuredReply | ExtendedHeaders => None,
            ExportName if length > STRING_BYTES_MAX => Some(OptionReply::ErrTooBig),
            ListMetaContext | SetMetaContext if self.style == ReplyStyle::Simple => {
                Some(OptionReply::ErrInvalid)
            }
            Info | Go | ListMetaContext | SetMetaContext if length > OPTION_DATA_BYTES_MAX => {
                Some(OptionReply::ErrTooBig)
            }
            ExportName | Info | Go | ListMetaContext | SetMetaContext => None,
            _ => Some(OptionReply::ErrUnsupported),
        }
    }

    fn reply(
        &mut self,
        out: &mut Vec<u8>,
        option: OptionCode,
        reply: OptionReply,
        parts: &[&[u8]],
    ) -> Result<(), HandshakeError> {
        let start = out.len();
        append_reply(out, option, reply, parts);
        self.count(out, start)
    }

    fn write(&mut self, out: &mut Vec<u8>, parts: &[&[u8]]) -> Result<(), HandshakeError> {
        let start = out.len();
        for part in parts {
            out.extend_from_slice(part);
        }
        self.count(out, start)
    }

    /// Takes back what exceeds the handshake's allowance.
    fn count(&mut self, out: &mut Vec<u8>, start: usize) -> Result<(), HandshakeError> {
        self.reply_bytes += out.len() - start;
        if self.reply_bytes > HANDSHAKE_REPLY_BYTES_MAX {
            out.truncate(start);
            return Err(HandshakeError::TooManyReplies);
        }
        Ok(())
    }
}

/// Throws away up to `bytes_left` bytes of input; returns how many are still to come.
fn drain(bytes_left: u32, input: &mut &[u8]) -> u32 {
    let available = u32::try_from(input.len()).unwrap_or(u32::MAX).min(bytes_left);
    *input = &input[available as usize..];
    bytes_left - available
}

fn length_field(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("replies are bounded far below 4 GiB").to_be_bytes()
}

fn append_reply(out: &mut Vec<u8>, option: OptionCode, reply: OptionReply, parts: &[&[u8]]) {
    out.extend_from_slice(&magic::OPTION_REPLY.to_be_bytes());
    out.extend_from_slice(&option.to_wire().to_be_bytes());
    out.extend_from_slice(&reply.to_wire().to_be_bytes());
    out.extend_from_slice(&length_field(parts.iter().map(|part| part.len()).sum()));
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// The data of `INFO` and `GO`.
struct InfoRequest<'a> {
    name: &'a str,
    /// Pairs of bytes, each an information type.
    kinds: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    fn parse(data: &'a [u8]) -> Result<Self, OptionReply> {
        let mut fields = Cursor(data);
        let name = fields.counted().ok_or(OptionReply::ErrInvalid)?;
        let count = fields.u16().ok_or(OptionReply::ErrInvalid)?;
        let kinds = fields.0;
        if kinds.len() != usize::from(count) * 2 {
            return Err(OptionReply::ErrInvalid);
        }
        if name.len() > STRING_BYTES_MAX {
            return Err(OptionReply::ErrTooBig);
        }
        let name = wire_str(name).ok_or(OptionReply::ErrInvalid)?;
        Ok(Self { name, kinds })
    }

    fn asks(&self, kind: InfoType) -> bool {
        self.kinds.chunks_exact(2).any(|pair| *pair == kind.to_wire().to_be_bytes())
    }
}
