import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { listOf } from "./checks/finding.ts";
import { checkLinks } from "./checks/links.ts";
import { has, repositoryFiles, root, textOf } from "./checks/repository.ts";
import { loadReferenceData } from "./reference/load.ts";
import { referencePages } from "./reference/pages.ts";
import { signatureOf } from "./reference/signature.ts";

describe("the reference", async () => {
  const data = await loadReferenceData();
  const pages = referencePages(data);

  it.each([...pages])("page %s says what the code says (otherwise: npm run docs)", async (path, text) => {
    await expect(text).toMatchFileSnapshot(join(root, path));
  });

  it("has every error once, under the package that defines it", () => {
    const codes = data.errors.flatMap(({ errors }) => [...errors.keys()]);
    expect(new Set(codes).size).toBe(codes.length);
    const baseErrors = data.errors.find(({ packageName }) => packageName === "base")?.errors;
    expect(baseErrors?.has("MUSTER_ERR_INVARIANT_BROKEN")).toBe(true);
  });

  it("has every message kind and every subject", () => {
    for (const kind of Object.keys(data.messages))
      expect(pages.get("docs/reference/messages.md")).toContain(`\`${kind}\``);
    for (const { pattern } of data.subjects)
      expect(pages.get("docs/reference/subjects.md")).toContain(`\`${pattern}\``);
  });

  it("has every key of a job file", () => {
    for (const { key } of data.fields) expect(pages.get("docs/reference/configuration.md")).toContain(`\`${key}\``);
  });

  it("writes a body like a type", () => {
    const body = {
      type: "object",
      properties: {
        id: { type: "string" },
        vote: { enum: ["commit", "abort"] },
        key: {},
        ranks: { type: "array", items: { type: "integer" } },
      },
      required: ["id", "key", "ranks"],
    };
    expect(signatureOf(body)).toBe('{ id: string, vote?: "commit" | "abort", key: bytes, ranks: integer[] }');
  });
});

describe("the documents", () => {
  it("explain the architecture on three pages", () => {
    const linesOfPage = 60;
    expect(textOf("ARCHITECTURE.md").split("\n").length).toBeLessThanOrEqual(3 * linesOfPage);
  });

  it("link to files that exist", () => {
    const pages = repositoryFiles().filter((file) => file.endsWith(".md"));
    expect(pages).not.toEqual([]);
    expect(listOf(pages.flatMap((file) => checkLinks(file, textOf(file), has)))).toEqual([]);
  });
});

describe("the examples", () => {
  const files = repositoryFiles().filter((file) => file.startsWith("examples/"));
  const index = textOf("examples/README.md");

  it("are all in the index, with the command that starts each job", () => {
    const folders = [
      ...new Set(files.map((file) => file.split("/").slice(1, -1)[0]).filter((name) => name !== undefined)),
    ];
    expect(folders.length).toBeGreaterThan(10);
    expect(folders.filter((name) => !index.includes(`[\`${name}\`](${name}/`))).toEqual([]);
    const jobs = files.filter((file) => file.endsWith(".toml"));
    expect(jobs.filter((file) => !index.includes(`\`muster run ${file}\``))).toEqual([]);
  });

  it("have a worker of at most 60 lines", () => {
    expect(textOf("examples/python-worker/echo.py").trimEnd().split("\n").length).toBeLessThanOrEqual(60);
  });
});
