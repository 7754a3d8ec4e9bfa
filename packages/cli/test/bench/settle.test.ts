import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeTempDirectory } from "@muster/testkit";
import { describe, expect, it, onTestFinished } from "vitest";
import { returnsMemory, settle } from "../../src/bench/settle.ts";

/** The folder of the driver, with one balloon of these features, lowest bit first. */
async function balloonOf(features: string): Promise<string> {
  const { path, remove } = await makeTempDirectory();
  onTestFinished(remove);
  await mkdir(join(path, "virtio0"));
  await writeFile(join(path, "virtio0", "features"), `${features}\n`);
  await writeFile(join(path, "uevent"), "");
  return path;
}

describe("a machine comes to rest between two measurements", () => {
  it("where it hands free memory back to a host: only a balloon with the feature does", async () => {
    expect(returnsMemory(await balloonOf("0110010100"))).toBe(true);
    expect(returnsMemory(await balloonOf("0110000100"))).toBe(false);
    expect(returnsMemory("/nowhere")).toBe(false);
  });

  it("at once where it does not, and when little was freed", async () => {
    const stopped = AbortSignal.abort(new Error("waits"));
    await settle(2 ** 30, stopped, "/nowhere");
    await settle(2 ** 20, stopped, await balloonOf("0110010100"));
  });

  it("until whoever started the measurement stops it, with the reason", async () => {
    const stop = new AbortController();
    const resting = settle(2 ** 30, stop.signal, await balloonOf("0110010100"));
    stop.abort(new Error("Ctrl-C"));
    await expect(resting).rejects.toThrow("Ctrl-C");
  });
});
