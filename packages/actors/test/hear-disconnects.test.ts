import { createLogger } from "@muster/runtime";
import type { DisconnectNotice } from "@muster/transport";
import { expect, it } from "vitest";
import { hearDisconnects } from "../src/controller/hear-disconnects.ts";
import type { MemberWatch } from "../src/controller/watch-members.ts";

/** A clock that a test moves, and what was heard and looked at until then. */
async function hearing() {
  let nowMs = 0;
  let timers: { readonly atMs: number; readonly run: () => void }[] = [];
  const looks: number[] = [];
  const heard: string[] = [];
  let tell = (_: DisconnectNotice): void => {};
  const clock = {
    now: () => nowMs,
    after: (delayMs: number, run: () => void) => {
      timers.push({ atMs: nowMs + delayMs, run });
      return () => {};
    },
  };
  const done: string[] = [];
  const watch = {
    disconnected: (name: string) => heard.push(name),
    hearsDisconnects: () => done.push("the watch counts on it"),
  };
  const watchDisconnects = async (handle: typeof tell) => {
    tell = handle;
    return { close: async () => void done.push("closed") };
  };
  const given = { clock, logger: createLogger({ level: "silent" }), watchDisconnects };
  const close = await hearDisconnects(given, watch as unknown as MemberWatch, () => looks.push(nowMs));
  const moveTo = (ms: number): void => {
    for (; nowMs < ms; nowMs++) {
      const due = timers.filter(({ atMs }) => atMs <= nowMs);
      timers = timers.filter(({ atMs }) => atMs > nowMs);
      for (const { run } of due) run();
    }
  };
  return { looks, heard, moveTo, done, close, tell: (name: string) => tell({ name, reason: "Client Closed" }) };
}

it("an ended connection is looked at a moment later: who leaves says so until then", async () => {
  const { looks, heard, moveTo, tell } = await hearing();
  moveTo(100);
  tell("rollout.r0.i1");
  moveTo(200);
  expect([heard, looks]).toEqual([["rollout.r0.i1"], [130]]);
  tell("rollout.r1.i1");
  moveTo(300);
  expect(looks).toEqual([130, 230]);
});

it("a thousand connections that end together are one look, and each had its moment", async () => {
  const { looks, heard, moveTo, tell } = await hearing();
  for (let i = 0; i < 1_000; i++) {
    moveTo(100 + Math.floor(i / 50));
    tell(`rollout.r${i}.i1`);
  }
  moveTo(300);
  expect(heard).toHaveLength(1_000);
  expect(looks).toEqual([149]);
});

it("a watch that hears of ended connections knows so, and they are told until it is closed", async () => {
  const { done, close } = await hearing();
  expect(done).toEqual(["the watch counts on it"]);
  await close?.();
  expect(done).toEqual(["the watch counts on it", "closed"]);
});
