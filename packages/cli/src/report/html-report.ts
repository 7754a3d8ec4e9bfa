/**
 * The report of a run: one HTML file that needs nothing else, no script, no network. While the run goes on, the page loads itself anew. All text goes through the template of markup.ts, so
 * nothing that a replica or a prompt is called can become part of the page. Pure.
 */
import { chart } from "./chart.ts";
import { html, type Markup } from "./markup.ts";
import { samplesSection } from "./samples-section.ts";
import { runningMean } from "./scale.ts";
import { pointsOf, stepSections } from "./step-charts.ts";
import { reportStyle } from "./style.ts";
import { cleanBlock, cleanLine, compact, duration, figure, percent } from "./text.ts";
import { timeline } from "./timeline.ts";
import type { CauseRecord, Incident, RunRecord, RunStatus, RunSummary, StepRecord } from "./types.ts";

const incidentsMax = 300;
const causesMax = 50;
/** Seconds after which the page of a run that goes on is loaded anew. */
const refreshS = 5;

const stateNames: Readonly<Record<RunStatus["state"], string>> = {
  running: "Running",
  done: "Done",
  stopped: "Stopped",
  failed: "Failed",
  interrupted: "Interrupted",
  unknown: "Not known how it stands",
};

/** How the run stands and why, before anything else. */
function statusLine({ state, reason, steps, written_at: at }: RunStatus, summary: RunSummary): Markup {
  const of = steps === null ? "" : ` of ${figure(steps)}`;
  const where = `${state === "running" ? "step" : "at step"} ${figure(summary.steps)}${of}`;
  const why = state === "running" ? `as of ${timeText(at)}` : cleanLine(reason, 2000);
  return html`<p class="status ${state}" role="status"><strong>${stateNames[state]}</strong> <span>${where}</span>${why === "" ? null : html`<span class="why">${why}</span>`}</p>`;
}

/** A time for people, to the second, in UTC. */
function timeText(iso: string): string {
  return `${iso.slice(0, 19).replace("T", " ")} UTC`;
}

/** Writes the report of a run as an HTML document. Text from outside is cleaned and escaped; numbers that are none show as `–`. */
export function htmlReport(run: RunRecord): string {
  const { summary, status } = run;
  const refresh = status.state === "running" ? html`<meta http-equiv="refresh" content="${refreshS}">` : null;
  const page = html`<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
${refresh}<title>${status.state === "done" ? "" : `${status.state}: `}${cleanLine(summary.job, 80)} · Muster</title>
<style>${reportStyle}</style>
</head>
<body>
${statusLine(status, summary)}
${headOf(summary)}
<main>
${rewardSection(run)}
<div class="pair">${stepSections(run.steps)}</div>
${samplesSection(run.samples)}
${timelineSection(run)}
${ledgerSection(summary)}
${causeSection(run.causes)}
${incidentSection(summary.incidents)}
<section><div class="head"><h2>Configuration</h2></div><div class="config">${configBlocks(run.config_text)}</div></section>
</main>
<footer>Muster run report. Times count from the start of the run. Written ${cleanLine(timeText(status.written_at), 40)}.</footer>
</body>
</html>`;
  return `<!doctype html>\n${page.source}\n`;
}

function headOf(summary: RunSummary): Markup {
  const { reward_first: rewardFirst, reward_last: rewardLast } = summary;
  const quality =
    rewardLast === null && summary.loss_last !== null
      ? tile("Loss", figure(summary.loss_last, 3), `from ${figure(summary.loss_first, 3)}`)
      : tile("Reward", figure(rewardLast, 3), `from ${figure(rewardFirst, 3)}`);
  const isWhole = summary.lost === 0 && summary.doubled === 0;
  return html`<header><div><h1>${cleanLine(summary.job, 120)}</h1><p class="lede">Seed ${summary.seed}, weight version ${summary.weight_version}${sinceText(summary)}</p></div><p class="sub hash mono">${cleanLine(summary.weights_hash, 160)}</p></header>
<dl class="figures">
${quality}
${heldOutTile(summary)}
${tile("Steps", figure(summary.steps), `in ${duration(summary.wall_s * 1000)}`)}
${tile("Tokens per second", compact(summary.tokens_per_s), "of the job's time, all steps")}
${tile("Lost, trained twice", `${figure(summary.lost)}, ${figure(summary.doubled)}`, `of ${figure(summary.ledger.admitted)} trajectories`, !isWhole)}
${tile("Incidents", figure(summary.incidents.length), `${recoveryOf(summary.incidents)}; ETTR ${percent(summary.ettr)}`)}
</dl>`;
}

/** Of a job without evaluations the loss on held-out rows, where it was measured. */
function heldOutTile(summary: RunSummary): Markup {
  const { eval_first: first, eval_last: last } = summary;
  const { held_out_loss_first: lossFirst = null, held_out_loss_last: lossLast = null } = summary;
  if (last === null && lossLast !== null)
    return tile("Held-out loss", figure(lossLast, 3), `from ${figure(lossFirst, 3)}`);
  const loss = lossLast === null ? "" : `; loss ${figure(lossLast, 3)}, from ${figure(lossFirst, 3)}`;
  return tile("Held-out exact match", percent(last), `from ${percent(first)}${loss}`);
}

function sinceText({ since_step: since }: RunSummary): string {
  return since === null
    ? ""
    : `; curves, rewards and incidents begin with step ${figure(since)}: older events are gone`;
}

function tile(name: string, value: string, note: string, isBad = false): Markup {
  return html`<div><dt>${name}</dt><dd class="${isBad ? "bad" : ""}">${value}<small>${note}</small></dd></div>`;
}

function recoveryOf(incidents: readonly Incident[]): string {
  const times = incidents.flatMap((incident) => incident.recover_ms ?? []);
  return times.length === 0
    ? "none to recover from"
    : `slowest recovery ${duration(times.reduce((a, b) => Math.max(a, b)))}`;
}

function rewardSection({ evals, steps, summary }: RunRecord): Markup {
  // A job without rewards is told by its loss.
  const isJudged = summary.reward_last !== null || steps.length === 0;
  const name = isJudged ? "reward" : "loss";
  const title = isJudged ? "Reward" : "Loss";
  const [first, last] = [summary[`${name}_first`], summary[`${name}_last`]];
  const values = pointsOf(steps, (step) => step[name]);
  const stepOfVersion = new Map(steps.map((step) => [step.version, step.step]));
  const accuracies = evals.map(({ accuracy, version }) => ({ x: stepOfVersion.get(version) ?? version, y: accuracy }));
  const marks = summary.incidents.map((incident) => ({
    x: steps.find((step) => step.at_ms >= incident.at_ms)?.step ?? steps.at(-1)?.step ?? 0,
    label: `${cleanLine(incident.kind, 60)} ${cleanLine(incident.subject, 60)} at ${duration(incident.at_ms)}`,
  }));
  const plot = chart({
    title: `${title} by step`,
    description: `Mean ${name} of each step, from ${figure(first, 3)} to ${figure(last, 3)}, and held-out exact match, from ${percent(summary.eval_first)} to ${percent(summary.eval_last)}.`,
    width: 1040,
    height: 320,
    include: [0, 1],
    xLabel: "step",
    marks,
    series: [
      { name: `${name} of a step`, kind: "line", color: "faint", points: values },
      { name: "mean of 10 steps", kind: "line", color: "c1", points: runningMean(values, 10) },
      { name: "held-out exact match", kind: "points", color: "c2", points: accuracies },
    ],
  });
  return html`<section><div class="head"><h2>${title}</h2><div class="key"><span><i></i>step</span><span><i class="c1"></i>mean of 10 steps</span><span><i class="dot c2"></i>held-out exact match</span>${marks.length > 0 ? html`<span><i class="m"></i>incident</span>` : null}</div></div><div class="scroll">${plot}</div></section>`;
}

function timelineSection(run: RunRecord): Markup {
  return html`<section><div class="head"><h2>Replicas</h2><div class="key"><span><i class="c1"></i>policy</span><span><i class="c2"></i>rollout</span><span><i class="c3"></i>checkpoint</span><span class="bad">×</span>died<span><i class="m"></i>incident</span></div></div><div class="scroll">${timeline(run)}</div>${heldOf(run.steps.at(-1))}</section>`;
}

/** Which version each replica had at the last commit. */
function heldOf(step: StepRecord | undefined): Markup | null {
  const held = Object.entries(step?.held ?? {});
  if (!step || held.length === 0) return null;
  const each = held.map(
    ([id, version]) => html`<span><b>${cleanLine(id, 60)}</b> ${version === null ? "–" : figure(version)}</span>`,
  );
  return html`<p class="sub held">Versions held when version ${figure(step.version)} was committed: ${each}</p>`;
}

/** The ledger as a table that reads as its equation. */
function ledgerSection({ doubled, ledger, lost }: RunSummary): Markup {
  const { admitted, trained, aborted, quarantined, pending } = ledger;
  const isEven = admitted === trained + aborted + quarantined + pending;
  const columns = Object.entries({ admitted, trained, aborted, quarantined, pending });
  const operators = ["", isEven ? "=" : "≠", "+", "+", "+"];
  const gap = (index: number): Markup | null => (index === 0 ? null : html`<td></td>`);
  const names = columns.map(([name], index) => html`${gap(index)}<th scope="col">${name}</th>`);
  const counts = columns.map(([, count], index) => {
    const operator = html`<td class="op${isEven ? "" : " bad"}">${operators[index] ?? ""}</td>`;
    return html`${index === 0 ? null : operator}<td>${figure(count)}</td>`;
  });
  const shares = columns.map(([, count], index) => html`${gap(index)}<td>${shareOf(count, admitted)}</td>`);
  return html`<section><div class="head"><h2>Ledger</h2><p class="sub">trajectories; ${figure(lost)} lost, ${figure(doubled)} trained twice</p></div><div class="scroll"><table class="ledger"><thead><tr>${names}</tr></thead><tbody><tr class="sum">${counts}</tr><tr class="share">${shares}</tr></tbody></table></div></section>`;
}

/** Root causes of aborted trajectories; nothing at all when there are none. */
function causeSection(causes: readonly CauseRecord[]): Markup | null {
  if (causes.length === 0) return null;
  const rows = causes
    .slice(0, causesMax)
    .map(
      ({ name, message, frame, stack, sample, count }) =>
        html`<tr><td class="n">${figure(count)}</td><td class="d">${cleanLine(name, 80)}</td><td class="d">${cleanLine(message)}</td><td class="d">${cleanLine(frame ?? "–", 160)}${stack ? html`<details><summary>stack</summary><pre>${cleanBlock(stack)}</pre></details>` : null}</td><td class="n">${cleanLine(sample ?? "–", 40)}</td></tr>`,
    );
  return html`<section><div class="head"><h2>Given up</h2><p class="sub">root causes of aborted trajectories</p></div><div class="scroll"><table><thead><tr><th scope="col" class="n">Count</th><th scope="col">Class</th><th scope="col">Message of the first</th><th scope="col">Thrown at</th><th scope="col" class="n">First sample</th></tr></thead><tbody>${rows}</tbody></table></div></section>`;
}

function incidentSection(incidents: readonly Incident[]): Markup {
  const rows = incidents
    .slice(0, incidentsMax)
    .map(
      (incident) =>
        html`<tr><td class="n">${duration(incident.at_ms)}</td><td>${cleanLine(incident.kind, 60)}</td><td class="d">${cleanLine(incident.subject, 80)}</td><td class="d">${cleanLine(incident.detail)}</td><td class="n">${detectionOf(incident)}</td><td class="n">${timeOf(incident.recover_ms)}</td></tr>`,
    );
  const more = incidents.length - rows.length;
  const table = html`<div class="scroll"><table><thead><tr><th scope="col" class="n">At</th><th scope="col">Kind</th><th scope="col">Subject</th><th scope="col">Detail</th><th scope="col" class="n">Detected after</th><th scope="col" class="n">Recovered after</th></tr></thead><tbody>${rows}</tbody></table></div>`;
  return html`<section><div class="head"><h2>Incidents</h2></div>${rows.length > 0 ? table : html`<p class="none">None.</p>`}${more > 0 ? html`<p class="none">${more} more are not listed.</p>` : null}</section>`;
}

/** Paragraphs of the configuration, so that columns break between them. */
function configBlocks(text: string): readonly Markup[] {
  return cleanBlock(text)
    .split(/\n{2,}/)
    .filter((block) => block.trim() !== "")
    .map((block) => html`<pre>${block.replace(/\n+$/, "")}</pre>`);
}

/** Share of all trajectories; a few of very many do not show as none. */
function shareOf(count: number, total: number): string {
  return count > 0 && count / total < 0.0001 ? "< 0.01 %" : percent(count / total, 2);
}

function timeOf(ms: number | undefined): string {
  return ms === undefined ? "–" : duration(ms);
}

/** What nobody had to be silent for was noticed as it happened. */
function detectionOf({ detect_ms: ms }: Incident): string {
  return ms === undefined || ms <= 0 ? "at once" : timeOf(ms);
}
