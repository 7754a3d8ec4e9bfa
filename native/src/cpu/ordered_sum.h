// The sum behind the gradient reduction: always in shard order, so the bits do not depend on who adds.
#pragma once

#include <cstddef>
#include <span>

namespace muster {

struct Range {
  size_t begin;
  size_t end;

  bool operator==(const Range&) const = default;
};

// The part of `elements` elements that `rank` of `worldSize` sums: contiguous, whole cache lines of 16 floats, together
// covering everything once.
Range sliceOf(size_t elements, size_t rank, size_t worldSize);

// out[i] = (((shards[0][i] + shards[1][i]) + shards[2][i]) + …) / divisor for i in `range`, in float32. `shards` is not empty;
// `out` overlaps none of them. No reassociation, no fused operations: the same bits on every machine. A divisor of 1 changes
// no bit. A large range bypasses the caches on the way out.
void orderedSum(std::span<const float* const> shards, float* out, Range range, float divisor = 1);

}  // namespace muster
