/** Tensor tables: told apart by digest, fetched by who does not have them, believed by nobody unchecked. The last tests are of two processes: about 4 s. */
import { fork } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { pullVersion } from "@muster/collectives";
import type { Body, Holder, Section, TensorTable } from "@muster/protocol";
import { type PlacedTensor, placeDensely } from "@muster/tensors";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Ports } from "../src/index.ts";
import { type KnownTable, Tables } from "../src/internal.ts";
import { ports } from "./support/roles.ts";
import { smallConfig } from "./support/small-config.ts";

vi.setConfig({ testTimeout: 60_000 });

const self = { job: "tables", id: "rollout-0" };
const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);
const id = { lineage: 0, version: 3 };
const signal = new AbortController().signal;
const config = smallConfig("/nowhere");
const asking = { dataKey, config, signal };

const tableOf = (count: number, last = "last"): readonly PlacedTensor[] =>
  placeDensely(
    Array.from({ length: count }, (_, i) => ({
      name: i === count - 1 ? last : `t${i}`,
      dtype: "f32" as const,
      shape: [2, 2],
    })),
  );

async function known(tensors: readonly PlacedTensor[]): Promise<KnownTable> {
  const { digest } = await ports.table(tensors);
  return { digest, tensors };
}

/** The order to pull weights whose table has this text. */
function wanted(text: Uint8Array, holders: readonly Holder[], patch: Partial<TensorTable> = {}): Body<"weights.pull"> {
  const digest = `sha256:${createHash("sha256").update(text).digest("hex")}`;
  const rows = Buffer.from(text).toString().split("\n").length - 1;
  const table = { rows, digest, text: { bytes: text.length, digest: "xxh64b:00" }, ...patch };
  const weights: Section = { name: "weights", bytes: 16 * rows, digest: "xxh64b:11", table };
  return { ...id, sections: [weights], holders: [...holders] };
}

/** Holders by what they give for the table; nobody else is reached. */
function pullFrom(given: Readonly<Record<string, Uint8Array>>, asked: string[] = []): Ports["pull"] {
  return async ({ holders, into, signal: ending }) => {
    ending.throwIfAborted();
    for (const from of holders) {
      asked.push(from);
      const text = given[from];
      if (!text) continue;
      into.table?.set(text.subarray(0, into.table.length));
      return { bytes: text.length, durationMs: 1, via: "tcp", from, wireBytes: text.length, base: null };
    }
    throw new Error("nobody has it");
  };
}

const holder = (name: string): Holder => ({ id: name, addresses: [`tcp:${name}`] });
const tablesOn = (pull: Ports["pull"]): Tables => new Tables({ ...ports, pull }, self);
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

describe("weights that come with a table", () => {
  it("of the digest of one's own are taken, and nobody is asked", async () => {
    const asked: string[] = [];
    const tables = tablesOn(pullFrom({}, asked));
    const { text } = await ports.table(tableOf(3));
    await tables.check(wanted(text, [holder("p0")]), await known(tableOf(3)), asking);
    expect(asked).toEqual([]);
  });

  it("of a trainer that publishes none are taken as they always were", async () => {
    const own = await known(tableOf(3));
    const { sections, ...rest } = wanted(bytes("x"), [holder("p0")]);
    const without = { ...rest, sections: sections.map(({ table: _, ...section }) => section) };
    await tablesOn(pullFrom({})).check(without, own, asking);
    expect(await tablesOn(pullFrom({})).of(without, own, asking)).toBe(own.tensors);
  });

  it("of another model are refused by the first tensor that differs, and its table is fetched once", async () => {
    const asked: string[] = [];
    const { text } = await ports.table(tableOf(3, "theirs"));
    const tables = tablesOn(pullFrom({ "tcp:p0": text }, asked));
    const order = wanted(text, [holder("p0")]);
    const own = await known(tableOf(3, "ours"));
    for (let i = 0; i < 2; i++)
      await expect(tables.check(order, own, asking)).rejects.toMatchObject({
        code: "MUSTER_ERR_TENSORS_DIFFER",
        message: expect.stringMatching(
          /^version 3 is not for the engine of this replica: row 3 of the tensor table is theirs f32\[2, 2\] at byte 32 in what was published, and ours f32/,
        ),
      });
    expect(asked).toEqual(["tcp:p0"]);
  });

  it("in another type are converted, by one conversion for all versions with that table", async () => {
    const { text } = await ports.table(tableOf(3));
    const tables = tablesOn(pullFrom({ "tcp:p0": text }));
    const order = wanted(text, [holder("p0")]);
    expect(await tables.conversion(order, await known(tableOf(3)), asking)).toBeNull();
    const halves = await known(placeDensely(tableOf(3).map((tensor) => ({ ...tensor, dtype: "bf16" }))));
    const conversion = await tables.conversion(order, halves, asking);
    expect(conversion).toMatchObject({ bytes: 24, casts: 3 });
    expect(await tables.conversion(order, halves, asking)).toBe(conversion);
  });

  it("of names that nothing converts are refused by the tensor that is missing", async () => {
    const { text } = await ports.table(tableOf(3, "theirs"));
    const tables = tablesOn(pullFrom({ "tcp:p0": text }));
    const own = await known(tableOf(3, "ours"));
    await expect(tables.conversion(wanted(text, [holder("p0")]), own, asking)).rejects.toMatchObject({
      code: "MUSTER_ERR_TENSORS_DIFFER",
      message: expect.stringContaining('tensor "ours" is not there in what was published, and f32[2, 2]'),
    });
    const rule = { kind: "rename", from: "theirs", to: "ours" } as const;
    expect(await tables.conversion(wanted(text, [holder("p0")]), { ...own, conversion: [rule] }, asking)).toMatchObject(
      {
        casts: 0,
      },
    );
  });

  it("whose holder gives another text are asked of the next one, and the answer is the table", async () => {
    const asked: string[] = [];
    const { text } = await ports.table(tableOf(3));
    const lie = text.map((byte, i) => (i === 2 ? byte + 1 : byte));
    const tables = tablesOn(pullFrom({ "tcp:p0": lie, "tcp:p1": text }, asked));
    const own = await known(tableOf(1));
    expect(await tables.of(wanted(text, [holder("p0"), holder("p1")]), own, asking)).toEqual(tableOf(3));
    expect(asked).toEqual(["tcp:p0", "tcp:p1"]);
  });

  it.each([
    ["overlaps", '["a","f32",[4],0]\n["b","f32",[4],8]\n', /what p0 gives is wrong: tensor "b" starts at byte 8/],
    ["overflows", `["a","f32",[${2 ** 50},${2 ** 50}],0]\n`, /what p0 gives is wrong: tensor "a" .* too many bytes/],
    ["has an unknown dtype", '["a","f31",[4],0]\n', /what p0 gives is wrong: row 1 \(tensor "a"\) has the dtype "f31"/],
    ["does not cover the weights", '["a","f32",[8],0]\n', /its tensors cover 32 bytes, and 16 were named/],
  ])("that %s are refused, each who gave it is named, and it is not kept", async (_, text, expected) => {
    const asked: string[] = [];
    const tables = tablesOn(pullFrom({ "tcp:p0": bytes(text), "tcp:p1": bytes(text) }, asked));
    const order = wanted(bytes(text), [holder("p0"), holder("p1")]);
    const own = await known(tableOf(1));
    for (let i = 0; i < 2; i++)
      await expect(tables.of(order, own, asking)).rejects.toMatchObject({
        code: "MUSTER_ERR_TENSOR_TABLE_INVALID",
        message: expect.stringMatching(expected),
      });
    await expect(tables.of(order, own, asking)).rejects.toThrow(/; what p1 gives is wrong/);
    expect(asked).toHaveLength(6);
  });

  it("that nobody reachable has are refused with what was heard of the holders", async () => {
    const { text } = await ports.table(tableOf(3));
    const own = await known(tableOf(1));
    await expect(tablesOn(pullFrom({})).of(wanted(text, [holder("p0")]), own, asking)).rejects.toThrow(
      /sha256:[0-9a-f]{64} of version 3 can not be had, so none of its weights are taken: nobody has it/,
    );
  });

  it("are not waited for by a replica that ends", async () => {
    const ending = AbortSignal.abort(new Error("closing"));
    const { text } = await ports.table(tableOf(3));
    const asked = { ...asking, signal: ending };
    await expect(
      tablesOn(pullFrom({})).of(wanted(text, [holder("p0")]), await known(tableOf(1)), asked),
    ).rejects.toThrow("closing");
  });
});

describe("between two processes", () => {
  let folder: TempDirectory;
  const children: ReturnType<typeof fork>[] = [];
  beforeEach(async () => {
    folder = await makeTempDirectory();
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
    await folder.remove();
  });

  /** Starts a process that serves this text. @returns What it serves the text as. */
  async function serve(member: string, text: Uint8Array) {
    const path = `${folder.path}/${member}.table`;
    await writeFile(path, text);
    const child = fork(fileURLToPath(new URL("./support/table-source.mjs", import.meta.url)), {
      execArgv: [],
    });
    children.push(child);
    child.send({ job: self.job, member, socketDir: folder.path, path, id });
    const [said] = (await once(child, "message")) as [{ addresses: string[]; table: TensorTable["text"] }];
    const { bytes: length, digest } = said.table;
    return { child, holder: { id: member, addresses: said.addresses }, text: { bytes: length, digest } };
  }

  it("200,000 rows come over both ways of the data plane, past a source that gives something else", async () => {
    const theirs = tableOf(200_000, "theirs");
    const { text } = await ports.table(theirs);
    const liar = await serve("policy-0", Uint8Array.from(text).fill(0x20, 4_000_000, 4_000_001));
    const honest = await serve("policy-1", text);
    const own = await known(tableOf(200_000, "ours"));
    for (const way of ["unix:", "tcp:"]) {
      const holders = [liar, honest].map(({ holder: { id: name, addresses } }) => ({
        id: name,
        addresses: addresses.filter((address) => address.startsWith(way)),
      }));
      expect(holders.map(({ addresses }) => addresses.length)).toEqual([1, 1]);
      const order = wanted(text, holders, { text: honest.text });
      const tables = tablesOn(pullVersion);
      const fetched = await tables.of(order, own, asking);
      expect(fetched.at(-1)).toEqual(theirs.at(-1));
      expect(fetched).toHaveLength(200_000);
      await expect(tables.check(order, own, asking)).rejects.toThrow(
        /row 200000 of the tensor table is theirs f32\[2, 2\] at byte 3199984 in what was published, and ours f32/,
      );
    }
  });

  it("a source that ends is passed over, and one whose table lies is named", async () => {
    const { text } = await ports.table(tableOf(2));
    const lie = bytes(Buffer.from(text).toString().replace("t0", "t9").replace(",16]", ",12]"));
    const dead = await serve("policy-0", text);
    const liar = await serve("policy-1", lie);
    dead.child.kill("SIGKILL");
    await once(dead.child, "exit");
    const order = wanted(lie, [dead.holder, liar.holder], { text: liar.text });
    await expect(tablesOn(pullVersion).of(order, await known(tableOf(1)), asking)).rejects.toThrow(
      /what policy-1 gives is wrong: tensor "last" starts at byte 12, and the one before it ends at 16/,
    );
  });
});
