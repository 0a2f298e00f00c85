//! Speeds of a mount as ratios to those of a plain FUSE pass-through, or of the source, of the same round.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Advice, fadvise};

use crate::Found;
use crate::machine::{Processors, now};
use crate::mounts::{By, Place, run, runs};

/// Bytes of the file that is read: some tenths of a second at the speeds of memory.
const BYTES: usize = 512 << 20;
/// A read of a program that copies files.
const BLOCK: usize = 128 << 10;
/// Directories of the tree, and files in each.
const TREE: [usize; 2] = [100, 50];

/// Seconds that something takes at a directory.
type Measure<'a> = &'a dyn Fn(&Path) -> anyhow::Result<f64>;

/// Rounds of ours and of another, one after the other; each is mounted anew, so that the kernel knows nothing.
fn rounds(
    place: &Place,
    count: usize,
    (options, other): (&[&str], Option<By>),
    (asked, measure): (f64, Measure<'_>),
) -> anyhow::Result<Found> {
    let (mut ratios, mut ours, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let before = Processors::now()?;
    for round in 0..count {
        let of_us = || {
            let _mount = place.mount(By::Us, "mount", options)?;
            measure(&place.at("mount"))
        };
        let of_other = || match other {
            Some(by) => {
                let _mount = place.mount(by, "other", &[])?;
                measure(&place.at("other"))
            }
            None => measure(&place.at("source")),
        };
        // Neither is always the first.
        let [own, foreign] = if round % 2 == 0 {
            let own = of_us()?;
            [own, of_other()?]
        } else {
            let foreign = of_other()?;
            [of_us()?, foreign]
        };
        ratios.push(foreign / own);
        ours.push(own);
        others.push(foreign);
    }
    let foreign = before.foreign(&Processors::now()?);
    let [got, own, other_seconds] = [ratios, ours, others].map(|mut it| {
        it.sort_by(f64::total_cmp);
        it[it.len() / 2]
    });
    let name = if other.is_some() { "bindfs" } else { "the source" };
    let said = format!("{own:.3} s, {name} {other_seconds:.3} s");
    Ok(Found::Ratio { got, asked, said, foreign })
}

fn read(path: &Path, forgets: bool) -> anyhow::Result<f64> {
    let mut file = File::open(path)?;
    if forgets {
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    let (mut block, began) = (vec![0; BLOCK], now());
    while file.read(&mut block)? > 0 {}
    Ok(began.elapsed().as_secs_f64())
}

fn with_film() -> anyhow::Result<Place> {
    let place = Place::new(&["source", "mount", "other"])?;
    std::fs::write(place.at("source").join("film"), vec![7; BYTES])?;
    Ok(place)
}

fn lacks_bindfs() -> Option<Found> {
    let lacks = !runs("bindfs");
    lacks.then(|| Found::Skipped("bindfs is not installed: install it".to_owned()))
}

/// A file with a contract, read from its beginning to its end.
pub(crate) fn read_with_contract(count: usize) -> anyhow::Result<Found> {
    if let Some(skipped) = lacks_bindfs() {
        return Ok(skipped);
    }
    let measure = |at: &Path| read(&at.join("film"), true);
    let terms = (&["--default", "reserve=50%"][..], Some(By::Bindfs));
    rounds(&with_film()?, count, terms, (0.6, &measure))
}

/// A file without a contract, read a second time.
pub(crate) fn read_cached(count: usize) -> anyhow::Result<Found> {
    read_twice(count, &[])
}

/// The same, which the kernel has taken over.
pub(crate) fn read_passed_through(count: usize) -> anyhow::Result<Found> {
    read_twice(count, &["--pass-through"])
}

fn read_twice(count: usize, options: &[&str]) -> anyhow::Result<Found> {
    let measure = |at: &Path| {
        read(&at.join("film"), false)?;
        read(&at.join("film"), false)
    };
    rounds(&with_film()?, count, (options, None), (0.9, &measure))
}

fn with_tree() -> anyhow::Result<Place> {
    let place = Place::new(&["source", "mount", "other"])?;
    let [directories, files] = TREE;
    for directory in 0..directories {
        let directory = place.at("source").join(format!("d{directory}"));
        std::fs::create_dir(&directory)?;
        for file in 0..files {
            std::fs::write(directory.join(format!("f{file}")), vec![1; 4096])?;
        }
    }
    Ok(place)
}

fn timed(command: &mut Command) -> anyhow::Result<f64> {
    let began = now();
    run(command)?;
    Ok(began.elapsed().as_secs_f64())
}

/// All names of a tree, each with its attributes.
pub(crate) fn find(count: usize) -> anyhow::Result<Found> {
    if let Some(skipped) = lacks_bindfs() {
        return Ok(skipped);
    }
    let measure = |at: &Path| timed(Command::new("find").arg(at).args(["-size", "+1G"]));
    rounds(&with_tree()?, count, (&[], Some(By::Bindfs)), (0.8, &measure))
}

/// All of a tree, read.
pub(crate) fn tar(count: usize) -> anyhow::Result<Found> {
    if let Some(skipped) = lacks_bindfs() {
        return Ok(skipped);
    }
    let measure = |at: &Path| {
        // GNU tar does not read files for /dev/null.
        let archive = at.with_extension("tar");
        let took = timed(Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(at).arg("."))?;
        std::fs::remove_file(archive)?;
        Ok(took)
    };
    rounds(&with_tree()?, count, (&[], Some(By::Bindfs)), (0.8, &measure))
}
