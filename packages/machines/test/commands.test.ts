/** Commands of operators: once per id, answered in public, finished by what happened (semantics 6.16). */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import { control } from "@muster/machines/internal";
import { describe, expect, it } from "vitest";
import { finish } from "../src/controller/fleet/commands.ts";
import type { CommandRow, FleetReplica } from "../src/controller/fleet/fleet-state.ts";
import { finishStops, planCommands } from "../src/controller/fleet/plan-commands.ts";
import { type CommandEvent, takeCommand } from "../src/controller/fleet/take-command.ts";
import { initialControllerState } from "../src/controller/state.ts";
import { fleetOf, replicaOf } from "./fleet-rows.ts";
import { bodiesOf, memberOf, planWith, stepping, voteFor } from "./states.ts";

/** A job with a node that runs two rollouts, and an operator. */
class Desk {
  state: ControllerState;
  said: ReturnType<typeof control>["effects"] = [];
  #pid = 10;

  constructor() {
    const replicas = { policy: 0, rollout: 2, checkpoint: 0 };
    this.state = initialControllerState(planWith({ replicas, checkpointReplicas: 0 }));
    this.hear({ type: "controller.elected", term: 1 });
    this.join("n0", "node");
    this.report("n0", "node.ready", { capacity: { policy: null, rollout: null, checkpoint: null } });
    for (const id of ["rollout-0", "rollout-1"]) this.start(id);
  }

  hear(event: object): this {
    const { state, effects } = control(this.state, { atMs: this.state.nowMs, ...event } as ControllerEvent);
    this.state = state;
    this.said = effects;
    return this;
  }

  join(id: string, role: string): this {
    const body = { role, host: "h", pid: ++this.#pid, engineBuild: role === "node" ? "" : "b" };
    return this.hear({ type: "replica.register", from: id, role, incarnation: `${id}-${this.#pid}`, body });
  }

  report(from: string, type: string, body: object): this {
    const { role, incarnation } = this.state.members[from] ?? { role: "rollout", incarnation: "?" };
    return this.hear({ type, from, role, incarnation, body });
  }

  start(id: string): this {
    this.report("n0", "process.started", { id, host: "h", pid: this.#pid + 1, life: 1 });
    return this.join(id, "rollout");
  }

  end(id: string): this {
    const pid = this.state.members[id]?.pid ?? 0;
    this.report(id, "replica.left", { reason: "drained" });
    return this.report("n0", "process.exited", { id, host: "h", pid, code: 0, signal: null, life: 1 });
  }

  /** Takes a health for given, where the way to it is not what a test is about. */
  healthy(id: string): this {
    const replica = this.state.fleet.replicas[id];
    if (!replica) throw new Error(`no ${id}`);
    const replicas = { ...this.state.fleet.replicas, [id]: { ...replica, health: "HEALTHY" as const } };
    this.state = { ...this.state, fleet: { ...this.state.fleet, replicas } };
    return this.hear({ type: "controller.tick" });
  }

  ask(type: string, body: object, commandId?: string): this {
    const named = commandId === undefined ? body : { ...body, commandId };
    return this.hear({ type, from: "ops", role: "operator", incarnation: "i1", body: named });
  }

  get accepted() {
    return bodiesOf(this.said, "command.accepted");
  }

  get done() {
    return bodiesOf(this.said, "command.done");
  }

  get refused() {
    return bodiesOf(this.said, "command.refused");
  }
}

describe("a command", () => {
  it("is accepted with who and what, and done when it has happened", () => {
    const desk = new Desk().healthy("rollout-0").healthy("rollout-1").ask("fleet.scale", { rollout: 3 }, "c1");
    expect(desk.accepted).toEqual([
      { commandId: "c1", kind: "fleet.scale", by: "ops i1", asked: '{"rollout":3}', detail: "rollout 2 → 3" },
    ]);
    expect(desk.done).toEqual([]);
    desk.start("rollout-2").healthy("rollout-2");
    expect(desk.done).toMatchObject([{ commandId: "c1", outcome: "done", detail: "rollout = 3" }]);
  });

  it("that comes again is answered again and done no second time, also by the controller of another term", () => {
    const desk = new Desk().ask("replica.replace", { id: "rollout-0" }, "c1");
    const made = desk.state.fleet.made.rollout;
    desk.hear({ type: "controller.elected", term: 2 }).ask("replica.replace", { id: "rollout-0" }, "c1");
    expect(desk.accepted).toMatchObject([{ commandId: "c1", detail: expect.stringContaining("known") }]);
    expect(desk.state.fleet.made.rollout).toBe(made);
  });

  it("is refused under an id that stands for another one", () => {
    const desk = new Desk().ask("fleet.scale", { rollout: 3 }, "c1").ask("fleet.scale", { rollout: 4 }, "c1");
    expect(desk.refused[0]?.reason).toContain("draw another id");
    expect(desk.state.fleet.wanted.rollout).toBe(3);
  });

  it("without an id gets one", () => {
    expect(new Desk().ask("fleet.cordon", { id: "n0" }).accepted[0]?.commandId).toBe("auto-1");
  });

  it("from a replica counts for nothing", () => {
    const desk = new Desk().report("rollout-0", "fleet.scale", { rollout: 0 });
    expect(desk.state.fleet.wanted.rollout).toBe(2);
    expect(desk.said).toEqual([]);
  });

  it.each([
    ["fleet.scale", {}, "no role is given"],
    ["fleet.scale", { policy: 9 }, "use at most batch.micro_shards = 8"],
    ["fleet.cordon", { id: "nobody" }, 'id = "nobody" is no replica or node of this job; there are: n0, rollout-0'],
    ["replica.drain", { id: "nobody" }, 'id = "nobody"'],
    ["replica.kill", { id: "n0", signal: "SIGKILL" }, "signal it on its host"],
    ["replica.replace", { id: "n0" }, "runs under no node"],
    ["command.cancel", { target: "c9" }, 'target = "c9" is no command'],
  ])("%s %j is refused and changes nothing: %s", (kind, body, reason) => {
    const before = new Desk();
    const desk = new Desk().ask(kind, body, "c1");
    expect(desk.refused[0]?.reason).toContain(reason);
    expect(desk.done).toEqual([]);
    const { commands: _, commandsMade: __, ...fleet } = desk.state.fleet;
    expect(fleet).toEqual((({ commands, commandsMade, ...rest }) => rest)(before.state.fleet));
  });

  it("that is over is forgotten after five hundred others; those under way are not", () => {
    const desk = new Desk().ask("fleet.scale", { rollout: 3 }, "open");
    for (let i = 0; i < 600; i++) desk.ask("fleet.cordon", { id: "n0" }, `c${i}`);
    expect(Object.keys(desk.state.fleet.commands).length).toBeLessThanOrEqual(514);
    expect(desk.state.fleet.commands.open?.answer).toBeNull();
    expect(desk.state.fleet.commands.c0).toBeUndefined();
  });
});

describe("draining", () => {
  it("lowers the number that is wanted, so that nobody takes the place", () => {
    const desk = new Desk().ask("replica.drain", { id: "rollout-0" }, "c1");
    expect(desk.state.fleet.wanted.rollout).toBe(1);
    expect(bodiesOf(desk.said, "replica.stop")).toHaveLength(1);
    desk.end("rollout-0");
    expect(Object.keys(desk.state.fleet.replicas)).toEqual(["rollout-1"]);
    expect(desk.done).toMatchObject([{ commandId: "c1", detail: "rollout-0 is gone" }]);
  });

  it("is taken back only before the replica was let go", () => {
    const desk = new Desk()
      .ask("replica.drain", { id: "rollout-0" }, "c1")
      .ask("command.cancel", { target: "c1" }, "c2");
    expect(desk.refused[0]?.reason).toContain("was let go already");
  });

  it("that is taken back leaves a replica that stays, is wanted again, and is well only with the committed version", () => {
    const desk = new Desk().healthy("rollout-0").healthy("rollout-1");
    const item = { purpose: "train", step: 1, index: 0, attempt: 0 } as const;
    const leases = { "1-1": { holder: "rollout-0", items: [item], dueAtMs: 9_000 } };
    desk.state = { ...desk.state, leases };
    desk.ask("replica.drain", { id: "rollout-0" }, "c1");
    expect(bodiesOf(desk.said, "replica.stop")).toEqual([]);
    expect(desk.state.members["rollout-0"]?.health).toBe("draining");
    desk.ask("command.cancel", { target: "c1" }, "c2");
    expect(desk.done.map(({ commandId, outcome }) => `${commandId} ${outcome}`).sort()).toEqual([
      "c1 cancelled",
      "c2 done",
    ]);
    expect(desk.state.fleet.replicas["rollout-0"]).toMatchObject({ leaving: false, health: "STALE" });
    expect(desk.state.members["rollout-0"]?.health).toBe("healthy");
    expect(desk.state.fleet.wanted.rollout).toBe(2);
    expect(Object.keys(desk.state.fleet.replicas)).toEqual(["rollout-0", "rollout-1"]);
  });
});

describe("replacing", () => {
  it("starts the new one first and lets the old one go when the new one is healthy", () => {
    const desk = new Desk().ask("replica.replace", { id: "rollout-0" }, "c1");
    expect(desk.state.fleet.replicas["rollout-2"]?.node).toBe("n0");
    expect(desk.state.members["rollout-0"]?.health).toBe("healthy");
    desk.start("rollout-2").healthy("rollout-2");
    expect(desk.state.members["rollout-0"]?.health).toBe("draining");
    desk.end("rollout-0");
    expect(desk.done).toMatchObject([{ commandId: "c1", detail: "rollout-2 took the place of rollout-0" }]);
    expect(desk.state.fleet.wanted.rollout).toBe(2);
  });

  it("that is taken back before the new one is healthy lets the new one go", () => {
    const desk = new Desk().ask("replica.replace", { id: "rollout-0" }, "c1").start("rollout-2");
    desk.ask("command.cancel", { target: "c1" }, "c2");
    expect(desk.done.map(({ commandId, outcome }) => `${commandId} ${outcome}`).sort()).toEqual([
      "c1 cancelled",
      "c2 done",
    ]);
    expect(desk.state.members["rollout-2"]?.health).toBe("draining");
    expect(desk.state.members["rollout-0"]?.health).toBe("healthy");
  });
});

describe("scaling", () => {
  it("is overtaken by a later one", () => {
    const desk = new Desk().ask("fleet.scale", { rollout: 5 }, "c1").ask("fleet.scale", { rollout: 1 }, "c2");
    expect(desk.done.filter(({ commandId }) => commandId === "c1")).toMatchObject([{ outcome: "superseded" }]);
  });

  it("that is taken back leaves what was wanted before", () => {
    const desk = new Desk().ask("fleet.scale", { rollout: 5 }, "c1").ask("command.cancel", { target: "c1" }, "c2");
    expect(desk.state.fleet.wanted.rollout).toBe(2);
  });
});

describe("a signal", () => {
  it("is ordered from the node once in a term, and done when the node says so", () => {
    const desk = new Desk().ask("replica.kill", { id: "rollout-0", signal: "SIGSTOP" }, "c1");
    expect(bodiesOf(desk.said, "node.signal")).toEqual([{ commandId: "c1", id: "rollout-0", signal: "SIGSTOP" }]);
    expect(bodiesOf(desk.hear({ type: "controller.tick", atMs: 500 }).said, "node.signal")).toEqual([]);
    expect(bodiesOf(desk.hear({ type: "controller.elected", term: 2 }).said, "node.signal")).toHaveLength(1);
    desk.report("n0", "node.signalled", { commandId: "c1", id: "rollout-0", pid: 12, detail: "SIGSTOP sent" });
    expect(desk.done).toMatchObject([{ commandId: "c1", outcome: "done", detail: "SIGSTOP sent" }]);
  });
});

describe("the command that ends the job", () => {
  let state: ControllerState;
  let said: ReturnType<typeof control>["effects"];
  const hear = (event: object): void => {
    ({ state, effects: said } = control(state, { atMs: state.nowMs, ...event } as ControllerEvent));
  };
  const stop = (commandId: string): void =>
    hear({ type: "job.stop", from: "ops", role: "operator", incarnation: "i1", body: { reason: "so", commandId } });
  const heard = () => said.flatMap((effect) => (effect.type === "announce" ? [effect.kind] : []));

  it("is done when the job has ended, just before that is said, and not when it is taken", () => {
    state = stepping({}, { members: ["p0", "r0"] });
    for (const id of ["c1", "c2"]) {
      stop(id);
      expect(heard()).toEqual(["command.accepted"]);
    }
    const { stats: _, cause: __, missing: ___, ...vote } = voteFor(4, "a");
    const body = { step: 4, attempt: 1, epoch: 2, ...vote, sections: [...vote.sections] };
    const incarnation = state.members.p0?.incarnation;
    hear({ type: "step.voted", from: "p0", role: "policy", incarnation, body });
    hear({ type: "controller.tick", atMs: state.nowMs + state.plan.timing.checkpointMs });
    expect(bodiesOf(said, "command.done").map(({ commandId }) => commandId)).toEqual(["c1", "c2"]);
    expect(heard().slice(-3)).toEqual(["command.done", "command.done", "job.ended"]);
    for (const [id, detail] of [
      ["c3", "the job has ended: so"],
      ["c1", "the job has ended: so"],
    ] as const) {
      stop(id);
      expect(bodiesOf(said, "command.done")).toMatchObject([{ commandId: id, outcome: "done", detail }]);
    }
  });
});

describe("the table of commands", () => {
  const rowsOf = (count: number, answer: object | null) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, i) => [
        `c${i}`,
        {
          kind: "fleet.cordon",
          by: "ops i1",
          asked: "{}",
          seq: i + 1,
          answer,
          target: null,
          replacement: null,
        } as never,
      ]),
    );
  const deskWith = (commands: object, commandsMade = 0): Desk => {
    const desk = new Desk();
    desk.state = { ...desk.state, fleet: { ...desk.state.fleet, commands: commands as never, commandsMade } };
    return desk;
  };

  it("takes 128 commands at once, and says of the next how many there are", () => {
    expect(deskWith(rowsOf(127, null)).ask("fleet.cordon", { id: "n0" }).done).toHaveLength(1);
    expect(deskWith(rowsOf(128, null)).ask("fleet.cordon", { id: "n0" }).refused).toMatchObject([
      { reason: "128 commands are under way already; wait for one, or cancel one" },
    ]);
    expect(deskWith(rowsOf(200, { outcome: "done", detail: "" })).ask("fleet.cordon", { id: "n0" }).done).toHaveLength(
      1,
    );
  });

  it("forgets the oldest finished one from 512 on, and none that runs", () => {
    const finished = { outcome: "done", detail: "" };
    const idsAfter = (commands: object) =>
      Object.keys(deskWith(commands, 600).ask("fleet.cordon", { id: "n0" }).state.fleet.commands);
    expect(idsAfter(rowsOf(511, finished))).toHaveLength(512);
    const full = idsAfter(rowsOf(512, finished));
    expect([full.length, full[0], full.at(-1)]).toEqual([512, "c1", "auto-601"]);
    const running = { ...rowsOf(512, finished), ...rowsOf(1, null) };
    expect(idsAfter(running).slice(0, 2)).toEqual(["c0", "c1"]);
  });

  it("numbers them from 1, and clips who asked for what, and what is answered", () => {
    const desk = new Desk().ask("fleet.cordon", { id: "n0" });
    expect(desk.accepted).toMatchObject([{ commandId: "auto-1" }]);
    expect(desk.state.fleet.commands["auto-1"]).toMatchObject({ seq: 1, sentTerm: 0, by: "ops i1" });
    const id = "x".repeat(5_000);
    const far = { type: "fleet.cordon", from: "o".repeat(200), role: "operator", incarnation: "i1", body: { id } };
    const [said] = desk.hear(far).refused;
    expect([said?.by.length, said?.asked.length, said?.reason.length]).toEqual([128, 2_000, 2_000]);
    expect(desk.ask("fleet.uncordon", { id: "n0" }, "auto-2").refused[0]?.reason).toHaveLength(2_000);
  });
});

describe("commands under way", () => {
  const rowOf = (patch: Partial<CommandRow> = {}): CommandRow => ({
    ...{ kind: "fleet.scale", by: "ops i1", asked: '{"rollout":1}', seq: 1, answer: null, target: null },
    ...{ replacement: null, before: null, sentTerm: 0 },
    ...patch,
  });
  const withRows = (commands: Readonly<Record<string, CommandRow>>, rows: Parameters<typeof fleetOf>[0] = {}) => {
    const state = fleetOf({ nodes: { n0: {} }, replicas: { "rollout-0": replicaOf() }, ...rows });
    return {
      ...state,
      fleet: { ...state.fleet, commands, commandsMade: 9, wanted: { policy: 0, rollout: 1, checkpoint: 0 } },
    };
  };
  const endsOf = (state: ControllerState) =>
    bodiesOf(planCommands(state)?.effects ?? [], "command.done").map(
      (body) => `${body.commandId} ${body.outcome}: ${body.detail}`,
    );

  it("that ask for the end are done with it, and nothing else is, nor a second time", () => {
    const over = { outcome: "done", detail: "before" } as const;
    const state = withRows({
      stop: rowOf({ kind: "job.stop" }),
      scale: rowOf(),
      old: rowOf({ kind: "job.stop", answer: over }),
    });
    const { effects, state: after } = finishStops(state, "the job has ended");
    expect(bodiesOf(effects, "command.done").map(({ commandId, detail }) => [commandId, detail])).toEqual([
      ["stop", "the job has ended"],
    ]);
    expect([after.fleet.commands.scale?.answer, after.fleet.commands.old?.answer]).toEqual([null, over]);
    expect(finish(after, "stop", over)).toEqual({ state: after, effects: [] });
    expect(finish(after, "nobody", over)).toEqual({ state: after, effects: [] });
  });

  it("are overtaken by the end of the job, but for one that lets a replica go", () => {
    const ending = { outcome: "stopped", reason: "enough", announced: false } as const;
    const drain = rowOf({ kind: "replica.drain", target: "rollout-0" });
    const state = withRows({ scale: rowOf(), drain }, { patch: { ending } });
    expect(endsOf(state)).toEqual(["scale superseded: the job is ending: enough"]);
  });

  it("are taken back by a cancel of theirs that was done, which they name", () => {
    const by = (patch: Partial<CommandRow>) => {
      const cancel = rowOf({
        kind: "command.cancel",
        seq: 2,
        target: "c1",
        answer: { outcome: "done", detail: "" },
        ...patch,
      });
      return endsOf(
        withRows({ c1: rowOf({ asked: '{"rollout":4}', kind: "replica.drain", target: "rollout-0" }), c2: cancel }),
      );
    };
    expect(by({})).toEqual(["c1 cancelled: taken back by c2"]);
    expect(by({ target: "c9" })).toEqual([]);
    expect(by({ kind: "replica.kill" })).toEqual([]);
    expect(by({ answer: { outcome: "refused", detail: "" } })).toEqual([]);
  });

  it("that scale are overtaken by later ones which were not refused, and by no others", () => {
    const scale = rowOf({ asked: '{"rollout":4}', seq: 5 });
    const state = (patch: Partial<CommandRow>) => {
      const rows = withRows({ c5: scale, other: { ...scale, seq: 6, ...patch } });
      return { ...rows, fleet: { ...rows.fleet, wanted: { policy: 0, rollout: 4, checkpoint: 0 } } };
    };
    expect(endsOf(state({}))).toEqual(["c5 superseded: overtaken by other"]);
    const refused = { answer: { outcome: "refused", detail: "" } } as const;
    for (const patch of [
      refused,
      { kind: "replica.drain", target: "rollout-0" },
      { seq: 4, answer: { outcome: "done", detail: "" } as const },
    ])
      expect(endsOf(state(patch))).toEqual([]);
  });

  it("that replace let the old one go once the new one is well, and give the new one a place as soon as there is one", () => {
    const row = rowOf({ kind: "replica.replace", target: "rollout-0", replacement: "rollout-1" });
    const after = (
      old: Partial<FleetReplica>,
      fresh: Partial<FleetReplica>,
      nodes: Record<string, object> = { n0: {} },
    ) => {
      const replicas = { "rollout-0": replicaOf(old), "rollout-1": replicaOf(fresh) };
      const state = planCommands(withRows({ c1: row }, { replicas, nodes }))?.state;
      return state && [state.fleet.replicas["rollout-0"]?.leaving, state.fleet.replicas["rollout-1"]?.node];
    };
    expect(after({}, { health: "HEALTHY" })).toEqual([true, "n0"]);
    expect(after({}, { health: "STARTING", node: null })).toEqual([false, "n0"]);
    expect(after({}, { health: "STARTING", node: null }, {})).toBeUndefined();
    expect(after({}, { health: "STARTING", node: "n7" })).toBeUndefined();
    expect(after({}, { health: "RETIRED", node: null })).toBeUndefined();
    expect(after({ leaving: true }, { health: "HEALTHY" })).toBeUndefined();
  });

  it("that signal a replica without a node are overtaken", () => {
    const kill = rowOf({ kind: "replica.kill", target: "rollout-0", asked: '{"signal":"SIGKILL"}' });
    expect(bodiesOf(planCommands(withRows({ c1: kill }))?.effects ?? [], "node.signal")).toEqual([
      { commandId: "c1", id: "rollout-0", signal: "SIGKILL" },
    ]);
    for (const replicas of [{ "rollout-0": replicaOf({ node: null }) }, { "rollout-0": replicaOf({ node: "n9" }) }, {}])
      expect(endsOf(withRows({ c1: kill }, { replicas }))).toEqual(["c1 superseded: rollout-0 has no node any more"]);
  });
});

describe("what a command is answered", () => {
  const ask = <K extends CommandEvent["type"]>(state: ControllerState, type: K, body: object) => {
    const taken = takeCommand(state, { type, body } as never, "c9");
    return { ...taken, text: "refusal" in taken ? taken.refusal : taken.detail };
  };
  const node = { n0: {} };

  it("names twenty of those that there are, or none", () => {
    const replicas = Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`r${10 + i}`, replicaOf()]));
    const named = Array.from({ length: 20 }, (_, i) => `r${10 + i}`).join(", ");
    expect(ask(fleetOf({ replicas }), "replica.drain", { id: "x" }).text).toBe(
      `id = "x" is no replica or node of this job; there are: ${named}`,
    );
    expect(ask(fleetOf({}), "fleet.cordon", { id: "x" }).text).toContain("there are: none");
  });

  it("is at most one trainer for each micro-shard, and what is wanted of each role that was named", () => {
    const { microShards } = fleetOf({}).plan;
    const scaled = (body: object) => ask(fleetOf({}), "fleet.scale", body);
    expect(scaled({ policy: microShards + 1 }).text).toMatch(/use at most batch.micro_shards/);
    const most = scaled({ policy: microShards, rollout: 0 });
    expect(most.state.fleet.wanted).toMatchObject({ policy: microShards, rollout: 0 });
    expect(scaled({ rollout: 3 }).state.fleet.wanted.policy).toBe(fleetOf({}).fleet.wanted.policy);
  });

  it("is one less of a role from which a replica is let go, unless another one has its place or it was given up", () => {
    const countAfter = (patch: Partial<FleetReplica>, rollout = 2) => {
      const state = fleetOf({ replicas: { r0: replicaOf(patch) } });
      const wanted = { policy: 0, rollout, checkpoint: 0 };
      return ask({ ...state, fleet: { ...state.fleet, wanted } }, "replica.drain", { id: "r0" }).state.fleet.wanted
        .rollout;
    };
    expect([countAfter({}), countAfter({ health: "RETIRED" }), countAfter({ replacedBy: "r1" })]).toEqual([1, 2, 2]);
    expect(countAfter({}, 0)).toBe(0);
  });

  it("says of a node that it gives up its replicas, and of a guest that it hands back its work", () => {
    const state = fleetOf({ nodes: node, members: { r9: memberOf("r9", 9) } });
    expect([ask(state, "replica.drain", { id: "n0" }).text, ask(state, "replica.drain", { id: "r9" }).text]).toEqual([
      "n0 gives up its replicas and leaves",
      "r9 hands back its work and leaves",
    ]);
  });

  it("takes back what has not happened, and says of the rest why not", () => {
    const row = { by: "", asked: "", seq: 1, answer: null, target: null, replacement: null, before: null, sentTerm: 0 };
    const before = { policy: 1, rollout: 7, checkpoint: 1 };
    const members = { r0: memberOf("r0", 5, { health: "draining" }) };
    const cancel = (patch: object, replicas: Parameters<typeof fleetOf>[0]["replicas"] = {}) => {
      const state = fleetOf({
        nodes: node,
        replicas: { r0: replicaOf({ replacedBy: "r1" }), r1: replicaOf(), ...replicas },
        members,
      });
      const commands = { c1: { ...row, kind: "replica.kill", ...patch } };
      return ask({ ...state, fleet: { ...state.fleet, commands } }, "command.cancel", { target: "c1" });
    };
    expect(cancel({ kind: "fleet.scale", before }).state.fleet.wanted).toEqual(before);
    const moved = { kind: "replica.replace", target: "r0", replacement: "r1" };
    const undone = cancel(moved).state.fleet.replicas;
    expect([undone.r0?.replacedBy, undone.r1?.leaving]).toEqual([null, true]);
    expect(cancel(moved, { r0: replicaOf({ leaving: true }) }).text).toContain("r0 is leaving already");
    expect(cancel({ kind: "replica.drain", target: "r0" }).state.members.r0?.health).toBe("healthy");
    for (const patch of [{}, { target: "r0" }, { before }, { target: "r0", replacement: "r1" }])
      expect(cancel(patch).text).toBe('target = "c1" cannot be taken back: its order is on the way');
    for (const patch of [{ kind: "fleet.scale" }, { kind: "replica.replace", target: "r0" }, { kind: "replica.drain" }])
      expect(cancel(patch).text).toContain("its order is on the way");
  });

  it("is no longer than 2,000 characters, also where it tells why the job ends", () => {
    const reason = "x".repeat(5_000);
    const desk = (announced: boolean) => {
      const one = new Desk();
      one.state = { ...one.state, ending: { outcome: "failed", reason, announced } };
      return one.ask("job.stop", { reason: "enough" });
    };
    expect(desk(false).accepted[0]?.detail).toHaveLength(2_000);
    expect([desk(true).accepted[0]?.detail.length, desk(true).done[0]?.detail.length]).toEqual([2_000, 2_000]);
  });
});
