// Decimals, as the API sends them: strings, which BigInt rounds for the eye.
"use strict";

// parseDecimal reads plain notation: digits as a BigInt, and how many of them
// stand behind the point.
function parseDecimal(text) {
  const [whole, fraction = ""] = text.split(".");
  return { digits: BigInt(whole + fraction), places: fraction.length };
}

// roundDecimal rounds to a number of decimal places, half away from zero, and
// keeps exactly that many.
function roundDecimal(text, places) {
  let { digits, places: has } = parseDecimal(text);
  const negative = digits < 0n || text.startsWith("-");
  if (digits < 0n) digits = -digits;
  if (has > places) {
    const unit = 10n ** BigInt(has - places);
    digits = (digits + unit / 2n) / unit;
  } else {
    digits *= 10n ** BigInt(places - has);
  }
  const all = digits.toString().padStart(places + 1, "0");
  const cut = all.length - places;
  const whole = all.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, ",");
  return (negative && digits > 0n ? "-" : "") + whole + (places > 0 ? "." + all.slice(cut) : "");
}

// less is whether one decimal is below another.
function less(a, b) {
  const [x, y] = [parseDecimal(a), parseDecimal(b)];
  return x.digits * 10n ** BigInt(y.places) < y.digits * 10n ** BigInt(x.places);
}

// price shows two places from 1 on, and four significant digits below.
function price(text) {
  const zeros = /^0\.(0*)[1-9]/.exec(text);
  return "$" + roundDecimal(text, zeros ? zeros[1].length + 4 : 2);
}

// shifted moves the point by so many places, to the left when they are positive.
function shifted(text, by) {
  let { digits, places } = parseDecimal(text);
  places += by;
  if (places < 0) [digits, places] = [digits * 10n ** BigInt(-places), 0];
  const all = digits.toString().padStart(places + 1, "0");
  const point = all.length - places;
  return all.slice(0, point) + "." + all.slice(point);
}

// money shows a large amount in thousands, millions and so on: in the first of
// them of which it is fewer than a thousand, as rounded.
function money(text) {
  const units = ["", "\u00a0K", "\u00a0M", "\u00a0B", "\u00a0T"];
  for (let i = 0; ; i++) {
    const rounded = roundDecimal(shifted(text, 3 * i), 2);
    if (i === units.length - 1 || !rounded.includes(",")) return "$" + rounded + units[i];
  }
}

// share shows a ratio of 0 to 1 in percent.
const share = (text) => roundDecimal(shifted(text, -2), 2) + "%";

// change returns what a percentage looks like: never by its colour alone.
function change(text) {
  const rounded = roundDecimal(text, 2);
  const zero = /^-?0\.00$/.test(rounded);
  if (zero) return { text: "0.00%", sign: "" };
  return rounded.startsWith("-") ? { text: "\u2212" + rounded.slice(1) + "%", sign: "down" } : { text: "+" + rounded + "%", sign: "up" };
}
