/** What a killed sampler leaves of the weights that it wrote for its servers. */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { startOf } from "../src/programs/proc.ts";
import { makeOwnedFolder } from "../src/served/owned-folder.ts";

function parentFolder(): string {
  const made = mkdtempSync(join(tmpdir(), "muster-owned-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

test("the next sampler removes what a killed one left, and nothing of those that live, of other hosts, or of another name", async () => {
  const parent = parentFolder();
  const mine = await makeOwnedFolder(parent);
  writeFileSync(join(mine, "model.safetensors"), "weights");
  const [, , place, pid, start] = (mine.split("/").at(-1) ?? "").split("-");
  expect([pid, start]).toEqual([`${process.pid}`, startOf(process.pid)]);
  const ended = spawnSync("true").pid;
  const left = [`${ended}-1`, `${process.pid}-${Number(start) + 1}`].map(
    (owner) => `muster-served-${place}-${owner}-a`,
  );
  const others = [`muster-served-${"0".repeat(16)}-${ended}-1-a`, "muster-served-abcdef", "weights"];
  for (const name of [...left, ...others]) {
    mkdirSync(join(parent, name, "v1"), { recursive: true });
    writeFileSync(join(parent, name, "v1", "config.json"), "{}");
  }
  const next = await makeOwnedFolder(parent);
  expect(readdirSync(parent).sort()).toEqual(
    [mine, next]
      .map((path) => path.split("/").at(-1))
      .concat(others)
      .sort(),
  );
  expect(existsSync(join(mine, "model.safetensors"))).toBe(true);
});

test("a process that is killed owns nothing any more", async () => {
  const parent = parentFolder();
  const module = pathToFileURL(join(import.meta.dirname, "../dist/served/owned-folder.js")).href;
  const script = `import(${JSON.stringify(module)}).then(async ({ makeOwnedFolder }) => {
    console.log(await makeOwnedFolder(process.argv[1]));
    process.kill(process.pid, "SIGKILL");
  })`;
  const { stdout } = spawnSync(process.execPath, ["-e", script, parent], { encoding: "utf8" });
  const left = stdout.trim();
  expect(existsSync(left)).toBe(true);
  await makeOwnedFolder(parent);
  expect(existsSync(left)).toBe(false);
  expect(execFileSync("ls", [parent], { encoding: "utf8" }).trim().split("\n")).toHaveLength(1);
});
