// XXH64 (Yann Collet's specification): checksums of frames, and names.
#pragma once

#include <string>

#include "core/bytes.h"

namespace muster {

uint64_t xxh64(ByteView bytes, uint64_t seed = 0);

// Sixteen lower-case hexadecimal digits.
std::string toHex(uint64_t value);

}  // namespace muster
