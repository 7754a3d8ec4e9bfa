/**
 * Trainers that can not agree on bits, told apart before they compute a step: each says in the handshake of the mesh what came of a short computation on its
 * own machine. Who says nothing is an engine without such a computation, and is told apart by its votes, as before.
 */
import { type Body, type EngineSaid, engineKindsMax } from "@muster/protocol";
import { announce, type Change } from "../events.ts";
import { evictHeld } from "../orders.ts";
import { type ControllerState, type Member, type Mesh, meshMembersOf } from "../state.ts";

/**
 * Puts those out of a mesh that all have joined whose fingerprint is not that of the mesh, where trainers vote on the bits of their whole state. Pure.
 *
 * @returns `null` where all may stay.
 */
export function refuseOtherBits(state: ControllerState): Change<ControllerState> | null {
  const { mesh, plan } = state;
  const { engines = {} } = mesh;
  const fingerprint = fingerprintOf(mesh);
  if ((plan.agreement ?? "state") !== "state" || fingerprint === undefined) return null;
  const members = meshMembersOf(state);
  const first = members.find(({ id }) => engines[id]?.fingerprint === fingerprint);
  const others = members.filter(({ id }) => engines[id] && engines[id].fingerprint !== fingerprint);
  if (others.length === 0) return null;
  return others.reduce<Change<ControllerState>>(
    (change, member) => {
      const reason = reasonOf(member, first, engines, fingerprint);
      const out = evictHeld(change.state, member, reason);
      const alarm = announce("alarm.raised", { alarm: "fingerprint", detail: reason });
      return { state: out.state, effects: [...change.effects, ...out.effects, alarm] };
    },
    { state: { ...state, mesh: { ...mesh, fingerprint } }, effects: [] },
  );
}

/**
 * What the next mesh knows of this one's bits: its fingerprint goes with those who stay and said that they have it. Who was only about to join has said
 * nothing, or something else: alone, it is right. Pure.
 */
export function handedOn({ fingerprint, engines = {} }: Mesh, staying: readonly Member[]): Partial<Mesh> {
  const having = staying.flatMap(({ id }) => {
    const said = engines[id];
    return said !== undefined && said.fingerprint === fingerprint ? [[id, said] as const] : [];
  });
  return fingerprint === undefined || having.length === 0 ? {} : { fingerprint, engines: Object.fromEntries(having) };
}

/** What the members of a mesh compute with: that of the mesh before, where one of them had it; else what most of them have, of two the one of the lower rank. Pure. */
export function fingerprintOf({ members, engines = {}, fingerprint }: Mesh): string | undefined {
  const said = members.flatMap((id) => engines[id]?.fingerprint ?? []);
  if (fingerprint !== undefined) return fingerprint;
  const counts = new Map<string, number>();
  // no mutant: what is counted more for one is counted more for each
  for (const one of said) counts.set(one, (counts.get(one) ?? 0) + 1);
  return [...counts].reduce<readonly [string | undefined, number]>(
    (best, one) => (one[1] > best[1] ? one : best),
    [undefined, 0],
  )[0];
}

/** The different engines of a mesh and how many of its members have each, in order of their ranks; empty where nobody says. Pure. */
export function enginesOf({ members, engines = {} }: Mesh): Pick<Body<"mesh.changed">, "engines"> {
  const kinds = new Map<string, EngineSaid & { readonly members: number }>();
  for (const id of members) {
    const said = engines[id];
    if (!said) continue;
    const key = `${said.build} ${said.fingerprint}`;
    kinds.set(key, { ...said, members: (kinds.get(key)?.members ?? 0) + 1 });
  }
  return kinds.size === 0 ? {} : { engines: [...kinds.values()].slice(0, engineKindsMax) };
}

function reasonOf(
  { id }: Member,
  first: Member | undefined,
  engines: Readonly<Record<string, EngineSaid>>,
  fingerprint: string,
): string {
  const own = engines[id];
  const theirs = first ? `${first.id} (engine build ${engines[first.id]?.build})` : "the mesh";
  return `${id} (engine build ${own?.build}) computes other bits than ${theirs}: its numeric fingerprint is ${own?.fingerprint}, and theirs is ${fingerprint}. job.agreement = "state" needs equal bits of all trainers: run it on the same kind of processor or device, with the same libraries and options, or set job.agreement = "leader", or "weights" where only what samplers get must be equal`;
}
