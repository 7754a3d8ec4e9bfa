import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { withShortErrors } from "../src/collect/short-error.ts";
import { errors } from "../src/errors.ts";

setFlagsFromString("--expose-gc");

const thrownBy = (run: () => unknown): Promise<unknown> =>
  withShortErrors(run).then(
    () => "nothing",
    (error: unknown) => error,
  );
const throwing = (error: unknown) => () => {
  throw error;
};

describe("an error of a user's code", () => {
  it("is handed on as it is within the bounds, and so is one of Muster's own, and what is no error", async () => {
    const small = new TypeError("no", { cause: new Error("why") });
    const own = errors.TrajectoryInvalid({ from: "x".repeat(50_000), reason: "long" });
    for (const error of [small, own, "a text", null]) expect(await thrownBy(throwing(error))).toBe(error);
    expect(await thrownBy(() => Promise.reject(small))).toBe(small);
  });

  it("is short beyond them, with its name, its code, its causes, and where it was thrown", async () => {
    const cause = Object.assign(new Error("late"), { code: "UND_ERR_HEADERS_TIMEOUT" });
    const long = Object.assign(new RangeError("x".repeat(1_000_000), { cause }), { code: "E_OWN" });
    const short = (await thrownBy(throwing(long))) as Error;
    expect(short).toMatchObject({ name: "RangeError", code: "E_OWN", message: `${"x".repeat(1_999)}…` });
    expect(short.cause).toBe(cause);
    expect(short.stack).toContain("short-error.test");
    expect(await thrownBy(throwing(new Error("outer", { cause: long })))).toMatchObject({
      message: "outer",
      cause: { name: "RangeError", code: "E_OWN", cause },
    });
  });

  it("has causes that end where they go round in a circle", async () => {
    const first = new Error("x".repeat(50_000));
    first.cause = new Error("second", { cause: first });
    expect(await thrownBy(throwing(first))).toMatchObject({ message: `${"x".repeat(1_999)}…` });
  });

  it("keeps no memory when a whole lease throws at once", async () => {
    const collect = runInNewContext("gc") as () => void;
    const score = (i: number) => (): never => {
      throw new Error(Buffer.alloc(4 * 2 ** 20, `of sample ${i} `).toString("latin1"));
    };
    collect();
    const before = process.memoryUsage().heapUsed;
    const thrown = Promise.all(Array.from({ length: 32 }, (_, i) => thrownBy(score(i))));
    collect();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(32 * 2 ** 20);
    expect(await thrown).toHaveLength(32);
  });
});
