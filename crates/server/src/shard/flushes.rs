//! A flush that fails concerns everybody whose acknowledged data it was to make durable.
//!
//! Linux tells a failed write-back once, to whichever sync on the file asks first; a server that went
//! away tells nobody. So the shard keeps account: which virtual disks have writes that were
//! acknowledged and not flushed since (*dirty*), and how often each has lost such writes, perhaps
//! (its *losses*). A failure adds a loss to every dirty virtual disk on the medium, and to each that
//! was dirty when a flush began that is not over yet. A flush that succeeds beside that one may have
//! been told nothing. A connection remembers how many losses it was told of; its next flush after
//! another one fails, once, even if the device's flush succeeds by then.
//!
//! Does not know: how flushes are carried out, or what is on a medium.

use disktime_core::{Kind, StreamId};

use super::{Cause, Shard};
use crate::backend::{BackEnd, DeviceError, Job};
use crate::frontend::request::BlockError;

/// Times of a medium, counted by what happens on it: a write that ends, a loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Moment(u64);

/// The beginning of a job.
#[derive(Clone, Copy, Default)]
pub(super) struct Began {
    at: Moment,
    /// Writes that had ended by then were durable.
    clean: Moment,
}

/// State of virtual disks of which a flush of one is a flush of all.
#[derive(Clone, Copy, Default)]
struct Medium {
    now: Moment,
    /// Writes that had ended by then are durable, or were given up as lost.
    clean: Moment,
    /// The last loss.
    lost: Moment,
}

impl Medium {
    fn tick(&mut self) -> Moment {
        self.now.0 += 1;
        self.now
    }
}

#[derive(Clone, Copy, Default)]
struct Disk {
    medium: usize,
    /// Its last write that was not durable by itself ended then.
    written: Moment,
    losses: u64,
    /// Writes that had ended by then are counted in its losses.
    lost: Moment,
    /// The most losses that a connection of it was told of.
    told: u64,
}

/// The account of one shard.
pub(super) struct Flushes {
    disks: Vec<Disk>,
    media: Vec<Medium>,
    /// By connection: how many losses it was told of, or came after.
    told: Vec<u64>,
}

/// How a job's end is to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    pub(super) result: Result<(), DeviceError>,
    /// Writes that were acknowledged and not flushed on the job's medium may be gone.
    pub(super) loses: bool,
    /// A part of the job itself may be gone, by a loss while it was under way.
    pub(super) lost: bool,
}

impl Flushes {
    /// The account of virtual disks on these media.
    pub(super) fn new(media: impl Iterator<Item = u32>) -> Self {
        let disk = |medium| Disk { medium: medium as usize, ..Disk::default() };
        let disks: Vec<Disk> = media.map(disk).collect();
        let count = disks.iter().map(|disk| disk.medium + 1).max().unwrap_or(0);
        Self { disks, media: vec![Medium::default(); count], told: Vec::new() }
    }

    /// A virtual disk has come: it has lost nothing yet.
    pub(super) fn add(&mut self, disk: u32, medium: u32) {
        let (disk, medium) = (disk as usize, medium as usize);
        self.disks.resize(self.disks.len().max(disk + 1), Disk::default());
        self.disks[disk].medium = medium;
        self.media.resize(self.media.len().max(medium + 1), Medium::default());
    }

    /// A virtual disk is gone: nobody is left to be told of its losses, and the next one of that
    /// number has none.
    pub(super) fn remove(&mut self, disk: u32) {
        self.disks[disk as usize] = Disk::default();
    }

    /// A connection to a virtual disk: it is to hear of a loss that no other one was told of.
    fn welcome(&mut self, client: u32, disk: u32) {
        let client = client as usize;
        self.told.resize(self.told.len().max(client + 1), 0);
        self.told[client] = self.disks[disk as usize].told;
    }

    /// A job begins: when, to be handed back at its end.
    fn begins(&self, job: &Job) -> Began {
        let medium = &self.media[self.disks[job.disk as usize].medium];
        Began { at: medium.now, clean: medium.clean }
    }

    /// A job that began then is over.
    fn ended(&mut self, job: &Job, began: Began, result: Result<(), DeviceError>) -> Ended {
        let disk = &mut self.disks[job.disk as usize];
        let medium = &mut self.media[disk.medium];
        let straddles = began.at < medium.lost;
        let mut ended = Ended { result, loses: false, lost: false };
        match job.kind {
            Kind::Flush if result.is_ok() => medium.clean = medium.clean.max(began.at),
            Kind::Flush => ended.loses = true,
            // A part of it may have been lost before the rest was made durable.
            Kind::Write | Kind::Zeroes | Kind::Trim if job.fua && straddles => {
                ended.result = result.and(Err(DeviceError(libc::EIO)));
            }
            Kind::Write | Kind::Zeroes | Kind::Trim if job.fua => {
                ended.loses = result.is_err_and(loses);
            }
            Kind::Write | Kind::Zeroes | Kind::Trim if result.is_ok() => {
                disk.written = medium.tick();
                // A part of it may have been lost, and a flush have told of that already.
                disk.losses += u64::from(straddles);
                ended.lost = straddles;
            }
            _ => {}
        }
        ended
    }

    /// Writes that were acknowledged and not flushed on a medium may be gone: answers the virtual
    /// disks that had some when the first of the flushes began that are under way, or now.
    fn lose(&mut self, medium: usize, under_way: Option<Began>) -> Vec<u32> {
        let Some(it) = self.media.get_mut(medium) else { return Vec::new() };
        let clean = under_way.map_or(it.clean, |began| began.clean.min(it.clean));
        it.lost = it.tick();
        it.clean = it.lost;
        let mut concerned = Vec::new();
        for (at, disk) in (0..).zip(&mut self.disks) {
            if disk.medium == medium && disk.written > clean.max(disk.lost) {
                disk.losses += 1;
                disk.lost = it.lost;
                concerned.push(at);
            }
        }
        concerned
    }

    /// Whether a connection was not told of a loss.
    pub(super) fn was_not_told(&self, client: u32, disk: u32) -> bool {
        self.told[client as usize] < self.disks[disk as usize].losses
    }

    /// A connection's flush is answered: whether it has to fail for a loss that the connection was
    /// not told of. If it fails, for whatever reason, that tells of all.
    fn must_fail(&mut self, client: u32, disk: u32, fails: bool) -> bool {
        let disk = &mut self.disks[disk as usize];
        let told = &mut self.told[client as usize];
        let must = *told < disk.losses;
        if must || fails {
            *told = disk.losses;
            disk.told = disk.losses;
        }
        must
    }
}

/// Whether a write with FUA that failed so may have taken the device's word for others' data with
/// it: not if the device was never asked, or had no room.
fn loses(error: DeviceError) -> bool {
    use libc::{EDQUOT, EFBIG, EINVAL, ENOSPC, EOPNOTSUPP, EROFS};
    !matches!(error.0, EDQUOT | EFBIG | EINVAL | ENOSPC | EOPNOTSUPP | EROFS)
}

#[cfg(test)]
impl Flushes {
    /// A job has failed at the device and tells of a loss.
    pub(super) fn fail(&mut self, job: &Job, error: DeviceError) {
        let began = self.begins(job);
        assert!(self.ended(job, began, Err(error)).loses);
        self.lose(self.disks[job.disk as usize].medium, Some(began));
    }
}

impl Shard {
    /// A connection has come.
    pub(super) fn flushes_welcome(&mut self, client: u32, vdisk: u32) {
        self.device.flushes.welcome(client, vdisk);
    }

    /// A flight's job begins at the back end.
    pub(super) fn flushes_begin(&mut self, key: u32) {
        let flight = &mut self.device.flights[key as usize];
        flight.began = self.device.flushes.begins(&flight.job);
    }

    /// A flight's job is over at the back end; answers how it is to be taken.
    pub(super) fn flushes_end(
        &mut self,
        key: u32,
        result: Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let flight = &self.device.flights[key as usize];
        let disk = flight.job.disk;
        let ended = self.device.flushes.ended(&flight.job, flight.began, result);
        let Ended { result, loses, lost } = ended;
        if let (true, Err(error)) = (loses, result) {
            let medium = self.device.flushes.disks[disk as usize].medium;
            self.tell_loss(medium, &error);
        }
        if lost {
            self.lose_at_hand_over(disk);
        }
        result
    }

    /// Takes what the back end says of losses by itself.
    pub(super) fn flushes_lost(&mut self) {
        while let Some(medium) = self.device.back_end.lost() {
            self.tell_loss(medium as usize, &"the back end lost what it held");
            let device = &mut self.device;
            for (_, flight) in &mut device.flights {
                if device.back_end.begins_anew(&flight.job) {
                    flight.began = device.flushes.begins(&flight.job);
                }
            }
        }
    }

    /// The beginning of the first of a medium's flushes that are under way. Each may be the one that the
    /// system has told of a failure.
    fn flushes_under_way(&self, medium: usize) -> Option<Began> {
        let device = &self.device;
        let flights = device.flights.iter().map(|(_, flight)| flight);
        let flushes = flights.filter(|flight| {
            let disk = flight.job.disk as usize;
            (flight.job.kind == Kind::Flush || flight.job.fua)
                && flight.result.is_none()
                && !self.vdisks[disk].is_of_mount()
                && device.flushes.disks[disk].medium == medium
        });
        flushes.map(|flight| flight.began).min_by_key(|began| began.clean)
    }

    /// Tells of a failure that puts data at stake. One that does not is told as any failed request.
    pub(super) fn tell_loss(&mut self, medium: usize, error: &dyn std::fmt::Display) {
        let under_way = self.flushes_under_way(medium);
        let concerned = self.device.flushes.lose(medium, under_way);
        // A block that a backup has read may be as it was before: only all of it is known to be safe.
        for disk in &concerned {
            let vdisk = &mut self.vdisks[*disk as usize];
            let all = 0..vdisk.stats.size();
            vdisk.bitmaps.iter_mut().for_each(|bitmap| bitmap.mark(&all));
            self.lose_at_hand_over(*disk);
        }
        let Some(first) = concerned.first().copied() else { return };
        let name = |at: u32| &*self.vdisks[at as usize].name;
        let vdisks = concerned.into_iter().map(name).collect::<Vec<_>>().join(", ");
        self.seldom(StreamId(first), Cause::Loss, |_, left_out| {
            tracing::error!(
                vdisks,
                %error,
                left_out,
                "a flush failed: acknowledged data that were not flushed may be gone; each client \
                 of these virtual disks gets an I/O error at its next flush, once"
            );
        });
    }

    /// A virtual disk's last flush has failed: answers the virtual disks on its medium that may have lost
    /// data. The system tells of a failed write-back once, so that their own flushes may succeed.
    pub(super) fn last_flush_failed(&mut self, vdisk: u32) -> Vec<u32> {
        let flushes = &mut self.device.flushes;
        flushes.lose(flushes.disks[vdisk as usize].medium, None)
    }

    /// The answer to a client's request: a flush also tells of losses.
    pub(super) fn flushes_answer(
        &mut self,
        (client, vdisk): (u32, u32),
        kind: Kind,
        result: Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        if kind != Kind::Flush || self.is_dead(client) {
            return result;
        }
        let must_fail = self.device.flushes.must_fail(client, vdisk, result.is_err());
        result.and(if must_fail { Err(BlockError::DataLost) } else { Ok(()) })
    }
}

/// The account of a back end's virtual disks.
pub(super) fn of(back_end: &dyn BackEnd, disks: usize) -> Flushes {
    let disks = u32::try_from(disks).expect("virtual disks are bounded");
    Flushes::new((0..disks).map(|disk| back_end.medium(disk)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIO: Result<(), DeviceError> = Err(DeviceError(libc::EIO));

    /// Two virtual disks on one medium and one on another, each with two connections.
    fn flushes() -> Flushes {
        let mut flushes = Flushes::new([0, 0, 1].into_iter());
        (0..6).for_each(|client| flushes.welcome(client, client / 2));
        flushes
    }

    fn job(disk: u32, kind: Kind, fua: bool) -> Job {
        Job { fua, ..Job::new(disk, kind, 0, 4096) }
    }

    fn run(flushes: &mut Flushes, job: &Job, result: Result<(), DeviceError>) -> Ended {
        let began = flushes.begins(job);
        end(flushes, job, began, result)
    }

    fn end(
        flushes: &mut Flushes,
        job: &Job,
        began: Began,
        result: Result<(), DeviceError>,
    ) -> Ended {
        let ended = flushes.ended(job, began, result);
        if ended.loses {
            flushes.lose(flushes.disks[job.disk as usize].medium, Some(began));
        }
        ended
    }

    fn write(flushes: &mut Flushes, disk: u32) {
        run(flushes, &job(disk, Kind::Write, false), Ok(()));
    }

    fn flush(flushes: &mut Flushes, disk: u32, result: Result<(), DeviceError>) {
        run(flushes, &job(disk, Kind::Flush, false), result);
    }

    /// Which connections' flushes fail now though the device's succeed.
    fn told(flushes: &mut Flushes) -> Vec<u32> {
        (0..6).filter(|client| flushes.must_fail(*client, client / 2, false)).collect()
    }

    #[test]
    fn everybody_with_data_at_stake_is_told_once() {
        let mut flushes = flushes();
        (0..3).for_each(|disk| write(&mut flushes, disk));
        flush(&mut flushes, 0, EIO);
        assert!(flushes.must_fail(0, 0, true), "its own flush failed, which tells it");
        assert_eq!(told(&mut flushes), [1, 2, 3], "not those on another medium");
        assert!(told(&mut flushes).is_empty());
        // Nothing was written since.
        flush(&mut flushes, 0, EIO);
        assert!(told(&mut flushes).is_empty());
        // Writes that a neighbour's flush on the medium has made durable are not at stake.
        write(&mut flushes, 1);
        flush(&mut flushes, 0, Ok(()));
        write(&mut flushes, 0);
        flush(&mut flushes, 1, EIO);
        assert_eq!(told(&mut flushes), [0, 1]);
    }

    #[test]
    fn a_flush_covers_what_ended_before_it_began() {
        let mut flushes = flushes();
        let (slow, flushing) = (job(1, Kind::Write, false), job(0, Kind::Flush, false));
        let [write_began, flush_began] = [flushes.begins(&slow), flushes.begins(&flushing)];
        flushes.ended(&slow, write_began, Ok(()));
        flushes.ended(&flushing, flush_began, Ok(()));
        flush(&mut flushes, 0, EIO);
        assert_eq!(told(&mut flushes), [2, 3]);
    }

    /// The system tells of a failed write-back once. The flush that was not told ended first, counted all as
    /// durable, and nobody was told when the other one failed.
    #[test]
    fn a_flush_that_succeeds_beside_one_that_fails_hides_no_loss() {
        let mut flushes = flushes();
        write(&mut flushes, 0);
        let jobs = [job(1, Kind::Flush, false), job(0, Kind::Flush, false)];
        let [fails, succeeds] = [&jobs[0], &jobs[1]].map(|job| flushes.begins(job));
        end(&mut flushes, &jobs[1], succeeds, Ok(()));
        end(&mut flushes, &jobs[0], fails, EIO);
        assert_eq!(told(&mut flushes), [0, 1]);
    }

    #[test]
    fn flushes_that_fail_together_tell_once() {
        let mut flushes = flushes();
        write(&mut flushes, 0);
        let jobs = [0, 1].map(|disk| job(disk, Kind::Flush, false));
        let began = [&jobs[0], &jobs[1]].map(|job| flushes.begins(job));
        end(&mut flushes, &jobs[0], began[0], EIO);
        assert_eq!(told(&mut flushes), [0, 1]);
        end(&mut flushes, &jobs[1], began[1], EIO);
        assert!(told(&mut flushes).is_empty());
    }

    #[test]
    fn a_write_that_was_under_way_at_a_loss_may_have_lost_a_part() {
        let mut flushes = flushes();
        let (plain, fua) = (job(0, Kind::Write, false), job(0, Kind::Write, true));
        let began = [flushes.begins(&plain), flushes.begins(&fua)];
        write(&mut flushes, 0);
        flush(&mut flushes, 1, EIO);
        assert_eq!(told(&mut flushes), [0, 1]);
        flushes.ended(&plain, began[0], Ok(()));
        assert_eq!(told(&mut flushes), [0, 1], "they had not heard of this write's end");
        assert_eq!(flushes.ended(&fua, began[1], Ok(())).result, EIO);
    }

    #[test]
    fn a_failed_fua_write_counts_unless_the_device_never_lost_anything() {
        let mut flushes = flushes();
        let fua = job(0, Kind::Write, true);
        write(&mut flushes, 1);
        run(&mut flushes, &fua, Err(DeviceError(libc::ENOSPC)));
        run(&mut flushes, &fua, Err(DeviceError(libc::EINVAL)));
        assert!(told(&mut flushes).is_empty());
        run(&mut flushes, &fua, EIO);
        assert_eq!(told(&mut flushes), [2, 3]);
    }

    #[test]
    fn a_new_connection_hears_of_a_loss_that_nobody_was_told_of() {
        let mut flushes = flushes();
        write(&mut flushes, 0);
        flush(&mut flushes, 1, EIO);
        flushes.welcome(0, 0);
        assert!(flushes.must_fail(0, 0, false));
        flushes.welcome(7, 0);
        assert!(!flushes.must_fail(7, 0, false), "another one was told");
        assert!(flushes.must_fail(1, 0, false), "who was there is told all the same");
    }
}
