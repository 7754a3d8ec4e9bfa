/** Small charts of everything that is measured once a step: what is learnt, what is answered, how fast. Pure. */
import { firstNames } from "@muster/base";
import { chart, type Series } from "./chart.ts";
import { html, type Markup } from "./markup.ts";
import type { CurvePoint } from "./scale.ts";
import { cleanLine, compact, meanOf } from "./text.ts";
import type { ComponentRecord, StepRecord } from "./types.ts";

type Read = (step: StepRecord) => number | null;

/** A figure by step; steps of which nobody said it are left out. */
export function pointsOf(steps: readonly StepRecord[], of: Read): readonly CurvePoint[] {
  return steps.map((step) => ({ x: step.step, y: of(step) ?? Number.NaN }));
}

interface Line {
  readonly color: Series["color"];
  readonly name: string;
  readonly of: Read;
  readonly kind?: Series["kind"];
}

interface Section {
  readonly title: string;
  readonly unit: string;
  readonly lines: readonly Line[];
  readonly include?: readonly [number, number];
  /** Drawn only where a step has it. */
  readonly isOptional?: boolean;
}

const sections: readonly Section[] = [
  {
    title: "Loss",
    unit: "objective, negated, per token",
    lines: [{ color: "c1", name: "loss", of: (step) => step.loss }],
  },
  {
    title: "Held-out loss",
    unit: "nats per answer token",
    lines: [{ color: "c2", name: "held-out loss", of: (step) => step.held_out_loss ?? null, kind: "points" }],
    isOptional: true,
  },
  {
    title: "Approximate KL",
    unit: "nats per token",
    lines: [{ color: "c4", name: "KL", of: (step) => step.approx_kl }],
    include: [0, 0],
    isOptional: true,
  },
  {
    title: "Log-prob gap",
    unit: "trainer and sampler before the first update, nats per token",
    lines: [
      { color: "faint", name: "largest", of: (step) => step.logprob_gap_max },
      { color: "c4", name: "mean", of: (step) => step.logprob_gap },
    ],
    include: [0, 0],
    isOptional: true,
  },
  {
    title: "KL to the reference",
    unit: "nats per token",
    lines: [{ color: "c2", name: "reference KL", of: (step) => step.kl_reference }],
    include: [0, 0],
    isOptional: true,
  },
  {
    title: "Clipped tokens",
    unit: "share of tokens",
    lines: [{ color: "c3", name: "clipped", of: (step) => step.clip_fraction }],
    include: [0, 0.01],
  },
  {
    title: "Entropy",
    unit: "nats per token",
    lines: [{ color: "c2", name: "entropy", of: (step) => step.entropy }],
  },
  {
    title: "Gradient norm",
    unit: "before clipping",
    lines: [{ color: "c1", name: "gradient norm", of: (step) => step.grad_norm }],
    include: [0, 0],
  },
  {
    title: "Learning rate",
    unit: "of each step",
    lines: [{ color: "c3", name: "learning rate", of: (step) => step.lr }],
    include: [0, 0],
  },
  {
    title: "Reward spread",
    unit: "standard deviation in a step",
    lines: [{ color: "c1", name: "spread", of: (step) => step.reward_spread }],
    include: [0, 0],
    isOptional: true,
  },
  {
    title: "Groups without advantage",
    unit: "share of groups that teach nothing",
    lines: [{ color: "c4", name: "without advantage", of: (step) => step.even_groups }],
    include: [0, 1],
    isOptional: true,
  },
  {
    title: "Response length",
    unit: "tokens",
    lines: [
      { color: "faint", name: "longest", of: (step) => step.length_max },
      { color: "c2", name: "mean", of: (step) => step.length_mean },
    ],
    include: [0, 0],
  },
  {
    title: "Truncated responses",
    unit: "share of responses",
    lines: [{ color: "c3", name: "truncated", of: (step) => step.truncated }],
    include: [0, 0.01],
  },
  {
    title: "Throughput",
    unit: "tokens per second",
    lines: [
      { color: "faint", name: "samplers at work", of: (step) => step.sample_tokens_per_s },
      { color: "c4", name: "trainers at work", of: (step) => step.train_tokens_per_s },
      { color: "c1", name: "job", of: (step) => step.tokens_per_s },
    ],
    include: [0, 0],
  },
  {
    title: "Step time, ms",
    unit: "milliseconds",
    lines: [
      { color: "faint", name: "step", of: (step) => step.step_ms, kind: "area" },
      { color: "c3", name: "compute and reduce", of: (step) => step.compute_ms + step.reduce_ms, kind: "area" },
      { color: "c1", name: "compute", of: (step) => step.compute_ms, kind: "area" },
    ],
  },
  {
    title: "Staleness",
    unit: "versions between sampling and training",
    lines: [{ color: "c4", name: "staleness", of: (step) => step.staleness }],
    include: [0, 4],
  },
];

/** Draws them all; a sentence instead of many empty ones before the first step. */
export function stepSections(steps: readonly StepRecord[]): readonly Markup[] {
  if (steps.length === 0) return [html`<section><p class="none">No step is committed yet.</p></section>`];
  const isDrawn = ({ isOptional, lines }: Section): boolean =>
    !isOptional || steps.some((step) => lines.some(({ of }) => Number.isFinite(of(step))));
  return [...sections, ...componentSections(steps)].filter(isDrawn).map((section) => sectionOf(section, steps));
}

/** Parts of rewards that are drawn: those that came first. */
const componentsMax = 12;

function componentSections(steps: readonly StepRecord[]): readonly Section[] {
  const heard = steps.flatMap(({ components }) => Object.keys(components ?? {}));
  return firstNames([], heard, componentsMax).map((name) => {
    const of = ({ components }: StepRecord): ComponentRecord | undefined => components?.[name];
    return {
      title: `Reward: ${cleanLine(name, 48)}`,
      unit: "a part of the rewards",
      lines: [
        { color: "faint", name: "spread", of: (step) => of(step)?.spread ?? null },
        { color: "c1", name: "mean", of: (step) => of(step)?.mean ?? null },
      ],
      include: [0, 0],
    };
  });
}

function sectionOf({ title, unit, lines, include }: Section, steps: readonly StepRecord[]): Markup {
  const series = lines.map(
    ({ color, name, kind = "line", of }): Series => ({ color, name, kind, points: pointsOf(steps, of) }),
  );
  const last = series.map(({ name, points }) => {
    const mean = meanOf(points.slice(-10).map((point) => point.y));
    return `${name} ${mean === null ? "–" : compact(mean)}`;
  });
  const plot = chart({
    title,
    description: `${title}, ${unit}; mean of the last ten steps: ${last.join(", ")}.`,
    width: 500,
    height: 180,
    series,
    xLabel: "step",
    ...(include ? { include } : {}),
  });
  const key = series.map((one) => html`<span><i class="${one.color}"></i>${one.name}</span>`).reverse();
  const about = series.length > 1 ? html`<div class="key">${key}</div>` : html`<p class="sub">${unit}</p>`;
  return html`<section><div class="head"><h2>${title}</h2>${about}</div>${plot}</section>`;
}
