// The digest that names a weight section, and the copy that computes it on its way.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/parallel_blocks.h"

namespace muster {

// Digest of a section: XXH3 of each block of 256 KiB; then XXH3 over the block digests (little-endian, in order) followed by
// the total length (u64, little-endian). Blocks can be digested while they are copied, in any order, and by several threads.
class BlockDigest {
 public:
  static constexpr size_t kBlockBytes = muster::kBlockBytes;

  // How many blocks `total` bytes have.
  static uint64_t countOf(uint64_t total) { return total / kBlockBytes + (total % kBlockBytes != 0); }
  static uint64_t of(ByteView block);
  // What the digests of the blocks of `total` bytes come to: whoever knows the root can check them before the first byte.
  static uint64_t rootOf(const std::vector<uint64_t>& blocks, uint64_t total);
};

struct Digested {
  uint64_t root;
  std::vector<uint64_t> blocks;
};

// What the digests of pieces come to that follow each other in one section; each but the last is a multiple of a block.
Digested joinedOf(std::span<const Digested> pieces, uint64_t total);

// What is copied where to; see copyAndDigest.
struct CopyPair {
  ByteView from;
  uint8_t* to;
};

// Does copyAndDigest to all of them, as fast as if they were one.
Result<std::vector<Digested>> copyAndDigestAll(const std::vector<CopyPair>& pairs, const MayGoOn& mayGoOn);

// Copies `from` to `to`, which is as large, and digests what was stored; `to` may be null, then `from` is digested where it
// is. Large inputs are shared out to several threads, never more than there are cores.
Result<Digested> copyAndDigest(ByteView from, uint8_t* to, const MayGoOn& mayGoOn);

uint64_t digestOf(ByteView bytes);

}  // namespace muster
