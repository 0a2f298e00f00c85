//! The protocol's numbered vocabularies. A number that isn't known stays visible as `Unknown`, so
//! that a peer's novelty is refused by name and never mistaken.

/// An enum over the wire's numbers that loses none of them.
macro_rules! wire_codes {
    (
        $(#[$doc:meta])*
        $name:ident: $int:ty { $($(#[$code_doc:meta])* $code:ident = $value:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$code_doc])* $code,)*
            /// A number that this crate has no name for.
            Unknown($int),
        }

        impl $name {
            /// The meaning of a number on the wire.
            #[inline]
            #[must_use]
            pub const fn from_wire(number: $int) -> Self {
                match number {
                    $($value => Self::$code,)*
                    other => Self::Unknown(other),
                }
            }

            /// The number on the wire.
            #[inline]
            #[must_use]
            pub const fn to_wire(self) -> $int {
                match self {
                    $(Self::$code => $value,)*
                    Self::Unknown(number) => number,
                }
            }
        }
    };
}

wire_codes! {
    /// A client's option in the handshake ("Option types").
    OptionCode: u32 {
        /// Choose an export and begin transmission; can't be refused except by hanging up.
        ExportName = 1,
        /// End the handshake and the connection.
        Abort = 2,
        /// Name the exports.
        List = 3,
        /// Withdrawn from the protocol.
        PeekExport = 4,
        /// Go on under TLS.
        StartTls = 5,
        /// Describe an export.
        Info = 6,
        /// Describe an export and begin transmission.
        Go = 7,
        /// Use structured replies.
        StructuredReply = 8,
        /// Name an export's metadata contexts.
        ListMetaContext = 9,
        /// Choose metadata contexts.
        SetMetaContext = 10,
        /// Use 64-bit lengths.
        ExtendedHeaders = 11,
    }
}

wire_codes! {
    /// A server's answer to an option ("Option reply types").
    OptionReply: u32 {
        /// Done; nothing more follows.
        Ack = 1,
        /// One export of a list; more follow.
        Server = 2,
        /// One fact about an export; more follow.
        Info = 3,
        /// One metadata context; more follow.
        MetaContext = 4,
        /// The option isn't known or not offered.
        ErrUnsupported = 0x8000_0001,
        /// The server's policy forbids the option.
        ErrPolicy = 0x8000_0002,
        /// The option's data is malformed.
        ErrInvalid = 0x8000_0003,
        /// The server's platform can't do it.
        ErrPlatform = 0x8000_0004,
        /// TLS must come first.
        ErrTlsRequired = 0x8000_0005,
        /// No such export.
        ErrUnknown = 0x8000_0006,
        /// The server is shutting down.
        ErrShutdown = 0x8000_0007,
        /// The client must ask for the block sizes first.
        ErrBlockSizeRequired = 0x8000_0008,
        /// The request or its answer is too long.
        ErrTooBig = 0x8000_0009,
        /// Extended headers must be negotiated first.
        ErrExtendedHeadersRequired = 0x8000_000a,
    }
}

impl OptionReply {
    /// Errors, known or not, have the highest bit set.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.to_wire() >> 31 == 1
    }
}

wire_codes! {
    /// Facts about an export in `INFO` and `GO` (`NBD_REP_INFO`).
    InfoType: u16 {
        /// Size and transmission flags.
        Export = 0,
        /// The canonical name.
        Name = 1,
        /// Text for a human.
        Description = 2,
        /// Minimum, preferred and maximum block size.
        BlockSize = 3,
    }
}

wire_codes! {
    /// A client's command for an export ("Request types").
    Command: u16 {
        /// Read bytes.
        Read = 0,
        /// Write the bytes that follow the request.
        Write = 1,
        /// Finish what is outstanding and close; has no reply.
        Disconnect = 2,
        /// Make acknowledged writes durable.
        Flush = 3,
        /// The range's data is no longer needed.
        Trim = 4,
        /// The range will be read soon.
        Cache = 5,
        /// Make the range read as zeroes.
        WriteZeroes = 6,
        /// Describe the range's extents.
        BlockStatus = 7,
        /// Change the export's size (an extension that isn't spoken here).
        Resize = 8,
    }
}

wire_codes! {
    /// Kinds of a structured reply's chunks ("Structured reply types").
    ChunkType: u16 {
        /// Nothing; only ever the last chunk.
        None = 0,
        /// Data of a read.
        OffsetData = 1,
        /// A part of a read that is all zeroes.
        OffsetHole = 2,
        /// Extents of a block status request.
        BlockStatus = 5,
        /// The same with 64-bit lengths; only with extended headers.
        BlockStatusExt = 6,
        /// The request failed.
        Error = 0x8001,
        /// The request failed at one offset.
        ErrorOffset = 0x8002,
    }
}

impl ChunkType {
    /// Error chunks, known or not, have the highest bit set.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.to_wire() >> 15 == 1
    }
}
