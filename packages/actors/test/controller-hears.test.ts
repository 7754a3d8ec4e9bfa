/** What a controller does with what it hears, and what it shows of what it says. */
import { type ControllerEffect, type ControllerEvent, controllerLogic } from "@muster/machines/controller";
import type { Body } from "@muster/protocol";
import { createMetrics } from "@muster/runtime/metrics";
import type { ConsumeOptions, Transport } from "@muster/transport";
import { describe, expect, it } from "vitest";
import type { ControllerLogic } from "../src/controller/index.ts";
import { type Lone, settled, startLone } from "./support/lone-controller.ts";

const over = async ({ controller }: Lone): Promise<void> => {
  controller.abort("over");
  await settled();
};

/** The logic of a controller that, when it hears of this, asks for these things, too. */
function logicThatAsks(type: ControllerEvent["type"], effects: readonly object[]): ControllerLogic {
  return {
    ...controllerLogic,
    step(snapshot, event) {
      const step = controllerLogic.step(snapshot, event);
      return event.type === type ? { ...step, effects: [...step.effects, ...(effects as ControllerEffect[])] } : step;
    },
  };
}

/** How often each report came to the controller. */
function counting() {
  const came: string[] = [];
  const overrides = (inner: Transport): Partial<Transport> => ({
    consume: (options: ConsumeOptions) =>
      inner.consume({
        ...options,
        handle: (delivery) => {
          came.push(delivery.subject.split(".").slice(5).join("."));
          options.handle(delivery);
        },
      }),
  });
  return { came, overrides };
}

const drawn: Body<"samples.drawn"> = {
  ...{ step: 1, index: 0, attempt: 1, streamSeq: 1, lineage: 0, version: 0, prompt: "2 + 2" },
  responses: [{ sample: 0, status: "completed", tokens: 1, reward: 1, text: "4" }],
};

describe("a report", () => {
  it("of samples is passed on without a record, and done with", async () => {
    const { came, overrides } = counting();
    const lone = await startLone({ overrides, set: ["samples.groups=2"] });
    const voice = lone.voice("rollout-0");
    await voice.register();
    await voice.say("samples.drawn", drawn);
    expect(lone.bodiesOf("samples.shown")).toEqual([{ ...drawn, replica: "rollout-0" }]);
    await lone.pass(20_000);
    expect(came).toEqual(["replica.register", "samples.drawn"]);
    await over(lone);
  });

  it("for which nobody waits is written half a second after it came, and one for which somebody does takes it along at once", async () => {
    const detail = "it is there";
    const logic = logicThatAsks("groups.saved", [
      { type: "announce", kind: "alarm.raised", body: { alarm: "t", detail } },
    ]);
    const lone = await startLone({ options: { logic } });
    const voice = lone.voice("rollout-0");
    await voice.register();
    const items = [{ purpose: "train" as const, step: 1, index: 0, attempt: 1 }];
    const said = () => lone.bodiesOf("alarm.raised").length;
    await voice.say("groups.saved", { leaseId: "1-1", items });
    await lone.pass(400);
    expect(said()).toBe(0);
    await lone.pass(200);
    expect(said()).toBe(1);
    await voice.say("groups.saved", { leaseId: "1-1", items });
    expect(said()).toBe(1);
    await lone.voice("rollout-1").register();
    expect(said()).toBe(2);
    await over(lone);
  });

  it("that no record can hold is put aside, told, and done with", async () => {
    const { came, overrides } = counting();
    const lone = await startLone({ overrides, options: { recordBytes: 1_000 } });
    const voice = lone.voice("op", "operator");
    await voice.say("job.stop", { reason: "x".repeat(1_900) });
    expect(lone.bodiesOf("alarm.raised")).toMatchObject([
      { alarm: "input", detail: expect.stringContaining("job.stop of operator op is put aside") },
    ]);
    await lone.pass(20_000);
    expect(came).toEqual(["job.stop"]);
    expect(lone.state().ending).toBeNull();
    await over(lone);
  });

  it("of a mesh that could not be built accuses the members that it names", async () => {
    const lone = await startLone();
    const [trainer, other] = [lone.voice("policy-0", "policy"), lone.voice("policy-1", "policy")];
    for (const voice of [trainer, other]) await voice.register();
    for (let second = 0; second < 10; second++) {
      for (const voice of [trainer, other]) voice.beat();
      await lone.pass(1_000);
    }
    await lone.pass(2_500);
    expect(lone.bodiesOf("member.suspected")).toEqual([]);
    trainer.beat();
    await trainer.say("mesh.failed", { epoch: 1, cause: "it does not answer", missing: ["policy-1"] });
    await lone.pass(200);
    expect(lone.bodiesOf("member.suspected")).toMatchObject([{ id: "policy-1" }]);
    await over(lone);
  });
});

describe("the page of numbers", () => {
  it("has the job's numbers from its first record on, and the figures of a step that is committed", async () => {
    const metrics = createMetrics();
    const body = {
      step: 7,
      groups: [],
      tokens: 0,
      stepMs: 0,
      computeMs: 0,
      held: [],
    } as unknown as Body<"step.committed">;
    const logic = logicThatAsks("replica.register", [{ type: "announce", kind: "step.committed", body }]);
    const lone = await startLone({ environment: { metrics }, options: { logic } });
    expect(await metrics.render()).toMatch(/^muster_job_steps 0$/m);
    expect(await metrics.render()).not.toMatch(/^muster_train_step/m);
    await lone.voice("rollout-0").register();
    expect(lone.end()).toBeNull();
    expect(await metrics.render()).toMatch(/^muster_train_step 7$/m);
    expect(await metrics.render()).toMatch(/^muster_job_members\{role="rollout"\} 1$/m);
    await over(lone);
  });

  it("counts incidents as they are said", async () => {
    const metrics = createMetrics();
    const lone = await startLone({ environment: { metrics } });
    const voice = lone.voice("rollout-0");
    await voice.register();
    for (let second = 0; second < 5; second++) {
      voice.beat();
      await lone.pass(1_000);
    }
    await lone.pass(120_000);
    expect(lone.bodiesOf("member.died")).toHaveLength(1);
    expect(await metrics.render()).toMatch(/^muster_incidents_total\{kind="[a-z_.]+"\} 1$/m);
    await over(lone);
  });
});

describe("what the machine asks for", () => {
  it("is done: groups that a checkpoint covers are removed, and their room is looked at", async () => {
    const purged: unknown[] = [];
    let looks = 0;
    const logic = logicThatAsks("replica.register", [{ type: "groups.purge", beforeSeq: 5 }]);
    const lone = await startLone({
      options: { logic },
      overrides: (inner) => ({
        purge: async (...given) => void purged.push(given),
        usage: (stream) => {
          if (stream === "groups") looks += 1;
          return inner.usage(stream);
        },
      }),
    });
    await lone.voice("rollout-0").register();
    expect(purged).toEqual([["groups", 5]]);
    expect(looks).toBe(1);
    await over(lone);
  });

  it("is known by its record and its place in it, so that each fact has an id of its own", async () => {
    const alarm = (detail: string) => ({ type: "announce", kind: "alarm.raised", body: { alarm: "test", detail } });
    const logic = logicThatAsks("replica.register", [alarm("first"), alarm("second")]);
    const lone = await startLone({ options: { logic } });
    await lone.voice("rollout-0").register();
    await lone.voice("rollout-1").register();
    const ids = lone.events.map(({ kind, id }) => `${kind} ${id}`);
    expect(ids).toEqual([
      "job.started e1.0",
      "member.joined e2.0",
      "alarm.raised e2.1",
      "alarm.raised e2.2",
      "member.joined e3.0",
      "alarm.raised e3.1",
      "alarm.raised e3.2",
    ]);
    await over(lone);
  });
});
