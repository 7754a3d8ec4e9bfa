/** A response in a few lines, for a terminal. Pure; texts come from models and data, so each line of them is cleaned. */
import { cleanBlock, cleanLine, figure } from "../report/text.ts";
import type { SampleRecord } from "../report/types.ts";

const linesMax = 40;

/** Writes prompt, response and reward. */
export function sampleText(sample: SampleRecord): string {
  const {
    step,
    group,
    sample: at,
    version,
    replica,
    reward,
    tokens,
    status,
    answer,
    error,
    components,
    metadata,
  } = sample;
  const outcome = reward === null ? "no reward" : `reward ${figure(reward, 3)}`;
  const how = status === "completed" ? "" : `, ${status}`;
  const head = `step ${step}  group ${cleanLine(group, 40)}  response ${at}  ${outcome}  ${tokens} tokens${how}  version ${version}  ${cleanLine(replica, 60)}`;
  const rows: (readonly [string, string | null])[] = [
    ["prompt", sample.prompt],
    ["answer", answer],
    ["response", sample.completion],
    ["components", partsText(components)],
    ["metadata", metadata ? JSON.stringify(metadata) : null],
    ["error", error],
  ];
  const width = Math.max(...rows.map(([name, text]) => (text === null ? 0 : name.length)));
  const lines = rows.flatMap(([name, text]) => {
    if (text === null) return [];
    const [first = "", ...more] = cleanBlock(text, linesMax).split("\n");
    return [`  ${name.padEnd(width)}  ${first}`, ...more.map((line) => `  ${" ".repeat(width)}  ${line}`)];
  });
  return [head, ...lines.map((line) => line.trimEnd()), ""].join("\n");
}

/** Parts of a reward on one line; `null` where there are none. Lines of before it had any have no field for it. */
function partsText(components: SampleRecord["components"] | undefined): string | null {
  const parts = Object.entries(components ?? {}).map(([name, value]) => `${name} ${figure(value, 3)}`);
  return parts.length === 0 ? null : parts.join("  ");
}
