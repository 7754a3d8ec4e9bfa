/** Which failures of checkpoints may pass by themselves. */
import { expect, it } from "vitest";
import { errors } from "../src/errors.ts";
import { systemCode } from "../src/files.ts";

it("an error says that it may be tried again where the next try may find the disk or the others as they should be, and only there", () => {
  const isRetried = Object.entries(errors).filter(
    ([, make]) => (make as (params: object) => { retryable: boolean })({}).retryable,
  );
  expect(isRetried.map(([name]) => name).sort()).toEqual([
    "CheckpointAborted",
    "CheckpointBusy",
    "CheckpointDiskFull",
    "CheckpointHashThread",
    "CheckpointMissing",
    "CheckpointReadFailed",
    "CheckpointShardsMissing",
    "CheckpointWriteFailed",
  ]);
});

it("the code of a system's error is a text in an error, and empty for whatever else is thrown", () => {
  const told = (code: unknown): Error => Object.assign(new Error("failed"), { code });
  expect(systemCode(told("ENOENT"))).toBe("ENOENT");
  for (const other of [new Error("failed"), told(5), { code: "ENOENT" }, "ENOENT", null, undefined])
    expect(systemCode(other)).toBe("");
});
