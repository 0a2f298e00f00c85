// A virtual disk: what it got beside what it has reserved, what held it back, its contract.

import { get, vdiskPath } from "./api.js";
import { Lines } from "./charts.js";
import { ContractForm } from "./contract.js";
import { bytes, card, choice, count, el, facts, percent, rate, REASONS, time } from "./dom.js";
import { RANGES } from "./device.js";

export class VdiskView {
  constructor(app, name) {
    this.app = app;
    this.name = name;
    this.range = 120;
    this.form = new ContractForm(app, name);
    this.asked = 0;
  }

  build() {
    const chart = el("div", { class: "chart", role: "img", "aria-label": "Share that it got and share that it has reserved" });
    const range = choice("Time shown", RANGES, this.range, (value) => {
      this.range = value;
      this.draw();
    });
    this.facts = el("div");
    this.bar = el("div", { class: "why", role: "img" });
    this.reasons = el("ul", { class: "why-list" });
    this.said = el("span", { class: "quiet small" });
    this.uris = el("p", { class: "small quiet" });
    const vdisk = this.app.vdisks.get(this.name);
    const device = vdisk?.device ?? "";
    const page = el("div", {},
      el("section", { class: "card" },
        el("p", { class: "small" }, el("a", { href: `#/devices/${encodeURIComponent(device)}` }, `‹ device ${device}`)),
        el("h1", {}, this.name), this.facts, this.uris),
      card("Got and reserved", range, chart),
      el("div", { class: "pair" },
        card("What held it back", this.said, this.bar, this.reasons),
        card("Contract", null, this.form.build())));
    this.lines = new Lines(chart);
    return page;
  }

  /** Another view takes its place. */
  close() {
    this.lines.close();
  }

  draw() {
    const vdisk = this.app.vdisks.get(this.name);
    if (!vdisk) return;
    const live = this.app.live(vdisk.device)?.vdisks.find((it) => it.name === this.name);
    const now = { ...vdisk, ...live };
    this.facts.replaceChildren(facts([
      ["got", percent(now.utilization)],
      ["reserved", percent(vdisk.reserve)],
      ["wants", percent(now.wanting, 0)],
      ["IOPS", count(now.iops)],
      ["bandwidth", rate(now.bytes_per_second)],
      ["wait p50 / p99", `${time(now.queue_us_p50)} / ${time(now.queue_us_p99)}`],
      ["device p50 / p99", `${time(now.service_us_p50)} / ${time(now.service_us_p99)}`],
      ["size", bytes(vdisk.size_bytes)],
      ["clients", String(vdisk.connections)],
      ["promises broken", String(vdisk.promises_broken)],
    ]));
    this.uris.textContent = vdisk.uris.join("  ");
    const past = this.app.past(vdisk.device).last(this.range);
    const track = past.vdisks.get(this.name) ?? { got: past.seconds.map(() => 0), reserved: past.seconds.map(() => vdisk.reserve) };
    if (past.seconds.length > 1) this.lines.show(past.seconds, track, this.app.colour(this.name));
    this.form.draw();
    // The daemon counts this from looks: every other second is often enough.
    if (Date.now() - this.asked > 1900) {
      this.asked = Date.now();
      this.drawWhy().catch(() => {});
    }
  }

  async drawWhy() {
    const held = await get(`${vdiskPath(this.name)}/why?seconds=10`);
    const parts = REASONS.map(([key, short, long, colour]) => ({ part: held[key], short, long, colour }));
    this.bar.replaceChildren(...parts.map(({ part, colour }) => {
      const piece = el("span");
      piece.style.width = `${part}%`;
      piece.style.background = colour;
      return piece;
    }));
    this.bar.setAttribute("aria-label", parts.filter((it) => it.part > 0).map((it) => `${it.short} ${it.part.toFixed(0)} %`).join(", "));
    this.reasons.replaceChildren(...parts.map(({ part, long, colour }) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.background = colour;
      return el("li", { class: part > 0 ? null : "quiet" }, swatch, el("b", {}, `${part.toFixed(1)} %`), el("span", {}, long));
    }));
    this.said.textContent = `the last ${held.seconds.toFixed(0)} s, ${held.samples} looks`;
  }
}
