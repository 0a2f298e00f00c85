// A device: its time as a band, its virtual disks, response times.

import { Band } from "./charts.js";
import { card, choice, count, el, facts, percent, rate, reason, time } from "./dom.js";
import { Heat } from "./heat.js";

export const RANGES = [[120, "2 min"], [600, "10 min"], [3600, "1 h"], [21600, "6 h"]];

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
    const range = choice("Time shown", RANGES, this.range, (value) => {
      this.range = value;
      this.draw();
    });
    const kind = choice("Times shown", [["service", "at the device"], ["queue", "waiting"]], this.kind, (value) => {
      this.kind = value;
      this.draw();
    });
    const head = ["virtual disk", "got, of the reserved", "got", "reserved", "wants", "IOPS", "bandwidth", "wait p99", "device p99", "held by"];
    const heat = el("div");
    const page = el("div", {},
      el("section", { class: "card" }, el("h1", {}, this.name), this.facts),
      card("The device's time", range, band),
      card("Virtual disks", null, el("div", { class: "scroll" }, el("table", { class: "fold" },
        el("thead", {}, el("tr", {}, ...head.map((text, at) => el("th", { scope: "col", class: at === 1 ? "bar" : null }, text)))),
        this.rows))),
      el("div", { class: "pair" },
        card("Response times", kind, heat),
        card("Events", null, this.app.eventList())));
    this.band = new Band(band);
    this.heat = new Heat(heat);
    return page;
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
    const tracks = [...past.vdisks.values()]
      .filter((track) => track.got.some((share) => share > 0.0005))
      .sort((a, b) => a.name.localeCompare(b.name))
      .map((track) => ({ ...track, colour: this.app.colour(track.name) }));
    if (past.seconds.length > 1 && tracks.length > 0) this.band.show(past.seconds, tracks);
    if (past.seconds.length > 0) this.heat.show(past.seconds, past[this.kind], past.edges);
    this.drawRows(live);
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
    const now = { ...vdisk, ...live };
    const colour = this.app.colour(vdisk.name);
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = colour;
    const cell = (label, text) => el("td", { "data-label": label }, text);
    return el("tr", {},
      el("td", {}, swatch, el("a", { href: `#/vdisks/${encodeURIComponent(vdisk.name)}`, "data-vdisk": vdisk.name }, vdisk.name)),
      el("td", { class: "bar" }, meter(now.utilization, vdisk.reserve, colour)),
      cell("got", percent(now.utilization)),
      cell("reserved", percent(vdisk.reserve)),
      cell("wants", percent(now.wanting, 0)),
      cell("IOPS", count(now.iops)),
      cell("bandwidth", rate(now.bytes_per_second)),
      cell("wait p99", time(now.queue_us_p99)),
      cell("device p99", time(now.service_us_p99)),
      cell("held by", reason(now.held_by)));
  }
}

