import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { native } from "../src/native.ts";
import { bindingHashOf, checkBuild } from "../src/native-build.ts";

const here = dirname(createRequire(import.meta.url).resolve("@muster/native"));
const stale = expect.objectContaining({ code: "MUSTER_ERR_NATIVE_STALE" });

describe("the addon", () => {
  let copy: string;
  beforeEach(() => {
    copy = mkdtempSync(join(tmpdir(), "muster-native-"));
    mkdirSync(join(copy, "src"));
    cpSync(join(here, "src/binding"), join(copy, "src/binding"), { recursive: true });
  });
  afterEach(() => rmSync(copy, { recursive: true }));

  it("says which sources it was built from, as they are named here", () => {
    expect(native().build).toBe(bindingHashOf(join(here, "src/binding")));
    expect(readdirSync(join(copy, "src/binding")).length).toBeGreaterThan(10);
    expect(() => checkBuild(native().build, copy)).not.toThrow();
  });

  it("is refused beside sources of another build, with what to do", () => {
    writeFileSync(join(copy, "src/binding/addon.cc"), "// another\n");
    expect(() => checkBuild(native().build, copy)).toThrow(stale);
    expect(() => checkBuild(native().build, copy)).toThrow("npm run build:native");
  });

  it("is refused when a source was added since, and when it is too old to have a name", () => {
    writeFileSync(join(copy, "src/binding/more.cc"), "");
    expect(() => checkBuild(native().build, copy)).toThrow(stale);
    expect(() => checkBuild(undefined, here)).toThrow(stale);
  });

  it("is taken as it is where no sources are", () => {
    rmSync(join(copy, "src"), { recursive: true });
    expect(() => checkBuild("any", copy)).not.toThrow();
  });
});
