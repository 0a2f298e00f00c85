//! `disktime demo --web`: the demo's two virtual disks under load, and the page that shows them.
//!
//! Unlike the demo without it, contracts can be changed: they are kept in a state directory, as by
//! `disktime serve`, which is gone afterwards.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail};
use disktime_api::{DeviceSpec, VdiskSpec};
use disktime_control::{Addresses, Ask, Phase, Role, Store, Truth, config_of};
use disktime_server::{Server, VdiskView};
use serde::Serialize;

use super::{Arguments, DISK_SIZE, NOTICE, PRESET, Scene, load, now};
use crate::interrupt::{self, Temporary};
use crate::operators::{self, Operators, Wanted};
use crate::{BadInput, table};

/// The virtual disks: the first one reads in sequence, the other anywhere.
const NAMES: [&str; 2] = ["sequential", "random"];

/// The figures of each virtual disk over the whole time.
#[derive(Serialize)]
struct Report {
    device: &'static str,
    seconds: f64,
    page: String,
    streams: Vec<Got>,
}

#[derive(Serialize)]
struct Got {
    name: String,
    utilization: f64,
    iops: f64,
}

/// Runs until Ctrl-C, or as long as asked for.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.scene != Scene::Split {
        let why = "--web: the page is of the scene `split`: leave --scene out";
        bail!(BadInput(why.to_owned()));
    }
    let directory = Temporary::new("disktime-demo-")?;
    let state = directory.path().join("state");
    let store = Store::open(&state)?;
    let pool = directory.path().join("disks");
    let device = DeviceSpec {
        name: "disk".to_owned(),
        back_end: format!("file:{}", pool.display()),
        create: Some(true),
        emulate: Some(PRESET.to_owned()),
        ..DeviceSpec::default()
    };
    store.put_device(&device)?;
    let shares = NAMES.into_iter().zip(arguments.split);
    let specs = shares.map(|(name, share)| VdiskSpec {
        name: name.to_owned(),
        device: "disk".to_owned(),
        size: format!("{DISK_SIZE}B"),
        reserve: Some(format!("{share}%")),
        ..VdiskSpec::default()
    });
    let specs: Vec<_> = specs.collect();
    store.settle(Phase::Ready, &specs.iter().collect::<Vec<_>>(), &[])?;
    let nbd = [format!("unix:{}", directory.path().join("nbd.sock").display())];
    let web = format!("tcp:127.0.0.1:{}", arguments.port);
    let addresses = Addresses { nbd: &nbd, web: Some(&web), tls: None };
    let config = config_of(&store.load()?, &state, &addresses)?;
    let wanted = Wanted::of(&config);
    let mut server = Server::start(config)?;
    let operators = operators::open(&wanted, &mut server, Truth::State(store))?;
    let operators = operators.ok_or_else(|| anyhow!("no control API"))?;
    show(arguments, &mut server, operators)
}

fn show(
    arguments: &Arguments,
    server: &mut Server,
    operators: Operators,
) -> anyhow::Result<ExitCode> {
    let Operators { control, mut plane, page } = operators;
    let page = page.ok_or_else(|| anyhow!("no page"))?;
    // Before the page: a client that can't connect is an error to tell at once.
    let of = |disk: &VdiskView| load(disk, usize::from(disk.name != NAMES[0]));
    let loads: Vec<_> = server.vdisks().iter().map(of).collect::<anyhow::Result<_>>()?;
    let link = format!("{}#token={}", page.url(), page.tokens.once(Role::Operate)?);
    let until = arguments.duration.map(|time| now() + Duration::from(time));
    let ends = arguments
        .duration
        .map_or_else(|| "Ctrl-C ends it".to_owned(), |time| format!("for {time}"));
    let text = format!(
        "An emulated IBM Deskstar 34GXP (1999) behind the real daemon, two clients\nthat never stop.\n\
         Watch it, and change who gets what; the link logs one browser in, once:\n\n  {link}\n\n{ends}."
    );
    if arguments.json {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
    let (begun, asks) = (now(), control.asks());
    while !interrupt::is_asked() && until.is_none_or(|until| now() < until) {
        if let Ok(ask) = asks.recv_timeout(NOTICE) {
            Ask::answer(vec![ask], server, &mut plane);
        }
    }
    let seconds = (now() - begun).as_secs_f64();
    let streams = server.vdisks().iter().map(|disk| Got {
        name: disk.name.clone(),
        utilization: disk.stats.charged().as_secs_f64() / seconds,
        iops: disk.stats.requests() as f64 / seconds,
    });
    let report = Report { device: PRESET, seconds, page: page.url(), streams: streams.collect() };
    drop(control);
    loads.into_iter().for_each(|load| drop(load.stop()));
    tell(&report, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(report: &Report, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(report)?);
        return Ok(());
    }
    let mut table = table::new(&["virtual disk", "got", "IOPS"], 1..3);
    for Got { name, utilization, iops } in &report.streams {
        table.add_row([
            name.clone(),
            format!("{:.1} %", utilization * 100.0),
            format!("{iops:.0}"),
        ]);
    }
    println!("\nin {:.0} s:\n{table}", report.seconds);
    Ok(())
}
