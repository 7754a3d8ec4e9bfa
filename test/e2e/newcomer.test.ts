/**
 * What somebody does who has just come: README and guides from top to bottom, each command pasted, each stated outcome looked for.
 *
 * It takes longer than other files, about 45 s on two cores, since it trains what the documents train: one job of each, and one for the commands of a
 * second terminal. Of the two pages with such commands, continuous integration takes one at each commit. What cannot be run here says so in a comment of
 * the document, and is counted and printed.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { commandsBeside, endJobBeside, runBeside, startJobBeside } from "./support/beside.ts";
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
    for (const paste of pastes.filter(({ beside }) => beside === null)) {
      const { code, said } = terminal.run(paste);
      const told = `${paste.place}: ${paste.script}\n${said}`;
      expect(code, told).toBe(paste.exitCode);
      if (paste.printed !== null)
        expect(isPrinted(paste.printed, said), `${told}\nis not\n${paste.printed}`).toBe(true);
    }
  });

  const turn = process.env.MUSTER_CI_TURN;
  const withJobs = walked
    .map(({ name, pastes }) => ({ name, pastes: pastes.filter(({ beside }) => beside !== null) }))
    .filter(({ pastes }) => pastes.length > 0)
    .filter((_, index) => turn === undefined || index === Number(turn) % 2);

  // A command has a minute; a page has twenty of them, each a process of its own and some with replicas to start, so the page has longer.
  const besideMs = 240_000;
  test.each(withJobs)(
    "$name, from a second terminal while a job runs",
    { timeout: besideMs },
    async ({ name, pastes }) => {
      const { PATH, HOME } = process.env;
      const terminal = new Terminal(home, join(directory.path, `.beside-${name.replaceAll("/", "-")}`), { PATH, HOME });
      terminal.run(onThePath);
      const job = pastes[0]?.beside as string;
      const run = await startJobBeside(home, job, "--nodes", "2");
      try {
        const commands = pastes.flatMap(({ place, script }) =>
          commandsBeside(script, job).map((command) => ({ place, command })),
        );
        // What ends the job comes last, wherever a page mentions it.
        const ends = ({ command }: { readonly command: string }) => /\b(muster stop|job\.stop)\b/.test(command);
        for (const { place, command } of [...commands.filter((each) => !ends(each)), ...commands.filter(ends)]) {
          const { code, said } = await runBeside(command, terminal.place);
          expect(code, `${place}: ${command}\n${said}`).toBe(0);
        }
      } finally {
        await endJobBeside(run);
      }
    },
  );
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
