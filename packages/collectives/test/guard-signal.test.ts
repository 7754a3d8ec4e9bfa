/** The watch over signals, in processes that end as their loop does: while much memory is freed, and others want the processors. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const addon = fileURLToPath(new URL("../dist/index.js", import.meta.url));

const program = `
const { guardSignal } = await import(process.argv[1]);
const much = Array.from({ length: 3_000 }, () => new Uint8Array(65_536).fill(1));
const waits = setTimeout(() => much.length, 60_000);
process.once("SIGINT", () => {
  clearTimeout(waits);
  process.exitCode = 130;
});
guardSignal(2);
setImmediate(() => process.kill(process.pid, "SIGINT"));
`;

const end = (): Promise<number | string | null> =>
  new Promise((resolve) => {
    const child = execFile(process.execPath, ["--input-type=module", "-e", program, addon]);
    child.once("exit", (code, signal) => resolve(code ?? signal));
  });

it("does not disturb the end of a process that has answered its signal", { timeout: 60_000 }, async () => {
  const ends = await Promise.all(Array.from({ length: 12 }, end));
  expect(ends).toEqual(Array(12).fill(130));
});
