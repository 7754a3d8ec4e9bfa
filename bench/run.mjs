#!/usr/bin/env node
/**
 * `npm run bench`: runs the benchmarks and prints ratios; lower is better. `npm run bench -- host codec` runs some of them,
 * `--json` prints a line of JSON for each, `--check` fails when a ratio left its baseline behind or an aim is missed, `--write` makes new baselines.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { messageOf } from "@muster/base";

const names = [
  "host",
  "mailbox",
  "controller",
  "codec",
  "dear-messages",
  "journal",
  "trajectories",
  "weights",
  "versions",
  "delta",
  "event-loop",
  "product",
  "worker",
  "distribution",
  "memory-copies",
  "simulator",
  "chaos-invariance",
  "recovery",
  "checkpoint",
  "coordinator",
  "barrier",
  "router",
];
/** Only when they are named: they take minutes or 14 GiB, and need the machine for themselves. */
const long = ["recovery", "versions"];
const baselinesPath = new URL("baselines.json", import.meta.url);
const usage = `usage: npm run bench -- [${names.join("|")}]… [--json] [--check] [--write]`;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { json: { type: "boolean" }, check: { type: "boolean" }, write: { type: "boolean" } },
});
const unknown = positionals.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`unknown benchmark ${unknown.join(", ")}\n${usage}`);
  process.exit(2);
}

/** @type {{ tolerance: number, ratios: Record<string, number> }} */
const baselines = JSON.parse(readFileSync(baselinesPath, "utf8"));
const rows = [];
for (const name of positionals.length > 0 ? positionals : names.filter((one) => !long.includes(one))) {
  const { about, run } = await import(`./${name}.mjs`);
  const before = rows.length;
  if (!values.json) console.log(`\n${name}: ${about}`);
  let failure = null;
  try {
    for await (const row of run()) {
      const key = `${name}: ${row.name} / ${row.against}`;
      rows.push({ key, ...row, baseline: baselines.ratios[key] ?? null });
      if (!values.json) console.log(lineOf(rows.at(-1)));
    }
  } catch (error) {
    // The others still run.
    failure = messageOf(error);
    console.error(`${name} ended early: ${failure}`);
    process.exitCode = 1;
  }
  const ended = failure === null ? {} : { failure };
  if (values.json) console.log(JSON.stringify({ bench: name, rows: rows.slice(before).map(figureOf), ...ended }));
}
if (values.write) {
  for (const { key, ratio } of rows) baselines.ratios[key] = Number(ratio.toPrecision(2));
  writeFileSync(baselinesPath, `${JSON.stringify(baselines, null, 2)}\n`);
}
/** @param {typeof rows[number]} row */
const isSlower = ({ ratio, baseline }) => baseline !== null && ratio > baseline * baselines.tolerance;
const slower = rows.filter((row) => isSlower(row) || figureOf(row).met === false);
if (values.check && slower.length > 0) {
  for (const row of slower) {
    const { value, unit, aim } = figureOf(row);
    console.error(
      `slower: ${row.key} is ${value.toPrecision(3)} ${unit}, at most ${aim?.toPrecision(3)} (baseline ${row.baseline ?? "none"})`,
    );
  }
  process.exitCode = 1;
}

/**
 * A row for other programs. It is held to its aim, a figure in its unit (`aim`) or a ratio (`ratioAim`); without one, to what its baseline tolerates.
 *
 * @param {typeof rows[number]} row
 */
function figureOf({ name, against, ours, unit, ratio, baseline, aim = null, ratioAim = null }) {
  if (aim !== null || against === "no aim")
    return { name, value: ours, unit, aim, met: aim === null ? null : ours <= aim };
  const most = ratioAim ?? (baseline === null ? null : baseline * baselines.tolerance);
  return { name, value: ratio, unit: `× ${against}`, aim: most, met: most === null ? null : ratio <= most };
}

/** @param {typeof rows[number]} row */
function lineOf(row) {
  const { name, against, ours, reference, unit, ratio, spread, baseline, note } = row;
  const figures = `${ours.toPrecision(3)} ${unit}, ${against} ${reference.toPrecision(3)} ${unit}`;
  const known = baseline === null ? "" : `  (baseline ${baseline})`;
  const missed = figureOf(row).met === false ? "  MISSED" : "";
  return `  ${`× ${ratio.toFixed(2)}`.padStart(9)} ± ${(spread * 100).toFixed(0).padStart(2)} %  ${name}: ${figures}${known}${missed}${note ? `\n             ${note}` : ""}`;
}
