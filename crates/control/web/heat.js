// Response times as a heat-map: time from left to right, a row for each doubling, dark where many
// requests ended.

import { el, onScheme, themed, time } from "./dom.js";

const HEIGHT = 190;
const LEFT = 52;
const BELOW = 20;

export class Heat {
  constructor(place) {
    this.canvas = el("canvas", { class: "heat", role: "img" });
    this.said = el("p", { class: "quiet small" });
    place.append(this.canvas, this.said);
    this.again = () => {};
    new ResizeObserver(() => this.again()).observe(this.canvas);
    this.close = onScheme(() => this.again());
  }

  /** `rows` is for each moment a count for each of `edges`, which are in microseconds. */
  show(seconds, rows, edges) {
    this.again = () => this.show(seconds, rows, edges);
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = HEIGHT * scale;
    const draw = this.canvas.getContext("2d");
    draw.scale(scale, scale);
    draw.clearRect(0, 0, width, HEIGHT);
    const sums = edges.map((_, row) => rows.reduce((sum, counts) => sum + (counts[row] ?? 0), 0));
    const first = sums.findIndex((sum) => sum > 0);
    if (first < 0) {
      this.say("No request ended in this time.");
      return;
    }
    const last = sums.findLastIndex((sum) => sum > 0);
    const low = Math.max(0, first - 1);
    const high = Math.min(edges.length - 1, Math.max(last + 1, low + 5));
    const cell = { height: (HEIGHT - BELOW) / (high - low + 1), width: (width - LEFT) / rows.length };
    const heat = themed("--heat");
    rows.forEach((counts, at) => {
      const all = counts.reduce((sum, it) => sum + it, 0);
      for (let row = low; row <= high; row += 1) {
        if (!counts[row]) continue;
        // A part of the moment's requests; even a single one is seen.
        const part = counts[row] / all;
        draw.fillStyle = `rgba(${heat}, ${0.15 + 0.85 * Math.sqrt(part)})`;
        const top = HEIGHT - BELOW - (row - low + 1) * cell.height;
        draw.fillRect(LEFT + at * cell.width, top, Math.ceil(cell.width + 0.3), cell.height - 1);
      }
    });
    this.label(draw, { width, low, high, cell, edges, seconds });
    const total = sums.reduce((sum, it) => sum + it, 0);
    const below = (part) => {
      let seen = 0;
      return edges[sums.findIndex((sum) => (seen += sum) >= part * total)];
    };
    this.say(`Half of the requests took less than ${time(below(0.5))}, 99 % less than ${time(below(0.99))}.`);
  }

  label(draw, { width, low, high, cell, edges, seconds }) {
    draw.fillStyle = themed("--quiet");
    draw.font = "12px system-ui, sans-serif";
    draw.textAlign = "right";
    draw.textBaseline = "middle";
    const step = Math.ceil((high - low + 1) / 7);
    for (let row = low; row <= high; row += step) {
      draw.fillText(time(edges[row]), LEFT - 6, HEIGHT - BELOW - (row - low + 1) * cell.height + 6);
    }
    draw.textBaseline = "alphabetic";
    const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });
    draw.textAlign = "left";
    draw.fillText(clock(seconds[0]), LEFT, HEIGHT - 4);
    draw.textAlign = "right";
    draw.fillText(clock(seconds.at(-1)), width, HEIGHT - 4);
  }

  say(text) {
    this.said.textContent = text;
    this.canvas.setAttribute("aria-label", `Response times. ${text}`);
  }
}
