// The form that changes a contract: it says before it is sent whether the contract would fit.

import { ask, vdiskPath } from "./api.js";
import { el, percent } from "./dom.js";

const CLASSES = ["best-effort", "guaranteed-latency", "guaranteed-rate", "soft-real-time", "background"];
/** How long the page waits for another key before it asks. */
const PAUSE_MS = 250;

export class ContractForm {
  constructor(app, name) {
    this.app = app;
    this.name = name;
    this.dirty = false;
  }

  build() {
    const text = (key, label, hint) => {
      const input = el("input", { name: key, autocomplete: "off", placeholder: hint, oninput: () => this.changed() });
      this[key] = input;
      return el("label", {}, label, input);
    };
    this.class = el("select", { name: "class", onchange: () => this.changed() },
      ...CLASSES.map((name) => el("option", { value: name }, name)));
    this.said = el("output", { role: "status", "aria-live": "polite" });
    this.send = el("button", { type: "submit", class: "main", disabled: true }, "Change the contract");
    this.undo = el("button", { type: "button", disabled: true, onclick: () => this.reset() }, "Undo");
    this.form = el("form", { class: "contract", onsubmit: (event) => this.submit(event) },
      text("reserve", "reserve", "30%"),
      text("limit", "limit", "100%"),
      text("weight", "weight", "100"),
      el("label", {}, "class", this.class),
      text("rate", "rate", "2MB/s"),
      text("latency", "latency bound", "40ms"),
      el("div", { class: "end" }, this.send, this.undo, this.said));
    this.reset();
    return this.form;
  }

  /** The values as the daemon has them. */
  kept() {
    const vdisk = this.app.vdisks.get(this.name);
    const spec = vdisk?.spec ?? {};
    const share = (value) => `${Number((value * 100).toFixed(4))}%`;
    return {
      reserve: spec.reserve ?? share(vdisk?.reserve ?? 0),
      limit: spec.limit ?? share(vdisk?.limit ?? 1),
      weight: String(vdisk?.weight ?? 100),
      class: vdisk?.class ?? "best-effort",
      rate: spec.rate ?? "",
      latency: spec.latency ?? "",
    };
  }

  reset() {
    // The state that somebody begins to change, and its tag: the page reads both again meanwhile.
    this.base = this.kept();
    this.tag = this.app.tags.get(this.name);
    for (const [key, value] of Object.entries(this.base)) this[key].value = value;
    this.dirty = false;
    this.judged = "";
    const about = this.app.about;
    const locked = !about.writable;
    for (const input of this.form.elements) input.disabled = locked;
    this.send.disabled = true;
    this.undo.disabled = true;
    this.say(locked ? about.reason : "", "quiet");
  }

  /** The keys that were changed; a number for the weight. */
  change() {
    const change = {};
    for (const [key, before] of Object.entries(this.base)) {
      const value = this[key].value.trim();
      if (value !== before) change[key] = key === "weight" ? Number(value) : value;
    }
    return change;
  }

  changed() {
    this.dirty = true;
    this.undo.disabled = false;
    this.send.disabled = true;
    this.say("Asking whether it fits…", "quiet");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.plan(), PAUSE_MS);
  }

  async plan() {
    const change = this.change();
    if (Object.keys(change).length === 0) {
      this.reset();
      return;
    }
    if (Number.isNaN(change.weight)) {
      this.say(`weight "${this.weight.value}": a whole number from 1 on`, "no");
      return;
    }
    const vdisk = this.app.vdisks.get(this.name);
    if (!vdisk) return;
    const before = vdisk.spec ?? { name: vdisk.name, device: vdisk.device, size: `${vdisk.size_bytes}B` };
    const spec = { ...before, ...change };
    for (const [key, value] of Object.entries(spec)) if (value === "") delete spec[key];
    const asked = JSON.stringify(change);
    this.judged = asked;
    try {
      const { value: plan } = await ask("POST", "/v1/plan", spec);
      if (this.judged !== asked) return;
      this.send.disabled = !plan.fits;
      if (plan.fits) {
        this.say(`It fits: ${percent(plan.reserve)} reserved; up to ${percent(plan.would_fit)} would fit.`, "fits");
      } else {
        this.say(`It does not fit: ${plan.reason}. Up to ${percent(plan.would_fit)} would fit.`, "no");
      }
    } catch (error) {
      if (this.judged === asked) this.say(error.message, "no");
    }
  }

  async submit(event) {
    event.preventDefault();
    if (this.send.disabled) return;
    this.send.disabled = true;
    try {
      await ask("PATCH", vdiskPath(this.name), this.change(), this.tag);
      await this.app.refreshVdisk(this.name);
      this.reset();
      this.say("Changed: it counts from now on.", "fits");
    } catch (error) {
      if (error.status !== 412) {
        this.say(error.message, "no");
        return;
      }
      await this.app.refreshVdisk(this.name).catch(() => {});
      this.reset();
      this.say("Somebody else has changed it meanwhile: this is what it is now. Repeat your change.", "no");
    }
  }

  say(text, kind) {
    this.said.textContent = text;
    this.said.className = kind;
  }

  /** Shows what the daemon has now, unless somebody is writing. */
  draw() {
    if (!this.dirty && !this.form.contains(document.activeElement)) {
      const said = this.said.textContent;
      const kind = this.said.className;
      this.reset();
      if (said) this.say(said, kind);
    }
  }
}
