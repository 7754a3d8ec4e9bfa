import { expect, it } from "vitest";
import { newestCheckpointName } from "../src/index.ts";

const listing = (...names: readonly string[]) => ({ list: async () => names });

it("the newest name is that of the last term, and in it that of the last step; what is no name counts for nothing", async () => {
  const names = ["step-00000009-v9-t1", "step-00000004-v4-t2", "step-00000006-v6-t2", "latest", "step-99999999-v1-tx"];
  expect(await newestCheckpointName("/c", listing(...names))).toBe("step-00000006-v6-t2");
  expect(await newestCheckpointName("/c", listing("latest"))).toBeNull();
});

it("a folder that is not there has none, and one that can not be read is an error", async () => {
  const failing = (code: string) => ({ list: () => Promise.reject(Object.assign(new Error(code), { code })) });
  expect(await newestCheckpointName("/c", failing("ENOENT"))).toBeNull();
  await expect(newestCheckpointName("/c", failing("EACCES"))).rejects.toThrow("EACCES");
});
