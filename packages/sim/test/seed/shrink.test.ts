import { describe, expect, it } from "vitest";
import { ddmin } from "../../src/seed/shrink.ts";

const items = Array.from({ length: 40 }, (_, i) => i);

describe("shrinking a list", () => {
  it.each([[[7]], [[3, 31]], [[0, 19, 20, 39]]])("keeps exactly what the failure needs: %j", async (needed) => {
    const fails = async (subset: readonly number[]): Promise<boolean> => needed.every((item) => subset.includes(item));
    expect(await ddmin(items, fails)).toEqual(needed);
  });

  it("keeps everything when the failure needs everything", async () => {
    const fails = async (subset: readonly number[]): Promise<boolean> => subset.length === items.length;
    expect(await ddmin(items, fails)).toEqual(items);
  });
});
