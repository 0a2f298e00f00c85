//! The clients that are to be served in this turn: a virtual disk's after another's, so that a client waits
//! for one of each other virtual disk's, however many that has.

use std::collections::VecDeque;

/// Clients by virtual disk, each in the order in which it came.
#[derive(Default)]
pub(super) struct Touched {
    queues: Vec<VecDeque<u32>>,
    /// The virtual disks that have any; the next one first.
    order: VecDeque<u32>,
    count: usize,
}

impl Touched {
    /// Appends a client that is not among them.
    pub(super) fn push(&mut self, vdisk: u32, client: u32) {
        let at = vdisk as usize;
        if at >= self.queues.len() {
            self.queues.resize_with(at + 1, VecDeque::new);
        }
        if self.queues[at].is_empty() {
            self.order.push_back(vdisk);
        }
        self.queues[at].push_back(client);
        self.count += 1;
    }

    /// Takes the next one.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let vdisk = self.order.pop_front()?;
        let queue = &mut self.queues[vdisk as usize];
        let client = queue.pop_front();
        if !queue.is_empty() {
            self.order.push_back(vdisk);
        }
        self.count -= 1;
        client
    }

    /// Takes a client of that virtual disk out.
    pub(super) fn remove(&mut self, vdisk: u32, client: u32) {
        let queue = &mut self.queues[vdisk as usize];
        let before = queue.len();
        queue.retain(|it| *it != client);
        self.count -= before - queue.len();
        if queue.is_empty() {
            self.order.retain(|it| *it != vdisk);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client waited for up to fifteen of another virtual disk's, each with 32 requests and a copy.
    #[test]
    fn a_client_waits_for_one_of_each_other_virtual_disk() {
        let mut touched = Touched::default();
        (0..15).for_each(|client| touched.push(3, client));
        touched.push(0, 20);
        touched.push(7, 30);
        touched.remove(3, 1);
        let next: Vec<u32> = std::iter::from_fn(|| touched.pop()).take(5).collect();
        assert_eq!((next, touched.len()), (vec![0, 20, 30, 2, 3], 11));
        touched.push(0, 20);
        (4..15).for_each(|client| touched.remove(3, client));
        assert_eq!((touched.pop(), touched.pop(), touched.is_empty()), (Some(20), None, true));
    }
}
