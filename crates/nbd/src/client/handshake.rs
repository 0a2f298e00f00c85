//! The client's half of the handshake ("Fixed newstyle negotiation", "Option reply types").

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem::size_of;

use crate::bytes::{Cursor, Gather, wire_str};
use crate::client::error::ClientError;
use crate::code::{InfoType, OptionCode, OptionReply};
use crate::export::{BlockSizes, ExportInfo};
use crate::flags::{ClientFlags, HandshakeFlags, TransmissionFlags};
use crate::limits::{
    LISTED_BYTES_MAX, OPTION_REPLIES_MAX, OPTION_REPLY_BYTES_MAX, STRING_BYTES_MAX,
};
use crate::magic;
use crate::server::GREETING_BYTES;
use crate::server::reply::ReplyStyle;

const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Answer to `EXPORT_NAME`: size and flags.
const EXPORT_NAME_REPLY_BYTES: usize = 10;
/// Padding after it, unless `NO_ZEROES` was agreed.
const EXPORT_NAME_PADDING_BYTES: usize = 124;
/// The facts about an export that `INFO` and `GO` ask for.
const FACTS: [InfoType; 3] = [InfoType::Name, InfoType::Description, InfoType::BlockSize];

/// The purpose of a client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Use an export; the empty name is the server's default.
    Connect {
        /// Its name.
        export: String,
        /// Ask for structured replies; the server may refuse them.
        structured_replies: bool,
    },
    /// Learn about an export, then leave.
    Describe {
        /// Its name.
        export: String,
    },
    /// Learn the exports' names, then leave.
    List,
}

/// Where the handshake stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientProgress {
    /// Send what was written, read more.
    NeedMore,
    /// Send requests; bytes not consumed are the first of their replies. Ends [`Goal::Connect`].
    Ready(ExportInfo, ReplyStyle),
    /// Send what was written (a farewell), then close. Ends [`Goal::Describe`].
    Described(ExportInfo),
    /// Send what was written (a farewell), then close. Ends [`Goal::List`].
    Listed(Vec<ListedExport>),
}

/// An export as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExport {
    /// The name to connect with.
    pub name: String,
    /// Text for a human, may be empty.
    pub description: String,
}

/// One handshake with a server.
///
/// The server speaks first: hand every piece of input, of any length, to
/// [`handle_input`](Self::handle_input) until it returns something other than
/// [`ClientProgress::NeedMore`], and send what it writes. `GO` is used where the server knows it,
/// else `EXPORT_NAME`. It keeps at most [`LISTED_BYTES_MAX`] and [`OPTION_REPLY_BYTES_MAX`] of a
/// server's answers.
#[derive(Debug)]
pub struct ClientHandshake {
    goal: Goal,
    state: State,
    input: Gather,
    style: ReplyStyle,
    no_zeroes: bool,
    replies_seen: u32,
    /// The export's properties as far as they are known.
    export: ExportInfo,
    export_known: bool,
    listed: Vec<ListedExport>,
    listed_bytes: usize,
    /// The metadata context that is wanted, and its identifier once the server has it.
    context: Option<(String, Option<u32>)>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Greeting,
    /// An answer to this option is next.
    ReplyHeader(OptionCode),
    ReplyData {
        option: OptionCode,
        reply: OptionReply,
        length: usize,
    },
    /// The answer to `EXPORT_NAME`, which looks like no other.
    ExportNameReply,
    Over,
}

impl ClientHandshake {
    /// A handshake that has yet to begin.
    ///
    /// # Errors
    /// [`ClientError::Name`] if the export's name is too long or contains NUL.
    pub fn new(goal: Goal) -> Result<Self, ClientError> {
        let name = match &goal {
            Goal::Connect { export, .. } | Goal::Describe { export } => export.clone(),
            Goal::List => String::new(),
        };
        if wire_str(name.as_bytes()).is_none() {
            return Err(ClientError::Name);
        }
        let export = ExportInfo {
            name,
            description: String::new(),
            size_bytes: 0,
            flags: TransmissionFlags::EMPTY,
            block_sizes: BlockSizes::DEFAULT,
        };
        Ok(Self {
            goal,
            state: State::Greeting,
            input: Gather::default(),
            style: ReplyStyle::Simple,
            no_zeroes: false,
            replies_seen: 0,
            export,
            export_known: false,
            listed: Vec::new(),
            listed_bytes: 0,
            context: None,
        })
    }

    /// The same, asking for a metadata context beside structured replies; a server may not have it.
    #[must_use]
    pub fn with_context(self, name: &str) -> Self {
        Self { context: Some((name.to_string(), None)), ..self }
    }

    /// Whether the server has the metadata context that was asked for; known at the end.
    #[must_use]
    pub fn has_context(&self) -> bool {
        self.context.as_ref().is_some_and(|(_, id)| id.is_some())
    }

    /// Takes input and appends what to send to `out`. Returns how many bytes of `input` were
    /// consumed: all of them, unless the handshake ended before.
    ///
    /// # Errors
    /// The connection must be closed. Every later call returns [`ClientError::Over`].
    pub fn handle_input(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ClientProgress), ClientError> {
        let mut rest = input;
        let result = self.advance(&mut rest, out);
        if !matches!(result, Ok(ClientProgress::NeedMore)) {
            self.state = State::Over;
        }
        result.map(|progress| (input.len() - rest.len(), progress))
    }

    /// Every turn of the loop consumes a message, so input bounds it.
    fn advance(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ClientProgress, ClientError> {
        loop {
            match self.state {
                State::Greeting => {
                    let Some(bytes) = self.input.array::<GREETING_BYTES>(input) else {
                        return Ok(ClientProgress::NeedMore);
                    };
                    self.greeting(&bytes, out)?;
                }
                State::ReplyHeader(option) => {
                    let Some(bytes) = self.input.array(input) else {
                        return Ok(ClientProgress::NeedMore);
                    };
                    self.state = self.reply_header(option, &bytes)?;
                }
                State::ReplyData { option, reply, length } => {
                    let Some(data) = self.input.message(length, input) else {
                        return Ok(ClientProgress::NeedMore);
                    };
                    self.state = State::ReplyHeader(option);
                    if let Some(end) = self.reply(option, reply, &data, out)? {
                        return Ok(end);
                    }
                }
                State::ExportNameReply => {
                    let padding = if self.no_zeroes { 0 } else { EXPORT_NAME_PADDING_BYTES };
                    let length = EXPORT_NAME_REPLY_BYTES + padding;
                    let Some(data) = self.input.message(length, input) else {
                        return Ok(ClientProgress::NeedMore);
                    };
                    self.export_size_and_flags(&mut Cursor(&data))?;
                    return Ok(ClientProgress::Ready(self.export.clone(), self.style));
                }
                State::Over => return Err(ClientError::Over),
            }
        }
    }

    fn greeting(
        &mut self,
        bytes: &[u8; GREETING_BYTES],
        out: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        let mut fields = Cursor(bytes);
        if fields.u64() != Some(magic::GREETING) {
            return Err(ClientError::NotNbd);
        }
        match fields.u64() {
            Some(magic::OPTION) => {}
            Some(magic::OLDSTYLE) => return Err(ClientError::Oldstyle),
            _ => return Err(ClientError::NotNbd),
        }
        let offered = HandshakeFlags::from_wire(fields.u16().unwrap_or(0));
        let mut flags = ClientFlags::EMPTY;
        self.no_zeroes = offered.contains(HandshakeFlags::NO_ZEROES);
        if self.no_zeroes {
            flags = flags.with(ClientFlags::NO_ZEROES);
        }
        let fixed = offered.contains(HandshakeFlags::FIXED_NEWSTYLE);
        if fixed {
            flags = flags.with(ClientFlags::FIXED_NEWSTYLE);
        }
        let first = match &self.goal {
            Goal::Connect { .. } if !fixed => OptionCode::ExportName,
            _ if !fixed => return Err(ClientError::NotFixedNewstyle),
            Goal::Connect { structured_replies: true, .. } => OptionCode::StructuredReply,
            Goal::Connect { .. } => OptionCode::Go,
            Goal::Describe { .. } => OptionCode::Info,
            Goal::List => OptionCode::List,
        };
        out.extend_from_slice(&flags.to_wire().to_be_bytes());
        self.send(first, out);
        Ok(())
    }

    /// Writes an option and waits for its answer.
    fn send(&mut self, option: OptionCode, out: &mut Vec<u8>) {
        let name = self.export.name.as_bytes();
        let mut data = Vec::new();
        match option {
            OptionCode::ExportName => data.extend_from_slice(name),
            OptionCode::Go | OptionCode::Info => {
                data.extend_from_slice(&length_field(name.len()));
                data.extend_from_slice(name);
                let count = u16::try_from(FACTS.len()).expect("FACTS holds three types");
                data.extend_from_slice(&count.to_be_bytes());
                for kind in FACTS {
                    data.extend_from_slice(&kind.to_wire().to_be_bytes());
                }
            }
            OptionCode::SetMetaContext => {
                data.extend_from_slice(&length_field(name.len()));
                data.extend_from_slice(name);
                let wanted = self.context.as_ref().map(|(context, _)| context.as_bytes());
                data.extend_from_slice(&u32::from(wanted.is_some()).to_be_bytes());
                if let Some(context) = wanted {
                    data.extend_from_slice(&length_field(context.len()));
                    data.extend_from_slice(context);
                }
            }
            _ => {}
        }
        out.extend_from_slice(&magic::OPTION.to_be_bytes());
        out.extend_from_slice(&option.to_wire().to_be_bytes());
        out.extend_from_slice(&length_field(data.len()));
        out.extend_from_slice(&data);
        self.replies_seen = 0;
        self.state = match option {
            OptionCode::ExportName => State::ExportNameReply,
            _ => State::ReplyHeader(option),
        };
    }

    fn reply_header(
        &mut self,
        option: OptionCode,
        bytes: &[u8; OPTION_REPLY_HEADER_BYTES],
    ) -> Result<State, ClientError> {
        let mut fields = Cursor(bytes);
        if fields.u64() != Some(magic::OPTION_REPLY) {
            return Err(ClientError::ReplyMagic);
        }
        let (Some(echo), Some(reply), Some(length)) = (fields.u32(), fields.u32(), fields.u32())
        else {
            return Err(ClientError::ReplyMagic);
        };
        let reply = OptionReply::from_wire(reply);
        self.replies_seen += 1;
        if echo != option.to_wire() {
            return Err(ClientError::WrongOption(OptionCode::from_wire(echo)));
        }
        if length > OPTION_REPLY_BYTES_MAX {
            return Err(ClientError::ReplyTooLong { reply, length_bytes: length });
        }
        // A list has its own bound, on what is kept of it.
        if self.replies_seen > OPTION_REPLIES_MAX && option != OptionCode::List {
            return Err(ClientError::TooManyReplies);
        }
        Ok(State::ReplyData { option, reply, length: length as usize })
    }

    /// Takes one answer to `option`; returns the handshake's end if this was it.
    fn reply(
        &mut self,
        option: OptionCode,
        reply: OptionReply,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<ClientProgress>, ClientError> {
        match (option, reply) {
            (OptionCode::StructuredReply, OptionReply::Ack) => {
                self.style = ReplyStyle::Structured;
                let wants = self.context.is_some();
                self.send(if wants { OptionCode::SetMetaContext } else { OptionCode::Go }, out);
            }
            (OptionCode::SetMetaContext, OptionReply::MetaContext) => self.chosen(data)?,
            // Without it, then.
            (OptionCode::SetMetaContext, _) if reply == OptionReply::Ack || reply.is_error() => {
                self.send(OptionCode::Go, out);
            }
            // Without them, then; if the server refuses more than that, `GO` will say why.
            (OptionCode::StructuredReply, _) if reply.is_error() => self.send(OptionCode::Go, out),
            (OptionCode::Go, OptionReply::ErrUnsupported) => {
                self.send(OptionCode::ExportName, out);
            }
            (_, _) if reply.is_error() => {
                let message = &data[..data.len().min(STRING_BYTES_MAX)];
                let message = String::from_utf8_lossy(message).into_owned();
                return Err(ClientError::Refused { option, reply, message });
            }
            (OptionCode::List, OptionReply::Server) => self.listed_export(data)?,
            (OptionCode::List, OptionReply::Ack) => {
                self.send(OptionCode::Abort, out);
                let listed = core::mem::take(&mut self.listed);
                return Ok(Some(ClientProgress::Listed(listed)));
            }
            (OptionCode::Go | OptionCode::Info, OptionReply::Info) => {
                self.fact(data)?;
            }
            (OptionCode::Go | OptionCode::Info, OptionReply::Ack) => {
                return self.acknowledged(option, out).map(Some);
            }
            _ => return Err(ClientError::UnexpectedReply { option, reply }),
        }
        Ok(None)
    }

    /// Takes the identifier of a context; one that wasn't asked for is ignored.
    fn chosen(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let mut fields = Cursor(data);
        let id = fields.u32().ok_or(ClientError::MalformedReply(OptionReply::MetaContext))?;
        if let Some((name, known)) = &mut self.context
            && name.as_bytes() == fields.0
        {
            *known = Some(id);
        }
        Ok(())
    }

    fn acknowledged(
        &mut self,
        option: OptionCode,
        out: &mut Vec<u8>,
    ) -> Result<ClientProgress, ClientError> {
        if !self.export_known {
            return Err(ClientError::NoExportInfo);
        }
        let export = self.export.clone();
        if option == OptionCode::Go {
            return Ok(ClientProgress::Ready(export, self.style));
        }
        self.send(OptionCode::Abort, out);
        Ok(ClientProgress::Described(export))
    }

    fn listed_export(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let malformed = ClientError::MalformedReply(OptionReply::Server);
        let mut fields = Cursor(data);
        let name = fields.counted().and_then(wire_str).ok_or(malformed)?.to_string();
        let description = String::from_utf8_lossy(fields.0).into_owned();
        self.listed_bytes += size_of::<ListedExport>() + name.len() + description.len();
        if self.listed_bytes > LISTED_BYTES_MAX {
            return Err(ClientError::TooManyReplies);
        }
        self.listed.push(ListedExport { name, description });
        Ok(())
    }

    /// Takes one `NBD_REP_INFO`; facts that aren't known are ignored.
    fn fact(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let malformed = || ClientError::MalformedReply(OptionReply::Info);
        let mut fields = Cursor(data);
        match InfoType::from_wire(fields.u16().ok_or_else(malformed)?) {
            InfoType::Export if fields.0.len() == EXPORT_NAME_REPLY_BYTES => {
                self.export_size_and_flags(&mut fields)?;
                self.export_known = true;
            }
            InfoType::Export => return Err(malformed()),
            InfoType::Name => {
                self.export.name = wire_str(fields.0).ok_or_else(malformed)?.to_string();
            }
            InfoType::Description => {
                self.export.description = String::from_utf8_lossy(fields.0).into_owned();
            }
            InfoType::BlockSize => {
                let (Some(min), Some(preferred), Some(max), []) =
                    (fields.u32(), fields.u32(), fields.u32(), fields.0)
                else {
                    return Err(malformed());
                };
                self.export.block_sizes =
                    BlockSizes::new(min, preferred, max).map_err(ClientError::BlockSizes)?;
            }
            InfoType::Unknown(_) => {}
        }
        Ok(())
    }

    fn export_size_and_flags(&mut self, fields: &mut Cursor<'_>) -> Result<(), ClientError> {
        let (Some(size_bytes), Some(flags)) = (fields.u64(), fields.u16()) else {
            return Err(ClientError::MalformedReply(OptionReply::Info));
        };
        self.export.size_bytes = size_bytes;
        self.export.flags = TransmissionFlags::from_wire(flags);
        Ok(())
    }
}

fn length_field(length: usize) -> [u8; 4] {
    u32::try_from(length).expect("a name is at most 4096 bytes").to_be_bytes()
}
