import { describe, expect, it } from "vitest";
import { endText } from "../../src/bench/members.ts";
import { allReduceBytes, hostsBytes, tooLarge, weightsBytes } from "../../src/bench/memory.ts";

const gib = 2 ** 30;
const eight = { world: 8, bytes: gib, peers: true };

describe("the memory of a measurement", () => {
  it("of 1 GiB to seven receivers is not to be had on a machine of 16 GiB, and is said with both figures", () => {
    expect(tooLarge(eight, weightsBytes(eight), 16 * gib)).toBe(
      "W=8, 1 GiB was left out: it takes about 21 GiB of memory, and 16 GiB are available",
    );
    expect(tooLarge(eight, weightsBytes(eight), 24 * gib)).toBeNull();
  });

  it("leaves a tenth to others", () => {
    expect(tooLarge(eight, 9 * gib, 10 * gib)).toBeNull();
    expect(tooLarge(eight, 9.1 * gib, 10 * gib)).toContain("left out");
  });

  it("of a small sum counts the buffers of the thousand tensors behind it, and names the size that was asked for", () => {
    const small = { world: 8, bytes: 2 ** 20, peers: false };
    expect(allReduceBytes(small)).toBeGreaterThan((2 * small.world + 3) * 62.5 * 2 ** 20);
    expect(tooLarge(small, allReduceBytes(small), gib)).toMatch(/^W=8, 1 MiB was left out/);
  });

  it("of a chain of hosts counts two slots of each, what the source has itself, and gloo's buffers", () => {
    expect(hostsBytes({ ...eight, peers: false })).toBe(18 * gib);
    expect(hostsBytes(eight)).toBe(27 * gib);
    expect(tooLarge(eight, hostsBytes(eight), 16 * gib)).toBe(
      "W=8, 1 GiB was left out: it takes about 27 GiB of memory, and 16 GiB are available",
    );
  });

  it("grows with peers, and for sums with the inputs of all ranks", () => {
    expect(weightsBytes({ ...eight, peers: false })).toBeLessThan(weightsBytes(eight));
    expect(allReduceBytes(eight)).toBeGreaterThan(weightsBytes(eight));
  });
});

it("the end of a process is named", () => {
  expect(endText(null, "SIGKILL")).toContain("SIGKILL, as the kernel does when memory runs out");
  expect(endText(null, "SIGSEGV")).toBe("was killed by SIGSEGV");
  expect(endText(3, null)).toBe("ended with code 3");
});
