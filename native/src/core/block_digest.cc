#include "core/block_digest.h"

#include "cpu/xxh3.h"

namespace muster {

uint64_t BlockDigest::of(ByteView block) { return xxh3(block.data(), block.size()); }

uint64_t BlockDigest::rootOf(const std::vector<uint64_t>& blocks, uint64_t total) {
  std::vector<uint64_t> words = blocks;
  words.push_back(total);
  return xxh3(reinterpret_cast<const uint8_t*>(words.data()), words.size() * sizeof(uint64_t));
}

Result<Digested> copyAndDigest(ByteView from, uint8_t* to, const MayGoOn& mayGoOn) {
  std::vector<uint64_t> blocks(BlockDigest::countOf(from.size()));
  const auto work = [&](size_t block, size_t at, size_t bytes) {
    blocks[block] = to == nullptr ? BlockDigest::of(from.subspan(at, bytes)) : copyAndHash(to + at, from.data() + at, bytes);
  };
  if (Status done = forEachBlock(from.size(), work, mayGoOn); !done.ok()) return done;
  return Digested{BlockDigest::rootOf(blocks, from.size()), std::move(blocks)};
}

uint64_t digestOf(ByteView bytes) {
  return copyAndDigest(bytes, nullptr, [] { return Status{}; }).value().root;
}

}  // namespace muster
