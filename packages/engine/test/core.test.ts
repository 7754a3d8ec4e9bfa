import { describe, expect, it } from "vitest";
import { openFixture, shapes } from "./core-fixture.ts";
import { reference } from "./reference/llama.ts";

const logprobCoefficient = (row: number, t: number): number => ((row * 5 + t * 3) % 7) / 7 - 0.4;
const entropyCoefficient = (row: number, t: number): number => ((row * 3 + t) % 5) / 10 - 0.2;

describe.each(shapes)("the core with $heads heads, $kvHeads key heads, tied $tied", (model) => {
  it.each([1, 0.7, 1.3])(
    "agrees at temperature %d with an independent double-precision Llama, forward and backward",
    (temperature) => {
      const fixture = openFixture(model);
      fixture.core.call.setSharpness(1 / temperature);
      const { core, weights, gradient, values } = fixture;
      const rows = fixture.rows(3, model.maxContext - 1);
      const length = model.maxContext - 1;
      const expected = reference(
        model,
        values,
        rows.map((row) => [...row]),
        {
          logprob: logprobCoefficient,
          entropy: entropyCoefficient,
        },
        temperature,
      );
      const { logprobs, entropies } = fixture.forward(rows);
      expected.logprobs.forEach((row, i) => {
        row.forEach((value, t) => {
          expect(logprobs[i]![t]).toBeCloseTo(value, 5);
        });
      });
      expected.entropies.forEach((row, i) => {
        row.forEach((value, t) => {
          expect(entropies[i]![t]).toBeCloseTo(value, 5);
        });
      });
      rows.forEach((_, row) => {
        for (let t = 0; t < length; t++) {
          core.floats(core.call.coefficients.value, rows.length * length)[row * length + t] = logprobCoefficient(
            row,
            t,
          );
          core.floats(core.call.entropyCoefficients.value, rows.length * length)[row * length + t] = entropyCoefficient(
            row,
            t,
          );
        }
      });
      core.call.backward(weights, gradient, rows.length, length);
      const actual = core.floats(gradient, core.parameters);
      const norm = Math.hypot(...expected.gradient);
      const distance = Math.hypot(...expected.gradient.map((value, i) => value - actual[i]!));
      expect(norm).toBeGreaterThan(0.1);
      expect(distance / norm).toBeLessThan(1e-5);
      expect(expected.gradient.filter((value) => value !== 0).length).toBeGreaterThan(0.9 * core.parameters);
    },
  );

  it("has gradients that finite differences confirm", () => {
    const fixture = openFixture(model);
    const { core, weights, gradient, values } = fixture;
    const rows = fixture.rows(2, model.maxContext);
    const loss = (): number => {
      const { logprobs } = fixture.forward(rows);
      return logprobs.reduce(
        (sum, row, i) => row.reduce((inner, value, t) => inner + logprobCoefficient(i, t) * value, sum),
        0,
      );
    };
    loss();
    const coefficients = core.floats(core.call.coefficients.value, rows.length * model.maxContext);
    coefficients.forEach((_, i) => {
      coefficients[i] = logprobCoefficient(Math.floor(i / model.maxContext), i % model.maxContext);
    });
    core.call.backward(weights, gradient, rows.length, model.maxContext);
    const slopes = core.floats(gradient, core.parameters).slice();
    // Along random directions: one number sums over all parameters, so single-precision noise stays small beside it.
    for (const stride of [1, 3, 7]) {
      const direction = Float32Array.from(slopes, (slope, i) => (i % stride === 0 ? Math.sign(slope) : 0));
      const start = values.slice();
      const along = (step: number): number => {
        values.forEach((_, i) => {
          values[i] = start[i]! + step * direction[i]!;
        });
        return loss();
      };
      const step = 5e-4;
      const measured = (along(step) - along(-step)) / (2 * step);
      along(0);
      const claimed = slopes.reduce((sum, slope, i) => sum + slope * direction[i]!, 0);
      expect(Math.abs(measured / claimed - 1)).toBeLessThan(0.02);
    }
  });

  it("computes a row to the same bits whatever batch it is in", () => {
    const fixture = openFixture(model);
    const rows = fixture.rows(8, model.maxContext);
    const together = fixture.forward(rows);
    for (const [i, row] of rows.entries()) {
      const alone = fixture.forward([row]);
      expect(alone.logprobs[0]).toEqual(together.logprobs[i]);
      expect(alone.entropies[0]).toEqual(together.entropies[i]);
      const prefix = fixture.forward([row.slice(0, 4), rows[0]!.slice(0, 4)]);
      expect(prefix.logprobs[0]!.slice(0, 3)).toEqual(together.logprobs[i]!.slice(0, 3));
    }
  });
});

describe("the elementary functions", () => {
  it("compute e^x to single precision and flush to zero far below", () => {
    const { core } = openFixture(shapes[0]!);
    for (const x of [-80, -10, -1, -1e-4, 0, 1e-4, 0.28, 1, 10, 80]) {
      expect(core.call.exponential(x) / Math.exp(Math.fround(x))).toBeCloseTo(1, 6);
    }
    expect(core.call.exponential(-200)).toBe(0);
    expect(core.call.exponential(0)).toBe(1);
  });
});
