/** What a journal has committed, and no event of the files tells of. */
import { expect, it } from "vitest";
import { firstPoint, JournalCommits, lastPoint } from "../../src/run/commits.ts";

/** A job that went back from version 50 to 42; step and version are the same. */
function journal(): JournalCommits {
  const commits = new JournalCommits();
  for (const [lineage, version] of [
    [0, 44],
    [0, 50],
    [1, 43],
    [1, 44],
  ] as const)
    commits.add({ lineage, version, step: version, sections: [] });
  return commits;
}

it("is all that no event told, from the first commit of the job on", () => {
  const commits = journal();
  commits.take({ lineage: 0, version: 50, step: 50, sections: [] });
  expect(commits.untold(firstPoint, lastPoint)).toEqual([44, 43, 44]);
});

it("is nothing of before the files begin, also where the job went back from there", () => {
  const commits = journal();
  const first = { lineage: 1, version: 43, step: 43, sections: [] };
  for (const version of [43, 44]) commits.take({ ...first, version, step: version });
  expect(commits.untold(first, lastPoint)).toEqual([]);
});

it("is what lacks between two that were told, in whatever lineage", () => {
  const commits = journal();
  const [first, last] = [
    { lineage: 0, version: 44, step: 44, sections: [] },
    { lineage: 1, version: 44, step: 44, sections: [] },
  ];
  for (const told of [first, last]) commits.take(told);
  expect(commits.untold(first, last)).toEqual([50, 43]);
});
