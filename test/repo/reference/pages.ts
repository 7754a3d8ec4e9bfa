/** The generated pages of `docs/reference/`, as functions of what the packages export. */
import { asyncApiOf } from "./asyncapi.ts";
import type { PackageErrors, ReferenceData } from "./load.ts";
import { code, page, table } from "./markdown.ts";
import { type Schema, signatureOf } from "./signature.ts";

const directions = {
  command: "Commands: from the controller to one actor",
  report: "Reports: from actors and operators to the controller",
  event: "Events: public facts for watchers",
  heartbeat: "Heartbeats: from replicas, over core NATS",
  probe: "Probes: from the controller to silent replicas, over core NATS",
  groups: "Groups: finished trajectories",
  journal: "Journal: what the controller accepted",
};

/** Every page: path from the root to text. */
export function referencePages(data: ReferenceData): ReadonlyMap<string, string> {
  return new Map([
    ["docs/reference/errors.md", errorsPage(data.errors)],
    ["docs/reference/messages.md", messagesPage(data.messages)],
    ["docs/reference/subjects.md", subjectsPage(data.subjects)],
    ["docs/reference/configuration.md", configurationPage(data.fields)],
    ["docs/reference/asyncapi.json", `${JSON.stringify(asyncApiOf(data), null, 2)}\n`],
  ]);
}

function errorsPage(packages: readonly PackageErrors[]): string {
  const intro =
    "Every error that Muster throws on purpose has one of these codes. Codes are never reused. *Retryable* means that the same " +
    "thing, tried again later, can succeed. Words in braces are filled with the values of the case.";
  const defining = packages.filter(({ errors }) => errors.size > 0);
  const sections = defining.flatMap(({ packageName, errors }) => {
    const sorted = [...errors].sort(([a], [b]) => (a < b ? -1 : 1));
    const rows = sorted.map(([name, { message, retryable }]) => [code(name), retryable ? "yes" : "no", message]);
    return [`## ${code(`@muster/${packageName}`)}`, table(["Code", "Retryable", "Message"], rows)];
  });
  return page("Errors", [intro, ...sections]);
}

function messagesPage(messages: ReferenceData["messages"]): string {
  const intro =
    "Every message has the same envelope; this is what its body holds. `?` marks a field that may be absent, `[]` a list. The " +
    "kind is also the event of the machine, the end of the subject, the field `kind` in logs and the label `kind` in metrics. " +
    "From a role that is not named under *From* a message is refused.";
  const sections = Object.entries(directions).flatMap(([direction, title]) => {
    const ours = Object.entries(messages).filter(([, row]) => row.direction === direction);
    const rows = ours.map(([kind, { from, says, body }]) => {
      const schema = body.toJSONSchema({ unrepresentable: "any" }) as Schema;
      return [code(kind), from.join(", "), says, code(signatureOf(schema))];
    });
    return rows.length === 0 ? [] : [`## ${title}`, table(["Kind", "From", "Meaning", "Body"], rows)];
  });
  return page("Messages", [intro, ...sections]);
}

function subjectsPage(subjects: ReferenceData["subjects"]): string {
  const intro =
    "Publishing to a subject is the operator's API, so these are all of them. Words in angle brackets are ids: `a-z`, `0-9`, `-`.";
  const rows = subjects.map(({ pattern, place, what }) => [code(pattern), place, what]);
  return page("Subjects", [intro, table(["Subject", "Carried by", "What"], rows)]);
}

function configurationPage(fields: ReferenceData["fields"]): string {
  const intro =
    "Every key of a job file. The same key is a flag (`--set batch.group_size=16`) and an environment variable " +
    "(`MUSTER_BATCH_GROUP_SIZE=16`). Durations are written like `5s` or `250ms`. What the values mean for a run, and which of them " +
    "must fit together: [Configuration](../operating/configuration.md).";
  const names = [...new Set(fields.map(({ key }) => key.slice(0, key.indexOf("."))))];
  const sections = names.flatMap((name) => {
    const ours = fields.filter(({ key }) => key.startsWith(`${name}.`));
    const rows = ours.map((field) => [code(field.key), field.kind, defaultOf(field, fields), field.says]);
    return [`## ${code(`[${name}]`)}`, table(["Key", "Kind", "Default", "Meaning"], rows)];
  });
  return page("Configuration", [intro, ...sections]);
}

/** A default as it would be written; one that depends on another key shows that key's name in its place. */
function defaultOf(field: ReferenceData["fields"][number], fields: ReferenceData["fields"]): string {
  if (field.required) return "required";
  const read = (key: string): string => {
    const other = fields.find((candidate) => candidate.key === key);
    return other === undefined || other.required || typeof other.default === "function"
      ? `<${key}>`
      : `${other.default}`;
  };
  const value = typeof field.default === "function" ? field.default(read) : field.default;
  return value === "" ? "none" : code(String(value));
}
