/** Which failures of checkpoints may pass by themselves. */
import { expect, it } from "vitest";
import { errors } from "../src/errors.ts";

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
