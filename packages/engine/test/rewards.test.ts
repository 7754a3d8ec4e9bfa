import { describe, expect, it } from "vitest";
import { rewardOf } from "../src/internal.ts";
import { quiet } from "./rollout-fixture.ts";

describe("the exact-match reward", () => {
  const prompt = { ids: Int32Array.of(1), text: "37+85=", answer: "221" };
  const score = (responseText: string, finish = "stop"): Promise<unknown> =>
    rewardOf("exact-match").score({ prompt, responseIds: Int32Array.of(1), responseText, finish }, quiet());

  it("is 1 for the answer with its end token and 0 for anything else", async () => {
    expect(await score("221$")).toBe(1);
    expect(await score("222$")).toBe(0);
    expect(await score("221")).toBe(0);
    expect(await score("2210$")).toBe(0);
    expect(await score("221$", "length")).toBe(0);
  });

  it("knows no end token in the text of a tokenizer that leaves it out", async () => {
    const read = { ...prompt, row: { answer: "221" } };
    const of = (responseText: string): Promise<unknown> =>
      rewardOf("exact-match").score(
        { prompt: read, responseIds: Int32Array.of(1), responseText, finish: "stop" },
        quiet(),
      );
    expect(await of("221")).toBe(1);
    expect(await of("221$")).toBe(0);
  });

  it("is the only one that is built in", () => {
    expect(() => rewardOf("vibes")).toThrow('reward "vibes" is not known; known rewards are exact-match');
  });
});
