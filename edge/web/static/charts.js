// Charts of prices over time, drawn by uPlot. Floats make pixels and the axes'
// round numbers; what is said of a point is the decimal as it was sent.
"use strict";

// What /history has: the length of an interval of each window in seconds, and the
// window in words.
const windows = {
  "24h": { step: 600, words: "24 hours" },
  "7d": { step: 3600, words: "7 days" },
  "30d": { step: 14400, words: "30 days" },
  "90d": { step: 43200, words: "90 days" },
  "1y": { step: 86400, words: "year" },
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const plotted = (points) => [points.map(([time]) => Date.parse(time) / 1000), points.map(([, price]) => Number(price))];
const utc = (time) => time.slice(0, 10) + " " + time.slice(11, 16) + " UTC";

// line draws points without axes, and nothing to use in it.
function line(box, points, stroke) {
  return new uPlot({
    width: 120, height: 36, padding: [3, 3, 3, 3], legend: { show: false }, cursor: { show: false },
    scales: { x: { time: false } },
    axes: [{ show: false }, { show: false }],
    series: [{}, { stroke: colour(stroke), width: 1.5, points: { show: points.length === 1 } }],
  }, plotted(points), box);
}

// Chart has points in a box that is a slider: pointer and keys move along them, and
// tell is called with the index of the one that is come to.
class Chart {
  constructor(box, points, step, tell) {
    this.box = box;
    this.points = points;
    this.tell = tell;
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: box.clientWidth, height: box.clientHeight, padding: [8, 20, 0, 0], legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { y: false, drag: { x: false, y: false } },
      axes: [
        { ...axis, space: 60, size: 30, values: dates },
        { ...axis, gap: 6, values: amounts, size: (plot, labels) => 14 + 7 * Math.max(2, ...(labels || []).map((label) => label.length)) },
      ],
      series: [{}, {
        stroke: colour("link"), width: 2, fill: colour("fill"),
        gaps: (plot, series, from, to) => gaps(plot, step, from, to),
        points: { filter: (plot, series, all) => (all ? null : alone(plot, step)) },
      }],
      hooks: { setCursor: [(plot) => plot.cursor.idxs?.[1] != null && this.at(plot.cursor.idxs[1])] },
    }, plotted(points), box);
    // uPlot knows mice only. Moving up and down scrolls the page.
    for (const type of ["pointerdown", "pointermove"]) {
      this.plot.over.addEventListener(type, (event) => {
        const { left, top } = this.plot.over.getBoundingClientRect();
        if (event.pointerType !== "mouse") this.plot.setCursor({ left: event.clientX - left, top: event.clientY - top });
      });
    }
    this.resized = new ResizeObserver(() => this.plot.setSize({ width: box.clientWidth, height: box.clientHeight }));
    this.resized.observe(box);
    box.setAttribute("aria-valuemax", points.length - 1);
    box.onkeydown = (event) => this.key(event);
  }

  // at says which point the reader is at.
  at(index) {
    this.index = index;
    const [time, price] = this.points[index];
    this.box.setAttribute("aria-valuenow", index);
    this.box.setAttribute("aria-valuetext", "$" + price + ", " + utc(time));
    this.tell(index);
  }

  key(event) {
    const last = this.points.length - 1;
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -last, End: last }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = Math.min(Math.max(this.index + by, 0), last);
    const [xs, ys] = this.plot.data;
    this.plot.setCursor({ left: this.plot.valToPos(xs[next], "x"), top: this.plot.valToPos(ys[next], "y") });
  }

  destroy() {
    this.resized.disconnect();
    this.plot.destroy();
    this.box.onkeydown = null;
  }
}

// broken is whether an interval without a point lies before the one of this index:
// neighbours are less than two intervals apart.
const broken = ({ data: [xs] }, step, i) => !(xs[i] - xs[i - 1] < 2 * step);

// gaps are where the line is broken, in pixels.
function gaps(plot, step, from, to) {
  const found = [];
  const pixel = (i) => Math.round(plot.valToPos(plot.data[0][i], "x", true));
  for (let i = from + 1; i <= to; i++) if (broken(plot, step, i)) found.push([pixel(i - 1), pixel(i)]);
  return found;
}

// alone are the points that no line leads to.
const alone = (plot, step) => [...plot.data[0].keys()].filter((i) => broken(plot, step, i) && broken(plot, step, i + 1));

// dates labels times by what is between them, in UTC.
function dates(plot, splits, axis, space, step) {
  const options = step < 86400 ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } : step < 28 * 86400 ? { day: "numeric", month: "short" } : { month: "short", year: "2-digit" };
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  const format = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" });
  return splits.map((seconds) => (step < 86400 && seconds % 86400 === 0 ? day : format).format(seconds * 1000));
}

// amounts labels prices with as many places as tell them apart.
function amounts(plot, splits, axis, space, step) {
  const places = Math.min(Math.max(0, -Math.floor(Math.log10(step))), 20);
  const format = new Intl.NumberFormat("en-US", step < 1e4 ? { minimumFractionDigits: places, maximumFractionDigits: places } : { notation: "compact", maximumFractionDigits: 3 });
  return splits.map((amount) => "$" + format.format(amount));
}
