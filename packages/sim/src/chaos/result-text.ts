/** The result of a chaos run in a few lines for people. Pure. */
import { aimsText } from "./aims.ts";
import type { ChaosResult } from "./result.ts";

/** Writes the result for a terminal. */
export function chaosText(result: ChaosResult): string {
  const rows: (readonly [string, string])[] = [
    ["faults", `${result.faults_total} in ${result.minutes} min: ${textOfCounts(result.faults)}`],
    ...comparedRows(result),
    ["ledger", `${result.lost} lost, ${result.doubled} trained twice`],
    [
      "journal",
      `${result.journal.records} records, ${result.journal.terms} terms, ${result.violations.length} violations`,
    ],
    ["steady", result.steady_ms === null ? "never" : `${result.steady_ms} ms after the last fault`],
    ["goodput", goodputText(result)],
    ["recovered", `from ${result.recovered}; nothing to recover from: ${harmlessText(result.harmless)}`],
    ["load", result.load.map((load) => load.toFixed(1)).join(" … ")],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const table = Object.entries(result.recovery).map(
    ([kind, { n, p50_ms, p90_ms, p99_ms, max_ms, p50_td, max_td }]) =>
      `  ${kind.padEnd(20)} ${[n, p50_ms, p90_ms, p99_ms, max_ms].map((figure) => String(figure).padStart(8)).join("")}  ${p50_td} … ${max_td} T_d`,
  );
  const head = `  ${"recovery, ms".padEnd(20)} ${["n", "p50", "p90", "p99", "max"].map((name) => name.padStart(8)).join("")}`;
  const verdict = result.ok ? "nothing lost, nothing trained twice, nothing different" : result.faults_found.join("; ");
  return [
    ...rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`),
    "",
    head,
    ...table,
    "",
    ...aimsText(result.aims),
    "",
    `  ${verdict}`,
  ].join("\n");
}

function comparedRows(result: ChaosResult): readonly (readonly [string, string])[] {
  if (result.goodput === null)
    return [
      ["steps", `${result.steps}, not compared`],
      ["weights", result.weights_hash],
    ];
  const equal = result.weights_hash === result.hash_of_quiet_run ? "=" : "≠";
  const upTo = result.first_difference === null ? "" : ` up to ${result.first_difference - 1}`;
  return [
    ["steps", `${result.steps}, each with the digest of the quiet run${upTo}`],
    ["weights", `${result.weights_hash} ${equal} ${result.hash_of_quiet_run} (quiet run)`],
  ];
}

function goodputText({ goodput, ettr }: ChaosResult): string {
  const share = goodput === null ? "not compared" : `${percent(goodput)} of the quiet run's steps per second`;
  return `${share}; ETTR ${percent(ettr)}`;
}

function harmlessText(harmless: ChaosResult["harmless"]): string {
  const parts = Object.entries(harmless).map(([reason, counts]) => `${reason} (${textOfCounts(counts)})`);
  return parts.length > 0 ? parts.join(", ") : "none";
}

function textOfCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(", ");
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
