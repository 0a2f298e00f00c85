// The page: what is known of the daemon, which view is shown, logging in.

import { ask, follow, get, vdiskPath } from "./api.js";
import { DeviceView } from "./device.js";
import { colour, el } from "./dom.js";
import { Past } from "./past.js";
import { VdiskView } from "./vdisk.js";

const EVENTS_SHOWN = 50;
/** How often contracts and sizes are read again, which change rarely and tell so by an event. */
const LIST_MS = 5000;

const at = (id) => document.getElementById(id);

class App {
  constructor() {
    this.about = { writable: false, reason: "" };
    this.devices = new Map();
    this.vdisks = new Map();
    this.mounts = [];
    this.tags = new Map();
    this.pasts = new Map();
    this.places = new Map();
    this.second = null;
    /** Counts views that were asked for. */
    this.turn = 0;
    this.events = [];
    this.lists = new Set();
  }

  async start() {
    await this.logInByLink();
    try {
      this.about = await get("/v1");
    } catch (error) {
      this.showLogin(error);
      return;
    }
    at("log-out").hidden = false;
    at("log-out").onclick = () => ask("DELETE", "/v1/session").then(() => location.reload(), (error) => this.failed(error));
    if (this.about.reason) {
      at("notice").textContent = `Nothing can be changed here: ${this.about.reason}`;
      at("notice").hidden = false;
    }
    await this.refresh();
    this.events = await lastEvents();
    addEventListener("hashchange", () => this.show().catch((error) => this.failed(error)));
    await this.show();
    follow({
      sample: (second) => this.take(second),
      event: (event) => this.happened(event),
      state: (state) => this.say(state),
      missed: () => this.catchUp().catch(() => {}),
    });
    setInterval(() => {
      if (!document.hidden) this.refresh().catch(() => {});
    }, LIST_MS);
  }

  /** A link that `disktime` prints carries a token that is good once, after the `#`, which browsers keep
   * to themselves. */
  async logInByLink() {
    const token = /^#token=([0-9a-zA-Z]+)$/.exec(location.hash)?.[1];
    if (!token) return;
    history.replaceState(null, "", "/");
    try {
      await ask("POST", "/v1/session", { token });
    } catch (error) {
      this.refused = error.message;
    }
  }

  showLogin(error) {
    const said = el("p", { class: "no", role: "alert" }, this.refused ?? "");
    const input = el("input", { type: "password", name: "token", autocomplete: "current-password", "aria-label": "Token", placeholder: "token" });
    const submit = async (event) => {
      event.preventDefault();
      try {
        await ask("POST", "/v1/session", { token: input.value });
        location.reload();
      } catch (refused) {
        said.textContent = refused.message;
      }
    };
    const why = error.status === 401
      ? "Log in with a token of the daemon's file of tokens (“tokens” in its state directory)."
      : error.message;
    at("main").replaceChildren(el("section", { class: "card login" }, el("h1", {}, "Log in"), el("p", {}, why),
      el("form", { onsubmit: submit }, input, el("button", { class: "main", type: "submit" }, "Log in")), said));
    input.focus();
  }

  /** Reads devices, virtual disks and mounts. */
  async refresh() {
    const [devices, vdisks, mounts] = await Promise.all([get("/v1/devices"), get("/v1/vdisks"), get("/v1/mounts/sums")]);
    this.mounts = mounts;
    this.devices = new Map(devices.map((device) => [device.name, device]));
    const before = this.vdisks;
    this.vdisks = new Map(vdisks.map((vdisk) => [vdisk.name, { ...vdisk, spec: before.get(vdisk.name)?.spec }]));
    for (const { name } of [...vdisks, ...mounts]) this.colour(name);
    for (const name of this.pasts.keys()) if (!this.devices.has(name)) this.pasts.delete(name);
    this.nav();
    const { view } = this;
    const known = view instanceof VdiskView ? this.vdisks : this.devices;
    if (view === undefined) return;
    if (!known.has(view?.name)) {
      // The view lost its subject, or the first device has come.
      if (view || this.devices.size > 0) await this.show();
      return;
    }
    if (view instanceof VdiskView) await this.refreshVdisk(view.name);
    view.draw();
  }

  /** Reads what came while nobody listened. */
  async catchUp() {
    await Promise.allSettled([this.refresh(), ...[...this.pasts.values()].map((past) => past.load())]);
    this.events = await lastEvents();
    for (const list of this.lists) this.fillEvents(list);
  }

  async refreshVdisk(name) {
    const { value, tag } = await ask("GET", vdiskPath(name));
    this.vdisks.set(name, value);
    this.tags.set(name, tag);
  }

  nav() {
    const current = this.view instanceof DeviceView ? this.view.name : null;
    const links = [...this.devices.keys()].map((name) => el("a", {
      href: `#/devices/${encodeURIComponent(name)}`,
      "aria-current": name === current ? "page" : null,
    }, name));
    at("devices").replaceChildren(...links);
  }

  async show() {
    this.turn += 1;
    const { turn } = this;
    const [, kind, encoded] = location.hash.split("/");
    const name = decoded(encoded ?? "");
    let view = null;
    if (kind === "vdisks" && this.vdisks.has(name)) {
      await this.refreshVdisk(name);
      view = new VdiskView(this, name);
    } else {
      const device = this.devices.has(name) ? name : this.devices.keys().next().value;
      if (device) view = new DeviceView(this, device);
    }
    const device = view instanceof VdiskView ? this.vdisks.get(name)?.device : view?.name;
    if (device && !this.pasts.has(device)) {
      const past = new Past(device);
      await past.load();
      this.pasts.set(device, past);
    }
    // Somebody has gone on to another view meanwhile.
    if (turn !== this.turn) return;
    this.view?.close();
    this.view = view;
    if (!view) {
      at("main").replaceChildren(el("section", { class: "card" }, el("h1", {}, "No device yet"),
        el("p", {}, "“disktime device add disk --back-end file:PATH --create” adds one.")));
    } else {
      at("main").replaceChildren(view.build());
      document.title = `${view.name} · disktime`;
      view.draw();
    }
    this.nav();
  }

  /** The last second has come. */
  take(second) {
    this.second = second;
    for (const device of second.devices) this.pasts.get(device.name)?.add(second.at_ms, device);
    this.view?.draw();
    document.documentElement.dataset.samples = String(Number(document.documentElement.dataset.samples ?? 0) + 1);
  }

  happened(event) {
    this.events.unshift(event);
    this.events.length = Math.min(this.events.length, EVENTS_SHOWN);
    for (const list of this.lists) this.fillEvents(list);
    this.refresh().catch(() => {});
  }

  eventList() {
    const list = el("ul", { class: "events" });
    this.lists = new Set([list]);
    this.fillEvents(list);
    return list;
  }

  fillEvents(list) {
    const line = (event) => el("li", {}, el("time", {}, new Date(event.at_ms).toLocaleTimeString([], { hour12: false })),
      `${event.kind} ${event.name}`, el("span", { class: "quiet" }, ` ${event.by ?? ""} ${changes(event)}`));
    list.replaceChildren(...this.events.map(line));
    if (this.events.length === 0) list.append(el("li", { class: "quiet" }, "Nothing has happened yet."));
  }

  past(device) {
    return this.pasts.get(device) ?? new Past(device);
  }

  live(device) {
    return this.second?.devices.find((it) => it.name === device);
  }

  /** A virtual disk or a mount, whose name has a `/`, keeps its colour while the page is open. */
  colour(name) {
    if (name === "others") return "#8b96a3";
    if (!this.places.has(name)) this.places.set(name, this.places.size);
    return colour(this.places.get(name));
  }

  say(state) {
    const texts = { live: "live", lost: "no connection to the daemon: trying again", out: "logged out: load the page again" };
    at("state").textContent = texts[state];
    at("state").className = state === "live" ? "live" : "lost";
  }

  /** Something that was asked for was not done. */
  failed(error) {
    at("state").textContent = error.message;
    at("state").className = "lost";
  }
}

/** The last events of those that are kept, the newest first. An answer has only some of them. */
async function lastEvents() {
  let last = [];
  for (let after = 0; ;) {
    const more = await get(`/v1/events/kept?after=${after}`);
    if (more.length === 0) return last.reverse();
    after = more.at(-1).id;
    last = [...last, ...more].slice(-EVENTS_SHOWN);
  }
}

/** The text of a part of an address, which a person may have written. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

/** The keys that differ between two wishes in an event's text. */
function changes({ text }) {
  const [before, after] = text.split(" -> ").map((part) => {
    try {
      return JSON.parse(part);
    } catch {
      return null;
    }
  });
  if (!before || typeof before !== "object") return text;
  if (!after) return "";
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.filter((key) => String(before[key]) !== String(after[key]))
    .map((key) => `${key} ${before[key] ?? "–"} → ${after[key] ?? "–"}`).join(", ");
}

new App().start().catch((error) => {
  at("main").replaceChildren(el("section", { class: "card" }, el("h1", {}, "The page can't go on"), el("p", {}, error.message)));
});
