// Charts over time: shares as a stacked band, and lines. Draws with uPlot.

import { onScheme, percent, themed } from "./dom.js";

/** A chart that fits its place and is drawn again when that changes. */
class Chart {
  constructor(place, height) {
    this.place = place;
    this.height = height;
    this.key = "";
    new ResizeObserver(() => {
      if (this.plot && this.place.clientWidth > 0) {
        this.plot.setSize({ width: this.place.clientWidth, height: this.height });
      }
    }).observe(place);
    // Colours are read when a chart is made.
    this.unwatch = onScheme(() => {
      this.key = "";
      if (this.again) this.again();
    });
  }

  /** Lets go of what the window would keep of it. */
  close() {
    this.unwatch();
    this.plot?.destroy();
  }

  /** Draws data; a chart of other series is another chart. */
  draw(key, options, data) {
    if (key === this.key) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    this.key = key;
    const axis = { stroke: themed("--quiet"), grid: { stroke: themed("--line"), width: 1 }, ticks: { show: false } };
    const whole = {
      width: Math.max(this.place.clientWidth, 200),
      height: this.height,
      scales: { x: { time: true }, y: { range: options.range } },
      axes: [
        { ...axis, space: 80, size: 30, values: (_, marks) => marks.map(clock) },
        { ...axis, size: 52, values: (_, marks) => marks.map((it) => `${Math.round(it * 100)} %`) },
      ],
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      legend: { live: true, markers: { fill: (_, at) => (at > 0 ? options.series[at - 1].stroke : "") } },
      series: [{ label: "time", value: (_, at) => (at == null ? "now" : clock(at)) }, ...options.series],
      bands: options.bands ?? [],
    };
    this.plot = new uPlot(whole, data, this.place);
  }
}

/** The time of day of a moment, in seconds since 1970. */
const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });

/** The device's time: what each virtual disk got, one above the other. */
export class Band extends Chart {
  constructor(place) {
    super(place, 260);
  }

  /** `tracks` are `{name, got, colour}`, from the bottom to the top. */
  show(seconds, tracks) {
    this.again = () => this.show(seconds, tracks);
    const sums = [];
    let below = new Array(seconds.length).fill(0);
    for (const track of tracks) {
      below = track.got.map((share, at) => share + below[at]);
      sums.push(below);
    }
    const top = tracks.length;
    // The series above are drawn first, and the bands fill between them.
    const order = tracks.map((_, at) => top - 1 - at);
    const series = order.map((at) => ({
      label: tracks[at].name,
      stroke: tracks[at].colour,
      width: 1,
      fill: at === 0 ? `${tracks[at].colour}b8` : undefined,
      value: (_, sum, __, index) => percent(this.tracks[at]?.got.at(index ?? -1) ?? 0, 0),
      points: { show: false },
    }));
    const bands = order.slice(0, -1).map((at, index) => ({ series: [index + 1, index + 2], fill: `${tracks[at].colour}b8` }));
    this.tracks = tracks;
    const range = (_, __, most) => [0, Math.max(1, most)];
    this.draw(tracks.map((it) => it.name + it.colour).join("/"), { series, bands, range },
      [seconds, ...order.map((at) => sums[at])]);
  }
}

/** What a virtual disk got, beside what it has reserved. */
export class Lines extends Chart {
  constructor(place) {
    super(place, 220);
  }

  show(seconds, track, colour) {
    this.again = () => this.show(seconds, track, colour);
    this.track = track;
    const value = (key) => (_, __, ___, index) => {
      const share = this.track[key].at(index ?? -1);
      return share == null ? "–" : percent(share);
    };
    const series = [
      { label: "got", stroke: colour, width: 2, fill: `${colour}33`, value: value("got"), points: { show: false } },
      { label: "reserved", stroke: themed("--text"), width: 2, dash: [6, 4], value: value("reserved"), points: { show: false }, spanGaps: true },
    ];
    const range = (_, __, most) => [0, Math.min(1.05, Math.max(0.1, (most ?? 0) * 1.15))];
    this.draw(colour, { series, range }, [seconds, track.got, track.reserved]);
  }
}
