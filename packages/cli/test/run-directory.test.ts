import { expect, it } from "vitest";
import { socketDirectoryOf } from "../src/run/run-directory.ts";

it("jobs of one name in two folders of runs have sockets of their own, wherever they are started from", () => {
  expect(socketDirectoryOf("/data/one/runs", "dates")).not.toBe(socketDirectoryOf("/data/two/runs", "dates"));
  expect(socketDirectoryOf("runs", "dates")).toBe(socketDirectoryOf(`${process.cwd()}/runs`, "dates"));
});
