/** Which prompt each group of a job gets, however its operators change the size of its steps. */
import { type Random, randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import { type ChangedSettings, groupsAt, placeAt, positionOf, settingsAt, spansOf, stepsAfter } from "../src/index.ts";

const size = (fromStep: number, groupsPerStep: number): ChangedSettings => ({ fromStep, settings: { groupsPerStep } });

function drawnChanges(random: Random): readonly ChangedSettings[] {
  return Array.from({ length: random.below(6) }, () =>
    random.next() < 0.2
      ? { fromStep: 1 + random.below(30), settings: { lr: 0.1 } }
      : size(1 + random.below(30), 1 + random.below(9)),
  );
}

describe("positions of prompts", () => {
  it("follow each other without a gap or a repetition from step to step, whatever was changed, and back", () => {
    for (let seed = 1; seed <= 50; seed++) {
      const random = randomOf(seed, 1);
      const spans = spansOf(1 + random.below(9), drawnChanges(random));
      let next = 0;
      for (let step = 1; step <= 40; step++)
        for (let index = 0; index < groupsAt(spans, step); index++) {
          expect(positionOf(spans, { step, index })).toBe(next);
          expect(placeAt(spans, next)).toEqual({ step, index });
          next += 1;
        }
    }
  });

  it("of a job without changes are the steps before it times the groups of a step", () => {
    expect(spansOf(4)).toEqual([{ fromStep: 1, firstPosition: 0, groupsPerStep: 4 }]);
    expect(positionOf(spansOf(4), { step: 3, index: 2 })).toBe(10);
  });

  it("begin each span where the one before it ends; of two changes at one step the later one counts, and an equal size is no new span", () => {
    const spans = [
      { fromStep: 1, firstPosition: 0, groupsPerStep: 4 },
      { fromStep: 5, firstPosition: 16, groupsPerStep: 6 },
      { fromStep: 9, firstPosition: 40, groupsPerStep: 2 },
    ];
    expect(spansOf(4, [size(9, 2), size(5, 8), size(5, 6), size(7, 6)])).toEqual(spans);
    expect(spansOf(4, [size(1, 6)])).toEqual([{ fromStep: 1, firstPosition: 0, groupsPerStep: 6 }]);
  });

  it("are those of the question, also when the same changes were asked about for another job", () => {
    const changes = [size(3, 8)];
    expect(spansOf(4, changes)[1]?.firstPosition).toBe(8);
    expect(spansOf(5, changes)[1]?.firstPosition).toBe(10);
    expect(spansOf(5, changes)).toBe(spansOf(5, changes));
  });
});

it("a job has one end: of its numbers of steps the one that was said last counts, from its step on", () => {
  const changes = [
    { fromStep: 50, settings: { steps: 100 } },
    { fromStep: 40, settings: { steps: 60, lr: 0.5 } },
  ];
  const at = (step: number) => settingsAt(changes, step).steps;
  expect([at(39), at(40), at(50), at(70)]).toEqual([undefined, 60, 60, 60]);
  expect([stepsAfter(80, changes), stepsAfter(80, changes.slice(0, 1)), stepsAfter(80, undefined)]).toEqual([
    60, 100, 80,
  ]);
});
