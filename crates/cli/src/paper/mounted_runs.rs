//! Figures run live on a mount: each stream is a program with a file of its own, which has its contract
//! by ioctl. The mount is at the speed of an emulated disk, and its engine is the figure's.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration as Span;

use anyhow::{Context, bail};
use disktime_core::{Class, Duration, Instant};
use disktime_fuse::{Askers, Engine, Mounted, Options, client};
use disktime_model::preset::Preset;
use disktime_papers::mounted_figures::{self, Played, Run};
use disktime_server::clock;
use disktime_server::emulate::Emulate;
use disktime_sim::{Plan, StreamPlan};
use rustix::fs::{Mode, OFlags};

use super::file_programs::{ALIGNMENT, Program, Times};
use crate::interrupt::{self, Temporary};

/// Runs begin at a multiple of this from the clock's beginning, as the figures' cycles do.
const BEGINS: Duration = Duration::from_secs(4);
/// Time to start the programs before a run begins.
const READY: Duration = Duration::from_millis(500);
/// Threads that take the kernel's calls: with more, reads of one file overtake each other.
const KERNEL_THREADS: usize = 1;
const TICK: Span = Span::from_millis(50);
/// The least room that a file gets on a mount's device, and the unit of all rooms.
const ROOM_MIN: u64 = 64 << 20;

/// Plays a figure's runs, one after the other; `tell` hears of each before it begins.
pub fn play(
    figure: &mounted_figures::Mounted,
    mut tell: impl FnMut(&str),
) -> anyhow::Result<Vec<Played>> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        bail!("a mount needs /dev/fuse and the superuser: run it as root, on a kernel with FUSE");
    }
    let device = (figure.device)();
    let each = (figure.runs)().into_iter().map(|run| {
        tell(&run.name);
        play_run(device, &run).with_context(|| run.name.clone())
    });
    each.collect()
}

fn play_run(device: &'static Preset, run: &Run) -> anyhow::Result<Played> {
    let directory = Temporary::new("disktime-files-")?;
    let plan = run.plan(Instant::ZERO);
    let mounted = mount(directory.path(), device, &plan)?;
    let played = programs(directory.path(), run, &plan);
    mounted.unmount()?;
    played
}

/// A mount of the directory `source` at `mount`, with the plan's engine.
fn mount(directory: &Path, device: &'static Preset, plan: &Plan) -> anyhow::Result<Mounted> {
    let [source, at] = ["source", "mount"].map(|name| directory.join(name));
    std::fs::create_dir(&source)?;
    std::fs::create_dir(&at)?;
    let mut scheduling = plan.scheduling.clone();
    scheduling.queue_depth = disktime_config::QueueDepth::Is(plan.depth);
    scheduling.profile = plan.profile.as_ref().map(|_| profile(directory, device)).transpose()?;
    let options = Options {
        source,
        at,
        engine: Engine::Own {
            scheduling: Box::new(scheduling),
            emulate: Some(Emulate::One(device)),
        },
        rules: Vec::new(),
        default: None,
        askers: Askers::All,
        read_only: true,
        threads: KERNEL_THREADS,
        pass_through: false,
        recover: false,
    };
    let mask = rustix::process::umask(Mode::empty());
    let mounted = Mounted::new(&options);
    rustix::process::umask(mask);
    Ok(mounted?)
}

/// The device's profile, as it is measured in simulated time.
fn profile(directory: &Path, device: &'static Preset) -> anyhow::Result<PathBuf> {
    let seed = mounted_figures::SEED;
    let found = disktime_sim::measure((device.build)(seed), device.name, seed)?;
    let path = directory.join("profile.json");
    std::fs::write(&path, serde_json::to_string(&found)?)?;
    Ok(path)
}

/// Runs a program for each stream.
fn programs(directory: &Path, run: &Run, plan: &Plan) -> anyhow::Result<Played> {
    let files = open(directory, plan)?;
    let begin = clock::now() + READY + BEGINS;
    let begin = Instant::from_nanos(begin.as_nanos() / BEGINS.as_nanos() * BEGINS.as_nanos());
    let Plan { streams, window, duration, .. } = run.plan(begin);
    let mut programs = Vec::new();
    for (stream, (start, file)) in streams.into_iter().zip(files) {
        let tells = stream.contract.class == Class::SoftRealTime;
        let times = Times { span: begin..begin + duration, window };
        programs.push(Program::new(file, (start, tells), stream.traffic, times));
    }
    let ended = std::thread::scope(|scope| {
        for program in &programs {
            // One more looks at the clock.
            (0..=run.outstanding).for_each(|_| drop(scope.spawn(|| program.run())));
        }
        while clock::now() < begin + duration {
            if interrupt::is_asked() || programs.iter().any(Program::has_failed) {
                programs.iter().for_each(Program::stop);
                break;
            }
            sleep(TICK);
        }
        interrupt::check()
    });
    ended?;
    let counts = programs.into_iter().map(Program::counts);
    Ok(Played { window, streams: counts.collect::<Result<_, _>>()? })
}

fn extent(stream: &StreamPlan) -> anyhow::Result<(u64, u64)> {
    stream.extent.with_context(|| format!("{} has no file", stream.name))
}

/// Makes and opens a file for each stream, with its contract, where on the device the stream reads; with
/// each the device's byte at which it begins. Streams whose extents overlap have the device as their file.
///
/// The mount lays files one behind the other as they are first read, each with room for a whole number of
/// MiB; if the rest of the device is too small for one it begins anew.
fn open(directory: &Path, plan: &Plan) -> anyhow::Result<Vec<(u64, File)>> {
    let streams = &plan.streams;
    let mut order: Vec<(u64, u64, usize)> = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        let (start, end) = extent(stream)?;
        order.push((start, end, index));
    }
    order.sort_unstable();
    let mut files: Vec<(usize, u64, File)> = Vec::new();
    let mut add = |name: &str, index: usize, start: u64| {
        let file = at_mount(directory, name)?;
        let contract = &streams[index].contract;
        client::set(&file, contract).map_err(|(error, _)| error).context("a file's contract")?;
        touch(&file)?;
        files.push((index, start, file));
        anyhow::Ok(())
    };
    if order.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        make(directory, "device", plan.device.capacity_bytes())?;
        (0..streams.len()).try_for_each(|index| add("device", index, 0))?;
    } else {
        if let Some((start @ 1.., ..)) = order.first().copied() {
            make(directory, "before", start.max(ROOM_MIN))?;
            touch(&at_mount(directory, "before")?)?;
        }
        for (place, (start, end, index)) in order.iter().copied().enumerate() {
            let next = order.get(place + 1).map_or(end, |(start, ..)| *start);
            let name = index.to_string();
            make(directory, &name, next.max(end) - start)?;
            add(&name, index, start)?;
        }
    }
    files.sort_unstable_by_key(|(index, ..)| *index);
    Ok(files.into_iter().map(|(_, start, file)| (start, file)).collect())
}

/// A file of so many bytes at the source, all of them a hole.
fn make(directory: &Path, name: &str, bytes: u64) -> anyhow::Result<()> {
    Ok(File::create(directory.join("source").join(name))?.set_len(bytes)?)
}

fn at_mount(directory: &Path, name: &str) -> anyhow::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory.join("mount").join(name), flags, Mode::empty())?.into())
}

/// Reads the first block: with that a file has its place.
fn touch(file: &File) -> std::io::Result<()> {
    let mut memory = vec![0; 2 * ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    std::os::unix::fs::FileExt::read_exact_at(file, &mut memory[start..start + ALIGNMENT], 0)
}

#[expect(clippy::disallowed_methods, reason = "live runs take real time")]
fn sleep(time: Span) {
    std::thread::sleep(time);
}
