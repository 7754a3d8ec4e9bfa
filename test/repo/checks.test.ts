/** Each check is shown to fail on a bad text and to pass on a good one: a check that cannot fail checks nothing. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkChosenTimes, networkTimesOf } from "./checks/chosen-times.ts";
import { checkDocumentedExports } from "./checks/documented-exports.ts";
import { checkEntryPoints } from "./checks/entry-points.ts";
import { listOf } from "./checks/finding.ts";
import { checkFolders } from "./checks/folders.ts";
import { checkLimits } from "./checks/limits.ts";
import { checkLinks } from "./checks/links.ts";
import { checkManifest } from "./checks/manifests.ts";
import { checkPurity } from "./checks/purity.ts";
import { parse } from "./checks/repository.ts";
import { checkVocabulary } from "./checks/vocabulary.ts";
import { checkWiring } from "./checks/wiring.ts";
import { checkWords } from "./checks/words.ts";

const limitsOf = (text: string) => listOf(checkLimits(parse("a.ts", text)));
const purityOf = (text: string) => listOf(checkPurity(parse("a.ts", text)));
const wiringOf = (text: string, file = "packages/actors/src/a.ts") => listOf(checkWiring(parse(file, text)));

describe("folders", () => {
  const foldersOf = (text: string) => listOf(checkFolders(parse("a.ts", text)));

  it("are not made by the recursive mkdir, in whichever way it is called", () => {
    expect(foldersOf("await mkdir(a, { recursive: true });")).toEqual([
      expect.stringContaining("a.ts:1 recursive mkdir"),
    ]);
    expect(foldersOf("fs.mkdirSync(a, { mode: 0o700, recursive: true });")).toHaveLength(1);
    expect(foldersOf("await mkdir(a); rmSync(a, { recursive: true }); cpSync(a, b, { recursive: true });")).toEqual([]);
  });
});

describe("the limits", () => {
  it("report a file of 401 lines and accept one of 400", () => {
    expect(limitsOf(`${"\n".repeat(400)}let a = 1;`)).toEqual([expect.stringContaining("a.ts:0 file has 401 lines")]);
    expect(limitsOf(`${"\n".repeat(399)}let a = 1;\n`)).toEqual([]);
  });

  it("report a function of 71 lines by name and accept one of 70", () => {
    const body = (lines: number) => `const long = () => {\n${"  work();\n".repeat(lines - 2)}};\n`;
    expect(limitsOf(body(71))).toEqual([expect.stringContaining("a.ts:1 long has 71 lines")]);
    expect(limitsOf(body(70))).toEqual([]);
    expect(limitsOf(body(71).replace("work()", 'it("works", work)'))).toEqual([]);
  });

  it("report a fifth parameter", () => {
    expect(limitsOf("function f(a: A, b: A, c: A, d: A, e: A) {}")).toEqual([
      expect.stringContaining("f has 5 parameters"),
    ]);
    expect(limitsOf("function f(this: A, a: A, b: A, c: A, d: A) {}")).toEqual([]);
  });

  it("report any as a type, and not the word", () => {
    expect(limitsOf("let a: any;\nlet b = c as any;")).toHaveLength(2);
    expect(limitsOf('// any\nlet any = "any";')).toEqual([]);
  });

  it("report an empty catch, even with a comment in it", () => {
    expect(limitsOf("try { a(); } catch {\n  // never mind\n}")).toEqual([expect.stringContaining("empty catch")]);
    expect(limitsOf("try { a(); } catch { b(); }")).toEqual([]);
  });
});

describe("the times of the data plane", () => {
  const timesOf = (line: string) => listOf(checkChosenTimes("a.cc", line));

  it("report one that is written down elsewhere, and accept names, zeros and what is given", () => {
    for (const line of [
      "constexpr Milliseconds kPause{20};",
      "wait(Milliseconds(1'500));",
      "std::chrono::microseconds k{5};",
    ])
      expect(timesOf(line)).toEqual([expect.stringContaining("a.cc:1 a time of its own")]);
    for (const line of ["wait(kAgain);", "lease.await(0, Milliseconds(0));", "Milliseconds(timeoutMs)", "// 20 ms"])
      expect(timesOf(line)).toEqual([]);
  });

  it("read the defaults of the table", () => {
    const table =
      "struct NetworkTimes {\n  Milliseconds alive{50};  // why\n  Milliseconds stall{5'000};\n  Status check() const;\n};\n";
    expect(networkTimesOf(table)).toEqual({ aliveMs: 50, stallMs: 5000 });
  });
});

describe("the purity of machines", () => {
  it.each([
    "const now = Date.now();",
    "const now = new Date();",
    "const now = performance.now();",
    "const x = Math.random();",
    "setTimeout(f, 1);",
    "setInterval(f, 1);",
    "queueMicrotask(f);",
    "async function f() { await g(); }",
    "const p = Promise.resolve();",
    "fetch(url);",
    "const e = process.env.HOME;",
  ])("reports %s and names a replacement", (text) => {
    expect(purityOf(text)[0]).toMatch(/ in a machine: (use|take|emit|raise) /);
  });

  it("leaves comments, strings and field names alone", () => {
    expect(
      purityOf('// Date, fetch\nconst kind = "process.exited";\nconst a = { process: b.process, fetch: 1 };'),
    ).toEqual([]);
    expect(purityOf("interface A { readonly process: string }\nconst n = Math.max(1, 2);")).toEqual([]);
  });
});

describe("the wiring rule", () => {
  it.each([
    "const a = process.env.HOME;",
    "process.exit(1);",
    'process.on("exit", f);',
    'console.log("a");',
    'import { env } from "node:process";',
  ])("reports %s outside of the composition root", (text) => {
    expect(wiringOf(text)).toHaveLength(1);
    expect(wiringOf(text, "packages/cli/src/a.ts")).toEqual([]);
    expect(wiringOf(text, "packages/runtime/src/config/a.ts")).toEqual([]);
    expect(wiringOf(text, "packages/runtime/src/host/a.ts")).toHaveLength(1);
  });
});

describe("the words", () => {
  it("report absolute paths of a machine and notes to self", () => {
    for (const path of [
      ["see /ho", "me/me/x"],
      ["cd /tm", "p/a/b"],
    ])
      expect(listOf(checkWords("a.md", path.join("")))).toEqual([expect.stringContaining("a.md:1 absolute path")]);
    expect(listOf(checkWords("a.ts", `\n// ${"TO"}${"DO"}: later`))).toEqual([
      expect.stringContaining("a.ts:2 note to self"),
    ]);
  });

  it("leave relative paths and addresses alone", () => {
    expect(checkWords("a.md", "docs/home/start.md, https://example.org/home/start, ~/work/x, /tmp/muster-job")).toEqual(
      [],
    );
  });
});

describe("the vocabulary", () => {
  const vocabularyOf = (text: string, file = "packages/a/src/b.ts") => listOf(checkVocabulary(file, text));

  it.each([
    ["const meteredDoors = {};", '"doors": write port'],
    ["/** Opens the door. */", '"door": write port'],
    ["// The hands of a node start processes.", '"the hands": write handlers'],
    ["// the controller's mind decides", '"s mind": write controller logic'],
    ["await run.ears.close();", '"run ears": write subscription'],
    ["class Reign {}", '"reign": write term'],
    ["function pictureOf() {}", '"picture": write status'],
    ["// a member that is put out comes back", '"put out": write evict'],
    ["// it puts its member out", '"puts its member out": write evict'],
    ["evict(putOut);", '"put out": write evict'],
    ["interface Taken {", '"interface Taken": write a noun'],
    ["export type BeatSeen = 1;", '"type BeatSeen": write a noun'],
  ])("reports %s", (text, message) => {
    expect(vocabularyOf(`\n${text}`)).toEqual([expect.stringContaining(`packages/a/src/b.ts:2 ${message}`)]);
  });

  it("reports a file by its name", () => {
    expect(vocabularyOf("", "packages/a/src/front-doors.ts")).toEqual([expect.stringMatching(/^packages.*:0 "doors"/)]);
  });

  it("leaves plain English and whole nouns alone", () => {
    const text =
      "A node hands it over; nobody minds. Who puts it on a disk goes out. type TakenSet = 1; held-out prompts";
    expect(vocabularyOf(text)).toEqual([]);
  });
});

describe("the links", () => {
  const exists = (path: string) => path === "docs/a.md";

  it("report a target that does not exist, from where the page is", () => {
    expect(listOf(checkLinks("docs/b.md", "\n[a](c.md)", exists))).toEqual(["docs/b.md:2 link to c.md leads nowhere"]);
    expect(checkLinks("README.md", "[a](a.md)", exists)).toHaveLength(1);
  });

  it("accept files, anchors, addresses and whatever is in a code block", () => {
    expect(
      checkLinks(
        "docs/b.md",
        "[a](a.md#top) [b](#here) [c](https://example.org) [d](../docs/a.md)\n```\n[x](y.md)\n```",
        exists,
      ),
    ).toEqual([]);
  });
});

describe("the manifests", () => {
  const good = {
    name: "@muster/a",
    description: "A.",
    type: "module",
    exports: { ".": { source: "./src/index.ts", default: "./dist/index.js" } },
  };

  it("accept the common form", () => {
    expect(
      checkManifest("package.json", { ...good, dependencies: { "@muster/b": "workspace:*", zod: "catalog:" } }),
    ).toEqual([]);
  });

  it("report each departure from it", () => {
    const many = Object.fromEntries(["b", "c", "d", "e", "f"].map((name) => [`@muster/${name}`, "workspace:*"]));
    const bad = {
      name: "@muster/a",
      exports: { ".": { default: "./dist/index.js" } },
      dependencies: { ...many, zod: "4.0.0" },
    };
    expect(checkManifest("package.json", bad)).toHaveLength(5);
  });
});

describe("the documented exports", () => {
  it("report what has no doc comment, also when it is declared elsewhere", () => {
    const folder = mkdtempSync(join(tmpdir(), "muster-exports-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(
      join(folder, "index.ts"),
      'export { good, bad } from "./other.ts";\nexport interface Naked { a: 1 }\n',
    );
    writeFileSync(join(folder, "other.ts"), "/** Good. */\nexport const good = 1;\nexport function bad() {}\n");
    expect(listOf(checkDocumentedExports(folder, ["index.ts"])).sort()).toEqual([
      "index.ts:0 Naked is exported without a doc comment",
      "index.ts:0 bad is exported without a doc comment",
    ]);
  });
});

describe("the main entry points", () => {
  const entryPoint = { file: "packages/a/src/index.ts", text: 'export { used, tested, type Shape } from "./a.ts";\n' };
  const worker = { file: "packages/b/src/b.ts", text: 'import { used } from "@muster/a";\n' };
  const test = {
    file: "packages/b/test/b.test.ts",
    text: 'import { type Shape, tested as t, used } from "@muster/a";\n',
  };
  const report = ["packages/a/src/index.ts:0 tested is imported by tests only: export it from internal.ts"];

  it("report a value that only a test imports, and no types", () => {
    expect(listOf(checkEntryPoints([entryPoint, worker, test]))).toEqual(report);
  });

  it("accept what a document shows or a command loads when it needs it", () => {
    const shown = { file: "packages/a/README.md", text: 'import { tested } from "@muster/a";\n' };
    const loaded = { file: "packages/b/src/c.ts", text: 'const { tested: t } = await import("@muster/a");\n' };
    expect(listOf(checkEntryPoints([entryPoint, worker, test, shown]))).toEqual([]);
    expect(listOf(checkEntryPoints([entryPoint, worker, test, loaded]))).toEqual([]);
  });
});
