/** A controller all of whose ticks come late: on a host that is far too busy it sees later, and not never. */
import {
  type AnyMessage,
  type Body,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  subjectsOf,
} from "@muster/protocol";
import { manualClock } from "@muster/runtime/internal";
import { createMemoryBroker } from "@muster/transport/internal";
import { expect, it } from "vitest";
import { startController } from "../src/controller/index.ts";
import type { Environment } from "../src/index.ts";
import { processesOn } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

const config = smallConfig("never-written", [
  "timing.tick=500ms",
  "timing.suspect_after=2.5s",
  "timing.dead_after=10s",
]);
const subjects = subjectsOf(config.job);
const lateMs = 1_500;

it("evicts a dead member, and none that lives, though each of its ticks is late by 1.5 s", async () => {
  const time = manualClock();
  const broker = createMemoryBroker({ job: config.job, clock: time });
  const { environment } = processesOn(broker)();
  const clock: Environment["clock"] = {
    now: time.now,
    after: (ms, run) => time.after(ms === config.timing.tickMs ? ms + lateMs : ms, run),
  };
  const events: AnyMessage[] = [];
  const watcher = broker.connect("watcher.w.w1");
  await watcher.tail({ stream: "events", fromSeq: 1, handle: ({ data }) => events.push(decodeMessage(data)) });
  const controller = await startController({
    config,
    dataKey: new Uint8Array(32),
    environment: { ...environment, clock },
  });

  const members = (["dead", "living"] as const).map((id) => {
    const voice = createEnveloper({ job: config.job, id, role: "rollout", incarnation: `${id}-1`, wallMs: () => 0 });
    return { id, voice, transport: broker.connect(`rollout.${id}.${id}-1`) };
  });
  const beat = ({ id, voice, transport }: (typeof members)[number]): void => {
    const body: Body<"heartbeat.beat"> = { version: null, phase: "idle", progress: 0, loopLagMs: 0, rssBytes: 1 };
    transport.send(subjects.heartbeat("rollout", id), encodeMessage(voice.stamp("heartbeat.beat", body)));
  };
  for (const { id, voice, transport } of members) {
    const message = voice.stamp("replica.register", { role: "rollout", host: "h", pid: 1, engineBuild: "b" });
    await transport.publish(subjects.report("rollout", id, message.kind), encodeMessage(message), {
      msgId: message.id,
    });
  }

  const died = (): readonly string[] => events.flatMap(({ kind, body }) => (kind === "member.died" ? [body.id] : []));
  let seconds = 0;
  for (; seconds < 1_600 && died().length === 0; seconds++) {
    for (const member of members) if (member.id === "living" || seconds < 20) beat(member);
    for (let part = 0; part < 4; part++) {
      time.advance(250);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  expect(died()).toEqual(["dead"]);
  // Three time-outs of silence (15 s of a rollout), stretched eight-fold for the watcher's own lateness, and a fourth of the time counts.
  expect(seconds).toBeLessThan(20 + (3 * 15 * 8 * (500 + lateMs)) / 500);
  controller.abort("over");
  time.advance(10_000);
  await controller.ended;
});
