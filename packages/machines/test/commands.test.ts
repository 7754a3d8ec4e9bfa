/** Commands of operators: once per id, answered in public, finished by what happened (semantics 6.16). */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import { control } from "@muster/machines/internal";
import { describe, expect, it } from "vitest";
import { initialControllerState } from "../src/controller/state.ts";
import { bodiesOf, planWith, stepping, voteFor } from "./states.ts";

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
