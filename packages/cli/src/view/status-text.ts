/** The picture of a job in a few lines. Pure; text from outside is cleaned. */
import type { MemberStatus } from "@muster/actors";
import { formatSize } from "@muster/base";
import { type Picture, pictureAgeMaxMs } from "../job/picture.ts";
import { cleanLine, ledgerEquation } from "../report/index.ts";
import { duration, figure, percent } from "../report/text.ts";
import { type Column, table } from "./table.ts";

const columns: readonly Column[] = [
  { title: "MEMBER" },
  { title: "ROLE" },
  { title: "HEALTH" },
  { title: "VERSION", right: true },
  { title: "PHASE" },
  { title: "ORDER" },
  { title: "BEAT", right: true },
  { title: "LAG", right: true },
  { title: "RSS", right: true },
];

/** Root causes in the picture. */
const causesShown = 5;

/** Writes the picture: the job, its mesh, ledger and checkpoint, then one line per member. */
export function statusText(picture: Picture): string {
  const rows: (readonly [string, string])[] = [
    ["job", `${picture.job}, ${picture.phase}, term ${picture.term}`],
    ["step", stepOf(picture)],
    ["weights", weightsOf(picture)],
    ["mesh", `epoch ${picture.epoch}${picture.mesh.length > 0 ? `: ${picture.mesh.join(", ")}` : ", no members"}`],
    ["ledger", ledgerEquation(picture.ledger)],
    [
      "leases",
      `${picture.leases} out; dropped ${picture.dropped.duplicate} duplicates, ${picture.dropped.stale} stale`,
    ],
    ...picture.causes.slice(0, causesShown).map((cause, i) => [i === 0 ? "given up" : "", causeOf(cause)] as const),
    ["incidents", incidentsOf(picture)],
    ["checkpoint", picture.checkpoint ? `step ${picture.checkpoint.step} in ${picture.checkpoint.path}` : "none yet"],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const facts = rows.map(([name, value]) => `${name.padEnd(width)}  ${cleanLine(value, 200)}`);
  const members =
    picture.members.length === 0
      ? ["no members"]
      : table(
          columns,
          picture.members.map((member) => cellsOf(member, picture.ageMs)),
        );
  return [...warningOf(picture), ...facts, "", ...members].join("\n");
}

/** Why trajectories were given up, in one line. */
function causeOf({ count, name, message, frame, sample }: Picture["causes"][number]): string {
  const where = [frame === null ? "" : `at ${frame}`, sample === null ? "" : `first ${sample}`].filter(Boolean);
  return `${figure(count)} × ${name}: ${message.slice(0, 80)}${where.length > 0 ? ` (${where.join(", ")})` : ""}`;
}

/** Those of the acting controller's term. */
function incidentsOf({ incidents: { counts, open, ettr } }: Picture): string {
  const named = Object.entries(counts).flatMap(([kind, count]) => (count > 0 ? `${count} × ${kind}` : []));
  const productive = ettr === null ? "" : `; ${percent(ettr)} of the time productive`;
  return `${named.join(", ") || "none"}${open > 0 ? `, ${open} not over` : ""} in term${productive}`;
}

function stepOf({ step, steps, attempt }: Picture): string {
  return `${figure(step)}/${figure(steps)} committed${attempt > 1 ? `, attempt ${attempt} of the next` : ""}`;
}

function weightsOf({ version, lineage, sections }: Picture): string {
  if (version === null) return `none yet, lineage ${lineage}`;
  const digest = sections.find(({ name }) => name === "weights")?.digest;
  return `version ${version}, lineage ${lineage}${digest ? `, ${digest}` : ""}`;
}

/** A picture that is not drawn any more must not pass for the present. */
function warningOf({ ageMs, phase }: Picture): readonly string[] {
  if (ageMs <= pictureAgeMaxMs || phase === "stopped") return [];
  return [
    `! this is ${duration(ageMs)} old: the controller may be gone; see its log, or take the job over with: muster controller`,
    "",
  ];
}

/** Ages of beats were taken when the picture was drawn. */
function cellsOf(member: MemberStatus, ageMs: number): readonly string[] {
  const { id, role, health, version, phase, order, beatAgeMs, loopLagMs, rssBytes } = member;
  return [
    id,
    role,
    health,
    version === null ? "–" : `${version}`,
    phase ?? "–",
    order ?? "–",
    beatAgeMs === null ? "–" : duration(beatAgeMs + ageMs),
    loopLagMs === null ? "–" : duration(loopLagMs),
    rssBytes === null ? "–" : formatSize(rssBytes),
  ];
}
