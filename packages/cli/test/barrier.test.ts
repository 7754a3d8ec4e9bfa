/** Arrivals that can not be told: refused with the option, the value and the way out, before anybody is connected to. */
import { beforeAll, expect, test } from "vitest";
import { buildOnce, muster } from "./support/muster.ts";

beforeAll(buildOnce, 120_000);

test("a decision that is too long for the others is refused, and not cut", () => {
  const arrival = ["barrier", "3", "--iteration", "7", "--ranks", "2", "--rank", "0"];
  const { code, stderr } = muster([...arrival, "--decision", "x".repeat(2_001)]);
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(/--decision: x{40}….*has 2001 characters, at most 2000 reach the other ranks/),
  ]);
});
