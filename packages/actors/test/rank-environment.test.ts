/** What a process of a replica of several is told, and the port at which the others meet rank 0. */
import { once } from "node:events";
import { createServer } from "node:net";
import { reservePort } from "@muster/engine";
import { describe, expect, it } from "vitest";
import { rankEnvironmentOf, rankOfEnvironment } from "../src/node/rank-environment.ts";

const order = {
  ...{ id: "rollout-0", rank: 3, life: 2, size: 4, localRank: 1, localSize: 2, nodeRank: 1 },
  master: { address: "192.0.2.7", port: 29_500 },
};

describe("the environment of a rank", () => {
  it("has the variables that programs of several processes read, and is read back as it was written", () => {
    const env = rankEnvironmentOf(order);
    expect(env).toMatchObject({ RANK: "3", WORLD_SIZE: "4", LOCAL_RANK: "1", LOCAL_WORLD_SIZE: "2", NODE_RANK: "1" });
    expect(env).toMatchObject({ MASTER_ADDR: "192.0.2.7", MASTER_PORT: "29500" });
    const { id, ...rest } = order;
    expect(rankOfEnvironment(env)).toEqual({ replica: id, ...rest });
  });

  it("is none for a process to which somebody else gave a rank, and names what no node wrote", () => {
    const { MUSTER_REPLICA_LIFE: _, ...others } = rankEnvironmentOf(order);
    expect(rankOfEnvironment(others)).toBeNull();
    expect(() => rankOfEnvironment({ ...rankEnvironmentOf(order), WORLD_SIZE: "many" })).toThrow('WORLD_SIZE = "many"');
  });
});

describe("a reserved port", () => {
  it("is drawn for nobody else, and whoever names it may listen on it", async () => {
    const ports = [];
    for (let i = 0; i < 20; i++) ports.push(await reservePort("127.0.0.1"));
    expect(new Set(ports).size).toBe(ports.length);
    const server = createServer().listen(ports[0], "127.0.0.1");
    await once(server, "listening");
    server.close();
  });
});
