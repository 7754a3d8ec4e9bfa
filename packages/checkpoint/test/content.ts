/** Small checkpoint contents that differ in every byte from step to step. */
import { type Random, randomOf } from "@muster/base";
import type { CheckpointContent, CheckpointStore, LoadedCheckpoint } from "../src/index.ts";

export function contentOf(step: number, changes: Partial<CheckpointContent> = {}): CheckpointContent {
  const random = randomOf(77, step);
  return {
    job: "dates",
    lineage: 0,
    step,
    version: step,
    term: 1,
    sections: [
      { name: "weights", digest: `xxh64b:weights-${step}`, bytes: bytesOf(random, 40) },
      { name: "optimizer", digest: `xxh64b:optimizer-${step}`, bytes: bytesOf(random, 21) },
    ],
    tensors: [
      { name: "model.norm.weight", dtype: "bf16", shape: [4], offsetBytes: 32, sizeBytes: 8 },
      { name: "model.embed_tokens.weight", dtype: "f32", shape: [4, 2], offsetBytes: 0, sizeBytes: 32 },
    ],
    modelConfig: { architectures: ["LlamaForCausalLM"], vocab_size: 4, torch_dtype: "float32" },
    ledger: { admitted: step * 8, trained: step * 8 - 1, aborted: 1, quarantined: 0 },
    groupsWatermark: step * 3,
    engineBuild: "embedded-0.1.0",
    cursor: { seed: 7, nextStep: step + 1, nextPrompt: step * 4, groupsPerStep: 4, groupSize: 2, data: "dates" },
    ...changes,
  };
}

/** Saved content as `load` must give it back. */
export function expectedOf(content: CheckpointContent): object {
  const { job, lineage, step, version, term, ledger, groupsWatermark, engineBuild, cursor } = content;
  return {
    ...{ job, lineage, step, version, term, ledger, groupsWatermark, engineBuild, cursor },
    modelConfig: content.modelConfig,
    tensors: [...content.tensors].sort((a, b) => a.offsetBytes - b.offsetBytes),
    sections: content.sections.map(({ name, digest, bytes }) => {
      if (!(bytes instanceof Uint8Array)) throw new Error(`section ${name} is a source`);
      return { name, digest, bytes: [...bytes] };
    }),
  };
}

/** What was loaded, in the form of {@link expectedOf}. */
export function loadedOf(loaded: LoadedCheckpoint): object {
  const { job, lineage, step, version, term, ledger, groupsWatermark, engineBuild, cursor } = loaded.info;
  return {
    ...{ job, lineage, step, version, term, ledger, groupsWatermark, engineBuild, cursor },
    modelConfig: loaded.modelConfig,
    tensors: loaded.tensors,
    sections: loaded.sections.map(({ name, digest, bytes }) => ({ name, digest, bytes: [...bytes] })),
  };
}

export const never: AbortSignal = new AbortController().signal;

function bytesOf(random: Random, sizeBytes: number): Uint8Array {
  return Uint8Array.from({ length: sizeBytes }, () => random.below(256));
}

/** The store as it looks to those who wait until what is not kept is removed. */
export async function waiting(opening: Promise<CheckpointStore>): Promise<CheckpointStore> {
  const store = await opening;
  const cleared = async <T extends { readonly cleared: Promise<unknown> }>(saving: Promise<T>): Promise<T> => {
    const saved = await saving;
    await saved.cleared;
    return saved;
  };
  return {
    ...store,
    save: (content, signal) => cleared(store.save(content, signal)),
    seal: (content, of, signal) => cleared(store.seal(content, of, signal)),
  };
}
