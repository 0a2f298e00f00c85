//! Arithmetic over windows that slide.

use super::loads::Scale;

/// The sum of every window over `spells`, each [`Scale::SLIDE`] after the one before.
pub(crate) fn sliding(spells: &[f64]) -> Vec<f64> {
    spells.windows(Scale::WINDOW).step_by(Scale::SLIDE).map(|window| window.iter().sum()).collect()
}

/// How far from its share a stream's part of the time is in the worst window, in points of a
/// hundred, when it was charged `charged` seconds in each spell.
pub(crate) fn share_error_points(charged: &[f64], share: f64, window_secs: f64) -> f64 {
    let error = |charged: f64| (charged / window_secs - share).abs() * 100.0;
    sliding(charged).into_iter().map(error).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_slide_by_a_quarter_and_are_whole() {
        let spells: Vec<f64> = (0..31).map(f64::from).collect();
        // 0 to 19, 5 to 24, 10 to 29.
        assert_eq!(sliding(&spells), [190.0, 290.0, 390.0]);
        assert_eq!(sliding(&spells[..19]), [0.0; 0]);
    }

    #[test]
    fn a_share_error_is_that_of_the_worst_window() {
        // Half of the time in spells of 3 s; in one window of 60 s a spell less, or one more.
        let is = |charged: &[f64], points: f64| {
            (share_error_points(charged, 0.5, 60.0) - points).abs() < 1e-9
        };
        let mut charged = vec![1.5; 30];
        assert!(is(&charged, 0.0));
        charged[2] = 0.0;
        assert!(is(&charged, 2.5));
        charged[27] = 3.0;
        charged[28] = 3.0;
        assert!(is(&charged, 5.0));
    }
}
