/** The status of a job in a few lines. Pure; text from outside is cleaned. */

import { formatSize } from "@muster/base";
import { type SeenStatus, statusAgeMaxMs } from "@muster/client";
import { type JobStatus, type MemberStatus, replicaRoles, settingsText } from "@muster/protocol";
import type { RankRoster } from "../multinode/ranks-file.ts";
import { cleanLine, ledgerEquation } from "../report/index.ts";
import { duration, figure, percent } from "../report/text.ts";
import { wrapped } from "../terminal/wrap.ts";
import { type Column, table } from "./table.ts";

const columns: readonly Column[] = [
  { title: "MEMBER" },
  { title: "ROLE" },
  { title: "HEALTH" },
  { title: "NODE", spare: 2 },
  { title: "VERSION", right: true },
  { title: "PHASE" },
  { title: "ORDER", spare: 3 },
  { title: "BEAT", right: true, spare: 1 },
  { title: "LAG", right: true, spare: 5 },
  { title: "RSS", right: true, spare: 4 },
];

type FleetReplica = JobStatus["fleet"]["replicas"][number];

/** Changes of settings in the status. */
const changesShown = 3;

/** Root causes in the status. */
const causesShown = 5;

/** Longest value of a line, in characters. */
const valueMax = 200;

/** Missing ranks that are named where not all ranks are. */
const missingShown = 6;

/** Writes the status: the job, its mesh, ledger and checkpoint, then one line per member; within a width where one is given. */
export function statusText(
  status: SeenStatus,
  columnsMax = Number.POSITIVE_INFINITY,
  ranks: RankRoster | null = null,
): string {
  const rows: (readonly [string, string])[] = [
    ["job", `${status.job}, ${status.phase}, term ${status.term}`],
    ...(ranks === null ? [] : [["hosts", hostsOf(ranks, status.atMs + status.ageMs)] as const]),
    ...(ranks === null || !status.script ? [] : [["phase", scriptOf(status.script)] as const]),
    ["step", stepOf(status)],
    ...changesOf(status).map((line) => ["settings", line] as const),
    ["weights", weightsOf(status)],
    ["mesh", `epoch ${status.epoch}${status.mesh.length > 0 ? `: ${status.mesh.join(", ")}` : ", no members"}`],
    ...(status.engines ?? []).map((kind, i) => [i === 0 ? "trainers" : "", engineText(kind)] as const),
    ...(status.samplers ?? []).map((kind, i) => [i === 0 ? "samplers" : "", engineText(kind)] as const),
    ["ledger", ledgerEquation(status.ledger)],
    ["leases", `${status.leases} out; dropped ${status.dropped.duplicate} duplicates, ${status.dropped.stale} stale`],
    ...status.causes.slice(0, causesShown).map((cause, i) => [i === 0 ? "given up" : "", causeOf(cause)] as const),
    ["incidents", incidentsOf(status)],
    ...(status.membersLeftOut > 0 ? [["members", totalsText(status.totals)] as const] : []),
    ["fleet", fleetOf(status)],
    ...groupsOf(status).map((line) => ["ranks", line] as const),
    ...status.fleet.missing.map((line) => ["missing", line] as const),
    ...status.fleet.commands.map(({ id, kind, asked }) => ["doing", `${kind} ${asked} (${id})`] as const),
    ["streams", streamsOf(status)],
    ["checkpoint", status.checkpoint ? `step ${status.checkpoint.step} in ${status.checkpoint.path}` : "none yet"],
    ...(status.best ? [["best", bestOf(status.best)] as const] : []),
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const facts = rows.flatMap(([name, value]) =>
    wrapped(`${name.padEnd(width)}  ${cleanLine(value, valueMax)}`, columnsMax),
  );
  const cells = [...status.members.map((member) => cellsOf(member, status)), ...absentOf(status)];
  const members = cells.length === 0 ? ["no members"] : table(columns, cells, columnsMax);
  return [...warningOf(status), ...facts, "", ...members, ...leftOutOf(status)].join("\n");
}

/** One kind of engine and how many have it. */
function engineText({ build, fingerprint, members }: NonNullable<SeenStatus["engines"]>[number]): string {
  return `${members} × build ${build}, fingerprint ${fingerprint}`;
}

/** Ranks of a job of several hosts: where they are, and since when one is missing; only the missing ones where all would be too long a line. */
function hostsOf({ ranks }: RankRoster, nowMs: number): string {
  const missingFor = (sinceMs: number): string => `MISSING for ${duration(Math.max(0, nowMs - sinceMs))}`;
  const all = ranks
    .map(({ rank, host, sinceMs }) => (host === null ? `${rank} ${missingFor(sinceMs)}` : `${rank} ${host}`))
    .join(", ");
  if (all.length <= valueMax) return all;
  const missing = ranks.filter(({ host }) => host === null);
  const named = missing.slice(0, missingShown).map(({ rank, sinceMs }) => `; ${rank} ${missingFor(sinceMs)}`);
  const more = missing.length > missingShown ? `; ${missing.length - missingShown} more MISSING` : "";
  return `${ranks.length - missing.length} of ${ranks.length} ranks are there${named.join("")}${more}`;
}

/** The phase of a multi-node script in which the job is, and who holds it up. */
function scriptOf({ phases: [first, last], says, waitsFor, more }: NonNullable<JobStatus["script"]>): string {
  const all = [...waitsFor, ...(more > 0 ? [`${figure(more)} more`] : [])];
  const waits = all.length === 0 ? "" : `; waits for ${all.join(", ")}`;
  return `${first === last ? first : `${first}–${last}`} of 13: ${says}${waits}`;
}

/** The checkpoint that does best at held-out prompts. */
function bestOf({ step, path, prompts, correct }: NonNullable<JobStatus["best"]>): string {
  return `step ${step}, held-out ${percent(correct / Math.max(1, prompts))}, in ${path}`;
}

/** How full the streams are. */
function streamsOf({ streams }: SeenStatus): string {
  const each = Object.entries(streams).map(([name, { bytes, bytesMax }]) =>
    bytesMax === null
      ? `${name} ${formatSize(bytes)}`
      : `${name} ${formatSize(bytes)} of ${formatSize(bytesMax)} (${percent(bytes / bytesMax)})`,
  );
  return each.join(", ") || "not seen yet";
}

/** How many replicas the nodes should run and how many of those are healthy, by role. */
function fleetOf({ fleet }: SeenStatus): string {
  const roles = replicaRoles.map((role) => {
    const healthy = fleet.totals[role]?.HEALTHY ?? 0;
    return `${role} ${healthy}/${fleet.wanted[role]}`;
  });
  const nodes = fleet.nodes.map(({ id, replicas, cordoned, signs }) => {
    const notes = [...(cordoned ? ["cordoned"] : []), ...(signs.length > 0 ? [`(${signs.join("; ")})`] : [])];
    return [id, replicas, ...notes].join(" ");
  });
  const others = fleet.leftOut.nodes > 0 ? [`${figure(fleet.leftOut.nodes)} more`] : [];
  return `${roles.join(", ")} on ${[...nodes, ...others].join(", ") || "no node"}`;
}

/** Replicas of several processes: how many of each run, and where the others are. */
function groupsOf({ fleet }: SeenStatus): readonly string[] {
  return fleet.replicas.flatMap(({ id, ranks }) =>
    ranks ? [[`${id}: ${ranks.up} of ${ranks.size} ranks up`, ...ranks.absent].join(", ")] : [],
  );
}

/** Everybody, by role and health. */
function totalsText(totals: JobStatus["totals"]): string {
  const roles = Object.entries(totals).map(([role, counts]) => {
    const each = Object.entries(counts).map(([health, count]) => `${figure(count)} ${health.toLowerCase()}`);
    return `${role} ${each.join(", ")}`;
  });
  return roles.join("; ");
}

/** How many rows are missing, so that nobody takes the table for everybody. */
function leftOutOf({ membersLeftOut, fleet }: SeenStatus): readonly string[] {
  const { replicas } = fleet.leftOut;
  const lines = [
    ...(membersLeftOut > 0 ? [`${figure(membersLeftOut)} more members, who is well first, are not in this table`] : []),
    ...(replicas > 0
      ? [`managed replicas: ${totalsText(fleet.totals)}; ${figure(replicas)} of them are not looked at here`]
      : []),
  ];
  return lines.length > 0 ? ["", ...lines] : [];
}

/** Managed replicas that are no members now: starting, dead, given up. */
function absentOf({ fleet, members }: SeenStatus): readonly (readonly string[])[] {
  const known = new Set(members.map(({ id }) => id));
  // Who is healthy is a member: its row may be one that is left out.
  const absent = fleet.replicas.filter(({ id, health }) => !known.has(id) && health !== "HEALTHY");
  return absent.map(({ id, role, health, node, devices, deaths }) => {
    const detail = deaths > 0 ? `${deaths} deaths` : "–";
    return [id, role, health.toLowerCase(), placeOf({ node, devices }), "–", detail, "–", "–", "–", "–"];
  });
}

/** The node of a replica, and the devices that it has there. */
function placeOf(managed?: Pick<FleetReplica, "node" | "devices">): string {
  const { node = null, devices = [] } = managed ?? {};
  return `${node ?? "–"}${devices.length > 0 ? `: ${devices.join(",")}` : ""}`;
}

/** Why trajectories were given up, in one line. */
function causeOf({ count, name, message, frame, sample }: SeenStatus["causes"][number]): string {
  const where = [frame === null ? "" : `at ${frame}`, sample === null ? "" : `first ${sample}`].filter(Boolean);
  return `${figure(count)} × ${name}: ${message.slice(0, 80)}${where.length > 0 ? ` (${where.join(", ")})` : ""}`;
}

/** Those of all terms. */
function incidentsOf({ incidents: { counts, open, ettr } }: SeenStatus): string {
  const named = Object.entries(counts).flatMap(([kind, count]) => (count > 0 ? `${count} × ${kind}` : []));
  const productive = ettr === null ? "" : `; ${percent(ettr)} of the time productive`;
  return `${named.join(", ") || "none"}${open > 0 ? `, ${open} not over` : ""}${productive}`;
}

/** The last settings that an operator changed, and since when they count. */
function changesOf({ changes = [], step }: SeenStatus): readonly string[] {
  return changes.slice(-changesShown).map(({ fromStep, settings }) => {
    const since = fromStep > step + 1 ? `from step ${fromStep} on` : `since step ${fromStep}`;
    return `${settingsText(settings)} ${since}`;
  });
}

function stepOf({ step, steps, attempt }: SeenStatus): string {
  return `${figure(step)}/${figure(steps)} committed${attempt > 1 ? `, attempt ${attempt} of the next` : ""}`;
}

function weightsOf({ version, lineage, sections }: SeenStatus): string {
  if (version === null) return `none yet, lineage ${lineage}`;
  const digest = sections.find(({ name }) => name === "weights")?.digest;
  return `version ${version}, lineage ${lineage}${digest ? `, ${digest}` : ""}`;
}

/** A status that is not written any more must not pass for the present. */
function warningOf({ ageMs, phase }: SeenStatus): readonly string[] {
  if (ageMs <= statusAgeMaxMs || phase === "stopped") return [];
  return [
    `! this is ${duration(ageMs)} old: the controller may be gone; see its log, or take the job over with: muster controller`,
    "",
  ];
}

/** Ages of beats were taken when the status was written. */
function cellsOf(member: MemberStatus, { ageMs, fleet }: SeenStatus): readonly string[] {
  const { id, role, ranks, version, phase, order, beatAgeMs, loopLagMs, rssBytes } = member;
  const managed = fleet.replicas.find((each) => each.id === id);
  const isCordoned = managed?.cordoned || fleet.nodes.some((node) => node.id === id && node.cordoned);
  return [
    id,
    ranks > 1 ? `${role}, ${ranks} ranks` : role,
    `${managed?.health.toLowerCase() ?? member.health}${isCordoned ? ", cordoned" : ""}`,
    placeOf(managed),
    version === null ? "–" : `${version}`,
    phase ?? "–",
    order ?? "–",
    beatAgeMs === null ? "–" : duration(beatAgeMs + ageMs),
    loopLagMs === null ? "–" : duration(loopLagMs),
    rssBytes === null ? "–" : formatSize(rssBytes),
  ];
}
