/** Prompts, responses and rewards in the report. Texts are cleaned and escaped by the template, and clipped here once more. Pure. */
import { html, type Markup } from "./markup.ts";
import { cleanBlock, cleanLine, figure, shorten } from "./text.ts";
import type { SampleRecord } from "./types.ts";

/** Responses that are shown. */
const samplesMax = 24;
const textMax = 1_200;
const linesMax = 30;

/** The section; nothing at all when there are no samples. */
export function samplesSection(samples: readonly SampleRecord[]): Markup | null {
  if (samples.length === 0) return null;
  const newestFirst = [...samples].sort((a, b) => b.step - a.step || a.sample - b.sample);
  const shown = newestFirst.slice(0, samplesMax);
  const first = samples[0];
  const rows = (shown.includes(first as SampleRecord) || !first ? shown : [...shown.slice(0, -1), first]).map(rowOf);
  return html`<section><div class="head"><h2>Samples</h2><p class="sub">the newest and the first; more in samples.jsonl and with muster samples</p></div><div class="samples">${rows}</div></section>`;
}

function rowOf(sample: SampleRecord): Markup {
  const { step, group, sample: at, reward, status, tokens, answer, error } = sample;
  const parts = Object.entries(sample.components ?? {}).map(
    ([name, value]) => `${cleanLine(name, 48)} ${figure(value, 3)}`,
  );
  const notes = [...parts, `${figure(tokens)} tokens`, ...(status === "completed" ? [] : [status])].join(", ");
  const expected = answer ? html`<p class="sub">answer: ${cleanLine(answer, 200)}</p>` : null;
  const outcome =
    reward === null
      ? html`<b class="${status === "aborted" ? "bad" : ""}">no reward</b>`
      : html`<b>${figure(reward, 3)}</b>`;
  const more = sample.metadata
    ? html`<p class="sub mono">${cleanLine(JSON.stringify(sample.metadata), 400)}</p>`
    : null;
  const fault = error === null ? null : html`<p class="bad">${cleanLine(error, 400)}</p>`;
  return html`<article><p class="sub">step ${figure(step)}, group ${cleanLine(group, 40)}, response ${at}: ${outcome}, ${notes}</p><pre class="prompt">${blockOf(sample.prompt)}</pre>${expected}<pre>${blockOf(sample.completion)}</pre>${more}${fault}</article>`;
}

function blockOf(text: string): string {
  return cleanBlock(shorten(text, textMax), linesMax);
}
