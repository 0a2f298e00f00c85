//! `disktime serve`: the daemon in the foreground.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use anyhow::{Context, bail};
use disktime_control::{Addresses, Ask, Kept, Plane, Store, Truth};
use disktime_server::{
    AskError, BindError, Config, ConfigError, Inherited, Predecessor, ReloadError, Server,
    StartError, Successor, ThreadFailure, VdiskView,
};
use sd_notify::NotifyState;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::costs::{self, CostRow};
use crate::interrupt::Interrupted;
use crate::operators::{self, Page, Wanted};
use crate::{BadInput, registries};

const EXAMPLES: &str = "\
Examples:
  # state in the user's directory; then `disktime device add`
  disktime serve
  # with a page for browsers, too
  disktime serve --control tcp:127.0.0.1:7070
  disktime serve --config disktime.toml
  # would it serve? beside a running daemon, too
  disktime serve --config disktime.toml --check
  # in place of a running one; its clients pause
  disktime serve --config disktime.toml --take-over
  kill -HUP PID
      read the configuration again, change contracts live, log what changed
  kill -USR1 PID
      show on stderr what pieces are learned to cost (one document with --json)
  kill -TERM PID     finish the requests taken, then end: within 5 s

Logs go to stderr, a line each, with the virtual disk's name; DISKTIME_LOG=info
says more. Exits with 0 after a signal, 1 if a device's thread failed, 2 if the
configuration, a socket or a back end can't be used, 130 if a signal came before
it served.

A configuration:
  [server]
  nbd = [\"unix:/tmp/disktime.sock\"]
  mode = \"0660\"           # of the Unix sockets; 0600 unless said
  group = \"disk\"          # and their group
  # where programs report missed deadlines
  misses = \"unix:/tmp/misses.sock\"
  # for `disktime top`, `why` and browsers; it changes nothing here
  control = [\"unix:/tmp/control.sock\", \"tcp:127.0.0.1:7070\"]
  # for tcp:, whose callers show one; else `tokens` in `state`
  tokens = \"/etc/disktime/tokens\"
  # where layouts of block devices and exports are recorded
  state = \"/var/lib/disktime\"

  # another one, with terms of its own; beyond loopback only with
  # tls = \"require\"; a unix: one also takes: mode, owner, group
  [[listener]]
  nbd = \"tcp:0.0.0.0:10809\"
  vdisks = [\"db\"]         # all, unless said
  tls = \"require\"         # or \"allow\", in [server] as well

  [tls]
  certificate = \"/etc/disktime/server.pem\"
  key = \"/etc/disktime/server.key\"
  # clients must show a certificate; also: revoked
  client_ca = \"/etc/disktime/ca.pem\"

  # back_end: a directory or image (`disktime device init` makes it; also:
  #   create), a block device, or one of
  #   \"memory\"
  #   \"raid0:/dev/sdx,/dev/sdy\"          also: chunk
  #   \"tiered:/dev/nvme0n1,/dev/sdx\"     fast, slow; also: promotion,
  #                                      empty_fast
  #   \"nbd://HOST:PORT/EXPORT\"           also: connections, hold
  #   \"nbd+unix:///EXPORT?socket=PATH\"
  [[device]]
  name = \"disk\"
  back_end = \"file:/srv/disktime\"
  # leave out for the device's own speed
  emulate = \"deskstar-34gxp\"
  # misses shape best effort; also: feedback_token, feedback_min, and
  # feedback_rate of \"fixed\"
  feedback = \"adaptive\"
  # from `disktime device profile`; promises and goals need one
  profile = \"disk.json\"

  # also: limit, weight, zone, record, default, read_only, description,
  # bitmap_granularity
  [[vdisk]]
  name = \"db\"
  device = \"disk\"
  size = \"8GiB\"
  # in its place a goal: iops or bandwidth, request, run (`disktime plan`)
  reserve = \"70%\"
  clients = [\"db.example.org\"]   # names of certificates
  bitmaps = [\"daily\"]            # for `disktime vdisk bitmap`

  # class: guaranteed-latency (with latency), guaranteed-rate,
  # soft-real-time, best-effort, background
  [[vdisk]]
  name = \"camera\"
  device = \"disk\"
  size = \"8GiB\"
  class = \"guaranteed-rate\"
  rate = \"2MB/s\"          # also: cycle, admission, access";

/// The most characters of a status for the service manager.
const STATUS_MAX: usize = 500;

/// The default of `DISKTIME_LOG`: warnings, and actions on a signal.
pub const LOG: &str = "warn,disktime::serve=info,disktime::audit=info";

/// Serves the virtual disks of a configuration over NBD until SIGTERM.
///
/// Prints each virtual disk's URI once clients can connect.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", registries::names()))]
pub struct Arguments {
    /// The configuration, in TOML; else devices and virtual disks are kept in a state directory and
    /// come and go by `disktime device` and `disktime vdisk`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The state directory; else the user's own
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    state: Option<PathBuf>,
    /// Where clients connect, `unix:PATH` or `tcp:ADDRESS:PORT`; else `nbd.sock` in the state directory
    #[arg(long, value_name = "LISTEN", conflicts_with = "config")]
    nbd: Vec<String>,
    /// Where browsers find the page, and commands with `--url` the API: `tcp:ADDRESS:PORT`; beyond
    /// this machine only with a certificate. Tokens are in `tokens` in the state directory
    #[arg(long, value_name = "LISTEN", conflicts_with = "config")]
    control: Option<String>,
    /// The certificate of `--control`, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "control")]
    tls_certificate: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Find out whether all of it can be served, without serving; says every error that it finds
    #[arg(long)]
    check: bool,
    /// Take the place of the daemon that runs with this `state`: its clients see a pause
    #[arg(long, conflicts_with = "check", requires = "config")]
    take_over: bool,
    /// How logs are written to stderr
    #[arg(long, value_enum, default_value = "text")]
    log: Log,
    /// Print the URIs as one JSON document
    #[arg(long)]
    json: bool,
}

/// A form of logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Log {
    /// A line for people.
    Text,
    /// An object a line, for programs.
    Json,
}

impl Arguments {
    /// Whether logs are objects.
    pub fn logs_json(&self) -> bool {
        self.log == Log::Json
    }
}

#[derive(Serialize)]
struct Vdisk<'a> {
    name: &'a str,
    device: &'a str,
    uris: Vec<String>,
}

#[derive(Serialize)]
struct Costs<'a> {
    name: &'a str,
    device: &'a str,
    costs: Vec<CostRow>,
}

/// An event that the daemon's main thread waits for.
enum Heard {
    Signal(i32),
    Failed(ThreadFailure),
    Started(Box<Result<Server, StartError>>),
    Successor(Successor),
    /// A successor has said go, or whatever it said was no go.
    Go(Result<Successor, std::io::Error>),
    Ask(Ask),
}

/// How serving ends.
enum Ending {
    Exit(ExitCode),
    /// A successor goes on.
    HandOver(Successor),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.check {
        return check(arguments);
    }
    let (config, truth) = source(arguments)?;
    let wanted = Wanted::of(&config);
    let sockets = Inherited::take().map_err(|error| {
        BadInput(format!("a socket of the service manager can't be used: {error}"))
    })?;
    let predecessor = predecessor(arguments, &config)?;
    let has_clients = predecessor.is_some();
    let (tell, heard) = mpsc::channel();
    // Before any thread starts: a signal must not end the process half-way.
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM, SIGUSR1]).context("signals can't be handled")?;
    let ending = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ending);
    forward("signals", &tell, move |tell| {
        signals.forever().try_for_each(|signal| {
            // Seen before the questions that were asked earlier.
            if matches!(signal, SIGINT | SIGTERM) {
                ended.store(true, Ordering::Relaxed);
            }
            tell.send(Heard::Signal(signal))
        })
    })?;
    // A back end that does not answer may take long to open: signals are heard meanwhile.
    forward("start", &tell, move |tell| {
        let server = match predecessor {
            Some(predecessor) => Server::take_over(config, sockets, predecessor),
            None => Server::start_on(config, sockets),
        };
        tell.send(Heard::Started(Box::new(server)))
    })?;
    let mut server = match started(&heard)? {
        Some(server) => server,
        None => bail!(Interrupted),
    };
    let failures = server.failures();
    forward("failures", &tell, move |tell| {
        failures.iter().try_for_each(|failure| tell.send(Heard::Failed(failure)))
    })?;
    let successors = server.successors();
    forward("successors", &tell, move |tell| {
        successors.iter().try_for_each(|successor| tell.send(Heard::Successor(successor)))
    })?;
    let mut controlled = match operators::open(&wanted, &mut server, truth) {
        // Clients that were handed over have no other daemon.
        Err(error) if has_clients => {
            tracing::error!("{error:#}: no control API until this is mended and taken over again");
            None
        }
        opened => opened?,
    };
    if let Some(operators) = &controlled {
        let asks = operators.control.asks();
        forward("asks", &tell, move |tell| {
            asks.iter().try_for_each(|ask| tell.send(Heard::Ask(ask)))
        })?;
    }
    let page = controlled.as_mut().and_then(|it| it.page.take());
    if let Some(page) = &page {
        tracing::info!("the page is at {}", page.url());
    }
    warn_of_certificates(server.config());
    announce(&server, arguments.json)?;
    notify(&[NotifyState::Ready]);
    let plane = controlled.as_mut().map(|it| &mut it.plane);
    let outcome = serve(arguments, (&mut server, plane, page.as_ref()), (&tell, &heard, &ending));
    if !matches!(outcome, Ok(Ending::HandOver(_))) {
        ending.store(true, Ordering::Relaxed);
        heard.try_iter().for_each(|left| {
            if let Heard::Go(Ok(successor)) = left {
                successor.ends();
            }
        });
    }
    // A successor has its own at the same path.
    drop(controlled.map(|it| it.control));
    notify(&[NotifyState::Stopping]);
    tracing::info!("finishing the requests taken");
    match outcome {
        Ok(Ending::HandOver(successor)) => {
            server.hand_over(&successor)?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(Ending::Exit(code)) => server.shutdown().map(|()| code).map_err(Into::into),
        Err(error) => {
            // The first error is the one to tell.
            let _ended = server.shutdown();
            Err(error)
        }
    }
}

/// The configuration, and where it is kept.
fn source(arguments: &Arguments) -> anyhow::Result<(Config, Truth)> {
    if let Some(file) = &arguments.config {
        return Ok((read(arguments)?, Truth::File(file.clone())));
    }
    let state = state(arguments)?;
    // A wrong command line is refused before anything is made.
    config_of(arguments, &state, &Kept::default())?;
    let store = Store::open(&state).map_err(|error| BadInput(error.to_string()))?;
    let kept = disktime_control::settled(&store, &state);
    let kept = kept.map_err(|refusal| BadInput(refusal.0.detail))?;
    Ok((config_of(arguments, &state, &kept)?, Truth::State(store)))
}

/// The state directory of a daemon without a configuration.
fn state(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let state = arguments.state.clone().map_or_else(crate::control::usual_state, Ok)?;
    Ok(std::path::absolute(state)?)
}

/// The configuration that the command line and a state directory's records come to.
fn config_of(arguments: &Arguments, state: &Path, kept: &Kept) -> Result<Config, ConfigError> {
    let nbd = if arguments.nbd.is_empty() {
        vec![format!("unix:{}", state.join("nbd.sock").display())]
    } else {
        arguments.nbd.clone()
    };
    let tls = arguments.tls_certificate.as_deref().zip(arguments.tls_key.as_deref());
    let addresses = Addresses { nbd: &nbd, web: arguments.control.as_deref(), tls };
    disktime_control::config_of(kept, state, &addresses)
}

/// The configuration's file, for people.
fn file(arguments: &Arguments) -> String {
    let file = arguments.config.as_ref();
    file.map_or_else(|| "the state".to_owned(), |file| file.display().to_string())
}

/// The daemon that is to be taken over, if that is asked for and there is one.
fn predecessor(arguments: &Arguments, config: &Config) -> anyhow::Result<Option<Predecessor>> {
    if !arguments.take_over {
        return Ok(None);
    }
    let file = file(arguments);
    let Some(state) = &config.state else {
        let why =
            "--take-over finds the running daemon in the directory that `state` in [server] names";
        bail!(BadInput(format!("{file}: {why}: name one")));
    };
    // All that can be found wrong is found while the other one still serves.
    if let Some(error) = disktime_server::check(config).first() {
        bail!(BadInput(format!("{file}: {error}")));
    }
    operators::check(config).map_err(|error| BadInput(format!("{file}: {error}")))?;
    match Predecessor::find(state) {
        Ok(predecessor) => Ok(Some(predecessor)),
        Err(AskError::NoDaemon(_)) => {
            tracing::info!("no daemon is there to be taken over: starting as usual");
            Ok(None)
        }
        Err(error @ AskError::Refused(_)) => bail!("the running daemon stays: {error}"),
        Err(error) => Err(error.into()),
    }
}

/// Does as it is told until it is to end; answers how that is to be judged.
fn serve(
    arguments: &Arguments,
    (server, mut plane, page): (&mut Server, Option<&mut Plane>, Option<&Page>),
    (tell, heard, ending): (&mpsc::Sender<Heard>, &mpsc::Receiver<Heard>, &Arc<AtomicBool>),
) -> anyhow::Result<Ending> {
    // Twice in the span that the service manager waits, if it does.
    let watch = sd_notify::watchdog_enabled().map(|span| span / 2);
    let mut fed = now();
    let mut left = None;
    // A successor was offered everything, and has not said go.
    let mut is_offered = false;
    loop {
        // The control plane asks several times a second: time passes between questions as well.
        if watch.is_some_and(|span| fed.elapsed() >= span) {
            fed = now();
            // A thread that hangs lets the service manager start the daemon anew.
            if server.is_responsive() {
                notify(&[NotifyState::Watchdog]);
            }
        }
        let next = match (left.take(), watch) {
            (Some(left), _) => Some(left),
            (None, None) => heard.recv().ok(),
            (None, Some(span)) => match heard.recv_timeout(span.saturating_sub(fed.elapsed())) {
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                next => next.ok(),
            },
        };
        match next {
            Some(Heard::Signal(SIGUSR1)) => show_costs(server, arguments.json)?,
            Some(Heard::Signal(SIGHUP)) => {
                let now = NotifyState::monotonic_usec_now();
                notify(
                    &[Some(NotifyState::Reloading), now.ok()]
                        .into_iter()
                        .flatten()
                        .collect::<Vec<_>>(),
                );
                let outcome = reload(arguments, server);
                if let Some(Err(error)) =
                    page.and_then(|it| it.tls.as_ref()).map(|tls| tls.reload())
                {
                    tracing::warn!(%error, "the page's certificate stays as it was");
                }
                notify(&[NotifyState::Ready, NotifyState::Status(&outcome)]);
            }
            Some(Heard::Signal(_)) | None => return Ok(Ending::Exit(ExitCode::SUCCESS)),
            Some(Heard::Successor(successor)) if is_offered => {
                let _it_may_be_gone = successor.refuse("another daemon takes over already");
            }
            Some(Heard::Successor(successor)) => {
                let awaited = await_go(server, successor, (tell, ending));
                is_offered = awaited.is_ok();
                if let Err(error) = awaited {
                    tracing::warn!("a successor was sent away: {error:#}");
                }
            }
            Some(Heard::Go(Ok(successor))) => return Ok(Ending::HandOver(successor)),
            Some(Heard::Go(Err(error))) => {
                is_offered = false;
                tracing::warn!(%error, "a successor did not start: nothing changed");
            }
            Some(Heard::Failed(failure)) => {
                tracing::error!("{failure}");
                return Err(failure.into());
            }
            // The callers are told that the daemon is too busy.
            Some(Heard::Ask(_)) if ending.load(Ordering::Relaxed) => {}
            Some(Heard::Ask(ask)) => {
                let (asks, other) = together(ask, heard);
                left = other;
                if let Some(plane) = &mut plane {
                    Ask::answer(asks, server, plane);
                }
            }
            Some(Heard::Started(_)) => {}
        }
    }
}

/// Offers a successor everything. Another thread waits for its *go*: it may be stopped.
fn await_go(
    server: &Server,
    successor: Successor,
    (tell, ending): (&mpsc::Sender<Heard>, &Arc<AtomicBool>),
) -> anyhow::Result<()> {
    let (offered, ending) = (server.offer(&successor), Arc::clone(ending));
    forward("go", tell, move |tell| match offered.and_then(|()| successor.says_go()) {
        Ok(()) if ending.load(Ordering::Relaxed) => {
            successor.ends();
            Ok(())
        }
        gone => tell.send(Heard::Go(gone.map(|()| successor))),
    })
}

/// A question with those behind it that are best carried out with it, and the first thing behind them.
fn together(ask: Ask, heard: &mpsc::Receiver<Heard>) -> (Vec<Ask>, Option<Heard>) {
    let mut asks = vec![ask];
    while asks.len() < Ask::TOGETHER_MAX && asks.last().is_some_and(Ask::is_better_together) {
        match heard.try_recv() {
            Ok(Heard::Ask(ask)) => asks.push(ask),
            other => return (asks, other.ok()),
        }
    }
    (asks, None)
}

#[expect(clippy::disallowed_methods, reason = "the service manager waits in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Tells the service manager, if there is one.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager can't be told");
    }
}

/// Says whether the configuration can be served.
fn check(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let file = file(arguments);
    let said = |errors: Vec<String>| match &errors[..] {
        [error] => BadInput(format!("{file}: {error}")),
        _ => BadInput(format!("{file}: {} errors:\n  {}", errors.len(), errors.join("\n  "))),
    };
    let config = match &arguments.config {
        Some(file) => Config::read_all(file).map_err(|errors| match &errors[..] {
            [error] => BadInput(in_file(arguments, error)),
            errors => said(errors.iter().map(ToString::to_string).collect()),
        })?,
        None => {
            let state = state(arguments)?;
            let kept = Store::look(&state).map_err(|error| BadInput(error.to_string()))?;
            config_of(arguments, &state, &kept)?
        }
    };
    let mut errors = disktime_server::check(&config);
    if arguments.config.is_none() {
        // A start makes the state directory before it binds there.
        let made = |at: &Path| Some(at) == config.state.as_deref() && !at.exists();
        errors.retain(|error| {
            !matches!(error, StartError::Listen { error: BindError::NoDirectory(at), .. } if made(at))
        });
    }
    let mut errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.extend(operators::check(&config).err().map(|error| error.to_string()));
    if !errors.is_empty() {
        bail!(said(errors));
    }
    let (vdisks, devices) = (config.vdisks().count(), config.devices.len());
    let warning = certificate_warning(&config);
    if arguments.json {
        let mut said = serde_json::json!({ "ok": true, "vdisks": vdisks, "devices": devices });
        if let Some(warning) = warning {
            said["warnings"] = serde_json::json!([warning]);
        }
        println!("{said}");
    } else {
        if let Some(warning) = warning {
            println!("warning: {warning}");
        }
        println!("ok: {vdisks} virtual disks on {devices} devices");
    }
    Ok(ExitCode::SUCCESS)
}

/// Warns of certificates that clients refuse, or soon will.
fn warn_of_certificates(config: &Config) {
    if let Some(warning) = certificate_warning(config) {
        tracing::warn!("{warning}");
    }
}

fn certificate_warning(config: &Config) -> Option<String> {
    config.tls_files.as_ref()?.warning(disktime_server::clock::wall_ms())
}

/// Reads the configuration again, and says a line for each thing that came of it. Answers one line for
/// `systemctl status`: systemd does not hear why a reload changed nothing.
fn reload(arguments: &Arguments, server: &mut Server) -> String {
    let nothing = |why: &dyn std::fmt::Display| {
        tracing::warn!("nothing changed: {why}");
        status(why)
    };
    if arguments.config.is_none() {
        tracing::info!("nothing changed: there is no configuration to be read again");
        return String::new();
    }
    let config = match read(arguments) {
        Ok(config) => config,
        Err(error) => return nothing(&format!("{error:#}")),
    };
    let has_tls = config.tls_files.is_some();
    match server.reload(config) {
        Ok(changes) => {
            if changes.is_empty() {
                tracing::info!("nothing changed: the configuration is as it was");
            }
            changes.iter().for_each(|change| tracing::info!("{change}"));
            if has_tls {
                tracing::info!("certificates were read again: new connections get them");
                warn_of_certificates(server.config());
            }
            String::new()
        }
        Err(error) => {
            let ReloadError::Structure(refused) = &error else { return nothing(&error) };
            refused.iter().for_each(|change| tracing::warn!("nothing changed: {change}"));
            status(&error)
        }
    }
}

/// One line for `systemctl status`, which must be short: the whole message would be refused.
fn status(why: &dyn std::fmt::Display) -> String {
    let text = format!("The last reload changed nothing: {why}").replace('\n', " ");
    text.chars().take(STATUS_MAX).collect()
}

/// The server once it serves; `None` if a signal comes first: nothing was acknowledged yet.
fn started(heard: &mpsc::Receiver<Heard>) -> anyhow::Result<Option<Server>> {
    for heard in heard {
        match heard {
            Heard::Started(server) => return Ok(Some((*server)?)),
            Heard::Signal(SIGINT | SIGTERM) => return Ok(None),
            _ => {}
        }
    }
    Ok(None)
}

/// A thread that hands on what it hears, as long as anybody listens.
fn forward(
    name: &str,
    to: &mpsc::Sender<Heard>,
    run: impl FnOnce(&mpsc::Sender<Heard>) -> Result<(), mpsc::SendError<Heard>> + Send + 'static,
) -> anyhow::Result<()> {
    let to = to.clone();
    let run = move || {
        let _nobody_listens_any_more = run(&to);
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(run).context("no thread")?;
    Ok(())
}

/// With the file's name, once.
fn in_file(arguments: &Arguments, error: &ConfigError) -> String {
    match error {
        ConfigError::Read { .. } => error.to_string(),
        error => format!("{}: {error}", file(arguments)),
    }
}

fn read(arguments: &Arguments) -> anyhow::Result<Config> {
    let Some(file) = &arguments.config else {
        bail!("a state directory is no configuration");
    };
    let config = Config::read(file);
    config.map_err(|error| BadInput(in_file(arguments, &error)).into())
}

fn announce(server: &Server, json: bool) -> anyhow::Result<()> {
    let disks = server.vdisks();
    if json {
        let disks = disks.iter().map(|disk| Vdisk {
            name: &disk.name,
            device: &disk.device,
            uris: disk.uris(),
        });
        tell(&(serde_json::to_string(&disks.collect::<Vec<_>>())? + "\n"));
        return Ok(());
    }
    let width = disks.iter().map(|disk| disk.name.len()).max().unwrap_or(0);
    let line = |disk: &VdiskView| format!("{:width$}  {}\n", disk.name, disk.uris().join("  "));
    tell(&disks.iter().map(line).collect::<String>());
    Ok(())
}

/// Shows the cost of each virtual disk's pieces, as far as it is learned: on stderr, since stdout
/// has had its document.
fn show_costs(server: &Server, json: bool) -> anyhow::Result<()> {
    let disks = server.vdisks().iter().zip(server.estimates());
    let costs = disks.map(|(VdiskView { name, device, .. }, estimates)| Costs {
        name,
        device,
        costs: estimates.iter().map(CostRow::from).collect(),
    });
    let costs: Vec<_> = costs.collect();
    if json {
        eprintln!("{}", serde_json::to_string(&costs)?);
        return Ok(());
    }
    let rows = costs.iter().map(|disk| (disk.name, disk.costs.as_slice()));
    let none = "disktime: no costs are known: no device learns them, or nothing was sent";
    let table = costs::table("virtual disk", rows);
    eprintln!("{}", table.map_or_else(|| none.to_owned(), |table| table.to_string()));
    Ok(())
}

/// Prints for a reader; none need be there.
fn tell(text: &str) {
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        tracing::debug!(%error, "nobody reads the URIs");
    }
}
