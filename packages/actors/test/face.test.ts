import { silentLogger } from "@muster/base";
import { payloadBytesMax, readPlain, statusKey } from "@muster/protocol";
import { manualClock } from "@muster/runtime/internal";
import { createMemoryBroker } from "@muster/transport/internal";
import { describe, expect, it } from "vitest";
import { readAlive } from "../src/controller/alive.ts";
import { Face } from "../src/controller/face.ts";

const identity = { job: "dates", id: "controller", role: "controller", incarnation: "i1" } as const;

function faceOf(draw: () => Uint8Array, isOver = () => false) {
  const broker = createMemoryBroker();
  const transport = broker.connect("controller.controller.i1");
  const clock = manualClock();
  const alarms: string[] = [];
  const face = new Face({
    ...{ transport, clock, identity, draw, term: 3, logger: silentLogger },
    isOver,
    alarm: (detail) => alarms.push(detail),
  });
  return { broker, transport, clock, alarms, face };
}

describe("a controller whose status can not be written", () => {
  const tooLarge = (): Uint8Array => new Uint8Array(payloadBytesMax + 1);
  const notDrawn = (): Uint8Array => {
    throw new RangeError("no status");
  };

  it.each([
    ["too large", tooLarge],
    ["impossible to draw", notDrawn],
  ])("lives on when it is %s, and says so once a minute", async (_, draw) => {
    const { transport, clock, alarms, face } = faceOf(draw);
    for (let second = 0; second < 70; second++) {
      await face.show();
      clock.advance(1_000);
    }
    expect(await readAlive(transport.state())).toMatchObject({ term: 3, incarnation: "i1", beat: 70, revision: 70 });
    expect(await transport.state().get(statusKey)).toBeNull();
    expect(alarms).toHaveLength(2);
    expect(alarms[0]).toMatch(/^the status of the job can not be written, what muster status shows is old: /);
  });
});

it("a controller whose broker is away says nothing of a status that can not be written", async () => {
  const { broker, alarms, face } = faceOf(() => {
    broker.disconnect("controller.controller.i1");
    throw new RangeError("no status");
  });
  void face.show();
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  expect(alarms).toEqual([]);
});

describe("a controller", () => {
  it("shows its job beside its sign of life", async () => {
    const { transport, alarms, face } = faceOf(() => Uint8Array.of(1));
    await face.show();
    expect(readPlain((await transport.state().get(statusKey))?.value ?? new Uint8Array())).toBe(1);
    expect((await readAlive(transport.state()))?.beat).toBe(1);
    expect(alarms).toEqual([]);
  });

  it("shows in its sign whether the job is over", async () => {
    const { transport, face } = faceOf(
      () => Uint8Array.of(1),
      () => true,
    );
    await face.show();
    expect((await readAlive(transport.state()))?.isOver).toBe(true);
  });
});
