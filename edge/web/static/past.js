// The past on the page of an asset: its chart, the drawings below the chart, and the price at a date.
"use strict";

let charted = { of: "", chart: null }; // asset, window and style that the chart shows

const maxCandles = 1000; // intervals per request

// askPast asks for the points of a window, and for its candles. A line is drawn even if the
// request for candles fails.
async function askPast({ id }, { window, chart }, signal) {
  const { length, candles: interval } = windows[window], step = candleSteps[interval], end = seconds(pin);
  const history = ask("history", { id, window }, pin, signal).then(({ result }) => result.items[0] ?? { points: [] });
  const start = length ? end - length : Math.min(Math.floor(seconds((await history).points[0]?.[0] ?? pin) / step) * step, end - step);
  const parts = [];
  for (let from = start; from <= end; from += maxCandles * step) {
    parts.push(ask("candles", { id, interval, from, to: from + maxCandles * step - 1 }, pin, signal));
  }
  const candles = Promise.all(parts).then((answers) => answers.flatMap(({ result }) => result.items[0]?.candles ?? []));
  const [line, past] = await Promise.all([history, chart === "candles" ? candles : candles.catch(() => [])]);
  return { points: line.points, candles: past, length: end - start, ...(chart === "candles" ? { rows: past, interval } : { rows: line.points, interval: line.interval }) };
}

const trend = (from, to) => (less(to, from) ? "down" : less(from, to) ? "up" : "");

// showChart loads and draws the prices of a window, in which the price changed by percent. While it loads
// newer prices of the same chart, the old ones remain. The reader's point stays selected if it still exists.
async function showChart(asset, now, percent, signal) {
  const of = [asset.id, now.window, now.chart].join(" "), { words, step } = windows[now.window], candleStep = candleSteps[windows[now.window].candles];
  if (charted.of !== of) clearChart(element("div", { class: "skeleton" }));
  let past;
  try {
    past = await askPast(asset, now, signal);
  } catch (problem) {
    if (!signal.aborted) clearChart(element("p", { role: "alert" }, ...noted("The prices could not be loaded: " + why(problem), "Try again", () => load(pin))));
    return;
  }
  if (signal.aborted) return;
  const { rows, points, candles, interval, length } = past, ofCandles = now.chart === "candles";
  if (rows.length === 0) {
    clearChart(element("p", {}, ofCandles ? "There are no candles" + words + "." : "There are no prices" + words + "."));
    return;
  }
  const { chart } = charted;
  const last = charted.of === of && chart && chart.index < chart.points.length - 1 ? rows.findIndex(([time]) => time === chart.points[chart.index][0]) : -1;
  const zoom = charted.of === of && !$("whole").hidden && chart?.view;
  const focused = document.activeElement.id === "plot";
  const plot = element("div", { id: "plot", role: "slider", tabindex: "0", "aria-label": (ofCandles ? "Candles" : "Price") + words + ", by time", "aria-description": "Press plus or minus to zoom, and Escape to show the whole window", "aria-valuemin": "0" });
  clearChart(plot);
  const [oldest, newest] = [points[0]?.[1] ?? rows[0][1], points.at(-1)?.[1] ?? rows.at(-1)[4]];
  const sign = percent == null ? trend(oldest, newest) : change(percent).sign;
  const drawn = ofCandles ? { step: candleStep, length } : { step, length };
  const begun = new Map(candles.map((row) => [seconds(row[0]), row]));
  const known = (row) => (ofCandles ? row : begun.get(Math.floor(seconds(row[0]) / candleStep) * candleStep));
  const made = new Chart(plot, rows, drawn, seconds(pin), sign || "link", (index, x) => showPoint(rows[index], known(rows[index]), x), (zoomed) => ($("whole").hidden = !zoomed), newest);
  charted = { of, chart: made };
  showBelow(made, candles, candleStep);
  made.at(last < 0 ? rows.length - 1 : last);
  if (zoom) made.zoom(...zoom);
  if (focused) plot.focus({ preventScroll: true });
  $("range").firstChild.replaceChildren("Range ", between(ofCandles ? rows.flatMap(([time, , high, low]) => [[time, high], [time, low]]) : rows, newest), made.from && ", " + made.from);
  $("csv").onclick = () => download([now.chart === "line" ? "prices" : "candles", asset.slug.replace(/[^\p{L}\p{N}]+/gu, "-"), now.window, interval].join("-") + ".csv", csv(rows));
  $("points-of").hidden = $("range").hidden = false;
  showTable(rows);
}

function clearChart(...instead) {
  charted.chart?.destroy();
  charted = { of: "", chart: null };
  $("chart").replaceChildren(...instead);
  for (const id of ["point", "below"]) $(id).replaceChildren();
  $("points-of").hidden = $("range").hidden = $("whole").hidden = true;
}

const dollars = (text) => "$" + grouped(text);

// candleColumns contains the titles of a candle's columns, and the functions that show them.
const candleColumns = [["Open", dollars], ["High", dollars], ["Low", dollars], ["Close", dollars], ["Market cap", money], ["Volume 24 h", money]];
const isKnown = (text) => text != null && text !== "0"; // the API reports an unknown volume as 0

// showBelow draws market caps and volumes below the chart, if any are known.
function showBelow(chart, candles, step) {
  for (const [column, bars] of [[5, false], [6, true]]) {
    if (!candles.some((row) => isKnown(row[column]))) continue;
    const box = element("div", { "aria-hidden": "true" });
    $("below").append(element("figure", {}, element("figcaption", {}, candleColumns[column - 1][0] + " ", element("strong", { "data-column": column })), box));
    drawBelow(box, chart, candles, column, step, bars);
  }
}

// showPoint shows the values of a point of the chart, next to it: a price or a candle, and the market cap and
// volume of the candle at that time.
function showPoint(row, candle, x) {
  const box = $("point"), [time, first] = row, ofCandles = row.length > 2;
  const columns = candleColumns.map(([title, shown], i) => [title, candle?.[i + 1], shown]).filter(([, text], i) => (i < 4 ? ofCandles : isKnown(text)));
  box.replaceChildren(
    element("p", {}, ...(ofCandles ? [utc(time)] : [element("strong", {}, dollars(first)), " " + utc(time)])),
    ...(columns.length ? [element("dl", {}, ...columns.map(([title, text, shown]) => entry(title, shown(text))))] : []),
  );
  $("plot").setAttribute("aria-valuetext", [...(ofCandles ? [] : [dollars(first)]), utc(time), ...columns.map(([title, text, shown]) => title.toLowerCase() + " " + shown(text))].join(", "));
  for (const said of $("below").querySelectorAll("strong")) said.replaceChildren(volume(candle?.[said.dataset.column] ?? null));
  const beside = x + 12 + box.offsetWidth < $("chart").clientWidth ? x + 12 : x - 12 - box.offsetWidth;
  box.style.left = Math.max(0, beside) + "px";
  box.style.top = $("chart").offsetTop + "px";
}

// showTable fills the table with the rows of the chart, newest first.
function showTable(rows) {
  const columns = rows[0].length > 2 ? candleColumns : [["US dollars", dollars]];
  $("points").tHead.replaceChildren(element("tr", {}, ...["Time", ...columns.map(([title]) => title)].map((title, i) => element("th", { scope: "col", ...(i === 0 && { class: "text" }) }, title))));
  $("points").tBodies[0].replaceChildren(...rows.map(([time, ...texts]) =>
    element("tr", {}, element("td", { class: "text" }, timed(time)), ...columns.map(([, shown], i) => element("td", {}, shown === money ? volume(texts[i]) : shown(texts[i]))))).reverse());
}

const csv = (rows) => [rows[0].length > 2 ? "time,open,high,low,close,market_cap,volume" : "time,price", ...rows.map((row) => row.join()), ""].join("\n");

function download(name, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// --- the price at a date ---

let dated = { id: 0, asking: null }; // the asset of the form, and the controller that aborts its request

// showDated shows the form for the price at a date. It keeps the answer while the asset stays the same.
function showDated({ id }) {
  $("dated-date").max = pin.slice(0, 10);
  if (dated.id === id) return;
  dated.asking?.abort();
  dated = { id, asking: null };
  $("dated").reset();
  $("dated-says").replaceChildren();
}

async function askDated(event) {
  event.preventDefault();
  dated.asking?.abort();
  const { signal } = (dated.asking = new AbortController());
  const time = $("dated-date").value + "T" + ($("dated-time").value || "00:00") + ":00Z";
  let said;
  try {
    const { result } = await ask("prices", { id: dated.id, time }, pin, signal);
    const { snapshot_time, price, market_cap, volume: traded } = result.items[0]?.prices[0] ?? {};
    said = price == null ? "No price is available for " + utc(time) + "." : element("dl", {},
      entry("Price", dollars(price)), entry("Market cap", exact(market_cap, money)), entry("Volume 24 h", volume(traded)), entry("Snapshot", timed(snapshot_time)));
  } catch (problem) {
    said = "The price could not be loaded: " + why(problem);
  }
  if (!signal.aborted) $("dated-says").replaceChildren(said);
}
