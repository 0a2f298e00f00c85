//! The end of moves that a killed daemon has left half-way, before the next one serves.

use std::path::Path;

use disktime_api::VdiskSpec;
use disktime_server::finish_move;
use disktime_server::layout::Move;

use crate::problem::Refusal;
use crate::state::{Kept, Store};
use crate::{Addresses, config_of};

/// The records of a state directory with every move finished: a virtual disk that was to get another
/// name has it, one that was to become smaller is.
///
/// # Errors
/// If the state can't be read or written, or a device is not there.
pub fn settled(store: &Store, state: &Path) -> Result<Kept, Refusal> {
    let mut kept = store.load()?;
    for (before, after) in std::mem::take(&mut kept.moving) {
        let devices = kept.devices.iter().filter(|it| it.name == after.device).cloned();
        // Its parent is not looked at.
        let vdisks = vec![VdiskSpec { parent: None, ..after.clone() }];
        let alone = Kept { devices: devices.collect(), vdisks, ..Kept::default() };
        let nbd = [format!("unix:{}", state.join("nbd.sock").display())];
        let addresses = Addresses { nbd: &nbd, ..Addresses::default() };
        let config = config_of(&alone, state, &addresses)?;
        let mut made = true;
        for device in &config.devices {
            let bytes = device.vdisks.first().map_or(0, |it| it.size);
            let it = Move { from: &before.name, to: &after.name, bytes };
            made = finish_move(device, Some(state), &it).map_err(Refusal::of_start)?;
        }
        if !made {
            store.end_move(&before.name, &before)?;
            tracing::warn!(
                vdisk = before.name,
                "a change that was not begun before a crash is not made"
            );
            kept.vdisks.push(before);
            continue;
        }
        store.end_move(&before.name, &after)?;
        tracing::warn!(vdisk = after.name, was = before.name, "a change that a crash left is made");
        kept.vdisks.push(after);
    }
    kept.sort();
    Ok(kept)
}
