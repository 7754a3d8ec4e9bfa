/** Options of `muster dashboard` that can not be: refused with the option, the value and the way out, before anybody is connected to. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, spawnMuster } from "@muster/testkit";
import { afterAll, expect, test } from "vitest";

const folder = await makeTempDirectory();
afterAll(() => folder.remove());
const short = join(folder.path, "short");
writeFileSync(short, "secret\n", { mode: 0o600 });
const open = join(folder.path, "open");
writeFileSync(open, "a-token-of-sufficient-length\n", { mode: 0o644 });

// Each is a process of its own, which takes a second or more on a busy machine.
test.each([
  ["no port", ["--listen", "127.0.0.1"], /--listen: 127\.0\.0\.1.*is not HOST:PORT, for example 127\.0\.0\.1:7070/],
  [
    "an address of the network",
    ["--listen", "0.0.0.0:7070"],
    /--listen: 0\.0\.0\.0:7070.*reached from other hosts.*--plain-http/,
  ],
  ["a token that is short", ["--token-file", short], /--token-file: .*short.*holds no token: one word of 16 to 512/],
  ["a token file that is not there", ["--token-file", "/nowhere"], /\/nowhere can not be read: ENOENT/],
  ["a token that others can read", ["--token-file", open], /open holds keys.*mode 0644.*chmod 600/],
])("%s", { timeout: 30_000 }, async (_, args, said) => {
  const process = await spawnMuster(["dashboard", "--runs", folder.path, ...args]);
  expect((await process.exited).code).toBe(2);
  expect(process.lines.join("\n")).toMatch(said);
});
