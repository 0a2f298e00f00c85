//! The inodes that the kernel knows, each held by a descriptor that stays with it through renames.
//!
//! A descriptor of kind `O_PATH` keeps the source's inode alive, so that a local source can't give its number to
//! another file while the kernel knows this one. A network's can, and some give several files one number: handles
//! tell such files apart.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use disktime_core::Contract;
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::file_system::{Answer, Found, Inode};
use crate::handles::are_of_one_file;

/// The numbers of the files that the source does not have: at the top, where no source's are.
pub(crate) const VIRTUAL: u64 = u64::MAX - 1023;
/// Inodes of the source that can't keep their number get one from here on: they lie on another
/// device than the source's directory, or have the number of the top.
const RENUMBERED: u64 = 1 << 63;

/// The default contract that an inode's own attribute states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Default {
    /// The attribute has not been read since it may have changed.
    Unread,
    /// No attribute, or one that can't be used.
    None,
    /// This contract.
    Is(Contract),
}

/// An inode of the source.
pub(crate) struct Node {
    pub(crate) inode: Inode,
    /// A descriptor of kind `O_PATH`, which neither reads nor writes.
    pub(crate) descriptor: OwnedFd,
    /// Device and inode number at the source.
    pub(crate) identity: (u64, u64),
    /// The directory that the kernel found it in last; defaults are inherited from there.
    parent: Mutex<Option<Arc<Node>>>,
    /// The default contract that an attribute of its own states.
    pub(crate) default: Mutex<Default>,
}

impl Node {
    /// The directory that it was found in last.
    pub(crate) fn parent(&self) -> Option<Arc<Self>> {
        lock(&self.parent).clone()
    }
}

struct Entry {
    node: Arc<Node>,
    /// Lookups that the kernel has not dropped yet.
    lookups: u64,
}

struct Table {
    by_inode: BTreeMap<u64, Entry>,
    /// Device and inode number at the source, and the inode's number here.
    by_identity: BTreeSet<(u64, u64, u64)>,
    /// The next number for an inode that can't keep its own.
    next: u64,
}

/// All inodes that the kernel knows.
pub(crate) struct Nodes {
    root: Arc<Node>,
    table: Mutex<Table>,
}

impl Nodes {
    /// The directory at the top alone.
    pub(crate) fn new(descriptor: OwnedFd, stat: &Stat) -> Self {
        let root = Arc::new(Node {
            inode: Inode::ROOT,
            descriptor,
            identity: identity(stat),
            parent: Mutex::new(None),
            default: Mutex::new(Default::Unread),
        });
        let (device, own) = root.identity;
        let by_identity = BTreeSet::from([(device, own, Inode::ROOT.0)]);
        let table = Table { by_inode: BTreeMap::new(), by_identity, next: RENUMBERED };
        Self { root, table: Mutex::new(table) }
    }

    /// An inode that the kernel knows.
    pub(crate) fn get(&self, inode: Inode) -> Answer<Arc<Node>> {
        if inode == Inode::ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let table = lock(&self.table);
        table.by_inode.get(&inode.0).map(|entry| Arc::clone(&entry.node)).ok_or(Errno::STALE)
    }

    /// The inode behind a descriptor, which the kernel knows by one more lookup from now on.
    pub(crate) fn found(&self, parent: &Arc<Node>, descriptor: OwnedFd, stat: &Stat) -> Found {
        let identity = identity(stat);
        let mut table = lock(&self.table);
        let known = self.known(&table, identity, &descriptor);
        let inode = known.unwrap_or_else(|| table.number(identity, self.root.identity.0));
        if inode == Inode::ROOT.0 {
            // A directory that is mounted within itself.
            return Found { inode: Inode::ROOT, stat: *stat };
        }
        let entry = table.by_inode.entry(inode).or_insert_with(|| {
            let (parent, default) = (Mutex::new(None), Mutex::new(Default::Unread));
            let inode = Inode(inode);
            let node = Node { inode, descriptor, identity, parent, default };
            Entry { node: Arc::new(node), lookups: 0 }
        });
        entry.lookups += 1;
        *lock(&entry.node.parent) = Some(Arc::clone(parent));
        Found { inode: Inode(inode), stat: *stat }
    }

    /// An inode has another name now: what it inherits changes with it.
    pub(crate) fn moved(&self, descriptor: &OwnedFd, stat: &Stat, parent: &Arc<Node>) {
        let table = lock(&self.table);
        let inode = self.known(&table, identity(stat), descriptor);
        if let Some(entry) = inode.and_then(|inode| table.by_inode.get(&inode)) {
            *lock(&entry.node.parent) = Some(Arc::clone(parent));
        }
    }

    /// The inode that the kernel knows behind a descriptor.
    fn known(&self, table: &Table, identity: (u64, u64), descriptor: &OwnedFd) -> Option<u64> {
        let (device, own) = identity;
        let same_number = table.by_identity.range((device, own, 0)..=(device, own, u64::MAX));
        let mut inodes = same_number.map(|(_, _, inode)| *inode);
        inodes.find(|inode| {
            let node = table.by_inode.get(inode).map_or(&self.root, |entry| &entry.node);
            are_of_one_file(&node.descriptor, descriptor)
        })
    }

    /// The kernel has dropped so many lookups of an inode.
    pub(crate) fn forget(&self, inode: Inode, lookups: u64) {
        let mut table = lock(&self.table);
        let Some(entry) = table.by_inode.get_mut(&inode.0) else { return };
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups == 0 {
            let gone = table.by_inode.remove(&inode.0);
            let gone = gone.map(|entry| entry.node);
            if let Some(node) = &gone {
                let (device, own) = node.identity;
                table.by_identity.remove(&(device, own, node.inode.0));
            }
            // Closing its descriptor may take long: nobody shall wait for it.
            drop(table);
            drop(gone);
        }
    }

    /// A number that no inode has.
    pub(crate) fn unused(&self) -> u64 {
        lock(&self.table).take_next()
    }

    /// How many inodes the kernel knows beside the top.
    pub(crate) fn count(&self) -> usize {
        lock(&self.table).by_inode.len()
    }
}

impl Table {
    /// The number of an inode that is not known: its own at the source, if that can be.
    fn number(&mut self, identity: (u64, u64), device: u64) -> u64 {
        let (its_device, own) = identity;
        let may_keep = its_device == device && own > Inode::ROOT.0 && own < RENUMBERED;
        let keeps = may_keep && !self.by_inode.contains_key(&own);
        let inode = if keeps { own } else { self.take_next() };
        self.by_identity.insert((its_device, own, inode));
        inode
    }

    fn take_next(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Locks; what a thread that panicked left is whole, since no call here panics half-way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs that opened the second of two such files were given the first one's bytes, and wrote over them.
    #[test]
    fn files_with_one_number_are_told_apart() {
        let open = || OwnedFd::from(tempfile::tempfile().unwrap());
        let top = open();
        let top_stat = rustix::fs::fstat(&top).unwrap();
        let nodes = Nodes::new(top, &top_stat);
        let top = nodes.get(Inode::ROOT).unwrap();
        let (one, other) = (open(), open());
        let stat = rustix::fs::fstat(&one).unwrap();
        let find = |file: &OwnedFd| nodes.found(&top, file.try_clone().unwrap(), &stat).inode;
        let [first, second] = [&one, &other].map(find);
        if are_of_one_file(&one, &other) {
            // The file system of temporary files has no handles.
            return;
        }
        assert_eq!(first.0, stat.st_ino, "it has its own number");
        assert_ne!(first, second);
        assert_eq!([&one, &other, &one].map(find), [first, second, first]);
        nodes.forget(first, 3);
        assert_eq!((find(&other), nodes.count()), (second, 1));
        assert_eq!(find(&one), first);
        // Inodes that are forgotten leave nothing.
        nodes.forget(first, 1);
        nodes.forget(second, 3);
        assert_eq!((nodes.count(), lock(&nodes.table).by_identity.len()), (0, 1));
    }
}
