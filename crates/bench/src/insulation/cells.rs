//! The dimensions of the matrix: devices, victims, antagonists, shares.

use std::fmt;

/// The shared device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Device {
    /// A hard disk without a queue.
    Deskstar,
    /// A hard disk with a queue.
    Nearline,
    /// A stripe set.
    Raid0,
    /// A flash drive.
    Flash,
}

/// The load whose insulation is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Victim {
    /// Small, anywhere.
    Random,
    /// Small, in order, waiting for each.
    Sequential,
    /// Small, in order, many ahead.
    SequentialDeep,
    /// Middling, in order, waiting for each.
    SequentialLarge,
    /// Small, mostly in order.
    SemiSequential,
    /// Small, in order for a while, then elsewhere.
    Runs,
    /// Small, anywhere, half of them writes.
    HalfWrites,
}

/// The load beside it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Antagonist {
    /// Small, anywhere.
    Random,
    /// Large, in order.
    SequentialLarge,
    /// Large writes, in order.
    Writes,
    /// Small writes anywhere, and flushes.
    FlushStorm,
    /// Large and in order for a while, then as long nothing.
    OnOff,
    /// Small, anywhere, from a third of the time on.
    LateJoiner,
    /// Ten streams, small, anywhere.
    Ten,
}

/// Per cent of the device's time that victims reserve; antagonists reserve the rest.
pub const SHARES: [u32; 5] = [10, 30, 50, 70, 90];

/// One situation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    /// The shared device.
    pub device: Device,
    /// The load whose insulation is measured.
    pub victim: Victim,
    /// The load beside it.
    pub antagonist: Antagonist,
    /// The victim's share: one of [`SHARES`].
    pub share_percent: u32,
}

impl Device {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Deskstar, Self::Nearline, Self::Raid0, Self::Flash];

    /// A description in one line.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Deskstar => "IBM Deskstar 34GXP, one command at a time",
            Self::Nearline => "a 4 TB nearline disk with a queue of 32",
            Self::Raid0 => "RAID 0 over two Deskstars in chunks of 64 KiB, two commands at once",
            Self::Flash => {
                "the generic flash drive, 32 commands at once; loads have 32 times as many outstanding, at least 64; every load's price is known"
            }
        }
    }

    /// Its name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deskstar => "deskstar-34gxp",
            Self::Nearline => "nearline-7200",
            Self::Raid0 => "raid0-deskstar",
            Self::Flash => "flash-generic",
        }
    }
}

impl Victim {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Random,
        Self::Sequential,
        Self::SequentialDeep,
        Self::SequentialLarge,
        Self::SemiSequential,
        Self::Runs,
        Self::HalfWrites,
    ];

    /// A description in one line.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Random => "random reads of 4 KiB, one at a time",
            Self::Sequential => "sequential reads of 4 KiB, one at a time",
            Self::SequentialDeep => "sequential reads of 4 KiB, 32 at once",
            Self::SequentialLarge => "sequential reads of 128 KiB, one at a time",
            Self::SemiSequential => {
                "reads of 4 KiB, four at once, 25 at random to 475 in sequence (paper qbox)"
            }
            Self::Runs => {
                "reads of 4 KiB, four at once, in runs of 1024 from random places (paper zygaria)"
            }
            Self::HalfWrites => "random reads and writes of 4 KiB, as many of each, one at a time",
        }
    }

    /// Its name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random-4k",
            Self::Sequential => "sequential-4k",
            Self::SequentialDeep => "sequential-4k-deep",
            Self::SequentialLarge => "sequential-128k",
            Self::SemiSequential => "semi-sequential",
            Self::Runs => "runs-1024",
            Self::HalfWrites => "half-writes",
        }
    }

    /// Whether each of its requests costs a seek, so that nothing is lost by turning to it often.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::Random | Self::HalfWrites)
    }
}

impl Antagonist {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Random,
        Self::SequentialLarge,
        Self::Writes,
        Self::FlushStorm,
        Self::OnOff,
        Self::LateJoiner,
        Self::Ten,
    ];

    /// A description in one line.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Random => "random reads of 4 KiB, four at once",
            Self::SequentialLarge => "sequential reads of 1 MiB, two at once",
            Self::Writes => "sequential writes of 1 MiB, two at once",
            Self::FlushStorm => {
                "random writes of 4 KiB, four at once, and a flush after every fourth"
            }
            Self::OnOff => {
                "sequential reads of 1 MiB, two at once, for 3 s (flash: 0.2 s), then nothing for as long"
            }
            Self::LateJoiner => "random reads of 4 KiB, four at once, from a third of the time on",
            Self::Ten => "ten streams of random reads of 4 KiB, each four at once",
        }
    }

    /// Its name in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random-4k",
            Self::SequentialLarge => "sequential-1m",
            Self::Writes => "write-1m",
            Self::FlushStorm => "flush-storm",
            Self::OnOff => "on-off",
            Self::LateJoiner => "late-joiner",
            Self::Ten => "ten-at-once",
        }
    }

    /// Whether it wants more than it can get, all the time (a late joiner: once it is there).
    #[must_use]
    pub const fn is_backlogged(self) -> bool {
        !matches!(self, Self::OnOff)
    }
}

impl Cell {
    /// Every combination, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_device = |device| {
            Victim::ALL.into_iter().flat_map(move |victim| {
                Antagonist::ALL.into_iter().flat_map(move |antagonist| {
                    let cell =
                        move |share_percent| Self { device, victim, antagonist, share_percent };
                    SHARES.into_iter().map(cell)
                })
            })
        };
        Device::ALL.into_iter().flat_map(of_device)
    }

    /// The victim's share, 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.share_percent) / 100.0
    }

    fn parts(self) -> [String; 4] {
        let Self { device, victim, antagonist, share_percent } = self;
        let names = [device.name(), victim.name(), antagonist.name()].map(str::to_owned);
        let [device, victim, antagonist] = names;
        [device, victim, antagonist, share_percent.to_string()]
    }
}

impl fmt::Display for Cell {
    /// `DEVICE/VICTIM/ANTAGONIST/SHARE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts().join("/"))
    }
}

/// Some of all combinations, as a person names them: `DEVICE/VICTIM/ANTAGONIST/SHARE`, where `*`
/// stands for any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    parts: [Option<String>; 4],
}

/// Why a text selects no cells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SelectionError {
    /// Not four parts.
    Parts(usize),
    /// A part that is neither `*` nor known.
    Unknown {
        /// The part that the word would be.
        part: &'static str,
        /// As written.
        text: String,
        /// The known names.
        known: Vec<String>,
    },
}

impl Selection {
    /// The cells, in order.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        Cell::all().filter(|cell| self.holds(*cell))
    }

    fn holds(&self, cell: Cell) -> bool {
        let pairs = self.parts.iter().zip(cell.parts());
        pairs.into_iter().all(|(wanted, part)| wanted.as_ref().is_none_or(|it| *it == part))
    }
}

impl std::str::FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        let parts: Vec<&str> = text.split('/').collect();
        let [device, victim, antagonist, share] = parts[..] else {
            return Err(SelectionError::Parts(parts.len()));
        };
        let devices = Device::ALL.map(|it| it.name().to_owned());
        let victims = Victim::ALL.map(|it| it.name().to_owned());
        let antagonists = Antagonist::ALL.map(|it| it.name().to_owned());
        let shares = SHARES.map(|it| it.to_string());
        Ok(Self {
            parts: [
                part("device", device, &devices)?,
                part("victim", victim, &victims)?,
                part("antagonist", antagonist, &antagonists)?,
                part("share", share, &shares)?,
            ],
        })
    }
}

fn part(
    part: &'static str,
    text: &str,
    known: &[String],
) -> Result<Option<String>, SelectionError> {
    let text = text.to_owned();
    match text.as_str() {
        "*" => Ok(None),
        _ if known.contains(&text) => Ok(Some(text)),
        _ => Err(SelectionError::Unknown { part, text, known: known.to_vec() }),
    }
}

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts(count) => {
                write!(f, "{count} parts; DEVICE/VICTIM/ANTAGONIST/SHARE is needed, `*` for any")
            }
            Self::Unknown { part, text, known } => {
                write!(f, "{part} `{text}` is not known; known are: {}, `*`", known.join(", "))
            }
        }
    }
}

impl std::error::Error for SelectionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_names_cells_as_they_are_shown() {
        assert_eq!(Cell::all().count(), 4 * 7 * 7 * 5);
        for cell in Cell::all() {
            let selection: Selection = cell.to_string().parse().expect("as it is shown");
            assert!(selection.cells().eq([cell]));
        }
        let stars: Selection = "deskstar-34gxp/*/ten-at-once/*".parse().expect("parts are known");
        assert_eq!(stars.cells().count(), 7 * 5);
    }

    #[test]
    fn a_selection_of_nothing_says_what_would_select() {
        assert_eq!("a/b".parse::<Selection>(), Err(SelectionError::Parts(2)));
        let error = "*/*/*/11".parse::<Selection>().expect_err("not a share");
        assert_eq!(
            error.to_string(),
            "share `11` is not known; known are: 10, 30, 50, 70, 90, `*`"
        );
    }
}
