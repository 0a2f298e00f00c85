// Draws a device's view without a browser and prints its text as HTML: `node page.mjs WEB` with the answers of
// the API on standard input. Charts are left out: they draw on a canvas.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

class Element {
  constructor(name) {
    this.name = name;
    this.attributes = {};
    this.children = [];
    this.style = {};
    this.dataset = {};
    this.clientWidth = 0;
    this.hidden = false;
  }

  setAttribute(key, value) {
    this.attributes[key] = value;
  }

  addEventListener() {}

  append(...children) {
    this.children.push(...children);
  }

  replaceChildren(...children) {
    this.children = children;
  }

  set textContent(text) {
    this.children = [text];
  }

  html() {
    if (this.hidden) return "";
    const attributes = Object.entries(this.attributes).map(([key, value]) => ` ${key}="${value}"`).join("");
    const inner = this.children.map((child) => (child instanceof Element ? child.html() : String(child))).join("");
    return `<${this.name}${attributes}>${inner}</${this.name}>`;
  }
}

globalThis.document = { createElement: (name) => new Element(name), activeElement: null };

const { devices, vdisks, mounts, history, live } = JSON.parse(readFileSync(0, "utf8"));
globalThis.fetch = async () => ({ ok: true, status: 200, headers: new Map(), json: async () => history, text: async () => JSON.stringify(history) });
globalThis.ResizeObserver = class {
  observe() {}
};
globalThis.matchMedia = () => ({ addEventListener() {} });

const web = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const { DeviceView } = await web("device.js");
const { Past } = await web("past.js");
const past = new Past("disk");
await past.load();
past.add(history.at_ms.at(-1) + 1000, live);
const app = {
  devices: new Map(devices.map((it) => [it.name, it])),
  vdisks: new Map(vdisks.map((it) => [it.name, it])),
  mounts,
  past: () => past,
  live: () => live,
  colour: () => "#123456",
  eventList: () => null,
};
const view = new DeviceView(app, "disk");
const page = view.build();
let tracks = [];
view.band = { show: (_, shown) => { tracks = shown.map((it) => it.name); } };
view.heat = { show() {} };
view.draw();
console.log(page.html());
console.log(`tracks: ${tracks.join(" ")}`);
