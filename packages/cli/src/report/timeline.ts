/** The life of each replica on one axis of time, with the incidents above, as inline SVG. Pure. */
import { px } from "./chart.ts";
import { html, type Markup } from "./markup.ts";
import { scaleOf } from "./scale.ts";
import { cleanLine, duration } from "./text.ts";
import type { Incident, MemberRecord, RunRecord } from "./types.ts";

const width = 1040;
const lane = { height: 20, bar: 10, left: 130, right: 14, top: 26 };
const lanesMax = 200;
const incidentsMax = 300;

/** Colour of each role; any other role is faint. */
const roleColors: Readonly<Record<string, string>> = { policy: "c1", rollout: "c2", checkpoint: "c3" };
const roleOrder = ["policy", "rollout", "checkpoint"];

/** Draws the timeline of a run: one lane per replica, one bar per life, `×` where a life ended by death. */
export function timeline(record: RunRecord): Markup {
  const lanes = lanesOf(record.members);
  const shown = lanes.slice(0, lanesMax);
  if (shown.length === 0) return html`<p class="none">No replicas.</p>`;
  const endMs = endOf(record);
  const x = (ms: number): number =>
    lane.left + (Math.min(Math.max(0, ms), endMs) / endMs) * (width - lane.left - lane.right);
  const bottom = lane.top + shown.length * lane.height + 4;
  const rows = shown.map((lives, index) => laneOf(lives, { x, endMs, y: lane.top + index * lane.height }));
  const marks = record.summary.incidents.slice(0, incidentsMax).map((incident) => incidentOf(incident, x, bottom));
  const more = lanes.length - shown.length;
  return html`<svg viewBox="0 0 ${width} ${bottom + 26}" role="img"><title>Replica timeline</title><desc>Lives of ${lanes.length} replicas over ${duration(endMs)}, with ${record.summary.incidents.length} incidents.</desc>
${axisOf(endMs, x, bottom)}${marks}${rows}</svg>${more > 0 ? html`<p class="none">${more} more replicas are not drawn.</p>` : null}`;
}

/** Lives by replica, replicas by role and then by name with numbers in their order. */
function lanesOf(members: readonly MemberRecord[]): readonly (readonly MemberRecord[])[] {
  const byId = new Map<string, MemberRecord[]>();
  for (const member of members) {
    const lives = byId.get(member.id);
    if (lives) lives.push(member);
    else byId.set(member.id, [member]);
  }
  const rank = (role: string): number => (roleOrder.indexOf(role) + roleOrder.length + 1) % (roleOrder.length + 1);
  return [...byId.entries()]
    .sort(
      ([idA, [a]], [idB, [b]]) =>
        rank(a?.role ?? "") - rank(b?.role ?? "") || idA.localeCompare(idB, "en", { numeric: true }),
    )
    .map(([, lives]) => lives.sort((a, b) => a.joined_ms - b.joined_ms));
}

function endOf({ members, steps, summary }: RunRecord): number {
  const times = [
    summary.wall_s * 1000,
    steps.at(-1)?.at_ms ?? 0,
    ...members.flatMap((member) => [member.joined_ms, member.left_ms ?? 0]),
    ...summary.incidents.map((incident) => incident.at_ms),
  ];
  return Math.max(
    1,
    times.reduce((end, time) => (Number.isFinite(time) ? Math.max(end, time) : end), 0),
  );
}

function laneOf(
  lives: readonly MemberRecord[],
  place: { readonly x: (ms: number) => number; readonly endMs: number; readonly y: number },
): Markup {
  const middle = place.y + lane.height / 2;
  const { id = "", role = "" } = lives[0] ?? {};
  const bars = lives.map((life) => barOf(life, place, middle));
  return html`<g class="${roleColors[role] ?? "faint"}"><text class="name" x="0" y="${px(middle + 4)}">${cleanLine(id, 18)}<title>${cleanLine(id, 100)}, ${cleanLine(role, 40)}</title></text><line class="grid" x1="${lane.left}" x2="${width - lane.right}" y1="${px(middle)}" y2="${px(middle)}"/>${bars}</g>`;
}

function barOf(
  life: MemberRecord,
  place: { readonly x: (ms: number) => number; readonly endMs: number },
  middle: number,
): Markup {
  const from = place.x(life.joined_ms);
  const to = Math.max(from + 2, place.x(life.left_ms ?? place.endMs));
  const until = life.left_ms === null ? "to the end" : `${life.how ?? "gone"} at ${duration(life.left_ms)}`;
  const label = `${cleanLine(life.id, 60)} ${cleanLine(life.incarnation, 60)}: joined at ${duration(life.joined_ms)}, ${until}`;
  const y = px(middle - lane.bar / 2);
  const bar = html`<rect x="${px(from)}" y="${y}" width="${px(to - from)}" height="${lane.bar}" rx="2"><title>${label}</title></rect>`;
  return html`${bar}${life.how === "died" ? crossOf(to, middle) : null}`;
}

function crossOf(x: number, y: number): Markup {
  const [left, right, top, bottom] = [x - 3.5, x + 3.5, y - 3.5, y + 3.5].map(px) as [string, string, string, string];
  return html`<path class="death" d="M${left},${top}L${right},${bottom}M${left},${bottom}L${right},${top}"/>`;
}

function incidentOf(incident: Incident, x: (ms: number) => number, bottom: number): Markup {
  const at = x(incident.at_ms);
  const label = `${duration(incident.at_ms)} ${cleanLine(incident.kind, 60)} ${cleanLine(incident.subject, 60)}: ${cleanLine(incident.detail, 200)}`;
  const back = incident.recover_ms === undefined ? at : x(incident.at_ms + incident.recover_ms);
  const window = html`<rect class="window" x="${px(at)}" y="15" width="${px(Math.max(0, back - at))}" height="${bottom - 15}"/>`;
  const tip = `M${px(at - 4)},8L${px(at + 4)},8L${px(at)},15Z`;
  return html`<g class="mark">${window}<line x1="${px(at)}" x2="${px(at)}" y1="15" y2="${bottom}"/><path d="${tip}"/><title>${label}</title></g>`;
}

function axisOf(endMs: number, x: (ms: number) => number, bottom: number): Markup {
  const [unit, unitMs] = endMs >= 7_200_000 ? ["h", 3_600_000] : endMs >= 300_000 ? ["min", 60_000] : ["s", 1000];
  const { digits, ticks } = scaleOf(0, endMs / Number(unitMs), 10);
  const labels = ticks
    .filter((tick) => tick * Number(unitMs) <= endMs)
    .map(
      (tick) =>
        html`<text x="${px(x(tick * Number(unitMs)))}" y="${bottom + 17}" text-anchor="middle">${tick.toFixed(digits)}</text>`,
    );
  return html`<g><line class="axis" x1="${lane.left}" x2="${width - lane.right}" y1="${bottom}" y2="${bottom}"/>${labels}<text x="0" y="${bottom + 17}">time, ${unit ?? ""}</text></g>`;
}
