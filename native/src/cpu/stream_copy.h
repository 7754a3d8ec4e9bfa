// A copy that bypasses the caches on the way out: for big one-way copies whose target is not read soon by this core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster {

// Copies `bytes` bytes; the ranges must not overlap. Stores are globally visible when it returns.
void streamCopy(uint8_t* to, const uint8_t* from, size_t bytes);

struct Copy {
  uint8_t* to;
  const uint8_t* from;
  size_t bytes;
};

// The same for many copies that belong together: whether it is worthwhile depends on all their bytes.
void streamCopyAll(std::span<const Copy> copies);

// Copies a part of something that has `whole` bytes, however small the part is.
void streamCopyPart(const Copy& part, size_t whole);

}  // namespace muster
