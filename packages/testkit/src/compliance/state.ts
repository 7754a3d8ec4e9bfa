/** The state store: revisions and compare-and-set. */
import { expect, test } from "vitest";
import type { Actors } from "./actors.ts";
import { bytes, text } from "./helpers.ts";

export function testState(actors: () => Actors): void {
  const store = () => actors().controller.state();
  const textOf = async (key: string): Promise<string | null> => {
    const entry = await store().get(key);
    return entry && text(entry.value);
  };

  test("a key that was never written has no value", async () => {
    expect(await store().get("lease")).toBeNull();
  });

  test("the last write is read with its revision, and keys do not disturb each other", async () => {
    await store().put("lease", bytes("a"));
    await store().put("directory.r0", bytes("other"));
    const revision = await store().put("lease", bytes("b"));
    const entry = await store().get("lease");
    expect(entry?.revision).toBe(revision);
    expect(await textOf("lease")).toBe("b");
    expect(await textOf("directory.r0")).toBe("other");
  });

  test("an update on an old revision is refused and changes nothing", async () => {
    const first = await store().update("lease", bytes("a"), 0);
    await store().put("other", bytes("x"));
    const second = await store().update("lease", bytes("b"), first);
    expect(second).toBeGreaterThan(first);
    const conflict = { code: "MUSTER_ERR_STATE_CONFLICT" };
    await expect(store().update("lease", bytes("c"), first)).rejects.toMatchObject(conflict);
    await expect(store().update("lease", bytes("c"), 0)).rejects.toMatchObject(conflict);
    expect(await textOf("lease")).toBe("b");
  });

  test("of several first writers exactly one wins", async () => {
    const results = await Promise.allSettled(["a", "b", "c"].map((id) => store().update("lease", bytes(id), 0)));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  test("a removed key has no value and can be made again", async () => {
    const revision = await store().update("lease", bytes("a"), 0);
    await store().delete("lease");
    expect(await store().get("lease")).toBeNull();
    await expect(store().update("lease", bytes("b"), revision)).rejects.toMatchObject({
      code: "MUSTER_ERR_STATE_CONFLICT",
    });
    await store().update("lease", bytes("c"), 0);
    expect(await textOf("lease")).toBe("c");
  });

  test("a value over one mebibyte is refused for good, and the one before stays", async () => {
    await store().put("status", new Uint8Array(1024 ** 2));
    const tooLarge = store().put("status", new Uint8Array(1024 ** 2 + 1));
    await expect(tooLarge).rejects.toMatchObject({ code: "MUSTER_ERR_BROKER_REFUSED", retryable: false });
    expect((await store().get("status"))?.value.byteLength).toBe(1024 ** 2);
  });

  test("a key that could reach outside the bucket is refused", async () => {
    for (const key of ["", "a b", "a.*", ">", ".a", "a.", "a..b"]) {
      await expect(store().put(key, bytes("x"))).rejects.toMatchObject({ code: "MUSTER_ERR_STATE_KEY_INVALID" });
    }
  });
}
