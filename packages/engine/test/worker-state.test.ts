/** The state of a trainer that is a worker, in pieces: each byte crosses once, whatever the size of a piece, and one that fails leaves what was live. Each test starts a process. */
import { fileURLToPath } from "node:url";
import { needsOfTask, taskOf } from "@muster/data";
import { afterEach, describe, expect, it } from "vitest";
import {
  bytesIn,
  type EngineOptions,
  inlineState,
  type PolicyEngine,
  piecesWithPlaces,
  type StateSource,
} from "../src/index.ts";
import { copyOf, gradientIn } from "../src/internal.ts";
import { workerAdapterOf } from "../src/worker/index.ts";
import { openWorker } from "../src/worker/open-link.ts";
import { workerOptionsOf } from "../src/worker/options.ts";
import { WorkerPolicyEngine } from "../src/worker/policy-engine.ts";
import type { OpenSharedMemory } from "../src/worker/region-memory.ts";

const program = fileURLToPath(new URL("./support/bad-worker.mjs", import.meta.url));
const adam = { lr: 1, beta1: 0.9, beta2: 0.9, epsilon: 1, weightDecay: 0, clipNorm: 1 };

const closing: PolicyEngine[] = [];
afterEach(async () => {
  for (const engine of closing.splice(0)) await engine.close();
});

async function trainer(mode: string, pieceMax?: number, memory?: OpenSharedMemory): Promise<PolicyEngine> {
  const adapter = workerAdapterOf(process.env);
  const command = `'${process.execPath}' '${program}' ${mode}`;
  const options = adapter.schema.parse({ command, arena_mb: 1 }) as EngineOptions;
  const known = workerOptionsOf(options, process.env);
  const worker = await openWorker("policy", known, needsOfTask(taskOf("dates")), memory);
  const engine = new WorkerPolicyEngine(worker, pieceMax);
  closing.push(engine);
  return engine;
}

const bytesFrom = (from: number, length: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, i) => from + i);
const whole = ({ weights, optimizer }: ReturnType<PolicyEngine["state"]>) => [copyOf(weights), copyOf(optimizer)];

async function step(engine: PolicyEngine): Promise<void> {
  engine.begin();
  await engine.stage(gradientIn(new Float32Array(4)), adam);
}

describe.each([1, 3, 16])("the state of a worker in pieces of %i bytes", (pieceMax) => {
  it("is that of the worker, as a candidate and when it is live", async () => {
    const engine = await trainer("adds", pieceMax);
    await engine.initialize({ kind: "seed", seed: 1 });
    expect(whole(engine.state())).toEqual([bytesFrom(0, 16), bytesFrom(100, 8)]);
    expect(piecesWithPlaces(engine.state().weights).map(({ from }) => from)).toEqual(
      Array.from({ length: Math.ceil(16 / pieceMax) }, (_, i) => i * pieceMax),
    );
    await step(engine);
    expect(whole(engine.candidate())).toEqual([bytesFrom(1, 16), bytesFrom(101, 8)]);
    expect(whole(engine.state())).toEqual([bytesFrom(0, 16), bytesFrom(100, 8)]);
    engine.promote();
    expect(whole(engine.state())).toEqual([bytesFrom(1, 16), bytesFrom(101, 8)]);
  });

  it("is restored, each byte asked for once and in order", async () => {
    const engine = await trainer("adds", pieceMax);
    const state = inlineState({ weights: [bytesFrom(30, 5), bytesFrom(35, 11)], optimizer: bytesFrom(200, 8) });
    const asked: [string, number, number][] = [];
    const noting = (name: "weights" | "optimizer") => ({
      bytes: state[name].bytes,
      copyTo: async (into: Uint8Array, from = 0) => {
        asked.push([name, from, into.length]);
        await state[name].copyTo(into, from);
      },
    });
    await engine.restore({ weights: noting("weights"), optimizer: noting("optimizer") });
    expect(whole(engine.state())).toEqual([bytesFrom(30, 16), bytesFrom(200, 8)]);
    for (const [name, size] of [
      ["weights", 16],
      ["optimizer", 8],
    ] as const) {
      let end = 0;
      for (const [, from, bytes] of asked.filter(([one]) => one === name)) {
        expect(from).toBe(end);
        expect(bytes).toBeLessThanOrEqual(pieceMax);
        end += bytes;
      }
      expect(end).toBe(size);
    }
    await step(engine);
    expect(whole(engine.candidate())).toEqual([bytesFrom(31, 16), bytesFrom(201, 8)]);
  });
});

describe("a state that can not be taken", () => {
  it("leaves the live one, here and in the worker, when its source fails in the middle", async () => {
    const engine = await trainer("adds", 3);
    await engine.initialize({ kind: "seed", seed: 1 });
    const broken: StateSource = {
      weights: {
        bytes: 16,
        copyTo: async (into, from = 0) => {
          if (from >= 9) throw new Error("the holder is gone");
          into.fill(255);
        },
      },
      optimizer: { bytes: 8, copyTo: async () => {} },
    };
    await expect(engine.restore(broken)).rejects.toThrow("the holder is gone");
    expect(whole(engine.state())).toEqual([bytesFrom(0, 16), bytesFrom(100, 8)]);
    await step(engine);
    expect(whole(engine.candidate())).toEqual([bytesFrom(1, 16), bytesFrom(101, 8)]);
  });

  it.each([
    ["too little", 15],
    ["too much", 17],
  ])("is refused before a byte of it is copied when it has %s", async (_, bytes) => {
    const engine = await trainer("adds", 3);
    const copyTo = async (): Promise<void> => expect.fail("nothing is to be copied");
    await expect(engine.restore({ weights: { bytes, copyTo }, optimizer: { bytes: 8, copyTo } })).rejects.toMatchObject(
      {
        code: "MUSTER_ERR_ENGINE_STATE_LENGTH",
        params: { section: "weights", bytes, expectedBytes: 16 },
      },
    );
  });

  it("is an error that names the section when the worker gives less of it than it said", async () => {
    const engine = await trainer("cuts-state", 3);
    await expect(engine.initialize({ kind: "seed", seed: 1 })).rejects.toThrow(
      "it cut the region optimizer short: it has at most 5 of 8 bytes",
    );
    expect(() => engine.state()).toThrow("initialize() or restore()");
  });
});

it("a worker that can not open the memory of this process is given files, and nothing stays of the memory", async () => {
  const open = new Set<string>();
  const unseen: OpenSharedMemory = (name) => {
    open.add(name);
    const unused = async (): Promise<void> => expect.fail("it is not copied to or from");
    return { path: "/nowhere", write: unused, read: unused, hide() {}, close: async () => void open.delete(name) };
  };
  const engine = await trainer("adds", 16, unseen);
  await engine.initialize({ kind: "seed", seed: 1 });
  expect(whole(engine.state())).toEqual([bytesFrom(0, 16), bytesFrom(100, 8)]);
  expect([...open]).toEqual([]);
});

it("a state of more than 4 GiB is read in pieces", async (context) => {
  context.skip(process.env.MUSTER_TEST_LARGE === undefined, "takes 5 GiB of memory; by hand with MUSTER_TEST_LARGE=1");
  const engine = await trainer("large-state");
  await engine.initialize({ kind: "seed", seed: 1 });
  const { optimizer } = engine.state();
  expect(bytesIn(optimizer)).toBe(2 ** 32 + 2 ** 20);
  expect(piecesWithPlaces(optimizer)).toHaveLength(5);
  expect(piecesWithPlaces(optimizer).at(-1)?.piece.at(-1)).toBe(7);
}, 600_000);
