/**
 * What must hold at every moment of every run, whatever fails: each checker is an observer with a memory of its own, so that it cannot
 * share a mistake with what it watches. Names in brackets are the invariants of the design.
 */
import { type ControllerState, imbalanceOf, ledgerOf } from "@muster/machines/controller";
import { expect } from "vitest";
import type { Cluster, Observer } from "./cluster.ts";

/** A fresh set of all checkers, for one cluster. */
export function checkers(): readonly Observer[] {
  return [
    ledgerBalances(),
    commitsOnce(),
    oneDigestAVersion(),
    versionsGrow(),
    epochsGrow(),
    commitComesFirst(),
    bounds(),
  ];
}

/** [S15] `admitted = trained + aborted + quarantined + pending`, and no count is negative. */
function ledgerBalances(): Observer {
  return {
    input: (cluster, event) => {
      const ledger = ledgerOf(cluster.state);
      const text = `ledger after ${event.type}: ${JSON.stringify(ledger)}`;
      if (imbalanceOf(ledger) !== 0 || Object.values(ledger).some((count) => count < 0)) expect.fail(text);
    },
  };
}

/** [S16, S18, S24] Steps are committed in order, each once a lineage; no group twice; none is too old. */
function commitsOnce(): Observer {
  let lineage = 0;
  let next = 1;
  let last = "";
  const groupsOf = new Map<number, readonly string[]>();
  return {
    input: ({ state, options }) => {
      const { applied } = state;
      if (state.restore.lineage > lineage) {
        lineage = state.restore.lineage;
        next = state.step.step;
        for (const step of [...groupsOf.keys()].filter((committed) => committed >= next)) groupsOf.delete(step);
      }
      if (!applied || last === `${applied.lineage}.${applied.version}`) return;
      last = `${applied.lineage}.${applied.version}`;
      const receipts = state.history[applied.step] ?? [];
      const groups = receipts.map(({ step, index }) => `${step}.${index}`);
      expect({ lineage: applied.lineage, step: applied.step }, "the commit").toEqual({ lineage, step: next });
      const trained = new Set([...groupsOf.values()].flat());
      expect(
        groups.filter((id, i) => trained.has(id) || groups.indexOf(id) !== i),
        "groups trained twice",
      ).toEqual([]);
      const oldest = Math.min(...receipts.map(({ version }) => version));
      expect(applied.version - 1 - oldest, `staleness of step ${next}`).toBeLessThanOrEqual(options.plan.stalenessMax);
      groupsOf.set(applied.step, groups);
      next = applied.step + 1;
    },
  };
}

/** [S10] Whoever says that it holds a version has the digest that was committed. */
function oneDigestAVersion(): Observer {
  const digests = new Map<string, string>();
  const check = (key: string, sections: readonly { name: string; digest: string }[], who: string): void => {
    for (const { name, digest } of sections) {
      const known = digests.get(`${key} ${name}`) ?? digest;
      if (known !== digest) expect.fail(`${who} has ${digest} for version ${key}, which is ${known}`);
      digests.set(`${key} ${name}`, digest);
    }
  };
  return {
    controlled: (_, effect) => {
      if (effect.type === "announce" && effect.kind === "step.committed")
        check(`${effect.body.lineage}.${effect.body.version}`, effect.body.sections, "the commit");
    },
    performed: (_, replica, effect) => {
      if (effect.type === "report" && effect.kind === "weights.held")
        check(`${effect.body.lineage}.${effect.body.version}`, effect.body.sections, replica.id);
    },
  };
}

/** [S9, S2] Versions never go back within a lineage: not on a replica, not in the controller's table. Nor do lineages, terms, epochs. */
function versionsGrow(): Observer {
  const live = new Map<string, readonly [number, number]>();
  const table = new Map<string, readonly [number, number]>();
  let before: readonly number[] = [0, 0, 0];
  const grow = (seen: Map<string, readonly [number, number]>, key: string, now: readonly [number, number]): void => {
    const last = seen.get(key) ?? now;
    if (now[0] < last[0] || (now[0] === last[0] && now[1] < last[1])) expect.fail(`${key} goes from ${last} to ${now}`);
    seen.set(key, now);
  };
  return {
    performed: (_, replica, effect) => {
      if (effect.type !== "report" || effect.kind !== "weights.held") return;
      grow(live, `${replica.id} as ${replica.incarnation}`, [effect.body.lineage, effect.body.version]);
    },
    input: ({ state }) => {
      for (const { id, incarnation, held } of Object.values(state.members))
        if (held) grow(table, `${id} as ${incarnation} in the table`, [held.lineage, held.version]);
      const now = [state.term, state.mesh.epoch, state.weights?.lineage ?? state.restore.lineage];
      if (now.some((value, i) => value < (before[i] ?? 0)))
        expect.fail(`term, epoch, lineage from ${before} to ${now}`);
      before = now;
    },
  };
}

/** [S6, S14] A replica computes only in the newest epoch that it joined, from the weights that the order names. */
function epochsGrow(): Observer {
  const opened = new Map<string, number>();
  return {
    performed: (_, replica, effect) => {
      const newest = opened.get(replica.incarnation) ?? 0;
      if (effect.type === "mesh.open") {
        expect(effect.body.epoch, `${replica.id} opens an epoch`).toBeGreaterThan(newest);
        opened.set(replica.incarnation, effect.body.epoch);
      }
      if (effect.type !== "step.compute") return;
      expect(effect.body.epoch, `${replica.id} computes in an epoch`).toBe(newest);
      expect(`${effect.body.lineage}.${effect.body.version}`, `${replica.id} computes from`).toBe(
        replica.memory.liveKey,
      );
    },
  };
}

/** [S22] No candidate becomes live before its commit is in the journal. */
function commitComesFirst(): Observer {
  const committed = new Set<string>();
  return {
    controlled: (_, effect) => {
      if (effect.type === "command" && effect.kind === "step.apply")
        committed.add(`${effect.body.lineage}.${effect.body.version} ${effect.body.sections[0]?.digest}`);
    },
    performed: (cluster, replica, effect) => {
      if (effect.type !== "step.promote") return;
      const key = `${effect.body.lineage}.${effect.body.version} w-${replica.memory.candidate}`;
      if (!committed.has(key)) expect.fail(`${replica.id} promotes ${key}, which is not committed`);
      expect(cluster.inputs.length).toBeGreaterThan(0);
    },
  };
}

/** [S8, S31] One life of an id is a member; a rollout has no more leases than allowed; no group waits in two places of the queue. */
function bounds(): Observer {
  return {
    input: ({ state }) => {
      const leases = Object.values(state.leases);
      for (const { id } of Object.values(state.members)) {
        const own = leases.filter(({ holder }) => holder === id);
        const groupsMax = state.plan.limits.leaseGroupsMax;
        // A whole share of a step is one lease, and counts as those that it stands for.
        const count = own.reduce((sum, { items }) => sum + Math.max(1, Math.ceil(items.length / groupsMax)), 0);
        if (count > state.plan.limits.leasesPerRollout) expect.fail(`${id} has ${count} leases`);
      }
      for (const { holder } of leases) if (!state.members[holder]) expect.fail(`${holder} is gone and has a lease`);
      for (const [step, groups] of Object.entries(state.groups)) checkGroups(state, step, groups);
    },
  };
}

/** Every group of an open step is in at least one place, and not in two that exclude each other. */
function checkGroups(state: ControllerState, step: string, groups: ControllerState["groups"][string]): void {
  const leased = new Set(
    Object.values(state.leases).flatMap(({ items }) =>
      items.flatMap((item) => (item.purpose === "train" && String(item.step) === step ? [item.index] : [])),
    ),
  );
  const queued = groups.queue.map(({ index }) => index);
  if (new Set(queued).size !== queued.length) expect.fail(`step ${step} has a group twice in its queue`);
  for (let index = 0; index < state.plan.groupsPerStep; index++) {
    const isSettled = groups.receipts[index] !== undefined || groups.quarantined.includes(index);
    if (isSettled && queued.includes(index)) expect.fail(`group ${step}.${index} is settled and queued`);
    if (!isSettled && !queued.includes(index) && !leased.has(index)) expect.fail(`group ${step}.${index} is lost`);
  }
}

/** [S4] The journal, replayed, gives exactly the live state. */
export function expectReplayable(cluster: Cluster): void {
  expect(JSON.stringify(cluster.replay().context)).toBe(JSON.stringify(cluster.controller.context));
}
