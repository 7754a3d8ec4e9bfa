/** What a controller has opened is closed once, all of it, whatever fails on the way and however late it comes. */
import { silentLogger } from "@muster/base";
import { describe, expect, it } from "vitest";
import { Holdings } from "../src/controller/holdings.ts";

describe("what is held open", () => {
  it("is closed in the order in which it came, and each waited for before the next", async () => {
    const said: string[] = [];
    const holdings = new Holdings(silentLogger);
    await holdings.hold(async () => {
      await new Promise(setImmediate);
      said.push("first");
    });
    await holdings.hold(() => void said.push("second"));
    expect(said).toEqual([]);
    await holdings.closeAll();
    expect(said).toEqual(["first", "second"]);
  });

  it("is closed once, and what comes later at once", async () => {
    const said: string[] = [];
    const holdings = new Holdings(silentLogger);
    await holdings.hold(() => void said.push("first"));
    await holdings.closeAll();
    await holdings.hold(async () => {
      await new Promise(setImmediate);
      said.push("late");
    });
    expect(said).toEqual(["first", "late"]);
    await holdings.closeAll();
    expect(said).toEqual(["first", "late"]);
  });

  it("is closed although something before it could not be, which is said", async () => {
    const said: string[] = [];
    const warned: unknown[] = [];
    const logger = { ...silentLogger, warn: ({ error }: { readonly error?: unknown }) => void warned.push(error) };
    const holdings = new Holdings(logger as typeof silentLogger);
    await holdings.hold(() => Promise.reject(new Error("it is stuck")));
    await holdings.hold(() => void said.push("second"));
    await holdings.closeAll();
    expect(said).toEqual(["second"]);
    expect(warned).toMatchObject([{ message: "it is stuck" }]);
  });
});
