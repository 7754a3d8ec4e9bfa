/**
 * The failure detector: verdicts from the silence of heartbeats (reliability 4). Arrival is measured on the receiver's own clock, only
 * fresh beats of the current incarnation count, and while the view itself is bad nobody is accused.
 */

/** When one member was last heard. */
export interface Sighting {
  readonly incarnation: string;
  readonly lastMs: number;
  readonly seq: number;
  readonly suspected: boolean;
}

/** What the detector remembers. */
export interface DetectorState {
  readonly sightings: Readonly<Record<string, Sighting>>;
  /** Until then nobody is accused: the broker or this process was away. */
  readonly blindUntilMs: number;
}

/** Silence after which a member gets no new work, and after which it is out. */
export interface DetectorTiming {
  readonly suspectAfterMs: number;
  readonly deadAfterMs: number;
}

/** What the detector found of one incarnation. */
export interface Verdict {
  readonly type: "verdict.suspect" | "verdict.recover" | "verdict.dead";
  readonly id: string;
  readonly incarnation: string;
  readonly evidence: string;
}

/** A detector that has heard nothing. */
export const initialDetector: DetectorState = { sightings: {}, blindUntilMs: 0 };

/** A heartbeat arrived. Late or repeated ones count for nothing, and so do those of another life than the one that is watched. Pure. */
export function applyBeat(
  state: DetectorState,
  beat: { readonly id: string; readonly incarnation: string; readonly seq: number },
  nowMs: number,
): DetectorState {
  const known = state.sightings[beat.id];
  if (known && (known.incarnation !== beat.incarnation || beat.seq <= known.seq)) return state;
  const { incarnation, seq } = beat;
  const sighting = { incarnation, lastMs: nowMs, seq, suspected: known?.suspected ?? false };
  return { ...state, sightings: { ...state.sightings, [beat.id]: sighting } };
}

/** The view was bad: silence until now proves nothing, and everybody gets a full time-out from now on. Pure. */
export function applyBlindness(state: DetectorState, nowMs: number, timing: DetectorTiming): DetectorState {
  const sightings = Object.entries(state.sightings).map(([id, sighting]) => [id, { ...sighting, lastMs: nowMs }]);
  return { sightings: Object.fromEntries(sightings), blindUntilMs: nowMs + timing.suspectAfterMs };
}

/** Verdicts that are due, and the detector after them. Members never heard count from the first look at them. Pure. */
export function planVerdicts(
  state: DetectorState,
  members: readonly { readonly id: string; readonly incarnation: string }[],
  { nowMs, ...timing }: DetectorTiming & { readonly nowMs: number },
): { readonly state: DetectorState; readonly verdicts: readonly Verdict[] } {
  const verdicts: Verdict[] = [];
  const sightings: Record<string, Sighting> = {};
  for (const { id, incarnation } of members) {
    const known = state.sightings[id];
    const sighting =
      known?.incarnation === incarnation ? known : { incarnation, lastMs: nowMs, seq: -1, suspected: false };
    const verdict = nowMs < state.blindUntilMs ? null : judge(id, sighting, { nowMs, ...timing });
    if (verdict) verdicts.push(verdict);
    const suspected = verdict ? verdict.type === "verdict.suspect" : sighting.suspected;
    sightings[id] = suspected === sighting.suspected ? sighting : { ...sighting, suspected };
  }
  return { state: { ...state, sightings }, verdicts };
}

function judge(id: string, sighting: Sighting, timing: DetectorTiming & { readonly nowMs: number }): Verdict | null {
  const { incarnation, lastMs, suspected } = sighting;
  const silentMs = timing.nowMs - lastMs;
  const evidence = `no heartbeat for ${Math.round(silentMs)} ms`;
  if (silentMs >= timing.deadAfterMs) return { type: "verdict.dead", id, incarnation, evidence };
  // Who was never heard is still starting, perhaps on a busy host: only the dead time-out counts.
  if (silentMs >= timing.suspectAfterMs && sighting.seq >= 0)
    return suspected ? null : { type: "verdict.suspect", id, incarnation, evidence };
  return suspected ? { type: "verdict.recover", id, incarnation, evidence: "heartbeats came back" } : null;
}
