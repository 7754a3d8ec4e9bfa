// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for the handshake only; bulk data uses XXH64.
#pragma once

#include <array>

#include "core/bytes.h"

namespace muster {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256& update(ByteView bytes);
  Sha256Digest finish();

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};
  size_t fill_ = 0;
  uint64_t total_ = 0;
};

// HMAC over the concatenation of the parts.
Sha256Digest hmacSha256(ByteView key, std::span<const ByteView> parts);

// Compares in a time that does not depend on where the difference is.
bool equalInConstantTime(ByteView a, ByteView b);

}  // namespace muster
