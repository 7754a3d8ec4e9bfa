// XXH64 (Yann Collet's specification) and the digest of a weight section that is built from it.
#pragma once

#include <string>

#include "core/bytes.h"

namespace muster {

uint64_t xxh64(ByteView bytes, uint64_t seed = 0);

// Digest of a section: XXH64 of each 1 MiB block; then XXH64 over the block digests (little-endian, in order) followed
// by the total length (u64, little-endian). Blocks can be digested while they are copied, and in any order.
class BlockDigest {
 public:
  static constexpr size_t kBlockBytes = size_t{1} << 20;

  // Takes the next block: exactly kBlockBytes long, except the last.
  void add(ByteView block);
  uint64_t root() const { return rootOf(blocks_, total_); }
  const std::vector<uint64_t>& blocks() const { return blocks_; }

  // What the digests of the blocks of `total` bytes come to: whoever knows the root can check them before the first byte.
  static uint64_t rootOf(const std::vector<uint64_t>& blocks, uint64_t total);

 private:
  std::vector<uint64_t> blocks_;
  uint64_t total_ = 0;
};

uint64_t digestOf(ByteView bytes);

// Sixteen lower-case hexadecimal digits.
std::string toHex(uint64_t value);

}  // namespace muster
