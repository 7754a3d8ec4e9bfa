/** Which part of the weights each of several ranks has, and where it lies in the rank's memory. Every tensor is cut by its rows. */
import type { RankTensor } from "../../engine.ts";
import { errors } from "../../errors.ts";
import { type ModelConfig, tensorsOf } from "../model-config.ts";

/** Rows of one tensor that a rank has. */
export interface RankPart {
  readonly tensor: string;
  readonly start: number;
  readonly length: number;
  /** Where they begin in the whole weights section, and in that of the rank; bytes. */
  readonly from: number;
  readonly offset: number;
  readonly bytes: number;
}

/** The weights of one rank. */
export interface RankSection {
  readonly bytes: number;
  readonly parts: readonly RankPart[];
}

/** Where each part begins is a multiple of this, as in `shardsOf` of the data plane. */
const alignment = 64;

/** Most ranks of one replica. */
const ranksMax = 64;

/** Checks that ranks can share a model evenly. @throws MUSTER_ERR_ENGINE_MODEL_INVALID, MUSTER_ERR_ENGINE_OPTION_INVALID */
export function checkRanks(model: ModelConfig, ranks: number): void {
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > ranksMax)
    throw errors.EngineOptionInvalid({ field: "ranks", value: ranks, rule: `a whole number from 1 to ${ranksMax}` });
  const require = (holds: boolean, field: keyof ModelConfig, rule: string): void => {
    if (!holds) throw errors.EngineModelInvalid({ field, value: model[field], rule });
  };
  require(model.kvHeads % ranks === 0, "kvHeads", `a multiple of the number of ranks = ${ranks}`);
  require(model.ffn % (4 * ranks) === 0, "ffn", `a multiple of 4 · ranks = ${4 * ranks}`);
  require(model.vocab >= ranks, "vocab", `at least the number of ranks = ${ranks}`);
}

/** The tensors of a model for `planReshard` of the data plane: how an engine of several ranks wants them cut. Pure. */
export function rankTensorsOf(model: ModelConfig): readonly RankTensor[] {
  return tensorsOf(model).map(({ name, shape }) => ({
    name,
    shape,
    elementBytes: 4,
    partition: shape.length > 1 ? 0 : null,
    layer: layerOf(name),
  }));
}

/** The weights of one rank: its rows of every tensor, in the order of the whole section. Pure. */
export function rankSectionOf(model: ModelConfig, { rank, ranks }: { readonly rank: number; readonly ranks: number }) {
  const parts: RankPart[] = [];
  let end = 0;
  for (const { name, shape, offsetBytes, sizeBytes } of tensorsOf(model)) {
    const [rows = 1] = shape;
    const { start, length } = shape.length > 1 ? cutOf(rows, rank, ranks) : { start: 0, length: rows };
    const rowBytes = sizeBytes / rows;
    const offset = Math.ceil(end / alignment) * alignment;
    end = offset + length * rowBytes;
    parts.push({
      ...{ tensor: name, start, length, offset },
      from: offsetBytes + start * rowBytes,
      bytes: length * rowBytes,
    });
  }
  return { bytes: end, parts } satisfies RankSection;
}

/** The rows of one rank: cut as evenly as it goes, the first ranks get one more. Pure. */
export function cutOf(size: number, rank: number, ranks: number): { readonly start: number; readonly length: number } {
  const [short, longer] = [Math.floor(size / ranks), size % ranks];
  return { start: rank * short + Math.min(rank, longer), length: short + (rank < longer ? 1 : 0) };
}

function layerOf(name: string): RankTensor["layer"] {
  const number = /^model\.layers\.(\d+)\./.exec(name)?.[1];
  if (number !== undefined) return Number(number);
  return name === "model.embed_tokens.weight" ? "first" : "last";
}
