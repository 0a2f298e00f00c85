//! A live scene in virtual time: what the emulated disk is expected to give.

use disktime_config::Scheduling;
use disktime_core::cost::CostParameters;
use disktime_core::{Contract, Duration, Instant, Share};
use disktime_model::preset;
use disktime_sim::{Plan, StreamPlan, simulate};
use disktime_workload::Source;

use super::scene::{LiveDevice, Scene, name_of};

/// The emulated disk, and where its platter stands at the start, as in the daemon.
const PRESET: &str = "deskstar-34gxp";
const DEVICE_SEED: u64 = 1;
/// The measured time, after the time before it.
const SECONDS: u32 = 300;
const WARM_UP: u32 = 10;

/// Each stream's insulation; `None` for a device that can't be simulated.
///
/// # Panics
/// If the policy or the cost model isn't registered.
pub(super) fn insulation(
    scene: &Scene,
    policy: &str,
    cost_model: &str,
    seed: u64,
) -> Option<Vec<f64>> {
    if scene.device != LiveDevice::Emulated {
        return None;
    }
    let rates = |streams: &[usize]| rates(scene, streams, policy, cost_model, seed);
    let all: Vec<usize> = (0..scene.tenants.len()).collect();
    let together = rates(&all);
    let of = |stream: usize| {
        let share = scene.tenants[stream].share();
        together[stream] / (share * rates(&[stream])[0])
    };
    Some(all.iter().map(|stream| of(*stream)).collect())
}

/// Requests per second of these streams, each on its part of the disk.
fn rates(scene: &Scene, streams: &[usize], policy: &str, cost_model: &str, seed: u64) -> Vec<f64> {
    let plan = |stream: &usize| {
        let tenant = &scene.tenants[*stream];
        let base = scene.bytes * *stream as u64;
        let reserve = Share::from_ppm(tenant.share_percent * 10_000).expect("at most all");
        let spec = tenant.load.spec.clone();
        let source = Source::new(spec, tenant.load.pace(), seed, &name_of(*stream), Instant::ZERO);
        StreamPlan {
            name: name_of(*stream),
            contract: Contract {
                weight: tenant.share_percent * 10,
                ..Contract::reserving(reserve)
            },
            base,
            parent: None,
            extent: Some((base, base + scene.bytes)),
            traffic: source.expect("the bench's loads make sense").into(),
        }
    };
    let plan = Plan {
        device: (preset::find(PRESET).expect("a preset's name").build)(DEVICE_SEED),
        profile: None,
        scheduling: Scheduling::new(policy, cost_model),
        cost: CostParameters::default(),
        reports: Vec::new(),
        depth: 1,
        streams: streams.iter().map(plan).collect(),
        changes: Vec::new(),
        duration: Duration::from_secs(u64::from(WARM_UP + SECONDS)),
        window: Duration::from_secs(1),
        decisions: None,
    };
    let outcome = simulate(plan).expect("the bench's plans can be run");
    let rate = |stream: usize| {
        let windows = outcome.windows.iter().skip(stream).step_by(streams.len());
        let counted = windows.filter(|window| window.index >= WARM_UP);
        counted.map(|window| window.requests as f64).sum::<f64>() / f64::from(SECONDS)
    };
    (0..streams.len()).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::super::scene::tests::emulated;
    use super::*;

    #[test]
    fn an_emulated_scene_has_an_expected_insulation_and_a_file_has_none() {
        let scene = emulated("deskstar-34gxp/random-4k/sequential-1m/50").expect("can be live");
        let own = insulation(&scene, "disktime", "fixed", 1).expect("a simulated device");
        assert!(own.iter().all(|it| (0.95..1.05).contains(it)), "{own:?}");
        let fifo = insulation(&scene, "fifo", "fixed", 1).expect("a simulated device");
        assert!(fifo[0] < 0.9 || fifo[1] < 0.9, "{fifo:?}");
        assert_eq!(insulation(&Scene::on_file(1 << 30)[0], "disktime", "fixed", 1), None);
    }
}
