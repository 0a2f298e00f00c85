//! `disktime why` and `disktime events`: what held a virtual disk back, and what happened.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use disktime_api::{Event, Held};

use crate::control::{Daemon, address, gone};
use crate::terminal;

/// A time from which on years have more than four digits, in milliseconds since 1970.
const LAST_MS: u64 = 253_402_300_800_000;

/// Says what held a virtual disk back over the last seconds, in parts of 100 %.
#[derive(Args)]
pub struct Why {
    /// The virtual disk
    #[arg(value_name = "VDISK")]
    name: String,
    /// Seconds to look back, 1 to 60
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    last: u32,
    #[command(flatten)]
    daemon: Daemon,
}

/// Events of a daemon: changes, broken promises.
#[derive(Args)]
pub struct Events {
    /// Go on with events as they happen; with --json one document a line
    #[arg(short, long)]
    follow: bool,
    /// Begin after the event of this number; 0 is before all that are kept
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs `why`.
pub fn why(Why { name, last, daemon }: &Why) -> anyhow::Result<ExitCode> {
    let held: Held = daemon.get(&format!("{}/why?seconds={last}", address("vdisks", name)?))?;
    if daemon.json {
        println!("{}", serde_json::to_string(&held)?);
        return Ok(ExitCode::SUCCESS);
    }
    let head = format!(
        "{name}, the last {:.1} s, {} samples; and since the daemon's start",
        held.seconds, held.samples
    );
    println!("{}", terminal::prose(&head));
    println!("{:6.1} %  {:>10}  it sent nothing", held.idle, "");
    let all = held.waited;
    for (part, waited, reason) in [
        (
            held.own_depth,
            all.own_depth,
            "all that it had sent was at the device: more at once would get more",
        ),
        (held.device, all.device, "it had the device, and more of it waited"),
        (
            held.limit,
            all.limit,
            "its limit, or its part of the queue depth, kept it from the device",
        ),
        (held.others, all.others, "others had the device"),
        (
            held.switching,
            all.switching,
            "the device was left idle: between streams, or for another's next request",
        ),
    ] {
        let reason =
            terminal::wrapped(reason, terminal::COLUMNS - 22).join(&format!("\n{:22}", ""));
        println!("{part:6.1} %  {waited:8.1} s  {reason}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `events`.
pub fn events(Events { follow, after, daemon }: &Events) -> anyhow::Result<ExitCode> {
    if !follow {
        let events = daemon.kept_events(*after)?;
        if daemon.json {
            println!("{}", serde_json::to_string(&events)?);
        } else {
            events.iter().for_each(tell);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let api = daemon.api()?;
    let json = daemon.json;
    let heard = api.events(Some(*after), |data| {
        if json {
            println!("{data}");
        } else if let Ok(event) = serde_json::from_str(data) {
            tell(&event);
        }
        true
    });
    heard.map_err(|error| gone(&api, &error))?;
    Ok(ExitCode::SUCCESS)
}

fn tell(event: &Event) {
    println!("{}", line(event));
}

/// An event's number, its time as in the daemon's log, what happened, and who did it, if anybody did.
fn line(Event { id, at_ms, kind, what, name, text, by }: &Event) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(*at_ms));
    let at = at.filter(|_| *at_ms < LAST_MS);
    let at = at.map_or_else(String::new, |at| humantime::format_rfc3339_seconds(at).to_string());
    let by = if by.is_empty() { String::new() } else { format!("  by {by}") };
    format!("{id}  {at}  {kind}  {what} {name}  {text}{by}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither the time nor the caller was told.
    #[test]
    fn an_event_says_when_and_by_whom() {
        let event = Event {
            id: 7,
            at_ms: 1_795_852_397_451,
            kind: "deleted".to_owned(),
            what: "vdisk".to_owned(),
            name: "db".to_owned(),
            text: "{}".to_owned(),
            by: "uid 0 pid 9".to_owned(),
        };
        let told = "7  2026-11-28T07:53:17Z  deleted  vdisk db  {}";
        assert_eq!(line(&event), format!("{told}  by uid 0 pid 9"));
        assert_eq!(line(&Event { by: String::new(), ..event.clone() }), told);
        let never = line(&Event { at_ms: u64::MAX, ..event });
        assert!(never.starts_with("7    deleted  vdisk db"), "{never}");
    }
}
