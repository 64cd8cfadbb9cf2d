// Reads questions from standard input and counts the matching rows of the files in a folder with
// ClickHouse and hyparquet: once with the statistics of the files, and once by a scan that ignores
// them. It prints, for each program, a pair of counts per question.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { asyncBufferFromFile, parquetQuery, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { query } from "chdb";

const folder = process.argv[2];
const questions = JSON.parse(readFileSync(0, "utf8"));
const operators = { "=": "$eq", "<>": "$ne", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte" };

function value(text, type) {
  if (type === "VARCHAR") return text;
  if (type.startsWith("TIMESTAMP")) return new Date(text.replace(" ", "T").replace("+00", "Z"));
  return type.startsWith("DECIMAL") ? Number(text) : BigInt(text);
}

function filter({ Column, Op, Values, Type }) {
  if (Op === "null") return { [Column]: null };
  const values = (Values ?? []).map((v) => value(v, Type));
  if (Op === "between") return { $and: [{ [Column]: { $gte: values[0] } }, { [Column]: { $lte: values[1] } }] };
  return { [Column]: { [operators[Op]]: values[0] } };
}

// matches reports whether a row passes a filter, by the usual rules of SQL, except that a null
// differs from everything.
function matches(row, filter) {
  if (filter.$and) return filter.$and.every((f) => matches(row, f));
  const [path, condition] = Object.entries(filter)[0];
  let v = row;
  for (const name of path.split(".")) v = v?.[name];
  v ??= null;
  if (condition === null) return v === null;
  const [op, target] = Object.entries(condition)[0];
  const a = v instanceof Date ? v.getTime() : v;
  const b = target instanceof Date ? target.getTime() : target;
  switch (op) {
    case "$eq": return v !== null && a == b;
    case "$ne": return v === null || a != b;
    case "$lt": return v !== null && a < b;
    case "$lte": return v !== null && a <= b;
    case "$gt": return v !== null && a > b;
    default: return v !== null && a >= b;
  }
}

const rows = new Map();
async function hyparquet(q) {
  const file = await asyncBufferFromFile(join(folder, q.File));
  if (!rows.has(q.File)) rows.set(q.File, await parquetReadObjects({ file, compressors }));
  const found = await parquetQuery({ file, compressors, filter: filter(q), filterStrict: false });
  return [found.length, rows.get(q.File).filter((row) => matches(row, filter(q))).length];
}

function literal(text, type) {
  const quoted = "'" + text.replaceAll("\\", "\\\\").replaceAll("'", "\\'") + "'";
  if (type === "VARCHAR") return quoted;
  if (type.startsWith("TIMESTAMP")) return `toDateTime64(${quoted.replace("+00", "")}, 3, 'UTC')`;
  const scale = /DECIMAL\(36,(\d+)\)/.exec(type);
  return scale ? `toDecimal128(${quoted}, ${scale[1]})` : text;
}

function clickhouse({ File, Column, Op, Values, Type }) {
  const column = Column.split(".").map((name) => "`" + name + "`").join(".");
  const values = (Values ?? []).map((v) => literal(v, Type));
  let where = `${column} ${Op} ${values[0]}`;
  if (Op === "null") where = `${column} IS NULL`;
  if (Op === "between") where = `${column} BETWEEN ${values[0]} AND ${values[1]}`;
  return [1, 0].map((use) => Number(query(`SELECT count() FROM file('${join(folder, File)}', Parquet) WHERE ${where}
    SETTINGS input_format_parquet_filter_push_down = ${use}, input_format_parquet_page_filter_push_down = ${use}`,
    "TSV").trim()));
}

const answers = { ClickHouse: [], hyparquet: [] };
for (const q of questions) {
  answers.ClickHouse.push(clickhouse(q));
  answers.hyparquet.push(await hyparquet(q));
}
process.stdout.write(JSON.stringify(answers));
