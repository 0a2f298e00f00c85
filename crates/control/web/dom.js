// Elements and the texts of figures. Knows nothing of disks.

/** An element with attributes and children; an attribute that begins with `on` is a listener. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

/** A card with a heading, something at its right, and contents. */
export function card(title, aside, ...children) {
  return el("section", { class: "card", "aria-label": title },
    el("div", { class: "head" }, el("h2", {}, title), aside), ...children);
}

/** Buttons of which one is chosen. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) => el("button", {
    type: "button",
    "aria-pressed": String(value === chosen),
    onclick: () => {
      buttons.forEach((it, at) => it.setAttribute("aria-pressed", String(options[at][0] === value)));
      choose(value);
    },
  }, text));
  return el("span", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}

/** Names with values, in a row. */
export function facts(pairs) {
  return el("dl", { class: "facts" },
    ...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export const percent = (share, digits = 1) => `${(share * 100).toFixed(digits)} %`;

export function count(number) {
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(0)} k`;
  return number >= 100 || number === 0 ? number.toFixed(0) : number.toFixed(1);
}

/** A time, given in microseconds. */
export function time(micros) {
  if (micros == null) return "–";
  if (micros >= 1e6) return `${(micros / 1e6).toFixed(micros >= 1e7 ? 0 : 1)} s`;
  if (micros >= 1e3) return `${(micros / 1e3).toFixed(micros >= 1e4 ? 0 : 1)} ms`;
  return `${micros.toFixed(0)} µs`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (number >= 1024 && at + 1 < units.length) {
    number /= 1024;
    at += 1;
  }
  return `${number >= 100 || at === 0 ? number.toFixed(0) : number.toFixed(1)} ${units[at]}`;
}

export const rate = (perSecond) => `${(perSecond / 1e6).toFixed(perSecond >= 1e7 ? 0 : 1)} MB/s`;

// Colours that people who see fewer of them can tell apart, each readable on light and on dark.
const COLOURS = ["#3b82c4", "#e08a1e", "#2f9e6e", "#c4527a", "#8a6fd1", "#b5a11f", "#4bb3c9", "#a8683a"];

/** The colour of a virtual disk among others, by its place among their names. */
export const colour = (at) => COLOURS[at % COLOURS.length];

/** The value of a colour of the page. */
export const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Calls at each change between light and dark; answers how to stop that. */
export function onScheme(changed) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", changed);
  return () => dark.removeEventListener("change", changed);
}

/** What held a virtual disk back: the key of the API, short and long, and a colour. */
export const REASONS = [
  ["own_depth", "own depth", "all it had sent was at the device: more at once would get more", "#3b82c4"],
  ["device", "device", "it had the device, and more of it waited", "#2f9e6e"],
  ["others", "others", "others had the device", "#e08a1e"],
  ["limit", "limit", "its limit, or its part of the queue depth, kept it back", "#c4527a"],
  ["switching", "switching", "the device was left idle: between streams, or for another's next request", "#8a6fd1"],
  ["idle", "idle", "it sent nothing", "#8b96a3"],
];

export const reason = (key) => REASONS.find(([name]) => name === key)?.[1] ?? "–";
