//! Halves of a device that has a fast and a slow one.

/// A half of a device that has a fast and a slow one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// The fast one: a hit.
    Fast,
    /// The slow one.
    Slow,
}

impl Tier {
    /// How many there are.
    pub(crate) const COUNT: usize = 2;

    /// The one that all parts of a piece are on; `None` without parts, or on both.
    #[must_use]
    pub fn of_all(mut parts: impl Iterator<Item = Self>) -> Option<Self> {
        let first = parts.next()?;
        parts.all(|tier| tier == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_on_a_tier_if_all_of_it_is() {
        let all = |parts: &[Tier]| Tier::of_all(parts.iter().copied());
        assert_eq!(all(&[Tier::Slow, Tier::Slow]), Some(Tier::Slow));
        assert_eq!(all(&[Tier::Fast]), Some(Tier::Fast));
        assert_eq!((all(&[Tier::Fast, Tier::Slow]), all(&[])), (None, None));
    }
}
