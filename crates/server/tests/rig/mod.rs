//! A back end worked by hand, as a shard does it.
#![allow(dead_code, unreachable_pub, reason = "each test crate uses its part of the rig")]
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use disktime_core::Kind;
use disktime_server::Server;
use disktime_server::backend::{BackEnd, DeviceError, Io, Job, Step};
use disktime_server::buffers::Pool;
use disktime_server::ring::{Finished, Ring, Token};
use tempfile::TempDir;

pub const BLOCK: u64 = 4096;
/// Names of migrations' jobs, from here on.
const MIGRATIONS: u32 = 1 << 30;
/// Their disk: the one after the two that every kind has.
const MIGRATION_DISK: u32 = 2;
/// Their pieces' bytes, as the engine cuts background work.
const PIECE: u64 = 128 << 10;

/// A shard's side of a back end.
pub struct Rig {
    pub ring: Ring,
    pool: Pool,
    pub back_end: Box<dyn BackEnd>,
    pub jobs: BTreeMap<u32, Job>,
    pub done: BTreeMap<u32, (Job, Result<(), DeviceError>)>,
    next: u32,
    /// The back end's migration: the piece that is under way, and the rest after it.
    migration: Option<(u32, Job)>,
    left: Range<u64>,
    /// No next piece of a migration begins.
    pub holds: bool,
    /// Migrations that were done.
    pub moved: u32,
    pub server: Option<Server>,
    pub directory: TempDir,
}

impl Rig {
    pub fn new(make: impl FnOnce(&Path) -> (Box<dyn BackEnd>, Option<Server>)) -> Self {
        let directory = TempDir::new().unwrap();
        let (mut back_end, server) = make(directory.path());
        let mut pool = Pool::for_files();
        let mut ring = Ring::new(pool.arena()).unwrap();
        back_end.begin(&mut Io { ring: &mut ring, pool: &mut pool });
        let (jobs, done) = (BTreeMap::new(), BTreeMap::new());
        let (migration, left, moved) = (None, 0..0, 0);
        Self {
            ring,
            pool,
            back_end,
            jobs,
            done,
            next: 0,
            migration,
            left,
            holds: false,
            moved,
            server,
            directory,
        }
    }

    /// Begins a job; answers its name.
    pub fn start(&mut self, mut job: Job) -> u32 {
        let id = self.next;
        self.next += 1;
        let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
        let step = self.back_end.start(id, &mut job, &mut io);
        self.jobs.insert(id, job);
        self.note(id, step);
        self.go_on();
        id
    }

    /// Begins the next piece of a migration, if there is one.
    fn run_migration(&mut self) -> bool {
        if self.left.is_empty() {
            let Some(extent) = self.back_end.migration() else { return false };
            self.left = extent;
        }
        let (start, bytes) = (self.left.start, PIECE.min(self.left.end - self.left.start));
        self.left.start += bytes;
        self.migration = Some((MIGRATIONS, Job::new(MIGRATION_DISK, Kind::Cache, start, bytes)));
        self.step(MIGRATIONS, |back_end, job, io| back_end.start(MIGRATIONS, job, io));
        true
    }

    /// Waits until no job and no migration is under way.
    pub fn rest(&mut self) {
        self.settle();
        while self.migration.is_some() {
            assert!(self.turn(Duration::from_secs(10)), "a migration never ends");
        }
    }

    /// Goes on with a job, in the way that is given.
    fn step(
        &mut self,
        id: u32,
        go_on: impl FnOnce(&mut dyn BackEnd, &mut Job, &mut Io<'_>) -> Step,
    ) {
        let migration =
            self.migration.take_if(|(migration, _)| *migration == id).map(|(_, job)| job);
        let mut job = migration
            .or_else(|| self.jobs.remove(&id))
            .expect("only jobs that are not over go on, and nothing of a job comes after it");
        let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
        let step = go_on(&mut *self.back_end, &mut job, &mut io);
        if id == MIGRATIONS {
            self.migration = Some((id, job));
        } else {
            self.jobs.insert(id, job);
        }
        self.note(id, step);
    }

    pub fn note(&mut self, id: u32, step: Step) {
        if let Step::Done(result) = step {
            if id == MIGRATIONS {
                self.migration = None;
                match result {
                    Ok(()) => self.moved += u32::from(self.left.is_empty()),
                    Err(_) => self.left = 0..0,
                }
                return;
            }
            let job = self.jobs.remove(&id).expect("a job is over once");
            self.done.insert(id, (job, result));
        }
    }

    pub fn go_on(&mut self) {
        loop {
            while let Some(id) = self.back_end.unblocked() {
                self.step(id, |back_end, job, io| back_end.resume(id, job, io));
            }
            if self.holds || self.migration.is_some() || !self.run_migration() {
                return;
            }
        }
    }

    /// Waits until all jobs are over.
    pub fn settle(&mut self) {
        let mut waits = 0;
        while !self.jobs.is_empty() {
            waits = if self.turn(Duration::from_secs(1)) { 0 } else { waits + 1 };
            assert!(waits < 60, "{} jobs never end", self.jobs.len());
        }
    }

    /// Hears what the ring has to say; whether it said something in time.
    pub fn turn(&mut self, timeout: Duration) -> bool {
        let mut finished = Vec::new();
        self.ring.wait(Some(timeout)).unwrap();
        self.ring.reap(&mut finished);
        let some = !finished.is_empty();
        for Finished { token, keep, result } in finished {
            match token {
                Token::Job { job: id, step } => self.step(id, |back_end, job, io| {
                    back_end.finished(id, step, job, (keep, result), io)
                }),
                Token::BackEnd(what) => {
                    let mut io = Io { ring: &mut self.ring, pool: &mut self.pool };
                    self.back_end.heard(what, (keep, result), &mut io);
                }
                token => panic!("{token:?}"),
            }
            self.go_on();
        }
        some
    }

    pub fn job(&mut self, disk: u32, kind: Kind, offset: u64, bytes: u64) -> Job {
        let mut job = Job::new(disk, kind, offset, bytes);
        if matches!(kind, Kind::Read | Kind::Write) {
            job.at = size(offset % BLOCK);
            job.buffer = Some(self.pool.take((job.at + size(bytes)).next_multiple_of(4096)));
        }
        job
    }

    pub fn writing(&mut self, disk: u32, offset: u64, data: &[u8]) -> Job {
        let job = self.job(disk, Kind::Write, offset, data.len() as u64);
        job.buffer.as_ref().unwrap().put(job.at, data);
        job
    }

    /// Runs a job to its end.
    pub fn run(&mut self, job: Job) -> Result<Job, DeviceError> {
        let id = self.start(job);
        self.settle();
        let (job, result) = self.done.remove(&id).unwrap();
        result.map(|()| job)
    }

    pub fn ask(
        &mut self,
        disk: u32,
        kind: Kind,
        offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let job = self.job(disk, kind, offset, bytes);
        let job = self.run(job)?;
        self.pool_back(job);
        Ok(())
    }

    pub fn pool_back(&mut self, job: Job) {
        if let Some(buffer) = job.buffer {
            self.pool.give_back(buffer);
        }
    }

    pub fn write(&mut self, disk: u32, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let job = self.writing(disk, offset, data);
        self.run(job).map(|job| self.pool_back(job))
    }

    pub fn read(&mut self, disk: u32, offset: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        let job = self.job(disk, Kind::Read, offset, bytes);
        let job = self.run(job)?;
        let data = got(&job);
        self.pool_back(job);
        Ok(data)
    }
}

pub fn got(job: &Job) -> Vec<u8> {
    let mut data = vec![0; size(job.bytes)];
    job.buffer.as_ref().unwrap().get(job.at, &mut data);
    data
}

pub fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// An extent of the disk: often short, sometimes on blocks.
    pub fn extent(&mut self, len: u64, longest: u64) -> (u64, u64) {
        let most = [1, 600, 5000, longest][size(self.below(4))];
        let (mut offset, mut bytes) = (self.below(len), 1 + self.below(most));
        if self.below(3) == 0 {
            (offset, bytes) = (offset / BLOCK * BLOCK, bytes.next_multiple_of(BLOCK));
        }
        (offset, bytes.min(len - offset))
    }
}
