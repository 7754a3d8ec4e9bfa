// How fast this host can give the same bytes to several receivers, or add up several sources: the limits that collectives are
// measured against.
#pragma once

#include <cstddef>
#include <vector>

#include "core/status.h"

namespace muster {

struct FanOutSample {
  double seconds;
  double cpuSeconds;  // of all threads
};

// Copies `bytes` bytes to each of `targets` targets, `samples` times: pinned threads, tile by tile, with stores that bypass
// the caches, into memory that is warm, without a word between the threads.
Result<std::vector<FanOutSample>> measureFanOut(size_t bytes, size_t targets, size_t threads, size_t samples);

// The same threads add up `sources` sources of float32 into one target: the limit that all-reduce is measured against.
Result<std::vector<FanOutSample>> measureAddUp(size_t bytes, size_t sources, size_t threads, size_t samples);

}  // namespace muster
