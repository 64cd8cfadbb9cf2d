// Charts of prices over time, drawn by uPlot. Only pixels and the round numbers of the axes are computed
// with floats. The text about a point shows the decimal that the API sent.
"use strict";

const hour = 3600, day = 86400; // seconds

// windows describes the windows of /history: the length of an interval, the length of the window (none if it
// begins with the first price), the interval of its candles, and the window in words.
const windows = {
  "24h": { step: 600, length: day, candles: "1h", words: " for the last 24 hours" },
  "7d": { step: hour, length: 7 * day, candles: "1h", words: " for the last 7 days" },
  "30d": { step: 4 * hour, length: 30 * day, candles: "1d", words: " for the last 30 days" },
  "90d": { step: 12 * hour, length: 90 * day, candles: "1d", words: " for the last 90 days" },
  "1y": { step: day, length: 365 * day, candles: "1d", words: " for the last year" },
  max: { step: day, candles: "1d", words: "" },
};
const candleSteps = { "1h": hour, "1d": day };

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const seconds = (time) => Date.parse(time) / 1000;
const plotted = (points) => [points.map(([time]) => seconds(time)), points.map(([, price]) => Number(price))];
// plottedCandles places candles in the middle of their intervals. Their closing prices come first.
const plottedCandles = (candles, step) => [candles.map(([time]) => seconds(time) + step / 2), ...[4, 1, 2, 3].map((i) => candles.map((row) => Number(row[i])))];
const utc = (time) => time.slice(0, 10) + " " + time.slice(11, 16) + " UTC";

// broken reports whether the line is broken before the point with index i: whether the preceding point is
// missing or at least two intervals away.
const broken = (xs, step, i) => !(xs[i] - xs[i - 1] < 2 * step);

// alone returns the indices of the points that no line leads to.
const alone = (xs, step) => [...xs.keys()].filter((i) => broken(xs, step, i) && broken(xs, step, i + 1));

// since says when the points begin if the window begins more than two intervals earlier. Otherwise it
// returns "".
function since(points, { step, length }, end) {
  const [[time]] = points;
  if (seconds(time) - (end - length) <= 2 * step) return "";
  return "since " + timeLabel(seconds(time), length > day ? day : hour);
}

const timeSteps = [600, 1800, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day, 14 * day];
const month = 30 * day; // about a month

// timeTicks returns the times of an axis's ticks, whose number is bounded by most, and the step between them.
// The times are round minutes or hours, midnights, Mondays, or first days of months.
function timeTicks(from, to, most) {
  const times = [];
  const step = timeSteps.find((step) => (to - from) / step <= most);
  if (step) {
    const monday = step >= 7 * day ? 4 * day : 0; // 1970 began on a Thursday
    for (let t = Math.ceil((from - monday) / step) * step + monday; t <= to; t += step) times.push(t);
    return { times, step };
  }
  const months = [1, 2, 3, 6, 12, 24, 60].find((n) => (to - from) / (n * month) <= most) ?? 120;
  const start = new Date(from * 1000);
  for (let i = Math.floor((start.getUTCFullYear() * 12 + start.getUTCMonth()) / months) * months; ; i += months) {
    const t = Date.UTC(1970, i - 1970 * 12) / 1000;
    if (t > to) return { times, step: months * month };
    if (t >= from) times.push(t);
  }
}

// timeLabel names a time precisely enough to tell it from its neighbours, which are a step away.
function timeLabel(time, step) {
  const [, date, name, year, clock] = new Date(time * 1000).toUTCString().split(" ");
  if (step >= month) return name === "Jan" ? year : name;
  return step >= day || time % day === 0 ? Number(date) + " " + name : clock.slice(0, 5);
}

// amountTicks returns round amounts, whose number is bounded by most, and the step between them.
function amountTicks(from, to, most) {
  if (!(to > from)) return { amounts: [], step: 1 };
  const rough = (to - from) / most, unit = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((n) => n * unit >= rough) ?? 10) * unit;
  const amounts = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) amounts.push(i * step);
  return { amounts, step };
}

// amountLabels names amounts with enough decimal places to tell them apart.
function amountLabels(amounts, step) {
  const places = (power) => Math.max(0, Math.ceil(3 * power - Math.log10(step) - 1e-9));
  let power = Math.max(0, Math.floor((Math.log10(Math.max(...amounts)) + 1e-9) / 3));
  if (power < 2 || (power < 4 && places(power) > 3)) power = 0;
  return amounts.map((amount) => {
    const digits = (amount / 1000 ** power).toFixed(Math.min(places(power), 20));
    return "$" + tiny(roundDecimal(digits, (digits.split(".")[1] ?? "").length)) + thousands(power);
  });
}

// strokes returns the path of points in a box. A stroke ends at each gap, and a single point is a dot. The
// height of the box is at least a hundredth of the price, so that a price that hardly moves, such as the
// price of a stablecoin, looks flat.
function strokes(points, step, from, to, width, height) {
  const [xs, ys] = plotted(points);
  const [low, high] = [Math.min(...ys), Math.max(...ys)], span = Math.max(high - low, high / 100);
  const x = (i) => (((xs[i] - from) / (to - from)) * width).toFixed(1);
  const y = (i) => (height / 2 + (span && ((low + high) / 2 - ys[i]) / span) * height).toFixed(1);
  return xs.map((_, i) => (broken(xs, step, i) ? "M" : "L") + x(i) + "," + y(i) + (broken(xs, step, i) && broken(xs, step, i + 1) ? "h0" : "")).join("");
}

function line(box, points, end) {
  const make = (tag, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const { step, length } = windows["7d"];
  const svg = make("svg", { viewBox: "-2 -3 124 38", "aria-hidden": "true" });
  svg.append(make("path", { d: strokes(points, step, end - length, end, 120, 32) }));
  box.replaceChildren(svg);
}

const axisStyle = () => ({ stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" });

// Chart shows the points of a window, or its candles, in a box that is a slider. The pointer and keys move
// along them, and the chart calls tell with the index of the point and its position in the box. Dragging and
// the keys + and - zoom, and the chart calls zoomed with true if it shows less than the window. now is the
// newest price. The charts below it follow its cursor and its zoom.
class Chart {
  constructor(box, points, { step, length }, end, stroke, tell, zoomed, now = points.at(-1)[1]) {
    Object.assign(this, { box, points, step, tell, zoomed, stroke, whole: [end - length, end], view: [end - length, end], below: [] });
    const ofCandles = points[0].length > 2;
    const [xs] = (this.data = ofCandles ? plottedCandles(points, step) : plotted(points));
    [this.last, this.now] = [price(now), Number(now)];
    this.from = since(points, { step, length }, end);
    const axis = axisStyle();
    const times = ({ width, scales: { x } }) => timeTicks(x.min, x.max, Math.max(2, Math.floor(width / 65)));
    const amounts = ({ height, scales: { y } }) => amountTicks(y.min, y.max, Math.max(2, Math.floor(height / 50)));
    this.plot = new uPlot({
      width: box.clientWidth, height: box.clientHeight, padding: [10, 0, 0, 16], legend: { show: false },
      scales: { x: { range: () => this.view }, y: { range: (plot, low, high) => margins(low, high) } },
      cursor: {
        move: (plot, left, top) => this.snap(plot, left, top),
        drag: { x: true, y: false, setScale: false, dist: 8 },
        bind: { dblclick: () => () => this.zoom(...this.whole) },
        ...(ofCandles && { points: { show: false } }),
      },
      axes: [
        { ...axis, size: 30, splits: (plot) => times(plot).times, values: (plot, splits) => splits.map((time) => timeLabel(time, times(plot).step)) },
        {
          ...axis, side: 1, gap: 8, splits: (plot) => amounts(plot).amounts, values: (plot, splits) => amountLabels(splits, amounts(plot).step).map((label, i) => (this.near(plot, splits[i]) ? "" : label)),
          size: (plot, labels) => 18 + 8 * Math.max(7, this.last.length, ...(labels ?? []).map((label) => label.length)),
        },
      ],
      series: ofCandles ? [{}, ...Array(4).fill({ paths: () => null, points: { show: false } })] : [{}, {
        stroke: colour(stroke), width: 2, fill: colour(stroke) + "18",
        gaps: (plot, series, from, to) => gaps(plot, step, from, to),
        points: { filter: (plot, series, all) => (all ? null : alone(xs, step)) },
      }],
      hooks: {
        setCursor: [(plot) => {
          if (plot.cursor.idxs?.[1] != null) this.at(plot.cursor.idxs[1]);
          for (const one of this.below) one.setCursor({ left: plot.cursor.left, top: 0 });
        }],
        setSelect: [(plot) => this.select(plot)],
        draw: [(plot) => {
          if (ofCandles) drawCandles(plot, step);
          this.mark(plot);
          for (const one of this.below) one.redraw(true, true);
        }],
      },
    }, this.data, box);
    // uPlot only handles mice. Touches that move up and down scroll the page.
    for (const type of ["pointerdown", "pointermove"]) {
      this.plot.over.addEventListener(type, (event) => {
        const { left, top } = this.plot.over.getBoundingClientRect();
        if (event.pointerType !== "mouse") this.plot.setCursor({ left: event.clientX - left, top: event.clientY - top });
      });
    }
    this.resized = new ResizeObserver(() => {
      for (const { plot, box } of [this, ...this.below.map((plot) => ({ plot, box: plot.root.parentElement }))]) plot.setSize({ width: box.clientWidth, height: box.clientHeight });
    });
    this.resized.observe(box);
    box.setAttribute("aria-valuemax", points.length - 1);
    box.onkeydown = (event) => this.key(event);
  }

  // at reports the point that the reader has moved to.
  at(index) {
    this.index = index;
    this.box.setAttribute("aria-valuenow", index);
    this.tell(index, this.plot.valToPos(this.data[0][index], "x") + this.plot.over.offsetLeft);
  }

  // snap moves the cursor to the nearest point in view.
  snap(plot, left, top) {
    if (left < 0) return [left, top];
    return this.place(plot, plot.posToIdx(left));
  }

  place(plot, index) {
    return [plot.valToPos(this.data[0][index], "x"), plot.valToPos(this.data[1][index], "y")];
  }

  zoom(from, to) {
    const [first, last] = this.whole;
    [from, to] = [Math.max(from, first), Math.min(to, last)];
    const all = from === first && to === last;
    if (!all && this.data[0].filter((x) => x >= from && x <= to).length < 2) return;
    this.view = [from, to];
    this.plot.setScale("x", { min: from, max: to });
    this.zoomed(!all);
  }

  select(plot) {
    const { left, width } = plot.select;
    if (width === 0) return;
    plot.setSelect({ left: 0, width: 0 }, false);
    this.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  // near reports whether an amount's label would overlap the label of the last price.
  near(plot, amount) {
    return Math.abs(plot.valToPos(amount, "y") - plot.valToPos(this.now, "y")) < 17;
  }

  // mark draws the last price as a line, and writes when the points begin if they begin late.
  mark(plot) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    const y = plot.valToPos(this.now, "y", true), right = bbox.left + bbox.width;
    ctx.save();
    ctx.font = 12 * ratio + "px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    if (y >= bbox.top && y <= bbox.top + bbox.height) {
      ctx.fillStyle = ctx.strokeStyle = colour(this.stroke);
      ctx.lineWidth = ratio;
      ctx.setLineDash([3 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(right, y);
      ctx.stroke();
      ctx.fillRect(right, y - 10 * ratio, ctx.measureText(this.last).width + 16 * ratio, 20 * ratio);
      ctx.fillStyle = colour("panel");
      ctx.fillText(this.last, right + 8 * ratio, y);
    }
    const start = plot.valToPos(this.data[0][0], "x", true) - 10 * ratio;
    if (this.from && start - ctx.measureText(this.from).width > bbox.left) {
      ctx.fillStyle = colour("soft");
      ctx.textAlign = "right";
      ctx.fillText(this.from, start, bbox.top + 10 * ratio);
    }
    ctx.restore();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.points.length - 1, [from, to] = this.view, half = (to - from) / 2, x = this.data[0][this.index];
    const view = { "+": [x - half / 2, x + half / 2], "-": [x - 2 * half, x + 2 * half], Escape: this.whole }[event.key];
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -last, End: last }[event.key];
    if (!by && !view) return;
    event.preventDefault();
    if (view) return this.zoom(...view);
    const next = Math.min(Math.max(this.index + by, 0), last), time = this.data[0][next];
    if (time < from || time > to) {
      const start = Math.min(Math.max(time - half, this.whole[0]), this.whole[1] - 2 * half);
      this.zoom(start, start + 2 * half);
    }
    const [left, top] = this.place(this.plot, next);
    this.plot.setCursor({ left, top });
  }

  destroy() {
    this.resized.disconnect();
    for (const plot of [this.plot, ...this.below]) plot.destroy();
    this.box.onkeydown = null;
  }
}

// margins returns a range with room above and below a curve, or no range if there is no curve.
function margins(low, high) {
  if (low == null) return [null, null];
  const room = 0.08 * (high - low) || 0.05 * high || 1;
  return [Math.max(0, low - room), high + room];
}

// gaps returns where the line is broken, in pixels.
function gaps(plot, step, from, to) {
  const found = [], [xs] = plot.data;
  const pixel = (i) => Math.round(plot.valToPos(xs[i], "x", true));
  for (let i = from + 1; i <= to; i++) if (broken(xs, step, i)) found.push([pixel(i - 1), pixel(i)]);
  return found;
}

// drawCandles draws candles, hollow if the price rose and filled if it fell.
function drawCandles(plot, step) {
  const { ctx, bbox, data: [xs, closes, opens, highs, lows] } = plot, ratio = devicePixelRatio;
  const x = (time) => plot.valToPos(time, "x", true), y = (amount) => Math.round(plot.valToPos(amount, "y", true));
  const width = Math.max(2 * ratio, Math.min(Math.round(0.7 * (x(step) - x(0))), 24 * ratio));
  const [rose, fell, panel] = ["up", "down", "panel"].map(colour);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const [i, time] of xs.entries()) {
    const left = Math.round(x(time) - width / 2), top = y(Math.max(opens[i], closes[i])), height = Math.max(2 * ratio, y(Math.min(opens[i], closes[i])) - top);
    ctx.fillStyle = closes[i] < opens[i] ? fell : rose;
    ctx.fillRect(Math.round(left + (width - ratio) / 2), y(highs[i]), ratio, y(lows[i]) - y(highs[i]));
    ctx.fillRect(left, top, width, height);
    ctx.fillStyle = panel;
    if (closes[i] > opens[i] && Math.min(width, height) > 3 * ratio) ctx.fillRect(left + ratio, top + ratio, width - 2 * ratio, height - 2 * ratio);
  }
  ctx.restore();
}

function drawBelow(box, chart, candles, column, step, bars) {
  const axis = axisStyle(), { over } = chart.plot;
  const amounts = ({ scales: { y } }) => amountTicks(y.min, y.max, 3);
  chart.below.push(new uPlot({
    width: box.clientWidth, height: box.clientHeight, padding: [6, 0, 6, 16], legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { range: () => chart.view }, y: { range: (plot, low, high) => (bars ? [0, high || 1] : margins(low, high)) } },
    axes: [{ show: false }, {
      ...axis, side: 1, gap: 8, size: () => chart.box.clientWidth - over.offsetLeft - over.offsetWidth,
      splits: (plot) => amounts(plot).amounts, values: (plot, splits) => amountLabels(splits, amounts(plot).step).map((label, i) => (splits[i] ? label : "$0")),
    }],
    series: [{}, {
      stroke: colour("edge"), width: bars ? 0 : 1.5, fill: colour("edge") + (bars ? "90" : "18"), points: { show: false },
      ...(bars ? { paths: uPlot.paths.bars({ size: [0.7, 24, 1] }) } : { gaps: (plot, series, from, to) => gaps(plot, step, from, to) }),
    }],
  }, [candles.map(([time]) => seconds(time) + step / 2), candles.map((row) => (row[column] == null ? null : Number(row[column])))], box));
}
