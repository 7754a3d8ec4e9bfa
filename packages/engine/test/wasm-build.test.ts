import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { embeddedBuild } from "../src/embedded/index.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

describe("the committed WebAssembly binary", () => {
  it("is what its sources compile to, byte for byte", { timeout: 60_000 }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "muster-wasm-"));
    const outFile = join(folder, "engine.wasm");
    const compiler = join(root, "node_modules/assemblyscript/bin/asc.js");
    const args = [compiler, "assembly/index.ts", "--config", "assembly/asconfig.json", "--outFile", outFile];
    await promisify(execFile)(process.execPath, args, { cwd: root, timeout: 50_000 });
    const [built, committed] = [await readFile(outFile), await readFile(join(root, "wasm/engine.wasm"))];
    await rm(folder, { recursive: true });
    expect(Buffer.compare(built, committed)).toBe(0);
  });

  it("asks the host for nothing, so that the host cannot change a bit", async () => {
    const module = new WebAssembly.Module(await readFile(join(root, "wasm/engine.wasm")));
    expect(WebAssembly.Module.imports(module)).toEqual([]);
  });

  it("gives the build its name", () => {
    expect(embeddedBuild()).toMatch(/^embedded-wasm-[0-9a-f]{12}-r\d+$/);
  });
});
