/** What the data plane says of itself. */
import { afterEach, beforeEach, expect, it } from "vitest";
import {
  type DataPlaneEvent,
  dataPlaneActivity,
  hearDataPlane,
  type NetworkTimes,
  openVersionStore,
  pullVersion,
  setNetworkTimes,
} from "../src/index.ts";
import { bytesOf, job, key, pullOf, socketFolder, until } from "./support/fixtures.ts";

const times: NetworkTimes = {
  aliveMs: 50,
  answerMs: 500,
  connectMs: 1_500,
  starvedMs: 2_000,
  stallMs: 5_000,
  hostSilenceMs: 1_000,
  meshCallMs: 2_000,
  handshakeMs: 5_000,
};
let folder: ReturnType<typeof socketFolder>;

beforeEach(() => {
  folder = socketFolder();
});
afterEach(() => {
  hearDataPlane(null);
  setNetworkTimes(times);
  folder.remove();
});

it("counts bytes by host, and tells of a holder that failed and of the one that is asked next", async () => {
  const store = await openVersionStore({
    ...{ key, job, member: "holder", socketDir: folder.path, tcpHost: "127.0.0.1", slotBytes: 500_000 },
  });
  const id = { lineage: 0, version: 1 };
  const sections = await store.publish(id, { weights: bytesOf(400_000, 3) });
  const address = store.addresses.find((each) => each.startsWith("tcp:"))!;
  const heard: DataPlaneEvent[] = [];
  hearDataPlane((events) => void heard.push(...events));
  const before = dataPlaneActivity();
  await pullVersion(pullOf(id, sections, ["tcp:127.0.0.1:1", address]));
  await until("the event", () => heard.some(({ event }) => event === "fail-over"));
  const after = dataPlaneActivity();
  expect(heard.find(({ event }) => event === "fail-over")).toEqual({
    event: "fail-over",
    peer: address,
    text: expect.stringContaining("tcp:127.0.0.1:1: cannot connect: Connection refused"),
  });
  const receivedOf = ({ peers }: typeof after): number => peers.find(({ peer }) => peer === "127.0.0.1")?.received ?? 0;
  expect(receivedOf(after) - receivedOf(before)).toBeGreaterThan(400_000);
  expect(after.events["fail-over"] - before.events["fail-over"]).toBe(1);
  expect(after.opened - before.opened).toBe(1);
  await store.close();
});

it("refuses times of the network that do not go together, by name", () => {
  expect(() => setNetworkTimes({ ...times, hostSilenceMs: 100 })).toThrow(
    "network is 4 times alive = 50 ms must be at most host_silence = 100 ms: three words may be late; change one of the two",
  );
  setNetworkTimes({ ...times, answerMs: 1_200 });
});
