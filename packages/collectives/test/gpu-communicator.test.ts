import { beforeAll, describe, expect, it } from "vitest";
import { type Gpu, type GpuBuffer, openGpu } from "../src/index.ts";
import { buildTimeoutMs, gpuLibraries, hasRealGpu } from "./support/fake-gpu.ts";

const wait = { deadlineMs: 10_000, signal: new AbortController().signal };
/** NCCL takes one rank for each GPU. */
const severalRanks = { skip: hasRealGpu };
let gpu: Gpu;

beforeAll(async () => {
  gpu = await openGpu(gpuLibraries(), 0, wait);
}, buildTimeoutMs);

async function floatsOf(...values: number[]): Promise<GpuBuffer> {
  const buffer = await gpu.allocate(values.length * 4, wait);
  await buffer.write(new Uint8Array(new Float32Array(values).buffer), 0, wait);
  return buffer;
}

async function valuesOf(buffer: GpuBuffer): Promise<number[]> {
  const bytes = new Uint8Array(buffer.bytes);
  await buffer.read(bytes, 0, wait);
  return [...new Float32Array(bytes.buffer)];
}

/** Ranks of one process. They meet from threads of their own. */
async function communicators(ranks: number) {
  const id = await gpu.newId(wait);
  return Promise.all(Array.from({ length: ranks }, (_, rank) => gpu.openCommunicator({ id, ranks, rank }, wait)));
}

describe("collectives on device memory", () => {
  it("add, and move from rank to rank", severalRanks, async () => {
    const ranks = await communicators(2);
    const buffers = await Promise.all([floatsOf(1, 2), floatsOf(10, 20)]);
    await Promise.all(
      ranks.map((each, rank) => {
        const place = { buffer: buffers[rank] as GpuBuffer };
        return each.run([{ collective: "allReduce", type: "float32", count: 2, from: place, to: place }], wait);
      }),
    );
    expect(await Promise.all(buffers.map(valuesOf))).toEqual([
      [11, 22],
      [11, 22],
    ]);
    const target = await floatsOf(0);
    await Promise.all([
      ranks[0]?.run(
        [
          {
            collective: "send",
            type: "float32",
            count: 1,
            from: { buffer: buffers[0] as GpuBuffer, offset: 4 },
            peer: 1,
          },
        ],
        wait,
      ),
      ranks[1]?.run([{ collective: "receive", type: "float32", count: 1, to: { buffer: target }, peer: 0 }], wait),
    ]);
    expect(await valuesOf(target)).toEqual([22]);
    await Promise.all(ranks.map((each) => each.close(wait)));
  });

  it(
    "end with the reason of an abort while they are blocked; the survivor goes on alone with a fresh id",
    severalRanks,
    async () => {
      const [first, second] = await communicators(2);
      const buffer = await floatsOf(1);
      const sum = { collective: "allReduce", type: "float32", count: 1, from: { buffer }, to: { buffer } } as const;
      const blocked = first?.run([sum], wait);
      first?.abort("the epoch is over");
      await expect(blocked).rejects.toThrow(/the epoch is over/);
      await expect(first?.run([sum], wait)).rejects.toMatchObject({ code: "MUSTER_ERR_GPU_SPENT" });
      second?.abort("so it is");
      const [alone] = await communicators(1);
      await alone?.run([sum], wait);
      expect(await valuesOf(buffer)).toEqual([1]);
      await alone?.close(wait);
    },
  );

  it("end at the deadline when a rank stays away, and with the caller's signal", severalRanks, async () => {
    const [first, second] = await communicators(2);
    const buffer = await floatsOf(1);
    const sum = { collective: "allReduce", type: "float32", count: 1, from: { buffer }, to: { buffer } } as const;
    await expect(first?.run([sum], { ...wait, deadlineMs: 50 })).rejects.toMatchObject({
      code: "MUSTER_ERR_GPU_TIMEOUT",
    });
    const controller = new AbortController();
    const blocked = second?.run([sum], { ...wait, signal: controller.signal });
    controller.abort();
    await expect(blocked).rejects.toMatchObject({ code: "MUSTER_ERR_GPU_ABORTED" });
  });

  it("shrink to the ranks that stay", severalRanks, async () => {
    const [first, second] = await communicators(2);
    const child = await first?.shrink([1], wait);
    expect(child).toMatchObject({ ranks: 1, rank: 0 });
    await child?.close(wait);
    second?.abort("excluded");
  });

  it("of one rank give back what it has", async () => {
    const [alone] = await communicators(1);
    const from = await floatsOf(1.5, -2);
    const to = await floatsOf(0, 0);
    const call = { type: "float32", count: 2, from: { buffer: from }, to: { buffer: to } } as const;
    await alone?.run([{ collective: "allReduce", ...call }], wait);
    expect(await valuesOf(to)).toEqual([1.5, -2]);
    await alone?.close(wait);
  });

  it("refuse places outside of a buffer, closed buffers and what is none, and a stream that is no address", async () => {
    const [alone] = await communicators(1);
    const buffer = await floatsOf(1, 2);
    const invalid = { code: "MUSTER_ERR_NATIVE_OPTION_INVALID" };
    const sum = (place: { buffer: object; offset?: number }, count = 2) =>
      alone?.run([{ collective: "allReduce", type: "float32", count, from: place, to: place }], wait);
    await expect(sum({ buffer }, 3)).rejects.toMatchObject(invalid);
    await expect(sum({ buffer, offset: 4 })).rejects.toMatchObject(invalid);
    await expect(sum({ buffer: {} })).rejects.toMatchObject(invalid);
    await expect(alone?.run([], { ...wait, stream: 2n ** 64n })).rejects.toThrow("stream is 18446744073709551616");
    await expect(buffer.read(new Uint8Array(4), 8, wait)).rejects.toMatchObject(invalid);
    buffer.close();
    buffer.close();
    await expect(sum({ buffer })).rejects.toMatchObject(invalid);
    await expect(buffer.read(new Uint8Array(4), 0, wait)).rejects.toMatchObject(invalid);
    await alone?.close(wait);
  });
});

describe("opening a GPU", () => {
  it("says which one is not there, and what a host without NCCL cannot do", async () => {
    const libraries = { ...gpuLibraries(), nccl: ["/no/libnccl.so.2"] };
    await expect(openGpu(libraries, 1000, wait)).rejects.toThrow(/there is no GPU 1000; the driver has \d/);
    const withoutNccl = await openGpu(libraries, 0, wait);
    await expect(withoutNccl.newId(wait)).rejects.toMatchObject({ code: "MUSTER_ERR_GPU_MISSING" });
    await expect(openGpu({ cuda: "/no/libcuda.so.1", nccl: [] }, 0, wait)).rejects.toThrow(/cannot open shared object/);
  });
});
