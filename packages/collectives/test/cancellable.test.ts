import { getEventListeners } from "node:events";
import { hasCode } from "@muster/base";
import { expect, it, onTestFinished } from "vitest";
import { openVersionStore, pullVersion } from "../src/index.ts";
import { bytesOf, job, key, pullOf, relay, socketFolder, until } from "./support/fixtures.ts";

it("operations under one signal share a listener, all end when it aborts, and leave none behind", async () => {
  const { path, remove } = socketFolder();
  onTestFinished(remove);
  const options = { key, job, member: "holder", socketDir: path, tcpHost: "127.0.0.1", slotBytes: 2 ** 20 };
  const store = await openVersionStore(options);
  onTestFinished(() => store.close());
  const id = { lineage: 1, version: 1 };
  const sections = await store.publish(id, { weights: bytesOf(2 ** 20, 1) });
  let stalled = 0;
  const silent = await relay(store.addresses[1]!, 2 ** 18, (_reader, holder) => {
    stalled++;
    holder.pause();
  });
  onTestFinished(silent.close);

  const stop = new AbortController();
  const listeners = (): number => getEventListeners(stop.signal, "abort").length;
  const patient = { ...pullOf(id, sections, store.addresses), signal: stop.signal };
  const pulls = Array.from({ length: 12 }, () =>
    pullVersion({ ...pullOf(id, sections, [silent.address]), signal: stop.signal }).catch((error: unknown) => error),
  );
  await until("the first streams to stall", () => stalled > 0);
  expect(listeners()).toBe(1);
  // One that ends leaves the listener to the others.
  await pullVersion(patient);
  expect(listeners()).toBe(1);

  stop.abort();
  for (const ended of await Promise.all(pulls)) expect(hasCode(ended, "MUSTER_ERR_PULL_ABORTED")).toBe(true);
  expect(listeners()).toBe(0);
  const late = await pullVersion(patient).catch((error: unknown) => error);
  expect(hasCode(late, "MUSTER_ERR_PULL_ABORTED")).toBe(true);
  expect(listeners()).toBe(0);
});
