//! How many pieces of each virtual disk the device may hold, by how soon it answers them.
//!
//! [`DepthLaw`] is PARDA's, with the numbers of [`depth_law`]; here are its spans and its application.
//! Migrations have no law: they go a piece at a time.
//!
//! Does not know: how the engine keeps to it.

use disktime_config::{DEPTH_SPAN, DepthLaw, depth_law};
use disktime_core::{Change, Duration, Instant, StreamId};

use super::Shard;
use crate::clock;

/// The laws of a device's virtual disks, by stream.
pub(crate) struct Depths {
    threshold: Duration,
    depth: u32,
    /// With the weight that it is by; none for a stream that has no law.
    laws: Vec<Option<(u32, DepthLaw)>>,
    /// The end of the span, once something was answered in it.
    until: Option<Instant>,
}

impl Depths {
    /// Laws for streams of these weights, whose pieces the device is to answer within the
    /// threshold.
    ///
    /// # Panics
    /// If the threshold or the device's depth is zero, or a weight out of 1 to 10000.
    pub(crate) fn new(threshold: Duration, depth: u32, weights: impl Iterator<Item = u32>) -> Self {
        let laws =
            weights.map(|weight| Some((weight, depth_law(threshold, depth, weight)))).collect();
        Self { threshold, depth, laws, until: None }
    }

    /// A stream of that weight has come.
    pub(super) fn add(&mut self, StreamId(at): StreamId, weight: u32) {
        let reach = at as usize + 1;
        self.laws.resize_with(self.laws.len().max(reach), || None);
        self.laws[at as usize] = Some((weight, depth_law(self.threshold, self.depth, weight)));
    }

    /// A stream is gone.
    pub(super) fn remove(&mut self, StreamId(at): StreamId) {
        self.laws[at as usize] = None;
    }

    /// A stream has this weight from now on: if it had another, its window opens and begins anew.
    pub(super) fn weigh(&mut self, StreamId(at): StreamId, weight: u32) {
        let law = self.laws.get_mut(at as usize).and_then(Option::as_mut);
        if let Some(found) = law.filter(|(before, _)| *before != weight) {
            *found = (weight, depth_law(self.threshold, self.depth, weight));
        }
    }

    /// The device has answered a request of that stream, so long after its first piece went out.
    fn answered(&mut self, now: Instant, StreamId(at): StreamId, response: Duration) {
        if let Some(Some((_, law))) = self.laws.get_mut(at as usize) {
            law.answered(response);
            self.until.get_or_insert(now + DEPTH_SPAN);
        }
    }

    /// When the span is over.
    pub(super) fn next(&self) -> Option<Instant> {
        self.until
    }

    /// Each stream's new depth, if the span is over.
    fn due(&mut self, now: Instant) -> impl Iterator<Item = (StreamId, u32)> {
        let over = self.until.take_if(|until| *until <= now).is_some();
        let laws = if over { &mut self.laws[..] } else { &mut [] };
        let streams = (0..).map(StreamId).zip(laws);
        streams.filter_map(|(stream, law)| Some((stream, law.as_mut()?.1.span())))
    }
}

impl Shard {
    /// Notes a response, if depths go by them.
    pub(super) fn answered(&mut self, stream: StreamId, response: Duration) {
        if let Some(depths) = &mut self.depths {
            depths.answered(clock::now(), stream, response);
        }
    }

    /// Sets depths if a span is over.
    pub(super) fn steer(&mut self) {
        let Some(depths) = &mut self.depths else { return };
        let now = clock::now();
        for (stream, depth) in depths.due(now) {
            let change = Change::SetStreamDepth(stream, depth);
            if let Err(error) = self.engine.handle_change(now, change) {
                tracing::error!(%error, "a virtual disk has no stream");
            }
            let stats = &self.vdisks[stream.0 as usize].stats;
            stats.depth.store(u64::from(depth), std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(time: u64) -> Instant {
        Instant::ZERO + ms(time)
    }

    /// A second with that response of both.
    fn second(depths: &mut Depths, second: u64, responses: [u64; 2]) -> Vec<u32> {
        for (stream, response) in (0..).map(StreamId).zip(responses) {
            depths.answered(at(1000 * second), stream, ms(response));
        }
        assert_eq!(depths.next(), Some(at(1000 * second + 1000)));
        assert_eq!(depths.due(at(1000 * second + 999)).count(), 0);
        depths.due(at(1000 * second + 1000)).map(|(_, depth)| depth).collect()
    }

    #[test]
    fn only_the_stream_that_waits_at_the_device_gets_less_depth() {
        let mut depths = Depths::new(ms(40), 64, [100, 100].into_iter());
        assert_eq!(depths.next(), None, "an idle device wakes nobody");
        assert_eq!(second(&mut depths, 0, [1, 400]), [64, 19]);
        assert_eq!(second(&mut depths, 1, [1, 40]), [64, 20]);
        assert_eq!(second(&mut depths, 2, [1, 20]), [64, 36]);
        assert_eq!(depths.next(), None);
        // A stream without a law, such as the back end's migrations.
        depths.answered(at(5000), StreamId(2), ms(1));
        assert_eq!(depths.next(), None);
    }

    #[test]
    fn parts_go_by_weight() {
        let mut depths = Depths::new(ms(1), 1000, [100, 10_000].into_iter());
        for time in 0..50 {
            second(&mut depths, time, [2, 2]);
        }
        assert_eq!(second(&mut depths, 50, [2, 2]), [2, 200], "β / (1 - L / Lavg)");
        depths.weigh(StreamId(0), 10_000);
        depths.weigh(StreamId(1), 10_000);
        depths.weigh(StreamId(7), 10_000);
        assert_eq!(second(&mut depths, 51, [2, 2]), [680, 200], "anew, and as it was");
    }
}
