// XXH3, 64 bits, seed 0, default secret (Yann Collet's specification): the same value on every processor, and a copy that gives
// the hash of what it stores at the speed of the copy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

uint64_t xxh3(const uint8_t* bytes, size_t size);

// Copies like streamCopy, and returns the hash of the bytes that it stored: each was read once, also when the source changes
// meanwhile. Fast when `to` is a multiple of 16.
uint64_t copyAndHash(uint8_t* to, const uint8_t* from, size_t size);

}  // namespace muster
