import { networkDefaults } from "@muster/protocol/internal";
import { describe, expect, it } from "vitest";
import { checkChosenTimes, networkTimesOf, timesTable } from "./checks/chosen-times.ts";
import { listOf } from "./checks/finding.ts";
import { checkFolders } from "./checks/folders.ts";
import { checkLimits } from "./checks/limits.ts";
import { checkPurity } from "./checks/purity.ts";
import { packageNames, repositoryFiles, scriptSources, sourcesOf, textOf } from "./checks/repository.ts";
import { checkVocabulary } from "./checks/vocabulary.ts";
import { checkWiring } from "./checks/wiring.ts";
import { checkWords } from "./checks/words.ts";

describe.each(packageNames)("the sources of %s", (name) => {
  const sources = sourcesOf(name);

  it("keep to the limits of size, and have no any and no empty catch", () => {
    expect(sources).not.toEqual([]);
    expect(listOf(sources.flatMap(checkLimits))).toEqual([]);
  });

  it("make folders one by one", () => {
    expect(listOf(sources.flatMap(checkFolders))).toEqual([]);
  });

  it("leave the process to the composition root", () => {
    expect(listOf(sources.flatMap(checkWiring))).toEqual([]);
  });
});

describe("the repository", () => {
  it("has pure machines", () => {
    expect(listOf(sourcesOf("machines").flatMap(checkPurity))).toEqual([]);
  });

  it("has scripts that keep to the limits of size", () => {
    expect(listOf(scriptSources().flatMap(checkLimits))).toEqual([]);
  });

  it("has no test that is skipped without saying why", () => {
    const tests = repositoryFiles().filter((file) => file.endsWith(".test.ts"));
    const silent = /\b(?:it|test|describe)(?:\.\w+)*\.(?:skip|skipIf|runIf|todo)\b/;
    const findings = tests.flatMap((file) =>
      textOf(file)
        .split("\n")
        .flatMap((line, i) =>
          silent.test(line) ? [`${file}:${i + 1}: say why: context.skip(is missing, "what")`] : [],
        ),
    );
    expect(findings).toEqual([]);
  });

  it("has every time of the data plane in one table, and its defaults in the job file", () => {
    const sources = repositoryFiles().filter((file) => /^native\/src\/.*\.(cc|h)$/.test(file) && file !== timesTable);
    expect(sources.length).toBeGreaterThan(50);
    expect(listOf(sources.flatMap((file) => checkChosenTimes(file, textOf(file))))).toEqual([]);
    expect(networkTimesOf(textOf(timesTable))).toEqual(networkDefaults);
  });

  it("speaks only of itself", () => {
    expect(listOf(textFiles().flatMap((file) => checkWords(file, textOf(file))))).toEqual([]);
  });

  it("has one word for each thing, in names and in texts", () => {
    expect(listOf(textFiles().flatMap((file) => checkVocabulary(file, textOf(file))))).toEqual([]);
  });
});

/** Everything that somebody wrote, in whichever language. */
function textFiles(): string[] {
  const files = repositoryFiles().filter((file) =>
    /\.(tsx?|mjs|cjs|js|json|py|ya?ml|toml|md|sh|cc|h|txt)$|^\.ci\/|Dockerfile/.test(file),
  );
  expect(files.length).toBeGreaterThan(500);
  return files.filter((file) => file !== "pnpm-lock.yaml");
}
