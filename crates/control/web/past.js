// The past of devices: what the daemon keeps, and each second as it comes.

import { devicePath, get } from "./api.js";

/** Seconds that the page keeps of the short history. */
const FINE = 600;
/** Kinds of things that have a share of a device's time. */
const KINDS = ["vdisks", "mounts"];

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
    const last = fine.at_ms[length - 1];
    if (atMs === last) return;
    if (atMs < last) {
      // The clock was set back, and what the daemon keeps was moved with it.
      this.load().catch(() => {});
      return;
    }
    fine.at_ms.push(atMs);
    fine.spare.push(live.spare);
    fine.held.push(live.held);
    fine.queue.push(live.queue);
    fine.service.push(live.service);
    for (const kind of KINDS) {
      for (const { name } of live[kind]) {
        if (!fine[kind].has(name)) {
          const got = new Array(length).fill(0);
          fine[kind].set(name, { name, got, reserved: new Array(length).fill(null) });
        }
      }
      for (const [name, track] of fine[kind]) {
        const one = live[kind].find((it) => it.name === name);
        track.got.push(one?.got ?? 0);
        track.reserved.push(one?.reserved ?? null);
      }
    }
    if (fine.at_ms.length > FINE) {
      for (const column of [fine.at_ms, fine.spare, fine.held, fine.queue, fine.service]) column.shift();
      for (const tracks of KINDS.map((kind) => fine[kind])) {
        for (const [name, track] of tracks) {
          track.got.shift();
          track.reserved.shift();
          // It is gone for as long as the page keeps.
          if (track.reserved.every((share) => share === null)) tracks.delete(name);
        }
      }
    }
    if (Date.now() - this.loadedAt > 30_000) this.loadCoarse().catch(() => {});
  }

  /** The last so many seconds, at most about 600 moments. */
  last(seconds) {
    const history = seconds <= FINE ? this.fine : this.coarse;
    const count = Math.ceil(seconds / history.step_seconds);
    const of = (column) => column.slice(-count);
    const tracks = (kind) => new Map([...history[kind]].map(([name, track]) =>
      [name, { name, got: of(track.got), reserved: of(track.reserved) }]));
    return {
      step: history.step_seconds,
      seconds: of(history.at_ms).map((ms) => ms / 1000),
      spare: of(history.spare),
      held: of(history.held),
      queue: of(history.queue),
      service: of(history.service),
      edges: history.edges_us,
      vdisks: tracks("vdisks"),
      mounts: tracks("mounts"),
    };
  }
}

function byName(history) {
  const maps = KINDS.map((kind) => [kind, new Map(history[kind].map((track) => [track.name, track]))]);
  return { ...history, ...Object.fromEntries(maps) };
}

function empty(step) {
  return {
    step_seconds: step, at_ms: [], spare: [], held: [], queue: [], service: [], edges_us: [],
    vdisks: new Map(), mounts: new Map(),
  };
}
