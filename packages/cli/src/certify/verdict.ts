/** What two runs of one job prove of its determinism: one in peace, one whose processes were killed. Pure. */
import { type Contradiction, type DeterminismLevel, determinismLevels } from "@muster/engine";
import type { Body, EngineSaid } from "@muster/protocol";
import type { SampleRecord } from "../report/index.ts";

type Commit = Body<"step.committed">;

/** What is read of a run after its end. */
export interface RunFacts {
  /** The last commit of each step. */
  readonly steps: ReadonlyMap<number, Commit>;
  readonly samples: readonly SampleRecord[];
  readonly ended: Body<"job.ended"> | null;
  /** What its trainers computed with, as their meshes said. */
  readonly trainers: readonly EngineSaid[];
  /** What the audit of its files found, one line each. */
  readonly violations: readonly string[];
}

/** What was found of one level. */
export interface LevelResult {
  readonly level: DeterminismLevel;
  /** `contradicted`: the job can not promise it, whatever these runs showed. */
  readonly state: "proven" | "not proven" | "contradicted";
  /** What was compared, and what came of it. */
  readonly how: string;
}

/** The runs and what was done to them. */
export interface Proof {
  readonly quiet: RunFacts;
  readonly killed: RunFacts;
  readonly contradictions: readonly Contradiction[];
  /** Kills that were planned and not done: what they would have shown is not known. */
  readonly missing: readonly string[];
}

/** What a proof comes to. */
export interface Verdict {
  /** The highest level that is proven with all below it; `null` when not even the lowest is. */
  readonly level: DeterminismLevel | null;
  readonly levels: readonly LevelResult[];
}

/** The highest level that nothing stands against; `null` when something does against the lowest. Pure. */
export function promised(contradictions: readonly Contradiction[]): DeterminismLevel | null {
  const lowest = Math.min(
    determinismLevels.length,
    ...contradictions.map(({ level }) => determinismLevels.indexOf(level)),
  );
  return determinismLevels[lowest - 1] ?? null;
}

/** Judges the runs, level by level. Pure. */
export function verdictOf(proof: Proof): Verdict {
  const best = promised(proof.contradictions);
  const bound = best === null ? -1 : determinismLevels.indexOf(best);
  const levels: LevelResult[] = [];
  for (const [index, level] of determinismLevels.entries()) {
    const fault = faults[level](proof);
    const shown = fault ?? says[level](proof);
    const below = levels.at(-1);
    const isLower = below === undefined || below.state === "proven";
    if (index > bound) {
      const seen = fault === null ? `equal in these runs (${shown}), and still not promised: ` : `${shown}; `;
      const why = proof.contradictions.filter((one) => determinismLevels.indexOf(one.level) <= index);
      levels.push({ level, state: "contradicted", how: `${seen}${why.map(({ text }) => text).join("; ")}` });
    } else if (fault !== null || !isLower)
      levels.push({ level, state: "not proven", how: fault ?? `${shown}, but ${below?.level} is not proven` });
    else levels.push({ level, state: "proven", how: shown });
  }
  const level = levels.filter(({ state }) => state === "proven").at(-1)?.level ?? null;
  return { level, levels };
}

type OfLevel<T> = Readonly<Record<DeterminismLevel, (proof: Proof) => T>>;

/** What speaks against a level; `null` for nothing. */
const faults: OfLevel<string | null> = {
  L0: ({ quiet, killed, missing }) => {
    if (missing.length > 0)
      return `the job was over before all kills were done, without ${missing.join(", ")}; raise --steps`;
    return unsound("the quiet run", quiet) ?? unsound("the killed run", killed);
  },
  L1: (proof) =>
    firstStep(proof, ({ groups }) => groups.join(" "), "trained other groups") ??
    firstSample(proof, ({ prompt }) => prompt, "had another prompt"),
  L2: (proof) =>
    firstStep(proof, ({ tokens, reward }) => `${tokens} tokens, reward ${reward}`, "was sampled otherwise") ??
    firstSample(
      proof,
      ({ completion, tokens, status }) => `${status} ${tokens} ${completion}`,
      "was answered otherwise",
    ),
  L3: (proof) => firstStep(proof, digestsOf, "ended with other weights"),
};

const says: OfLevel<string> = {
  L0: ({ killed }) =>
    `both runs are sound by their files: of ${killed.ended?.ledger.admitted ?? 0} trajectories none was lost and none trained twice`,
  L1: (proof) => `the same groups in each of ${proof.quiet.steps.size} steps, the same ${comparedText(proof)} prompts`,
  L2: (proof) =>
    `the same tokens and rewards in each of ${proof.quiet.steps.size} steps, the same ${comparedText(proof)} responses word by word`,
  L3: ({ quiet }) =>
    `the same digests of weights and optimizer after each of ${quiet.steps.size} steps, at last ${digestsOf([...quiet.steps.values()].at(-1))}`,
};

function unsound(name: string, { ended, violations }: RunFacts): string | null {
  if (violations.length > 0) return `${name}: ${violations.slice(0, 3).join("; ")}`;
  if (ended?.outcome !== "done") return `${name} did not end well: ${ended?.reason ?? "it has no end"}`;
  const { admitted, trained, aborted, quarantined, pending } = ended.ledger;
  const isBalanced = admitted === trained + aborted + quarantined && pending === 0;
  return isBalanced ? null : `${name}: its ledger does not balance: ${JSON.stringify(ended.ledger)}`;
}

function firstStep({ quiet, killed }: Proof, of: (commit: Commit) => string, says: string): string | null {
  if (quiet.steps.size === 0) return "the quiet run committed no step";
  for (const step of new Set([...quiet.steps.keys(), ...killed.steps.keys()])) {
    const [one, other] = [quiet.steps.get(step), killed.steps.get(step)];
    if (!one || !other) return `step ${step} was committed in one of the runs only`;
    if (of(one) !== of(other))
      return `step ${step} ${says}: ${of(one).slice(0, 160)} in peace, ${of(other).slice(0, 160)} with kills`;
  }
  return null;
}

function firstSample(proof: Proof, of: (sample: SampleRecord) => string, says: string): string | null {
  const { pairs, shown } = pairsOf(proof);
  if (pairs.length === 0 && shown > 0)
    return `no sample of both runs is there to compare, and the quiet run has ${shown}`;
  for (const [name, sample, other] of pairs) {
    if (of(other) !== of(sample))
      return `sample ${name} ${says}: ${JSON.stringify(of(sample).slice(0, 80))} in peace, ${JSON.stringify(of(other).slice(0, 80))} with kills`;
  }
  return null;
}

/** Samples that both runs have, and how many the quiet one has. */
function pairsOf({ quiet, killed }: Proof) {
  const [samples, others] = [samplesOf(quiet), samplesOf(killed)];
  const pairs = [...samples].flatMap(([name, sample]) => {
    const other = others.get(name);
    // A line may be lost with the process that was killed before it wrote it.
    return other ? [[name, sample, other] as const] : [];
  });
  return { pairs, shown: samples.size };
}

function comparedText(proof: Proof): string {
  const { pairs, shown } = pairsOf(proof);
  return pairs.length === shown ? `${shown}` : `${pairs.length} of ${shown}`;
}

/** Those that were trained in the steps that stand. */
function samplesOf({ samples, steps }: RunFacts): ReadonlyMap<string, SampleRecord> {
  const standing = samples.filter(({ step, lineage }) => steps.get(step)?.lineage === lineage);
  return new Map(standing.map((sample) => [`${sample.group}/${sample.sample}`, sample]));
}

function digestsOf(commit: Commit | undefined): string {
  return commit?.sections.map(({ name, digest }) => `${name} ${digest}`).join(", ") ?? "none";
}
