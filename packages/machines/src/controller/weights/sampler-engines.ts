/**
 * What samplers compute with: each says it with the first version that it holds. Samplers of other bits may draw side by side, and then it depends on who drew a
 * response which one it is: such a job has level L1 at most, and its operator hears of it once for each kind.
 */
import { type Body, type EngineSaid, engineKindsMax, traitsOf } from "@muster/protocol";
import { announce, type Change } from "../events.ts";
import { type ControllerState, type Member, membersOf, withMember } from "../state.ts";

/** Takes what a sampler says of its engine; only the first word of each life counts. Pure. */
export function noteEngine(
  state: ControllerState,
  { id, role, engine }: Member,
  said: EngineSaid | undefined,
): Change<ControllerState> {
  if (said === undefined || engine !== undefined || !traitsOf(role).drawsGroups) return { state, effects: [] };
  const known = state.samplerEngines ?? [];
  const at = known.findIndex(({ build, fingerprint }) => build === said.build && fingerprint === said.fingerprint);
  if (at >= 0) return { state: withMember(state, id, { engine: at }), effects: [] };
  if (known.length >= engineKindsMax) return { state, effects: [] };
  const next = withMember({ ...state, samplerEngines: [...known, said] }, id, { engine: known.length });
  const [first] = known;
  const isAnother = first !== undefined && known.every(({ fingerprint }) => fingerprint !== said.fingerprint);
  // A job that trains on old weights promises nothing that this could break.
  if (!isAnother || state.plan.stalenessMax > 0) return { state: next, effects: [] };
  const detail = `${id} (engine build ${said.build}) draws with other bits than the samplers before it: its numeric fingerprint is ${said.fingerprint}, and theirs is ${first.fingerprint} (engine build ${first.build}). Which response a prompt gets depends on who draws it, so the job has level L1 at most; for more, run all samplers on the same kind of processor or device, with the same libraries and options`;
  return { state: next, effects: [announce("alarm.raised", { alarm: "fingerprint", detail })] };
}

/** The different engines of the samplers that are there, and how many have each; empty where nobody says. Pure. */
export function samplersOf(state: ControllerState): Pick<Body<"mesh.changed">, "engines"> {
  const counts = new Map<number, number>();
  for (const { engine } of membersOf(state, "rollout"))
    if (engine !== undefined) counts.set(engine, (counts.get(engine) ?? 0) + 1);
  const kinds = (state.samplerEngines ?? []).flatMap((kind, i) => {
    const members = counts.get(i);
    return members === undefined ? [] : [{ ...kind, members }];
  });
  return kinds.length > 0 ? { engines: kinds } : {};
}
