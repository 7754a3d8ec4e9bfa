import { describe, expect, it } from "vitest";
import { checkId, groupIdOf, senderOfSubject, subjectsOf, subjectTable } from "../src/index.ts";

describe("an id", () => {
  it.each(["a", "0", "policy-0", "a".repeat(48), "9-9-"])("may be %s", (id) => {
    expect(checkId("id", id)).toBe(id);
  });

  it.each(["", "-a", "A", "a.b", "a*", ">", "a b", "a_b", "ä", "a".repeat(49), "a\n", "a/b", "\u0000"])(
    "may not be %j, and the error says why",
    (id) => {
      expect(() => checkId("job", id)).toThrow(
        expect.objectContaining({ code: "MUSTER_ERR_ID_INVALID", message: expect.stringMatching(/^job "/) }),
      );
    },
  );

  it("that is far too long is cut in the error", () => {
    expect(() => checkId("id", "a".repeat(10_000))).toThrow(
      expect.objectContaining({ message: expect.stringMatching(/^.{0,250}$/) }),
    );
  });

  it("of a group is its step and index", () => {
    expect(groupIdOf(13, 4)).toBe("13.4");
  });
});

describe("the subjects of a job", () => {
  const subjects = subjectsOf("demo");

  it("are those of the table", () => {
    const made: Record<string, string> = {
      "muster.<job>.hb.<role>.<id>": subjects.heartbeat("policy", "p0"),
      "muster.<job>.probe.<id>": subjects.probe("p0"),
      "muster.<job>.reports.<role>.<id>.<kind>": subjects.report("policy", "p0", "step.voted"),
      "muster.<job>.commands.<id>.<kind>": subjects.command("p0", "step.run"),
      "muster.<job>.journal": subjects.journal,
      "muster.<job>.groups.<id>": subjects.groups("r0"),
      "muster.<job>.events.<kind>": subjects.event("job.started"),
    };
    expect(Object.keys(made)).toEqual(subjectTable.map(({ pattern }) => pattern));
    for (const [pattern, subject] of Object.entries(made)) {
      const form = pattern.replace("<kind>", "[a-z]+\\.[a-z]+").replace(/<\w+>/g, "[a-z0-9-]+");
      expect(subject).toMatch(new RegExp(`^${form}$`));
    }
  });

  it("cannot be forged out of a name", () => {
    expect(() => subjectsOf("demo.>")).toThrow(expect.objectContaining({ code: "MUSTER_ERR_ID_INVALID" }));
    for (const make of [
      (id: string) => subjects.heartbeat("policy", id),
      (id: string) => subjects.report("policy", id, "step.voted"),
      (id: string) => subjects.command(id, "step.run"),
      (id: string) => subjects.groups(id),
      (id: string) => subjects.all.commandsOf(id),
    ])
      for (const id of ["*", "a.b", ">", ""])
        expect(() => make(id)).toThrow(expect.objectContaining({ code: "MUSTER_ERR_ID_INVALID" }));
  });

  it("are matched by the patterns of readers", () => {
    const matches = (pattern: string, subject: string): boolean =>
      new RegExp(`^${pattern.replaceAll(".", "\\.").replaceAll("*", "[^.]+").replace(/>$/, ".+")}$`).test(subject);
    expect(matches(subjects.all.heartbeats, subjects.heartbeat("rollout", "r0"))).toBe(true);
    expect(matches(subjects.all.reports, subjects.report("rollout", "r0", "groups.completed"))).toBe(true);
    expect(matches(subjects.all.events, subjects.event("job.ended"))).toBe(true);
    expect(matches(subjects.all.commandsOf("r0"), subjects.command("r0", "groups.lease"))).toBe(true);
    expect(matches(subjects.all.commandsOf("r0"), subjects.command("r01", "groups.lease"))).toBe(false);
  });

  it("say who a report or a heartbeat is from", () => {
    expect(senderOfSubject(subjects.report("policy", "p0", "step.voted"))).toEqual({ role: "policy", id: "p0" });
    expect(senderOfSubject(subjects.heartbeat("rollout", "r0"))).toEqual({ role: "rollout", id: "r0" });
  });

  it.each([
    "muster.demo.commands.p0.step.run",
    "muster.demo.journal",
    "other.demo.hb.policy.p0",
    "muster.demo.hb.policy",
    "",
  ])("do not say it of %s", (subject) => {
    expect(senderOfSubject(subject)).toBeNull();
  });
});
