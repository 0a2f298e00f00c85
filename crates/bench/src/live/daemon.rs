//! The daemon as a contender, in this process, as the demo has it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::live::{Alone, Contender, LiveDevice, NotStarted, Place, Scene, Served};
use disktime_server::{Config, ConfigError, Server};

use super::programs::{EXPORT, Medium, Ready, places};
use crate::server_process::Process;

/// The emulated disk, as the simulator has it.
const PRESET: &str = "deskstar-34gxp";

/// Settings that differ from the daemon's defaults.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Its cost model; else the default.
    pub cost_model: Option<String>,
    /// Requests at the device at once, but for the emulated disk, which takes one.
    pub depth: u32,
}

/// The daemon under a policy, on a scene.
pub(super) struct Daemon {
    policy: &'static str,
    scene: Scene,
    /// None for the emulated disk.
    medium: Option<Medium>,
    /// For its socket, what it records, and its sparse files.
    directory: PathBuf,
    config: Config,
}

impl Daemon {
    /// Has a configuration that can be used, or else this says why not.
    pub(super) fn new(
        policy: &'static str,
        scene: &Scene,
        medium: Option<Medium>,
        tuning: &Tuning,
        directory: &Path,
    ) -> Result<Self, ConfigError> {
        let text = config(policy, scene, medium.as_ref(), tuning, directory);
        let (scene, directory) = (scene.clone(), directory.to_owned());
        Ok(Self { policy, scene, medium, directory, config: Config::parse(&text)? })
    }
}

impl Contender for Daemon {
    fn policy(&self) -> &'static str {
        self.policy
    }

    fn cost_model(&self) -> Option<&str> {
        Some(&self.config.devices[0].scheduling.cost_model)
    }

    fn start(&self) -> Result<Box<dyn Served>, NotStarted> {
        let boxed = match &self.medium {
            Some(medium) => match medium.start(&self.directory)? {
                Ready::File(_) => None,
                Ready::Boxed(process, _) => Some(process),
            },
            None => None,
        };
        let failed = |error: disktime_server::StartError| NotStarted::Failed(error.to_string());
        let server = Server::start(self.config.clone()).map_err(failed)?;
        let socket = socket(&self.directory);
        let mut places = places(&self.scene, |stream| (name(stream), socket.clone()))?;
        // Each stream has a virtual disk of its own.
        places.iter_mut().for_each(|place| place.base = 0);
        Ok(Box::new(Serving { places, server, boxed }))
    }
}

/// The order of the fields is that in which they end.
struct Serving {
    places: Vec<Place>,
    server: Server,
    boxed: Option<Process>,
}

impl Served for Serving {
    fn places(&self) -> &[Place] {
        &self.places
    }

    fn charged(&self, stream: usize) -> Option<Duration> {
        self.server.vdisks().get(stream).map(|vdisk| vdisk.stats.charged())
    }

    fn limit(&mut self, _alone: &[Alone]) -> Result<(), NotStarted> {
        Ok(())
    }

    fn processes(&self) -> Vec<u32> {
        self.boxed.iter().map(Process::id).collect()
    }
}

fn name(stream: usize) -> String {
    format!("stream-{stream}")
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("nbd.sock")
}

/// Reserves are the shares, and weights in proportion.
fn config(
    policy: &str,
    scene: &Scene,
    medium: Option<&Medium>,
    tuning: &Tuning,
    directory: &Path,
) -> String {
    let at = directory.display();
    let back_end = match medium {
        None => format!("file:{at}/disks"),
        Some(Medium::File(file)) => format!("file:{}", file.display()),
        Some(Medium::Boxed(_)) => format!("nbd+unix:///{EXPORT}?socket={at}/box.sock"),
    };
    // A directory of one run.
    let create = if medium.is_none() { "create = true\n" } else { "" };
    let mut text = format!(
        "[server]\nnbd = [\"unix:{}\"]\nstate = \"{at}/state\"\n\
         [[device]]\nname = \"device\"\nback_end = \"{back_end}\"\n{create}policy = \"{policy}\"\n\
         experimental = true\n",
        socket(directory).display()
    );
    if scene.device == LiveDevice::Emulated {
        let _ = writeln!(text, "emulate = \"{PRESET}\"");
    } else {
        let _ = writeln!(text, "queue_depth = {}", tuning.depth);
    }
    if let Some(cost_model) = &tuning.cost_model {
        let _ = writeln!(text, "cost_model = \"{cost_model}\"");
    }
    for (stream, tenant) in scene.tenants.iter().enumerate() {
        let _ = write!(
            text,
            "[[vdisk]]\nname = \"{}\"\ndevice = \"device\"\nsize = \"{}B\"\n\
             reserve = \"{}%\"\nweight = {}\n",
            name(stream),
            scene.bytes,
            tenant.share_percent,
            tenant.share_percent * 10,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use disktime_config::QueueDepth;

    use super::*;

    fn of(scene: &Scene, medium: Option<Medium>, tuning: &Tuning) -> Result<Daemon, ConfigError> {
        Daemon::new("disktime", scene, medium, tuning, Path::new("/t"))
    }

    #[test]
    fn shares_are_reserved_and_depths_are_as_asked() {
        let scene = &Scene::on_file(1 << 30)[0];
        let tuning = Tuning { cost_model: Some("fixed".to_owned()), depth: 16 };
        let daemon = of(scene, Some(Medium::File("/t/image".into())), &tuning);
        let daemon = daemon.expect("it can be used");
        let device = &daemon.config.devices[0];
        assert_eq!(
            (device.scheduling.queue_depth, device.scheduling.cost_model.as_str()),
            (QueueDepth::Is(16), "fixed")
        );
        let contracts = device.vdisks.iter().map(|disk| disk.contract);
        let shares = contracts.map(|it| (it.reserve.ppm(), it.weight)).collect::<Vec<_>>();
        assert_eq!(shares, [(700_000, 700), (300_000, 300)]);
        assert_eq!(daemon.cost_model(), Some("fixed"));
    }

    #[test]
    fn an_emulated_disk_takes_one_at_a_time_and_a_box_is_reached_where_it_listens() {
        let cell: crate::insulation::Selection =
            Scene::emulated_chosen()[0].parse().expect("a cell");
        let scene = Scene::emulated(cell.cells().next().expect("one")).expect("can be live");
        let tuning = Tuning { cost_model: None, depth: 32 };
        let daemon = of(&scene, None, &tuning).expect("it can be used");
        assert_eq!(daemon.config.devices[0].scheduling.queue_depth, QueueDepth::Is(1));
        let scene = Scene::on_box(LiveDevice::Nbdkit, 3 << 30);
        let medium = Medium::Boxed(crate::live::BoxKind::Nbdkit(3 << 30));
        let daemon = of(&scene, Some(medium), &tuning).expect("it can be used");
        let back_end = daemon.config.devices[0].back_end.identity();
        assert_eq!(back_end, Path::new("nbd+unix:///disk?socket=/t/box.sock"));
    }

    #[test]
    fn an_unknown_cost_model_is_refused_before_anything_runs() {
        let tuning = Tuning { cost_model: Some("guessed".to_owned()), depth: 1 };
        let scene = &Scene::on_file(1 << 30)[0];
        let refused = of(scene, Some(Medium::File("/t/image".into())), &tuning);
        let said = refused.err().expect("no such model").to_string();
        assert!(said.contains("guessed") && said.contains("fixed"), "{said}");
    }
}
