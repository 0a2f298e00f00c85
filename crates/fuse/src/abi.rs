//! The interface of programs: ioctls on an open file, as `include/disktime.h` has them.
//!
//! A test compiles the header and compares every number with those here.

use disktime_core::admission::{AdmissionError, DemandError};
use disktime_core::{
    Access, Admission, ChangeError, Class, Contract, Duration, Rate, Share, StreamError,
};
use rustix::io::Errno;

/// The type of the ioctls.
const TYPE: u32 = 0xDC;
/// The version of the structures.
pub const VERSION: u32 = 1;
/// Bytes of `struct disktime_qos`.
pub const QOS_BYTES: usize = QOS_SIZE as usize;
/// Bytes of `struct disktime_device`.
pub const DEVICE_BYTES: usize = DEVICE_SIZE as usize;
/// Bytes of `struct disktime_stats`.
pub const STATS_BYTES: usize = STATS_SIZE as usize;

const QOS_SIZE: u32 = 80;
const STATS_SIZE: u32 = 96;
const DEVICE_SIZE: u32 = 64;

const WRITE: u32 = 1;
const READ: u32 = 2;

const fn number(direction: u32, nr: u32, bytes: u32) -> u32 {
    (direction << 30) | (bytes << 16) | (TYPE << 8) | nr
}

/// `DISKTIME_GET`: the contract of an open file, and why the last one asked for was refused.
pub const GET: u32 = number(READ, 1, QOS_SIZE);
/// `DISKTIME_SET`: another contract.
pub const SET: u32 = number(READ | WRITE, 2, QOS_SIZE);
/// `DISKTIME_BEST_EFFORT`: the usual contract.
pub const BEST_EFFORT: u32 = number(0, 3, 0);
/// `DISKTIME_PRIORITY`: one of three priorities, as a number of 32 bits.
pub const PRIORITY: u32 = number(WRITE, 4, 4);
/// `DISKTIME_LATE`: data came too late for the program.
pub const LATE: u32 = number(0, 5, 0);
/// `DISKTIME_STATS`: the figures of an open file's stream.
pub const STATS: u32 = number(READ, 6, STATS_SIZE);
/// `DISKTIME_DEVICE`: the figures of the device below the mount.
pub const DEVICE: u32 = number(READ, 7, DEVICE_SIZE);

/// The calls by number; what a program may say for the size is not judged here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Get,
    Set,
    BestEffort,
    Priority,
    Late,
    Stats,
    Device,
}

impl Call {
    /// # Errors
    /// `ENOTTY` if the number is no call; `EINVAL` if its direction or size is another one.
    pub(crate) fn of(command: u32) -> Result<Self, Errno> {
        const CALLS: [(u32, Call); 7] = [
            (GET, Call::Get),
            (SET, Call::Set),
            (BEST_EFFORT, Call::BestEffort),
            (PRIORITY, Call::Priority),
            (LATE, Call::Late),
            (STATS, Call::Stats),
            (DEVICE, Call::Device),
        ];
        let named = CALLS.iter().find(|(known, _)| known & 0xFFFF == command & 0xFFFF);
        match named {
            None => Err(Errno::NOTTY),
            Some((known, call)) if *known == command => Ok(*call),
            Some(_) => Err(Errno::INVAL),
        }
    }
}

/// `DISKTIME_E_…`: why a contract was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reason {
    /// It was granted.
    #[default]
    None = 0,
    /// A field is out of its range, or does not go with the others.
    Invalid = 1,
    /// All reservations together would be more than the device has: `fits_ppm` is left.
    Overbooked = 2,
    /// The rate does not fit: `fits_rate` does.
    Rate = 3,
    /// The bound can't be kept: `fits_latency_ns` can.
    Latency = 4,
    /// Promises of rates and latencies need a profile of the device.
    NoProfile = 5,
    /// This user may not ask for it.
    Permission = 6,
    /// There are too many streams.
    Streams = 7,
    /// The kernel has taken the file over, on a mount with `--pass-through`: open it again with a contract as
    /// its default.
    PassThrough = 8,
}

/// Why a contract was refused, and what would fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// The share that could be reserved.
    pub fits: Share,
    /// The largest rate that fits, in bytes per second.
    pub fits_rate: u64,
    /// The smallest bound that can be kept.
    pub fits_latency: Duration,
}

impl Refused {
    /// For that reason, with nothing that would fit.
    #[must_use]
    pub fn because(reason: Reason) -> Self {
        Self { reason, ..Self::default() }
    }

    /// An engine's answer to a stream that asks for this contract.
    #[must_use]
    pub fn of(error: &ChangeError, asked: &Contract) -> Self {
        match *error {
            ChangeError::Overbooked { asked_ppm, available } => {
                Self::overbooked(asked_ppm, available.ppm(), asked)
            }
            ChangeError::Admission(AdmissionError::Stream {
                error:
                    DemandError::Refused { largest: fits_rate, .. }
                    | DemandError::AboveZone { max: fits_rate, .. },
                ..
            }) => Self { fits_rate, ..Self::because(Reason::Rate) },
            ChangeError::Admission(AdmissionError::Overbooked { .. }) => {
                Self::because(Reason::Overbooked)
            }
            ChangeError::Stream { error, .. } => match error {
                StreamError::Latency(error) => {
                    Self { fits_latency: error.smallest, ..Self::because(Reason::Latency) }
                }
                StreamError::NoProfile => Self::because(Reason::NoProfile),
                StreamError::OutOfRange { .. } => Self::because(Reason::Streams),
                _ => Self::because(Reason::Invalid),
            },
            _ => Self::because(Reason::Invalid),
        }
    }

    /// All reservations would come to `asked_ppm` with this contract, and `available_ppm` can be reserved.
    pub(crate) fn overbooked(asked_ppm: u64, available_ppm: u32, asked: &Contract) -> Self {
        let others = asked_ppm.saturating_sub(asked.reserve.ppm().into());
        let left = u64::from(available_ppm).saturating_sub(others);
        let left = u32::try_from(left).unwrap_or(0);
        let fits = Share::from_ppm(left).unwrap_or(Share::ZERO);
        Self { fits, ..Self::because(Reason::Overbooked) }
    }

    /// The error number that a program gets.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self.reason {
            Reason::None => 0,
            Reason::Invalid => libc::EINVAL,
            Reason::Overbooked | Reason::Rate | Reason::Latency => libc::ENOSPC,
            Reason::NoProfile => libc::EOPNOTSUPP,
            Reason::Permission => libc::EPERM,
            Reason::Streams => libc::EMFILE,
            Reason::PassThrough => libc::EBUSY,
        }
    }
}

/// `struct disktime_qos` as bytes: a contract, and the answer to it.
#[must_use]
pub fn qos(contract: &Contract, refused: &Refused) -> [u8; QOS_BYTES] {
    let Contract { reserve, limit, weight, class, rate, latency } = contract;
    let (admission, miss) = match rate.map(|it| it.admission) {
        Some(Admission::Statistical { miss }) => (1, miss),
        Some(Admission::BestEffort) => (2, Share::ZERO),
        Some(Admission::Deterministic) | None => (0, Share::ZERO),
    };
    let access = match rate.map(|it| it.access) {
        Some(Access::Read) => 1,
        Some(Access::Write) => 2,
        Some(Access::Both) | None => 0,
    };
    let class =
        (0..).zip(CLASSES).find(|(_, known)| known == class).map_or(0, |(number, _)| number);
    let words =
        [VERSION, class, reserve.ppm(), limit.ppm(), *weight, admission, miss.ppm(), access];
    let nanos = |span: Option<Duration>| span.map_or(0, Duration::as_nanos);
    let longs = [
        rate.map_or(0, |it| it.bytes_per_second),
        nanos(rate.and_then(|it| it.cycle)),
        nanos(*latency),
    ];
    let mut bytes = Bytes::default();
    words.iter().for_each(|word| bytes.word(*word));
    longs.iter().for_each(|long| bytes.long(*long));
    bytes.word(refused.reason as u32);
    bytes.word(refused.fits.ppm());
    bytes.long(refused.fits_rate);
    bytes.long(refused.fits_latency.as_nanos());
    bytes.whole()
}

/// The answer in a `struct disktime_qos`: why the last contract asked for was refused.
#[must_use]
pub fn refused(data: &[u8; QOS_BYTES]) -> Refused {
    let word = |at: usize| {
        let bytes = data[at..at + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(bytes)
    };
    let long = |at: usize| {
        let bytes = data[at..at + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    };
    let reason = REASONS.get(word(56) as usize).copied().unwrap_or(Reason::Invalid);
    Refused {
        reason,
        fits: Share::from_ppm(word(60)).unwrap_or(Share::ZERO),
        fits_rate: long(64),
        fits_latency: Duration::from_nanos(long(72)),
    }
}

/// The reasons, each at the place of its number.
const REASONS: [Reason; 9] = [
    Reason::None,
    Reason::Invalid,
    Reason::Overbooked,
    Reason::Rate,
    Reason::Latency,
    Reason::NoProfile,
    Reason::Permission,
    Reason::Streams,
    Reason::PassThrough,
];

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reason {
            Reason::None => f.write_str("it is granted"),
            Reason::Invalid => f.write_str("a field is out of its range, or misses another one"),
            Reason::Overbooked => write!(f, "{} of the device can be reserved", self.fits),
            Reason::Rate if self.fits_rate == 0 => f.write_str("no rate fits beside the others"),
            Reason::Rate => {
                let fits = disktime_config::quantity::rate_text(self.fits_rate);
                write!(f, "at most {fits} fit beside the others")
            }
            Reason::Latency => write!(f, "at least {:?} can be kept", self.fits_latency),
            Reason::NoProfile => f.write_str(
                "the mount has no profile of the device: name one with --profile, or ask for \
                 admission=best-effort",
            ),
            Reason::Permission => f.write_str("this user may not ask for it"),
            Reason::Streams => f.write_str("there are too many open files with contracts"),
            Reason::PassThrough => f.write_str(
                "the kernel has taken the file over (--pass-through): set its contract by the \
                 attribute user.disktime.contract and open it again",
            ),
        }
    }
}

/// The classes by number: `DISKTIME_CLASS_…`.
const CLASSES: [Class; 5] = [
    Class::BestEffort,
    Class::GuaranteedLatency,
    Class::GuaranteedRate,
    Class::SoftRealTime,
    Class::Background,
];

/// Reads a contract out of a `struct disktime_qos`: zeroes mean the usual values, but for a class and
/// what it needs.
///
/// # Errors
/// If a number is no class, kind or share, or the version is another one.
pub fn contract(data: &[u8]) -> Result<Contract, Refused> {
    let invalid = Refused::because(Reason::Invalid);
    let data: &[u8; QOS_BYTES] = data.try_into().map_err(|_| invalid)?;
    let word = |at: usize| {
        let bytes = data[at * 4..at * 4 + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(bytes)
    };
    let long = |at: usize| {
        let bytes = data[32 + at * 8..40 + at * 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    };
    let share = |ppm: u32| Share::from_ppm(ppm).ok_or(invalid);
    if word(0) != VERSION {
        return Err(invalid);
    }
    let class = *CLASSES.get(word(1) as usize).ok_or(invalid)?;
    let (reserve, limit) = (share(word(2))?, share(word(3))?);
    let limit = if limit == Share::ZERO { Share::FULL } else { limit };
    let weight = if word(4) == 0 { 100 } else { word(4) };
    let admission = match (word(5), share(word(6))?) {
        (0, Share::ZERO) => Admission::Deterministic,
        (1, miss) => Admission::Statistical { miss },
        (2, Share::ZERO) => Admission::BestEffort,
        _ => return Err(invalid),
    };
    let access = match word(7) {
        0 => Access::Both,
        1 => Access::Read,
        2 => Access::Write,
        _ => return Err(invalid),
    };
    let some = |nanos: u64| (nanos > 0).then(|| Duration::from_nanos(nanos));
    let (bytes_per_second, cycle, latency) = (long(0), some(long(1)), some(long(2)));
    if bytes_per_second > disktime_config::RATE_MAX
        || latency.is_some_and(|bound| bound > disktime_config::LATENCY_MAX)
        || (bytes_per_second == 0 && (cycle.is_some() || admission != Admission::Deterministic))
    {
        return Err(invalid);
    }
    let rate = Rate { bytes_per_second, cycle, admission, access };
    let rate = (bytes_per_second > 0).then_some(rate);
    Ok(Contract { reserve, limit, weight, class, rate, latency })
}

/// The contract of a priority: `DISKTIME_PRIORITY_…`.
///
/// # Errors
/// If there is no such priority.
pub fn priority(number: u32) -> Result<Contract, Refused> {
    let usual = Contract::default();
    match number {
        0 => Ok(Contract { class: Class::Background, ..usual }),
        1 => Ok(usual),
        // Against the usual weight of 100 it has 99 parts of 100 whenever it wants the device, and it
        // starves nobody. A rate without a promise would go first only where nobody has a profile:
        // beside one the slack register lets best effort go before it.
        2 => Ok(Contract { weight: Contract::WEIGHT_MAX, ..usual }),
        _ => Err(Refused::because(Reason::Invalid)),
    }
}

/// Bytes of a structure whose fields follow each other without gaps.
#[derive(Default)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn word(&mut self, word: u32) {
        self.0.extend_from_slice(&word.to_ne_bytes());
    }

    pub(crate) fn long(&mut self, long: u64) {
        self.0.extend_from_slice(&long.to_ne_bytes());
    }

    /// All of it.
    ///
    /// # Panics
    /// If the fields are not as long as the structure.
    pub(crate) fn whole<const N: usize>(self) -> [u8; N] {
        self.0.try_into().expect("the fields fill the structure")
    }
}
