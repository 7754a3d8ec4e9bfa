// How fast this host can give the same bytes to several receivers, or add up several sources: the limits that collectives are
// measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"

namespace muster {

struct FanOutSample {
  double seconds;
  double cpuSeconds;  // of all threads
};

// Numbers from one to two, each another. What is all zeros some machines copy twice as fast as weights.
void fillLikeWeights(std::span<uint8_t> memory, uint32_t seed);

// Copies `bytes` bytes to each of `targets` targets, `samples` times: pinned threads, tile by tile, with stores that bypass
// the caches, into memory that is warm, without a word between the threads.
Result<std::vector<FanOutSample>> measureFanOut(size_t bytes, size_t targets, size_t threads, size_t samples);

// The same, but for one target after another: what receivers that each read the source for themselves could reach at best.
Result<std::vector<FanOutSample>> measureCopies(size_t bytes, size_t targets, size_t threads, size_t samples);

// The same threads add up `sources` sources of float32 into one target: the limit that all-reduce is measured against.
Result<std::vector<FanOutSample>> measureAddUp(size_t bytes, size_t sources, size_t threads, size_t samples);

}  // namespace muster
