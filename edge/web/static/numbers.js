// Decimals are strings, as the API sends them. BigInt rounds them for display.
"use strict";

// parseDecimal parses plain notation. It returns the digits as a BigInt, and the number of decimal places.
function parseDecimal(text) {
  const [whole, fraction = ""] = text.split(".");
  return { digits: BigInt(whole + fraction), places: fraction.length };
}

// roundDecimal rounds to a number of decimal places, half away from zero. The result has exactly that many
// places.
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
  return (negative && digits > 0n ? "-" : "") + grouped(all.slice(0, cut)) + (places > 0 ? "." + all.slice(cut) : "");
}

const grouped = (text) => text.replace(/^\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));

// plainNumber returns a JSON number without an exponent.
function plainNumber(text) {
  const [digits, exponent] = text.toLowerCase().split("e");
  return exponent ? shifted(digits, -Number(exponent)) : text;
}

function less(a, b) {
  const [x, y] = [parseDecimal(a), parseDecimal(b)];
  return x.digits * 10n ** BigInt(y.places) < y.digits * 10n ** BigInt(x.places);
}

const subscript = (number) => String(number).replace(/\d/g, (digit) => "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"[digit]);
const superscript = (number) => String(number).replace(/\d/g, (digit) => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[digit]);

// tiny replaces four or more zeros after the point with their number, as in 0.0₇1234.
const tiny = (text) => text.replace(/0\.0(0{3,})(?=[1-9])/, (all, zeros) => "0.0" + subscript(zeros.length + 1));

// price shows two decimal places for prices of 1 and more, and four significant digits for smaller ones. It
// shows prices with ten digits before the point like other amounts of money.
function price(text) {
  if (/^\d{10}/.test(text)) return money(text);
  const zeros = /^0\.(0*)[1-9]/.exec(text);
  const rounded = roundDecimal(text, zeros ? zeros[1].length + 4 : 2);
  return "$" + (rounded.startsWith("0") ? tiny(rounded) : roundDecimal(text, 2)); // 0.99999 becomes 1.00
}

// shifted moves the point to the left by a number of places, or to the right if the number is negative.
function shifted(text, by) {
  let { digits, places } = parseDecimal(text);
  places += by;
  if (places < 0) [digits, places] = [digits * 10n ** BigInt(-places), 0];
  const all = digits.toString().padStart(places + 1, "0");
  const point = all.length - places;
  return all.slice(0, point) + "." + all.slice(point);
}

// thousands names a power of a thousand: K, M, B, T, and a power of ten above these.
const thousands = (power) => (power === 0 ? "" : "\u00a0" + ("KMBT"[power - 1] ?? "\u00d710" + superscript(3 * power)));

// large shows an amount in the smallest power of a thousand in which it is below a thousand after rounding.
function large(text) {
  for (let power = 0; ; power++) {
    const rounded = roundDecimal(shifted(text, 3 * power), 2);
    if (!rounded.includes(",")) return rounded + thousands(power);
  }
}

const money = (text) => "$" + large(text);

function ratio(a, b) {
  const [x, y] = [parseDecimal(a), parseDecimal(b)];
  return shifted(String((x.digits * 10n ** BigInt(y.places + 6)) / (y.digits * 10n ** BigInt(x.places))), 6);
}

const share = (text) => roundDecimal(shifted(text, -2), 2) + "%";

// change returns the text of a percentage, and its direction for the colour. The text has a sign, because
// colour alone must not carry the meaning.
function change(text) {
  const rounded = /^-?\d{7}/.test(text) ? large(text) : roundDecimal(text, 2);
  const zero = /^-?0\.00$/.test(rounded);
  if (zero) return { text: "0.00%", sign: "" };
  return rounded.startsWith("-") ? { text: "\u2212" + rounded.slice(1) + "%", sign: "down" } : { text: "+" + rounded + "%", sign: "up" };
}
