/** The conversations in `scenarios/*.txt`, word for word. After a wanted change vitest writes them anew with `-u`; read the difference. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { runScenario } from "./scenario.ts";

const folder = new URL("scenarios/", import.meta.url);
const files = readdirSync(folder).filter((file) => file.endsWith(".txt"));

describe("the conversation", () => {
  it.each(files)("of %s is the one that is written down", async (file) => {
    const { pathname } = new URL(file, folder);
    await expect(runScenario(readFileSync(pathname, "utf8"))).toMatchFileSnapshot(pathname);
  });

  it("is the same every time", () => {
    const script = readFileSync(new URL(files[0] ?? "", folder), "utf8");
    expect(runScenario(script)).toBe(runScenario(script));
  });
});
