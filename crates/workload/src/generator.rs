//! Which operation is next: position, size and kind.
//!
//! Does not know: time. A generator never ends.

use crate::error::SpecError;
use crate::random;
use crate::spec::{IoOp, Pattern, Spec};
use disktime_core::Kind;
use rand::RngExt;
use rand_pcg::Pcg64;

/// An endless sequence of operations.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: Spec,
    /// The smallest size: operations start multiples of it after the extent's start.
    unit: u64,
    weights: u64,
    /// Where the next operation in sequence starts.
    next: u64,
    /// Operations left of the run, for [`Pattern::Runs`].
    run_left: u32,
    /// Operations done of the cycle, for [`Pattern::SemiSequential`].
    cycle_done: u64,
    /// Writes since the last flush.
    unflushed: u32,
    /// The next operation, if someone has looked at it.
    peeked: Option<IoOp>,
    positions: Pcg64,
    sizes: Pcg64,
    kinds: Pcg64,
}

impl Generator {
    /// A generator that depends on the spec, the seed and the name, and on nothing else. Loads that
    /// run side by side under one seed have different names.
    ///
    /// # Errors
    /// If the spec makes no sense.
    pub fn new(spec: Spec, seed: u64, name: &str) -> Result<Self, SpecError> {
        spec.check()?;
        Ok(Self {
            unit: spec.unit().ok_or(SpecError::NoSizes)?,
            weights: spec.sizes.iter().map(|size| u64::from(size.weight)).sum(),
            next: spec.extent.start,
            run_left: 0,
            cycle_done: 0,
            unflushed: 0,
            peeked: None,
            positions: random::stream(seed, name, "position"),
            sizes: random::stream(seed, name, "size"),
            kinds: random::stream(seed, name, "kind"),
            spec,
        })
    }

    /// The operations that it generates.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The next operation.
    pub fn next_op(&mut self) -> IoOp {
        match self.peeked.take() {
            Some(op) => op,
            None => self.generate(),
        }
    }

    /// The operation that [`next_op`](Self::next_op) will return.
    pub(crate) fn peek(&mut self) -> IoOp {
        let op = self.next_op();
        self.peeked = Some(op);
        op
    }

    fn generate(&mut self) -> IoOp {
        if self.spec.flush_after.is_some_and(|writes| self.unflushed >= writes) {
            self.unflushed = 0;
            return IoOp { kind: Kind::Flush, offset: 0, bytes: 0 };
        }
        let bytes = self.size();
        let offset = match self.spec.pattern {
            Pattern::Random => self.random_offset(bytes),
            Pattern::Sequential => self.sequential_offset(bytes),
            Pattern::Runs { length } => self.run_offset(bytes, length),
            Pattern::SemiSequential { random, sequential } => {
                self.cycle_offset(bytes, random, sequential)
            }
            Pattern::Skewed { part_permille, operations_permille } => {
                self.skewed_offset(bytes, part_permille, operations_permille)
            }
        };
        let extent = self.spec.extent;
        debug_assert!(offset >= extent.start && offset + bytes <= extent.end);
        let kind = self.kind();
        if kind == Kind::Write {
            self.unflushed = self.unflushed.saturating_add(1);
        }
        IoOp { kind, offset, bytes }
    }

    fn size(&mut self) -> u64 {
        if let [only] = self.spec.sizes[..] {
            return only.bytes;
        }
        let mut draw = self.sizes.random_range(0..self.weights);
        for size in &self.spec.sizes {
            let weight = u64::from(size.weight);
            if draw < weight {
                return size.bytes;
            }
            draw -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }

    fn kind(&mut self) -> Kind {
        let read = match self.spec.reads_permille {
            0 => false,
            1000 => true,
            permille => self.kinds.random_range(0..1000_u16) < permille,
        };
        match self.spec.trims_permille {
            _ if read => Kind::Read,
            0 => Kind::Write,
            permille if self.kinds.random_range(0..1000_u16) < permille => Kind::Trim,
            _ => Kind::Write,
        }
    }

    /// A place from which `bytes` fit in the extent.
    fn random_offset(&mut self, bytes: u64) -> u64 {
        let extent = self.spec.extent;
        let places = (extent.end - extent.start - bytes) / self.unit;
        extent.start + self.positions.random_range(0..=places) * self.unit
    }

    /// A place at which `bytes` may start: while chance says so in the first part of the places, in
    /// the end anywhere beyond that part.
    fn skewed_offset(&mut self, bytes: u64, part_permille: u16, operations_permille: u16) -> u64 {
        let extent = self.spec.extent;
        let mut places = (extent.end - extent.start - bytes) / self.unit + 1;
        let mut first = 0;
        loop {
            let part = u128::from(places) * u128::from(part_permille) / 1000;
            let part = u64::try_from(part).expect("a part of 64 bits");
            if part == 0 {
                break;
            }
            if self.positions.random_range(0..1000_u16) >= operations_permille {
                first = part;
                places -= part;
                break;
            }
            places = part;
        }
        extent.start + (first + self.positions.random_range(0..places)) * self.unit
    }

    fn sequential_offset(&mut self, bytes: u64) -> u64 {
        let fits = bytes <= self.spec.extent.end - self.next;
        let offset = if fits { self.next } else { self.spec.extent.start };
        self.next = offset + bytes;
        offset
    }

    fn run_offset(&mut self, bytes: u64, length: u32) -> u64 {
        if self.run_left == 0 {
            self.run_left = length;
            self.next = self.random_offset(self.spec.largest() * u64::from(length));
        }
        self.run_left -= 1;
        let offset = self.next;
        self.next += bytes;
        offset
    }

    fn cycle_offset(&mut self, bytes: u64, random: u32, sequential: u32) -> u64 {
        let step = self.cycle_done;
        let length = u64::from(random) + u64::from(sequential);
        self.cycle_done = if step + 1 == length { 0 } else { step + 1 };
        if step < u64::from(random) {
            self.random_offset(bytes)
        } else {
            self.sequential_offset(bytes)
        }
    }
}
