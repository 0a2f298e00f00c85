//! Contracts of open files: asked for by ioctl, by attribute, by rule or by default; granted to users
//! who may have them, or refused with a reason.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use disktime_config::read_contract;
use disktime_core::{Class, Contract, DeviceTime, Share};
use rustix::io::Errno;

use crate::abi::{self, Bytes, Call, Reason, Refused};
use crate::file_system::{Answer, Caller, IoctlAnswer};
use crate::nodes::{Default, Node, lock};
use crate::open_files::{OpenFile, OpenTable};
use crate::rules::Rule;
use crate::scheduler::Scheduler;
use crate::source::Source;

/// The extended attribute that states a file's contract, or that of all files in a directory.
pub(crate) const ATTRIBUTE: &str = "user.disktime.contract";
/// All attributes of this mount begin so.
const PREFIX: &[u8] = b"user.disktime.";

/// The users to whom a promise may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Askers {
    /// The superuser, the user who mounts, and these.
    Only(Vec<u32>),
    /// Everybody.
    All,
}

impl Askers {
    fn may(&self, caller: Caller) -> bool {
        let own = rustix::process::geteuid().as_raw();
        match self {
            Self::All => true,
            Self::Only(users) => {
                caller.uid == 0 || caller.uid == own || users.contains(&caller.uid)
            }
        }
    }
}

/// Whether a contract takes nothing from others: no promise, no larger weight than the usual one.
fn is_modest(contract: &Contract) -> bool {
    let Contract { reserve, weight, class, latency, .. } = contract;
    let humble = matches!(class, Class::BestEffort | Class::Background);
    humble && *reserve == Share::ZERO && *weight <= 100 && latency.is_none()
}

/// Whether the name of an attribute is this mount's to give.
pub(crate) fn is_reserved(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX)
}

/// The terms on which open files get contracts.
pub(crate) struct Contracts {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) askers: Askers,
    /// Contracts by who opens a file; the first that holds counts.
    pub(crate) rules: Vec<Rule>,
    /// The contract of files for which neither an attribute nor a rule states one.
    pub(crate) default: Option<Contract>,
}

impl Contracts {
    /// Gives an open file a contract, if it may have it and the device has the time.
    pub(crate) fn grant(
        &self,
        caller: Caller,
        file: &Arc<OpenFile>,
        contract: Contract,
    ) -> Result<(), Refused> {
        if !is_modest(&contract) && !self.askers.may(caller) {
            let refused = Refused::because(Reason::Permission);
            *lock(&file.refused) = refused;
            return Err(refused);
        }
        self.give(file, contract)
    }

    /// As [`grant`](Self::grant), for any user.
    fn give(&self, file: &Arc<OpenFile>, contract: Contract) -> Result<(), Refused> {
        if file.is_handed_over.load(Ordering::Acquire) && contract != Contract::default() {
            let refused = Refused::because(Reason::PassThrough);
            *lock(&file.refused) = refused;
            return Err(refused);
        }
        self.scheduler
            .set(file, contract)
            .inspect_err(|refused| *lock(&file.refused) = *refused)?;
        *lock(&file.refused) = Refused::default();
        *lock(&file.contract) = contract;
        Ok(())
    }

    /// An ioctl on an open file.
    pub(crate) fn call(
        &self,
        caller: Caller,
        file: &Arc<OpenFile>,
        command: u32,
        data: &[u8],
    ) -> Answer<IoctlAnswer> {
        let call = Call::of(command)?;
        let done = |granted: Result<(), Refused>| match granted {
            Ok(()) => Ok((0, Vec::new())),
            Err(refused) => Err(Errno::from_raw_os_error(refused.errno())),
        };
        match call {
            Call::Get => Ok((0, self.state(file))),
            Call::Set => {
                let asked = abi::contract(data);
                let granted = asked.and_then(|contract| self.set(caller, file, contract));
                let result = granted.map_or_else(|refused| -refused.errno(), |()| 0);
                let refused = granted.err().unwrap_or_default();
                // On a refusal the program gets back what it has, and what would fit.
                Ok((result, abi::qos(&lock(&file.contract), &refused).to_vec()))
            }
            Call::BestEffort => done(self.set(caller, file, Contract::default())),
            Call::Priority => {
                let number = data.try_into().map_err(|_| Errno::INVAL)?;
                let contract = abi::priority(u32::from_ne_bytes(number));
                done(contract.and_then(|contract| self.set(caller, file, contract)))
            }
            Call::Late => match file.stream() {
                Some(stream) => {
                    if self.scheduler.late(stream) {
                        Ok((0, Vec::new()))
                    } else {
                        Err(Errno::INVAL)
                    }
                }
                // Nothing was promised to it.
                None => Err(Errno::INVAL),
            },
            Call::Stats => Ok((0, self.figures(file))),
            Call::Device => Ok((0, self.device()?)),
        }
    }

    /// A program sets the contract: defaults change nothing any more.
    fn set(&self, caller: Caller, file: &Arc<OpenFile>, contract: Contract) -> Result<(), Refused> {
        let mut is_set = lock(&file.is_set);
        self.grant(caller, file, contract)?;
        *is_set = true;
        Ok(())
    }

    fn state(&self, file: &OpenFile) -> Vec<u8> {
        abi::qos(&lock(&file.contract), &lock(&file.refused)).to_vec()
    }

    /// `struct disktime_stats`; zeroes if the file has no stream of its own.
    fn figures(&self, file: &OpenFile) -> Vec<u8> {
        let report = file.stream().and_then(|_| self.scheduler.report());
        let own = report.as_ref().and_then(|report| report.of(file));
        let mut bytes = Bytes::default();
        bytes.word(abi::VERSION);
        bytes.word(own.map_or(0, |it| it.stream.0));
        let longs = own.map_or([0; 11], |it| {
            let counters = it.counters;
            [
                counters.completed,
                counters.failed,
                counters.bytes_read,
                counters.bytes_written,
                counters.charged.as_nanos(),
                counters.held.as_nanos(),
                counters.cycles,
                counters.cycles_missed,
                it.waiting.into(),
                it.promise.map_or(0, disktime_core::Duration::as_nanos),
                it.broken,
            ]
        });
        longs.into_iter().for_each(|long| bytes.long(long));
        bytes.whole::<{ abi::STATS_BYTES }>().to_vec()
    }

    /// `struct disktime_device`.
    fn device(&self) -> Answer<Vec<u8>> {
        let report = self.scheduler.report().ok_or(Errno::IO)?;
        let headroom = report.headroom.ppm();
        let reserved = u32::try_from(report.reserved_ppm).unwrap_or(u32::MAX);
        let mut bytes = Bytes::default();
        let words = [abi::VERSION, report.depth, report.in_flight, headroom, reserved, 0];
        words.into_iter().for_each(|word| bytes.word(word));
        bytes.long(report.slack.cast_unsigned());
        let DeviceTime { busy, spare, held, charged, .. } = report.device;
        [busy, spare, held, charged].into_iter().for_each(|span| bytes.long(span.as_nanos()));
        Ok(bytes.whole::<{ abi::DEVICE_BYTES }>().to_vec())
    }

    /// The contract that an inode's attribute states, or the nearest directory's above it, or a rule, or
    /// the mount's.
    fn default_of(&self, source: &Source, caller: Caller, node: &Arc<Node>) -> Option<Contract> {
        let mut at = Some(Arc::clone(node));
        // A directory is never its own ancestor; the bound is for a source that changes meanwhile.
        for _ in 0..256 {
            let Some(node) = at else { break };
            if let Some(contract) = own_default(source, &node) {
                return Some(contract);
            }
            at = node.parent();
        }
        self.rules.iter().find_map(|rule| rule.contract(caller)).or(self.default)
    }

    /// A file is opened: it gets its default. One that can't be granted leaves it best effort, and
    /// the program finds out why by `DISKTIME_GET`.
    pub(crate) fn begin(&self, source: &Source, caller: Caller, file: &Arc<OpenFile>) {
        let _is_set = lock(&file.is_set);
        let Some(contract) = self.default_of(source, caller, &file.node) else { return };
        if contract == Contract::default() {
            return;
        }
        if let Err(refused) = self.give(file, contract) {
            let inode = file.node.inode.0;
            tracing::warn!(inode, %refused, "a file's default contract is not granted");
        }
    }

    /// The contract that an attribute of this mount asks for, if this user may have it.
    pub(crate) fn asked(&self, caller: Caller, name: &OsStr, value: &[u8]) -> Answer<Contract> {
        let text = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?;
        if name != OsStr::new(ATTRIBUTE) {
            return Err(Errno::INVAL);
        }
        let contract = read_contract(text).map_err(|error| {
            tracing::info!(%error, "an attribute {ATTRIBUTE} is refused");
            Errno::INVAL
        })?;
        if !is_modest(&contract) && !self.askers.may(caller) {
            return Err(Errno::PERM);
        }
        Ok(contract)
    }

    /// Open files that follow the default have this contract from now on. If one of them can't, none has it.
    /// Answers the contracts of these files before.
    pub(crate) fn set_default(
        &self,
        open: &OpenTable,
        node: &Arc<Node>,
        contract: Contract,
    ) -> Answer<Before> {
        let mut changed = Before::new();
        for file in open.files_of(node) {
            let is_set = lock(&file.is_set);
            if *is_set {
                continue;
            }
            let before = *lock(&file.contract);
            if let Err(refused) = self.give(&file, contract) {
                self.restore(changed);
                return Err(Errno::from_raw_os_error(refused.errno()));
            }
            drop(is_set);
            changed.push((file, before));
        }
        Ok(changed)
    }

    /// Files have the contracts that they had, but for those that were set or closed meanwhile.
    pub(crate) fn restore(&self, before: Before) {
        for (file, contract) in before {
            let is_set = lock(&file.is_set);
            if *is_set {
                continue;
            }
            if let Err(refused) = self.give(&file, contract) {
                let inode = file.node.inode.0;
                tracing::warn!(inode, %refused, "a file's contract of before is gone");
            }
        }
    }
}

/// Open files with the contracts that they had.
pub(crate) type Before = Vec<(Arc<OpenFile>, Contract)>;

/// The contract that an inode's own attribute states.
fn own_default(source: &Source, node: &Node) -> Option<Contract> {
    let mut known = lock(&node.default);
    if *known == Default::Unread {
        let stated = source.attribute(node, OsStr::new(ATTRIBUTE));
        let text = stated.ok().and_then(|value| String::from_utf8(value).ok());
        let contract = text.as_deref().map(read_contract);
        if let Some(Err(error)) = &contract {
            let inode = node.inode.0;
            tracing::warn!(inode, %error, "an attribute {ATTRIBUTE} can't be used");
        }
        *known = contract.and_then(Result::ok).map_or(Default::None, Default::Is);
    }
    match *known {
        Default::Is(contract) => Some(contract),
        Default::Unread | Default::None => None,
    }
}
