// A device: its time as a band, its virtual disks and mounts, response times.

import { Band } from "./charts.js";
import { card, choice, count, el, facts, percent, rate, reason, time } from "./dom.js";
import { Heat } from "./heat.js";

export const RANGES = [[120, "2 min"], [600, "10 min"], [3600, "1 h"], [21600, "6 h"]];

/** Columns of virtual disks and of mounts. */
const FIGURES = ["got, of the reserved", "got", "reserved", "wants", "IOPS", "bandwidth", "wait p99", "device p99", "held by"];

/** The rows and the head of a table whose first column has names. */
function table(rows, names, more) {
  const head = [names, ...FIGURES, ...more];
  return el("div", { class: "scroll" }, el("table", { class: "fold" },
    el("thead", {}, el("tr", {}, ...head.map((text, at) => el("th", { scope: "col", class: at === 1 ? "bar" : null }, text)))),
    rows));
}

const cell = (label, text) => el("td", { "data-label": label }, text);

/** The cells of a virtual disk's or a mount's figures, by the names of their columns. */
function figures(now, reserve, colour) {
  return [
    el("td", { class: "bar" }, meter(now.utilization, reserve, colour)),
    cell("got", percent(now.utilization)),
    cell("reserved", percent(reserve)),
    cell("wants", percent(now.wanting, 0)),
    cell("IOPS", count(now.iops)),
    cell("bandwidth", rate(now.bytes_per_second)),
    cell("wait p99", time(now.queue_us_p99)),
    cell("device p99", time(now.service_us_p99)),
    cell("held by", reason(now.held_by)),
  ];
}

function swatched(colour) {
  const swatch = el("span", { class: "swatch" });
  swatch.style.background = colour;
  return swatch;
}

/** The place of what was got and of what is reserved, as a bar. */
export function meter(got, reserved, colour) {
  const fill = el("span", { class: "got" });
  fill.style.width = `${Math.min(100, got * 100)}%`;
  fill.style.background = colour;
  const mark = reserved > 0 ? el("span", { class: "mark" }) : null;
  if (mark) mark.style.left = `calc(${Math.min(100, reserved * 100)}% - 1.5px)`;
  return el("span", { class: "meter", role: "img", "aria-label": `got ${percent(got)} of ${percent(reserved)} reserved` }, fill, mark);
}

export class DeviceView {
  constructor(app, name) {
    this.app = app;
    this.name = name;
    this.range = 120;
    this.kind = "service";
  }

  build() {
    const band = el("div", { class: "chart", role: "img", "aria-label": "Shares of the device's time" });
    this.facts = el("div");
    this.rows = el("tbody");
    this.mounts = el("tbody");
    const more = ["streams", "contracts", "refused", "cycles missed", "deadlines missed"];
    this.mountCard = card("Mounts", null, table(this.mounts, "mount", more));
    const range = choice("Time shown", RANGES, this.range, (value) => {
      this.range = value;
      this.draw();
    });
    const kind = choice("Times shown", [["service", "at the device"], ["queue", "waiting"]], this.kind, (value) => {
      this.kind = value;
      this.draw();
    });
    const heat = el("div");
    const page = el("div", {},
      el("section", { class: "card" }, el("h1", {}, this.name), this.facts),
      card("The device's time", range, band),
      card("Virtual disks", null, table(this.rows, "virtual disk", [])),
      this.mountCard,
      el("div", { class: "pair" },
        card("Response times", kind, heat),
        card("Events", null, this.app.eventList())));
    this.band = new Band(band);
    this.heat = new Heat(heat);
    return page;
  }

  /** Another view takes its place. */
  close() {
    this.band.close();
    this.heat.close();
  }

  /** Draws what the page knows now. */
  draw() {
    const past = this.app.past(this.name).last(this.range);
    const device = this.app.devices.get(this.name);
    const live = this.app.live(this.name);
    if (device) {
      this.facts.replaceChildren(facts([
        ["back end", device.back_end],
        ...(device.emulate ? [["emulates", device.emulate]] : []),
        ["reserved", percent(live?.reserved ?? device.reserved)],
        ["free to reserve", percent(Math.max(0, device.available + device.reserved - (live?.reserved ?? device.reserved)))],
        ["busy", percent(live?.busy ?? 0, 0)],
        ["held idle", percent(live?.held ?? 0, 0)],
        ["queue depth", String(device.queue_depth)],
      ]));
    }
    const tracks = [...past.vdisks.values(), ...past.mounts.values()]
      .filter((track) => track.got.some((share) => share > 0.0005))
      .sort((a, b) => a.name.localeCompare(b.name))
      .map((track) => ({ ...track, colour: this.app.colour(track.name) }));
    if (past.seconds.length > 1 && tracks.length > 0) this.band.show(past.seconds, tracks);
    if (past.seconds.length > 0) this.heat.show(past.seconds, past[this.kind], past.edges);
    this.drawRows(live);
    this.drawMounts(live);
  }

  drawMounts(live) {
    const known = this.app.mounts.filter((mount) => mount.device === this.name);
    known.sort((a, b) => a.name.localeCompare(b.name));
    this.mountCard.hidden = known.length === 0;
    this.mounts.replaceChildren(...known.map((mount) => this.mountRow(mount, live?.mounts.find((it) => it.name === mount.name))));
  }

  mountRow(mount, live) {
    const colour = this.app.colour(mount.name);
    const streams = Object.values(mount.streams).reduce((sum, it) => sum + it, 0);
    const counts = [["streams", streams], ["contracts", mount.granted], ["refused", mount.refused],
      ["cycles missed", mount.cycles_missed], ["deadlines missed", mount.deadlines_missed]];
    return el("tr", {},
      el("td", {}, swatched(colour), mount.name),
      ...figures({ ...mount, ...live }, mount.reserve, colour),
      ...counts.map(([label, number]) => cell(label, String(number))));
  }

  drawRows(live) {
    const known = [...this.app.vdisks.values()].filter((vdisk) => vdisk.device === this.name);
    known.sort((a, b) => b.utilization - a.utilization || a.name.localeCompare(b.name));
    const shown = known.slice(0, 200);
    // A row that has the keyboard's focus keeps it.
    const focused = document.activeElement?.dataset?.vdisk;
    this.rows.replaceChildren(...shown.map((vdisk) => this.row(vdisk, live?.vdisks.find((it) => it.name === vdisk.name))));
    if (focused) this.rows.querySelector(`[data-vdisk="${CSS.escape(focused)}"]`)?.focus();
    if (known.length === 0) {
      this.rows.append(el("tr", {}, el("td", { class: "quiet" }, "None yet: “disktime vdisk create” makes one.")));
    }
  }

  row(vdisk, live) {
    const colour = this.app.colour(vdisk.name);
    return el("tr", {},
      el("td", {}, swatched(colour), el("a", { href: `#/vdisks/${encodeURIComponent(vdisk.name)}`, "data-vdisk": vdisk.name }, vdisk.name)),
      ...figures({ ...vdisk, ...live }, vdisk.reserve, colour));
  }
}

