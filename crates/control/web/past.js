// The past of devices: what the daemon keeps, and each second as it comes.

import { devicePath, get } from "./api.js";

/** Seconds that the page keeps of the short history. */
const FINE = 600;

export class Past {
  constructor(device) {
    this.device = device;
    this.fine = empty(1);
    this.coarse = empty(10);
    this.loadedAt = 0;
  }

  /** Reads what the daemon keeps. */
  async load() {
    const path = `${devicePath(this.device)}/history`;
    [this.fine, this.coarse] = (await Promise.all([get(path), get(`${path}?step=10`)])).map(byName);
    this.loadedAt = Date.now();
  }

  /** Reads the long history again, which grows every ten seconds. */
  async loadCoarse() {
    this.loadedAt = Date.now();
    this.coarse = byName(await get(`${devicePath(this.device)}/history?step=10`));
  }

  /** Takes the last second in. */
  add(atMs, live) {
    const { fine } = this;
    const length = fine.at_ms.length;
    if (length > 0 && atMs <= fine.at_ms[length - 1]) return;
    fine.at_ms.push(atMs);
    fine.spare.push(live.spare);
    fine.held.push(live.held);
    fine.queue.push(live.queue);
    fine.service.push(live.service);
    for (const vdisk of live.vdisks) {
      if (!fine.vdisks.has(vdisk.name)) {
        const got = new Array(length).fill(0);
        fine.vdisks.set(vdisk.name, { name: vdisk.name, got, reserved: new Array(length).fill(null) });
      }
    }
    for (const [name, track] of fine.vdisks) {
      const vdisk = live.vdisks.find((it) => it.name === name);
      track.got.push(vdisk?.got ?? 0);
      track.reserved.push(vdisk?.reserved ?? null);
    }
    if (fine.at_ms.length > FINE) {
      for (const column of [fine.at_ms, fine.spare, fine.held, fine.queue, fine.service]) column.shift();
      for (const track of fine.vdisks.values()) {
        track.got.shift();
        track.reserved.shift();
      }
    }
    if (Date.now() - this.loadedAt > 30_000) this.loadCoarse().catch(() => {});
  }

  /** The last so many seconds, at most about 600 moments. */
  last(seconds) {
    const history = seconds <= FINE ? this.fine : this.coarse;
    const count = Math.ceil(seconds / history.step_seconds);
    const of = (column) => column.slice(-count);
    const vdisks = new Map();
    for (const [name, track] of history.vdisks) {
      vdisks.set(name, { name, got: of(track.got), reserved: of(track.reserved) });
    }
    return {
      step: history.step_seconds,
      seconds: of(history.at_ms).map((ms) => ms / 1000),
      spare: of(history.spare),
      held: of(history.held),
      queue: of(history.queue),
      service: of(history.service),
      edges: history.edges_us,
      vdisks,
    };
  }
}

function byName(history) {
  return { ...history, vdisks: new Map(history.vdisks.map((track) => [track.name, track])) };
}

function empty(step) {
  return {
    step_seconds: step, at_ms: [], spare: [], held: [], queue: [], service: [], edges_us: [], vdisks: new Map(),
  };
}
