/** The sum or mean of many tensors, for engines that hand them over one by one. */
import type { AllReduceOptions, CollectiveGroup, DType } from "./group.ts";
import { planFusion } from "./tensor-fusion.ts";

/** A tensor and where its sum goes. `into` has the size of `from`, and may be `from` when no second try is wanted. */
export interface ReducedTensor {
  readonly dtype: DType;
  readonly from: Uint8Array;
  readonly into: Uint8Array;
}

/**
 * Adds up each tensor over all ranks, small ones together; see `planFusion`. All ranks must give tensors of the same types and sizes in the
 * same order.
 *
 * @throws as {@link CollectiveGroup} says; what is in `into` is then undefined.
 */
export async function allReduceTensors(
  group: CollectiveGroup,
  tensors: readonly ReducedTensor[],
  options: Omit<AllReduceOptions, "dtype" | "count"> & { readonly thresholdBytes?: number },
): Promise<void> {
  const { thresholdBytes, ...common } = options;
  const { capacityBytes } = group;
  const sizes = tensors.map(({ dtype, from }) => ({ dtype, bytes: from.byteLength }));
  const plan = planFusion(sizes, { capacityBytes, ...(thresholdBytes === undefined ? {} : { thresholdBytes }) });
  for (const { dtype, count, tensors: fused } of plan) {
    const parts = fused.flatMap(({ index, offsetBytes }) => {
      const tensor = tensors[index];
      return tensor ? [{ from: tensor.from, into: tensor.into, offsetBytes }] : [];
    });
    await group.allReduceParts({ ...common, dtype, count, parts });
  }
}
