import { type Logic, sideBySide } from "@muster/machines";
import { describe, expect, it } from "vitest";

/** Counts the events that it knows by name, and says so. */
const counter = (name: string, knows: string): Logic<number, string, number, string> => ({
  id: name,
  init: (input) => ({ snapshot: input, effects: [`${name} starts`] }),
  step: (snapshot, event) =>
    event.includes(knows)
      ? { snapshot: snapshot + 1, effects: [`${name} ${snapshot + 1}`] }
      : { snapshot, effects: [] },
});

describe("two cores side by side", () => {
  const pair = sideBySide(counter("a", "x"), counter("b", "y"));

  it("start with their own inputs, the first one first", () => {
    expect(pair.init({ first: 1, second: 5 })).toEqual({
      snapshot: { first: 1, second: 5 },
      effects: ["a starts", "b starts"],
    });
  });

  it("both hear every event, and their effects come in order", () => {
    const start = { first: 0, second: 0 };
    expect(pair.step(start, "x")).toEqual({ snapshot: { first: 1, second: 0 }, effects: ["a 1"] });
    expect(pair.step(start, "y")).toEqual({ snapshot: { first: 0, second: 1 }, effects: ["b 1"] });
    expect(pair.step(start, "xy").effects).toEqual(["a 1", "b 1"]);
    expect(start).toEqual({ first: 0, second: 0 });
  });

  it("are named after the second, whose work it is", () => {
    expect(pair.id).toBe("b");
  });
});
