//! A guaranteed rate of a file beside files of best effort on a mount, against the simulator on the same
//! scenario (paper `ucsb`, figure 6).
#![expect(clippy::cast_precision_loss, reason = "bytes of a minute")]
#![expect(clippy::disallowed_methods, reason = "the mount lives in real time")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use disktime_config::{DeviceFacts, Named, SchedulingKeys, read_contract};
use disktime_core::Contract;
use disktime_fuse::{Askers, Engine, Mounted, Options, client};
use disktime_server::emulate::Emulate;
use rustix::fs::{Mode, OFlags};

use crate::Found;
use crate::rates::{
    CYCLE, Does, MEASURED, OTHERS, OUTSTANDING, PRESET, RATE, REQUEST, SETTLE, SIZE, judged,
    profile, simulated, until_cycle,
};

/// Requests of the guaranteed stream that are outstanding at once: the elevator's batch is full without the
/// rest of a cycle's.
const AHEAD: u32 = 32;
/// A program's memory for reads past the kernel's cache is aligned so.
const ALIGNMENT: usize = 4096;

/// A file that threads read from its beginning on, past the kernel's cache.
struct Reader {
    file: File,
    /// The next byte that no thread has asked for.
    next: AtomicU64,
    /// Up to where threads may ask: of the guaranteed stream a cycle's bytes more each cycle.
    until: AtomicU64,
    done: AtomicU64,
    ends: AtomicBool,
}

impl Reader {
    fn run(&self) -> std::io::Result<()> {
        let length = usize::try_from(REQUEST).map_err(std::io::Error::other)?;
        let mut memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        while !self.ends.load(Ordering::Relaxed) {
            if self.next.load(Ordering::Relaxed) >= self.until.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1));
                continue;
            }
            let at = self.next.fetch_add(REQUEST, Ordering::Relaxed) % SIZE;
            self.file.read_exact_at(&mut memory[start..start + length], at)?;
            self.done.fetch_add(REQUEST, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A rate of reads of a file beside three files of best effort, as `rate-reads` has it.
pub(crate) fn reads() -> anyhow::Result<Found> {
    beside(OTHERS)
}

/// The same beside five, as figure 5 of paper `ucsb` has it.
pub(crate) fn ucsb_5() -> anyhow::Result<Found> {
    beside(5)
}

fn beside(others: u32) -> anyhow::Result<Found> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return Ok(Found::TooBusy("mounts need /dev/fuse and the superuser".to_owned()));
    }
    let directory = tempfile::tempdir()?;
    let profile = profile(directory.path())?;
    let (live, cycles_missed) = live(directory.path(), &profile, others)?;
    let simulated = simulated(&profile, Does::Read, others)?;
    Ok(judged(&live, &simulated, cycles_missed))
}

/// A mount of the directory `source` at `mount`, at the speed of the emulated disk.
fn mount(directory: &Path, profile: &Path) -> anyhow::Result<Mounted> {
    let [source, at] = ["source", "mount"].map(|name| directory.join(name));
    std::fs::create_dir(&source)?;
    std::fs::create_dir(&at)?;
    let preset = disktime_model::preset::find(PRESET).context("the preset is known")?;
    let emulate = Emulate::One(preset);
    let keys = SchedulingKeys {
        policy: Some("elevator".to_owned()),
        experimental: Some(true),
        profile: Some(profile.to_owned()),
        ..SchedulingKeys::default()
    };
    let facts = DeviceFacts { depth_max: emulate.queue_depth(), timed: true, real_time: false };
    let scheduling = Box::new(keys.check(&Named::only("mount"), facts)?);
    let options = Options {
        source,
        at,
        engine: Engine::Own { scheduling, emulate: Some(emulate) },
        rules: Vec::new(),
        default: None,
        askers: Askers::All,
        read_only: false,
        threads: 8,
        pass_through: false,
        recover: false,
    };
    Ok(Mounted::new(&options)?)
}

/// Bytes per second of each file, and how many cycles were missed.
fn live(directory: &Path, profile: &Path, others: u32) -> anyhow::Result<(Vec<f64>, u64)> {
    let mounted = mount(directory, profile)?;
    let readers = (0..=others).map(|place| reader(directory, place));
    let readers = readers.collect::<anyhow::Result<Vec<_>>>()?;
    let begin = Arc::new(Barrier::new(1 + (AHEAD + others * OUTSTANDING) as usize));
    let threads: Vec<JoinHandle<std::io::Result<()>>> = (0..)
        .zip(&readers)
        .flat_map(|(place, reader)| {
            let count = if place == 0 { AHEAD } else { OUTSTANDING };
            (0..count).map(|_| Arc::clone(reader)).collect::<Vec<_>>()
        })
        .map(|reader| {
            let begin = Arc::clone(&begin);
            std::thread::spawn(move || {
                begin.wait();
                reader.run()
            })
        })
        .collect();
    begin.wait();
    let cycles = |count: u64| {
        for _ in 0..count {
            sleep(until_cycle());
            let more = RATE * CYCLE;
            readers[0].until.fetch_add(more, Ordering::Relaxed);
            // Past the beginning, so that the next wait is for the next one.
            sleep(Duration::from_millis(10));
        }
    };
    cycles(SETTLE / CYCLE);
    let bytes = || readers.iter().map(|it| it.done.load(Ordering::Relaxed)).collect::<Vec<_>>();
    sleep(until_cycle());
    let (began, first) = (Instant::now(), bytes());
    readers[0].until.fetch_add(RATE * CYCLE, Ordering::Relaxed);
    sleep(Duration::from_millis(10));
    cycles(MEASURED / CYCLE - 1);
    sleep(until_cycle());
    let (last, seconds) = (bytes(), began.elapsed().as_secs_f64());
    let missed = missed(directory, others)?;
    readers.iter().for_each(|it| it.ends.store(true, Ordering::Relaxed));
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??;
    }
    drop(readers);
    mounted.unmount()?;
    let rates = last.iter().zip(first).map(|(last, first)| (last - first) as f64 / seconds);
    Ok((rates.collect(), missed))
}

/// A file with a stream of its own, which lies behind those before it.
fn reader(directory: &Path, place: u32) -> anyhow::Result<Arc<Reader>> {
    let name = place.to_string();
    File::create(directory.join("source").join(&name))?.set_len(SIZE)?;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let path = directory.join("mount").join(&name);
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let contract = match place {
        0 => {
            let text = format!("class=guaranteed-rate rate={RATE}B/s cycle={CYCLE}s access=read");
            read_contract(&text)?
        }
        _ => Contract::default(),
    };
    client::set(&file, &contract).map_err(|(error, _)| error)?;
    // Its place on the disk is given away at its first request.
    let mut memory = vec![0; 2 * ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    file.read_exact_at(&mut memory[start..start + ALIGNMENT], 0)?;
    let until = if place == 0 { 0 } else { u64::MAX };
    let (next, until) = (AtomicU64::new(0), AtomicU64::new(until));
    let (done, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    Ok(Arc::new(Reader { file, next, until, done, ends }))
}

/// Cycles that the mount has counted as missed.
fn missed(directory: &Path, others: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(directory.join("mount/.disktime/streams"))?;
    let line = text.lines().find(|line| line.contains("guaranteed-rate"));
    let field = line.and_then(|line| line.rsplit('\t').next());
    let missed = field.context("the mount tells no cycles")?.parse()?;
    ensure!(text.lines().count() == 3 + others as usize, "not each file has a stream: {text}");
    Ok(missed)
}
