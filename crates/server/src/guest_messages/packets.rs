//! The packets between a guest and its daemon: a byte that says which message, and its numbers, least
//! byte first. Both ends are of this machine, and of one version.

use disktime_config::{contract_text, read_contract};
use disktime_core::{Contract, Kind};

use super::{
    Ask, Call, DeviceFigures, Facts, NAME_BYTES_MAX, NotGranted, StreamFigures, Told, Turn,
};

/// The longest packet in bytes.
pub(crate) const PACKET_MAX: usize = 32 << 10;
/// Streams in a packet of a report.
pub(crate) const STREAMS_AT_ONCE: usize = 256;
/// Bytes of a stream in such a packet: three numbers of 4 bytes, ten of 8.
const STREAM: usize = 3 * 4 + 10 * 8;
const _: () = assert!(STREAMS_AT_ONCE * STREAM < PACKET_MAX);

/// A packet that is no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a packet that is no message: {0}")]
pub enum PacketError {
    /// It has no such kind of message.
    #[error("its first byte is {0}")]
    Kind(u8),
    /// It is too short or too long for its kind.
    #[error("its length")]
    Length,
    /// A number of it is out of range.
    #[error("{0} is out of range")]
    Value(&'static str),
    /// A contract of it can't be read.
    #[error("{0}")]
    Contract(disktime_config::ValueError),
}

struct Writer(Vec<u8>);

impl Writer {
    fn of(kind: u8) -> Self {
        Self(vec![kind])
    }

    fn words(mut self, words: &[u32]) -> Self {
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_le_bytes()));
        self
    }

    fn longs(mut self, longs: &[u64]) -> Self {
        longs.iter().for_each(|long| self.0.extend_from_slice(&long.to_le_bytes()));
        self
    }

    fn contract(mut self, contract: &Contract) -> Vec<u8> {
        self.0.extend_from_slice(contract_text(contract).as_bytes());
        self.0
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], PacketError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(PacketError::Length)?;
        self.0 = rest;
        Ok(*first)
    }

    fn byte(&mut self) -> Result<u8, PacketError> {
        self.take().map(|[byte]| byte)
    }

    fn word(&mut self) -> Result<u32, PacketError> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<u64, PacketError> {
        self.take().map(u64::from_le_bytes)
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, PacketError> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(PacketError::Value(name)),
        }
    }

    fn call(&mut self) -> Result<Call, PacketError> {
        Ok(Call { call: self.word()?, stream: self.word()? })
    }

    fn contract(&mut self) -> Result<Contract, PacketError> {
        let text = std::str::from_utf8(self.0).map_err(|_| PacketError::Value("contract"))?;
        self.0 = &[];
        read_contract(text).map_err(PacketError::Contract)
    }

    /// A contract, a byte 0, a name.
    fn contract_and_name(&mut self) -> Result<(Contract, String), PacketError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(PacketError::Length)?;
        let (contract, name) = self.0.split_at(end);
        self.0 = contract;
        let contract = self.contract()?;
        let name = std::str::from_utf8(&name[1..]).map_err(|_| PacketError::Value("name"))?;
        if name.len() > NAME_BYTES_MAX {
            return Err(PacketError::Value("name"));
        }
        Ok((contract, name.to_owned()))
    }

    fn end<T>(&self, message: T) -> Result<T, PacketError> {
        if self.0.is_empty() { Ok(message) } else { Err(PacketError::Length) }
    }
}

impl Ask {
    pub(crate) fn packet(&self) -> Vec<u8> {
        let call = |kind, Call { call, stream }| Writer::of(kind).words(&[call, stream]);
        match self {
            Self::Add(of, contract, name) => {
                let mut packet = call(1, *of).contract(contract);
                packet.push(0);
                packet.extend_from_slice(name.as_bytes());
                packet
            }
            Self::Set(of, contract) => call(2, *of).contract(contract),
            Self::Remove(of) => call(3, *of).0,
            Self::Late(of) => call(4, *of).0,
            Self::Report(of) => call(5, *of).0,
            Self::Request { request, stream, kind, offset, bytes } => {
                let writes = u32::from(*kind == Kind::Write);
                Writer::of(6).words(&[*request, *stream, writes]).longs(&[*offset, *bytes]).0
            }
            Self::Ended { turn, done } => Writer::of(7).longs(&[*turn]).words(&[(*done).into()]).0,
        }
    }

    pub(crate) fn read(packet: &[u8]) -> Result<Self, PacketError> {
        let mut reader = Reader(packet);
        let ask = match reader.byte()? {
            1 => {
                let call = reader.call()?;
                let (contract, name) = reader.contract_and_name()?;
                Self::Add(call, contract, name)
            }
            2 => Self::Set(reader.call()?, reader.contract()?),
            3 => Self::Remove(reader.call()?),
            4 => Self::Late(reader.call()?),
            5 => Self::Report(reader.call()?),
            6 => {
                let (request, stream) = (reader.word()?, reader.word()?);
                let kind = if reader.flag("kind")? { Kind::Write } else { Kind::Read };
                let (offset, bytes) = (reader.long()?, reader.long()?);
                Self::Request { request, stream, kind, offset, bytes }
            }
            7 => Self::Ended { turn: reader.long()?, done: reader.flag("done")? },
            kind => return Err(PacketError::Kind(kind)),
        };
        reader.end(ask)
    }
}

impl Told {
    pub(crate) fn packet(&self) -> Vec<u8> {
        match self {
            Self::Welcome(Facts { depth_max, requests_max, capacity }) => {
                Writer::of(1).words(&[*depth_max, *requests_max]).longs(&[capacity.unwrap_or(0)]).0
            }
            Self::Answer(call, outcome) => {
                let [kind, first, second] = match *outcome {
                    Ok(()) => [0, 0, 0],
                    Err(NotGranted::Overbooked(asked, available)) => [1, asked, available.into()],
                    Err(NotGranted::Rate(fits)) => [2, fits, 0],
                    Err(NotGranted::Latency(fits)) => [3, fits, 0],
                    Err(NotGranted::NoProfile) => [4, 0, 0],
                    Err(NotGranted::Streams) => [5, 0, 0],
                    Err(NotGranted::Invalid) => [6, 0, 0],
                };
                Writer::of(2).words(&[*call]).longs(&[kind, first, second]).0
            }
            Self::Streams(streams) => {
                let write = |writer: Writer, it: &StreamFigures| {
                    writer.words(&[it.stream, it.reserve_ppm, it.waiting]).longs(&[
                        it.completed,
                        it.failed,
                        it.bytes_read,
                        it.bytes_written,
                        it.charged_ns,
                        it.held_ns,
                        it.cycles,
                        it.cycles_missed,
                        it.promise_ns,
                        it.broken,
                    ])
                };
                streams.iter().fold(Writer::of(3), write).0
            }
            Self::Report(call, it) => {
                let words = [*call, it.depth, it.in_flight, it.headroom_ppm, it.reserved_ppm];
                let slack = it.slack_ns.cast_unsigned();
                let longs = [slack, it.busy_ns, it.spare_ns, it.held_ns, it.charged_ns];
                Writer::of(4).words(&words).longs(&longs).0
            }
            Self::Turn(Turn { turn, request, offset, bytes, flush }) => {
                let words = [*request, (*flush).into()];
                Writer::of(5).longs(&[*turn, *offset, *bytes]).words(&words).0
            }
            Self::Over { request, taken } => Writer::of(6).words(&[*request, (*taken).into()]).0,
        }
    }

    pub(crate) fn read(packet: &[u8]) -> Result<Self, PacketError> {
        let mut reader = Reader(packet);
        let told = match reader.byte()? {
            1 => {
                let (depth_max, requests_max) = (reader.word()?, reader.word()?);
                let capacity = Some(reader.long()?).filter(|bytes| *bytes > 0);
                Self::Welcome(Facts { depth_max, requests_max, capacity })
            }
            2 => Self::Answer(reader.word()?, outcome(&mut reader)?),
            3 => {
                let mut streams = Vec::new();
                while !reader.0.is_empty() {
                    streams.push(stream(&mut reader)?);
                }
                Self::Streams(streams)
            }
            4 => {
                let call = reader.word()?;
                let figures = DeviceFigures {
                    depth: reader.word()?,
                    in_flight: reader.word()?,
                    headroom_ppm: reader.word()?,
                    reserved_ppm: reader.word()?,
                    slack_ns: reader.long()?.cast_signed(),
                    busy_ns: reader.long()?,
                    spare_ns: reader.long()?,
                    held_ns: reader.long()?,
                    charged_ns: reader.long()?,
                };
                Self::Report(call, figures)
            }
            5 => {
                let [turn, offset, bytes] = [reader.long()?, reader.long()?, reader.long()?];
                let (request, flush) = (reader.word()?, reader.flag("flush")?);
                Self::Turn(Turn { turn, request, offset, bytes, flush })
            }
            6 => Self::Over { request: reader.word()?, taken: reader.flag("taken")? },
            kind => return Err(PacketError::Kind(kind)),
        };
        reader.end(told)
    }
}

fn outcome(reader: &mut Reader<'_>) -> Result<Result<(), NotGranted>, PacketError> {
    let [kind, first, second] = [reader.long()?, reader.long()?, reader.long()?];
    Ok(Err(match kind {
        0 => return Ok(Ok(())),
        1 => {
            let available = u32::try_from(second).map_err(|_| PacketError::Value("share"))?;
            NotGranted::Overbooked(first, available)
        }
        2 => NotGranted::Rate(first),
        3 => NotGranted::Latency(first),
        4 => NotGranted::NoProfile,
        5 => NotGranted::Streams,
        6 => NotGranted::Invalid,
        _ => return Err(PacketError::Value("outcome")),
    }))
}

fn stream(reader: &mut Reader<'_>) -> Result<StreamFigures, PacketError> {
    Ok(StreamFigures {
        stream: reader.word()?,
        reserve_ppm: reader.word()?,
        waiting: reader.word()?,
        completed: reader.long()?,
        failed: reader.long()?,
        bytes_read: reader.long()?,
        bytes_written: reader.long()?,
        charged_ns: reader.long()?,
        held_ns: reader.long()?,
        cycles: reader.long()?,
        cycles_missed: reader.long()?,
        promise_ns: reader.long()?,
        broken: reader.long()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_they_are_written_and_nothing_else_does() {
        let call = Call { call: 7, stream: 3 };
        let contract = read_contract("class=soft-real-time reserve=12.5% limit=40%").unwrap();
        let (request, offset, bytes) = (9, 1 << 40, 4096);
        let asks = [
            Ask::Add(call, contract, "/srv/média/film".to_owned()),
            Ask::Set(call, contract),
            Ask::Remove(call),
            Ask::Late(call),
            Ask::Report(call),
            Ask::Request { request, stream: 3, kind: Kind::Write, offset, bytes },
            Ask::Ended { turn: u64::MAX, done: false },
        ];
        for ask in asks {
            let packet = ask.packet();
            assert_eq!(Ask::read(&packet), Ok(ask.clone()));
            if !matches!(ask, Ask::Add(..) | Ask::Set(..)) {
                assert_eq!(Ask::read(&packet[..packet.len() - 1]), Err(PacketError::Length));
                assert_eq!(Ask::read(&[&*packet, &[0]].concat()), Err(PacketError::Length));
            }
        }
        let figures = StreamFigures { stream: 1, broken: 5, ..StreamFigures::default() };
        let device = DeviceFigures { slack_ns: -4, ..DeviceFigures::default() };
        let turn = Turn { turn: 1, request, offset, bytes, flush: true };
        let answers = [
            Ok(()),
            Err(NotGranted::Overbooked(1_100_000, 900_000)),
            Err(NotGranted::Rate(5)),
            Err(NotGranted::Latency(6)),
            Err(NotGranted::NoProfile),
            Err(NotGranted::Streams),
            Err(NotGranted::Invalid),
        ];
        let tells = [
            Told::Welcome(Facts { depth_max: 32, requests_max: 9, capacity: Some(1 << 30) }),
            Told::Welcome(Facts { depth_max: 1, requests_max: 1, capacity: None }),
            Told::Streams(vec![figures; STREAMS_AT_ONCE]),
            Told::Report(4, device),
            Told::Turn(turn),
            Told::Over { request, taken: true },
        ];
        let answers = answers.map(|outcome| Told::Answer(2, outcome));
        for told in answers.into_iter().chain(tells) {
            let packet = told.packet();
            assert!(packet.len() <= PACKET_MAX);
            assert_eq!(Told::read(&packet), Ok(told));
            Told::read(&packet[..packet.len() - 1]).unwrap_err();
        }
        for wrong in [&[][..], &[0], &[99, 1, 2], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 255]] {
            Ask::read(wrong).unwrap_err();
        }
    }
}
