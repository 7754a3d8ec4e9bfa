// A copy that bypasses the caches on the way out: for big one-way copies whose target is not read soon by this core.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

// Copies `bytes` bytes; the ranges must not overlap. Stores are globally visible when it returns.
void streamCopy(uint8_t* to, const uint8_t* from, size_t bytes);

}  // namespace muster
