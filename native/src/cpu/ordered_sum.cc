#include "cpu/ordered_sum.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace muster {

namespace {

constexpr size_t kLine = 16;    // floats in a cache line
constexpr size_t kTile = 4096;  // 16 KiB: the running sum stays in the first-level cache

void addInto(float* __restrict out, const float* __restrict shard, size_t count) {
  for (size_t i = 0; i < count; i++) out[i] += shard[i];
}

void inTiles(std::span<const float* const> shards, float* out, Range range, float divisor) {
  for (size_t begin = range.begin; begin < range.end; begin += kTile) {
    const size_t count = std::min(kTile, range.end - begin);
    std::memcpy(out + begin, shards.front() + begin, count * sizeof(float));
    for (const float* shard : shards.subspan(1)) addInto(out + begin, shard + begin, count);
    if (divisor == 1) continue;
    for (size_t i = begin; i < begin + count; i++) out[i] /= divisor;
  }
}

#if defined(__x86_64__)

constexpr size_t kLarge = 64 * 1024;  // elements; 256 KiB do not stay in a cache anyway
constexpr size_t kStreamsMax = 16;    // as many shards are read side by side; a core follows no more

// A line of all shards at a time, in registers, so that every byte is read once and the sum is written once.
__attribute__((target("avx2"))) void inLines(std::span<const float* const> shards, float* out, Range range, float divisor) {
  const __m256 by = _mm256_set1_ps(divisor);
  for (size_t i = range.begin; i < range.end; i += kLine) {
    __m256 low = _mm256_loadu_ps(shards.front() + i), high = _mm256_loadu_ps(shards.front() + i + 8);
    for (const float* shard : shards.subspan(1)) {
      low = _mm256_add_ps(low, _mm256_loadu_ps(shard + i));
      high = _mm256_add_ps(high, _mm256_loadu_ps(shard + i + 8));
    }
    if (divisor != 1) {
      low = _mm256_div_ps(low, by);
      high = _mm256_div_ps(high, by);
    }
    _mm256_stream_ps(out + i, low);
    _mm256_stream_ps(out + i + 8, high);
  }
  _mm_sfence();
}

bool goesInLines(size_t shards, const float* out, size_t count) {
  static const bool capable = __builtin_cpu_supports("avx2");
  return capable && shards <= kStreamsMax && count >= kLarge && reinterpret_cast<uintptr_t>(out) % sizeof(__m256) == 0;
}

#endif

}  // namespace

Range sliceOf(size_t elements, size_t rank, size_t worldSize) {
  const size_t lines = (elements + kLine - 1) / kLine;
  const auto edge = [&](size_t r) { return std::min(elements, lines * r / worldSize * kLine); };
  return {edge(rank), edge(rank + 1)};
}

void orderedSum(std::span<const float* const> shards, float* out, Range range, float divisor) {
#if defined(__x86_64__)
  if (goesInLines(shards.size(), out + range.begin, range.end - range.begin)) {
    const size_t lines = (range.end - range.begin) / kLine * kLine;
    inLines(shards, out, {range.begin, range.begin + lines}, divisor);
    range.begin += lines;
  }
#endif
  inTiles(shards, out, range, divisor);
}

}  // namespace muster
