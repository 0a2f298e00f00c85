//! The protocol's sets of bits ("Flag fields"). Bits without a name survive a round trip: the
//! reader decides whether one is harmless or a violation.

/// A set of named bits over one integer of the wire.
macro_rules! wire_flags {
    (
        $(#[$doc:meta])*
        $name:ident: $int:ty { $($(#[$flag_doc:meta])* $flag:ident = $bit:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name($int);

        impl $name {
            /// No bit set.
            pub const EMPTY: Self = Self(0);
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*
            /// Every bit that has a name.
            pub const KNOWN: Self = Self(0 $(| 1 << $bit)*);

            /// The set whose bits are these.
            #[inline]
            #[must_use]
            pub const fn from_wire(bits: $int) -> Self {
                Self(bits)
            }

            /// The bits.
            #[inline]
            #[must_use]
            pub const fn to_wire(self) -> $int {
                self.0
            }

            /// Whether every bit of `other` is set here.
            #[inline]
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// This set and `other`.
            #[inline]
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// This set less `other`.
            #[inline]
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether no bit is set.
            #[inline]
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
        }
    };
}

wire_flags! {
    /// Offers of the server's greeting ("Handshake flags").
    HandshakeFlags: u16 {
        /// Options can be refused without hanging up.
        FIXED_NEWSTYLE = 0,
        /// The 124 bytes of padding after `EXPORT_NAME` can be left out.
        NO_ZEROES = 1,
    }
}

wire_flags! {
    /// The part of the server's offer that the client takes ("Client flags").
    ClientFlags: u32 {
        /// Options can be refused without hanging up.
        FIXED_NEWSTYLE = 0,
        /// The 124 bytes of padding after `EXPORT_NAME` are left out.
        NO_ZEROES = 1,
    }
}

wire_flags! {
    /// Kind and abilities of an export ("Transmission flags").
    TransmissionFlags: u16 {
        /// Always set on the wire.
        HAS_FLAGS = 0,
        /// Writes are refused.
        READ_ONLY = 1,
        /// Takes [`Command::Flush`](crate::Command::Flush).
        FLUSH = 2,
        /// Takes [`CommandFlags::FUA`].
        FUA = 3,
        /// Seeks cost time.
        ROTATIONAL = 4,
        /// Takes [`Command::Trim`](crate::Command::Trim).
        TRIM = 5,
        /// Takes [`Command::WriteZeroes`](crate::Command::WriteZeroes).
        WRITE_ZEROES = 6,
        /// Takes [`CommandFlags::DONT_FRAGMENT`]; only with structured replies.
        DONT_FRAGMENT = 7,
        /// A flush on one connection covers the writes of all.
        MULTI_CONN = 8,
        /// Takes resizing (an extension that isn't spoken here).
        RESIZE = 9,
        /// Takes [`Command::Cache`](crate::Command::Cache).
        CACHE = 10,
        /// Takes [`CommandFlags::FAST_ZERO`].
        FAST_ZERO = 11,
    }
}

impl TransmissionFlags {
    /// The flags that may be told to a client, from the export's abilities: `HAS_FLAGS` is always
    /// there, `DONT_FRAGMENT` exactly with structured replies, `FAST_ZERO` only with
    /// `WRITE_ZEROES`, and nothing that this crate doesn't speak.
    #[must_use]
    pub const fn advertised(self, structured_replies: bool) -> Self {
        let flags = Self(self.0 & Self::KNOWN.0)
            .without(Self::RESIZE)
            .without(Self::DONT_FRAGMENT)
            .with(Self::HAS_FLAGS);
        let flags = if structured_replies { flags.with(Self::DONT_FRAGMENT) } else { flags };
        if flags.contains(Self::WRITE_ZEROES) { flags } else { flags.without(Self::FAST_ZERO) }
    }
}

wire_flags! {
    /// How a command is to be carried out ("Command flags").
    CommandFlags: u16 {
        /// Reply only once what was written is durable.
        FUA = 0,
        /// Zeroes must be allocated, not a hole.
        NO_HOLE = 1,
        /// Answer a read in at most one content chunk.
        DONT_FRAGMENT = 2,
        /// Describe one extent only.
        REQ_ONE = 3,
        /// Fail rather than zero as slowly as writing would.
        FAST_ZERO = 4,
        /// The length is that of a payload behind the request; only with extended headers.
        PAYLOAD_LEN = 5,
    }
}

wire_flags! {
    /// Flags of a structured reply's chunk about the reply ("Structured reply flags").
    ReplyFlags: u16 {
        /// No further chunk follows for this cookie.
        DONE = 0,
    }
}
