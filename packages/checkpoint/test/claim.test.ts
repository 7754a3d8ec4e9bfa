/** Names that are taken, and what a write that failed is called. */
import { expect, it } from "vitest";
import { claim } from "../src/write.ts";
import { bytesOf, writeFault } from "../src/write-fault.ts";
import { contentOf, never } from "./content.ts";
import { systemError } from "./disk.ts";

/** Takes names of which the first ones are taken; what was tried, and what became of it. */
async function claiming(taken: number, code = "EEXIST") {
  const tried: string[] = [];
  const take = async (name: string): Promise<void> => {
    tried.push(name);
    if (tried.length <= taken) throw systemError(code);
  };
  const got = await claim("step", "-a", take).catch((error: unknown) => error);
  return { got, tried };
}

it("the first free name is taken: the plain one, then -a2, up to the ninety-ninth", async () => {
  expect((await claiming(0)).got).toBe("step");
  expect((await claiming(1)).got).toBe("step-a2");
  expect((await claiming(98)).got).toBe("step-a99");
  const all = await claiming(99);
  expect(all.got).toMatchObject({ code: "MUSTER_ERR_CHECKPOINT_NAMES_TAKEN" });
  expect(all.tried).toHaveLength(99);
});

it("a name that is not taken but cannot be made is not asked for again under another", async () => {
  const { got, tried } = await claiming(1, "EACCES");
  expect(got).toMatchObject({ code: "EACCES" });
  expect(tried).toEqual(["step"]);
});

it("a disk that is full has no bytes left where it does not even say how many", async () => {
  const fs = { freeBytes: () => Promise.reject(systemError("EIO")) };
  const content = contentOf(7);
  const asked = { content, neededBytes: 9, signal: never };
  const fault = await writeFault({ fs, root: "/root" } as never, asked, "nothing is left", systemError("ENOSPC"));
  const params = { name: "step-00000007-v7-t1", freeBytes: 0, neededBytes: 9 };
  expect(fault).toMatchObject({ code: "MUSTER_ERR_CHECKPOINT_DISK_FULL", params });
});

it("what is to be written needs the room of all parts of all files", () => {
  const parts = [new Uint8Array(3), { length: 40, copyTo: () => Promise.resolve() }];
  expect(bytesOf([])).toBe(0);
  expect(
    bytesOf([
      { name: "a", parts },
      { name: "b", parts: [new Uint8Array(500)] },
    ]),
  ).toBe(543);
});
