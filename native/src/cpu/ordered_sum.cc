#include "cpu/ordered_sum.h"

#include <algorithm>
#include <cstring>

namespace muster {

namespace {

constexpr size_t kLine = 16;    // floats in a cache line
constexpr size_t kTile = 4096;  // 16 KiB: the running sum stays in the first-level cache

void addInto(float* __restrict out, const float* __restrict shard, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] += shard[i];
}

}  // namespace

Range sliceOf(size_t elements, size_t rank, size_t worldSize) {
  const size_t lines = (elements + kLine - 1) / kLine;
  const auto edge = [&](size_t r) { return std::min(elements, lines * r / worldSize * kLine); };
  return {edge(rank), edge(rank + 1)};
}

void orderedSum(std::span<const float* const> shards, float* out, Range range) {
  for (size_t begin = range.begin; begin < range.end; begin += kTile) {
    const size_t count = std::min(kTile, range.end - begin);
    std::memcpy(out + begin, shards.front() + begin, count * sizeof(float));
    for (const float* shard : shards.subspan(1)) addInto(out + begin, shard + begin, count);
  }
}

}  // namespace muster
