/** The end of a run in a few lines. Pure. */
import { cleanLine, compact, duration, figure, percent } from "./text.ts";
import type { LedgerCounts, RunSummary } from "./types.ts";

/** Incidents that are listed one by one; more are only counted. */
const incidentsMax = 12;

/**
 * Writes a summary for a terminal: results, the ledger as an equation that holds or does not, incidents.
 *
 * @returns Lines joined by `\n`, without colour; text from outside is cleaned.
 */
export function summaryText(summary: RunSummary): string {
  const { reward_first: rewardFirst, reward_last: rewardLast } = summary;
  const rows: (readonly [string, string])[] = [
    ["job", `${cleanLine(summary.job, 60)}, seed ${summary.seed}`],
    [
      "steps",
      `${figure(summary.steps)} in ${duration(summary.wall_s * 1000)}, ${compact(summary.tokens_per_s)} tokens/s`,
    ],
    ...sinceRows(summary),
    rewardLast === null && summary.loss_last !== null
      ? ["loss", `${figure(summary.loss_first, 3)} → ${figure(summary.loss_last, 3)}`]
      : ["reward", `${figure(rewardFirst, 3)} → ${figure(rewardLast, 3)}`],
    ...heldOutRows(summary),
    ...bestRows(summary),
    ["weights", `version ${summary.weight_version}, ${cleanLine(summary.weights_hash, 80)}`],
    ["ledger", ledgerEquation(summary.ledger)],
    ["", `${figure(summary.lost)} lost, ${figure(summary.doubled)} trained twice`],
    ["incidents", incidentCounts(summary)],
    ["productive", `${percent(summary.ettr)} of the time, ${compact(summary.tokens_wasted)} tokens made for nothing`],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
  return [...lines, ...incidentLines(summary, " ".repeat(width + 4))].join("\n");
}

function sinceRows({ since_step: since }: RunSummary): readonly (readonly [string, string])[] {
  return since === null ? [] : [["", `what follows is of step ${figure(since)} and later: older events are gone`]];
}

/** What held-out rows say: how many are answered right, and the loss on them where it was measured. */
function heldOutRows(summary: RunSummary): readonly (readonly [string, string])[] {
  const { eval_first: first, eval_last: last } = summary;
  const { held_out_loss_first: lossFirst = null, held_out_loss_last: lossLast = null } = summary;
  if (lossLast === null) return [["held-out", `${percent(first)} → ${percent(last)} exact`]];
  const loss = ["held-out", `loss ${figure(lossFirst, 3)} → ${figure(lossLast, 3)}`] as const;
  return last === null ? [loss] : [loss, ["", `${percent(first)} → ${percent(last)} exact`]];
}

function bestRows({ best_checkpoint: best }: RunSummary): readonly (readonly [string, string])[] {
  if (!best) return [];
  return [["best", `step ${figure(best.step)}, ${percent(best.accuracy)} exact: ${cleanLine(best.path, 200)}`]];
}

/** Writes the ledger as the equation it must satisfy: `=` when it does, `≠` with the difference when not. */
export function ledgerEquation(ledger: LedgerCounts): string {
  const { admitted, trained, aborted, quarantined, pending } = ledger;
  const difference = admitted - trained - aborted - quarantined - pending;
  const parts = `${figure(trained)} trained + ${figure(aborted)} aborted + ${figure(quarantined)} quarantined + ${figure(pending)} pending`;
  const equation = `${figure(admitted)} admitted ${difference === 0 ? "=" : "≠"} ${parts}`;
  return difference === 0 ? equation : `${equation}  (off by ${figure(difference)})`;
}

function incidentCounts({ incidents }: RunSummary): string {
  if (incidents.length === 0) return "none";
  const counts = new Map<string, number>();
  for (const { kind } of incidents) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  const parts = [...counts].slice(0, 8).map(([kind, count]) => `${count} × ${cleanLine(kind, 40)}`);
  return parts.join(", ");
}

function incidentLines({ incidents }: RunSummary, indent: string): readonly string[] {
  const shown = incidents.slice(0, incidentsMax).map((incident) => {
    const { at_ms: atMs, detect_ms: detectMs, recover_ms: recoverMs } = incident;
    const times = [
      detectMs === undefined ? "" : `seen after ${duration(detectMs)}`,
      recoverMs === undefined ? "" : `mended after ${duration(recoverMs)}`,
    ].filter(Boolean);
    const what = `${cleanLine(incident.kind, 24).padEnd(16)} ${cleanLine(incident.subject, 24).padEnd(14)}`;
    return `${indent}${duration(atMs).padStart(12)}  ${what} ${times.join(", ") || cleanLine(incident.detail, 60)}`.trimEnd();
  });
  const more = incidents.length - shown.length;
  return more > 0 ? [...shown, `${indent}and ${more} more`] : shown;
}
