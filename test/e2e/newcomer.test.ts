/**
 * What somebody does who has just come: README and guides from top to bottom, each command pasted, each stated outcome looked for.
 *
 * It takes longer than other files, about 25 s on two cores, since it trains what the documents train: one job of each. What can not be run here says
 * so in a comment of the document, and is counted and printed.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { isPrinted, type Paste, pastedDocument, Terminal } from "./support/pasted.ts";

vi.setConfig({ testTimeout: 120_000 });

const root = fileURLToPath(new URL("../../", import.meta.url));
const pagesIn = (folder: string): readonly string[] =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name}`);
const documents = ["README.md", ...pagesIn("docs/guides"), ...pagesIn("docs/operating")].map((name) => ({
  name,
  ...pastedDocument(name, readFileSync(join(root, name), "utf8")),
}));

const hasPython = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status === 0;
const ofPython = "docs/guides/your-own-worker.md";

let directory: TempDirectory;
beforeAll(async () => {
  directory = await makeTempDirectory();
});
afterAll(() => directory.remove());

/** A folder that looks like the checkout: links to what is in it, so that runs land beside them and not in it. */
function likeTheCheckout(): string {
  for (const name of readdirSync(root))
    if (!["runs", ".git"].includes(name)) symlinkSync(join(root, name), join(directory.path, name));
  return directory.path;
}

/** The first thing that the README has pasted: `muster` on the path. */
const onThePath = documents[0]?.pastes.find(({ script }) => script.startsWith("export PATH=")) as Paste;

describe("what README and guides say comes true when it is pasted:", () => {
  const walked = documents.filter(({ pastes }) => pastes.length > 0);
  let home: string;
  beforeAll(() => {
    home = likeTheCheckout();
  });

  test.for(walked)("$name", ({ name, pastes }, context) => {
    context.skip(name === ofPython && !hasPython, "python3 of 3.11 or newer is not installed");
    const { MUSTER_NATS_SERVER, PATH, HOME } = process.env;
    const env = { PATH, HOME, ...(MUSTER_NATS_SERVER === undefined ? {} : { MUSTER_NATS_SERVER }) };
    const terminal = new Terminal(home, join(directory.path, `.state-${name.replaceAll("/", "-")}`), env);
    if (name !== "README.md") terminal.run(onThePath);
    for (const paste of pastes) {
      const { code, said } = terminal.run(paste);
      const told = `${paste.place}: ${paste.script}\n${said}`;
      expect(code, told).toBe(paste.exitCode);
      if (paste.printed !== null)
        expect(isPrinted(paste.printed, said), `${told}\nis not\n${paste.printed}`).toBe(true);
    }
  });
});

test("what is not pasted says why", () => {
  const leftOut = documents.flatMap((document) => document.leftOut);
  const pasted = documents.flatMap(({ pastes }) => pastes);
  process.stdout.write(
    `${pasted.length} pastes are run, ${leftOut.length} blocks are not:\n${leftOut.map(({ place, reason }) => `  ${place}: ${reason}\n`).join("")}`,
  );
  expect(onThePath).toBeDefined();
  for (const { place, reason } of leftOut) expect(reason.length, place).toBeGreaterThan(10);
});

test("the example of the guide is what the guide has written", () => {
  const guide = pastedDocument("guide", readFileSync(join(root, "docs/guides/your-first-own-task.md"), "utf8"));
  const files = new Map(guide.pastes.flatMap((paste) => [...paste.files]));
  for (const name of ["task.mjs", "job.toml"])
    expect(files.get(name), name).toBe(readFileSync(join(root, "examples/own-task", name), "utf8"));
});
