#include "core/block_digest.h"

#include "cpu/xxh3.h"

namespace muster {

uint64_t BlockDigest::of(ByteView block) { return xxh3(block.data(), block.size()); }

uint64_t BlockDigest::rootOf(const std::vector<uint64_t>& blocks, uint64_t total) {
  std::vector<uint64_t> words = blocks;
  words.push_back(total);
  return xxh3(reinterpret_cast<const uint8_t*>(words.data()), words.size() * sizeof(uint64_t));
}

Digested joinedOf(std::span<const Digested> pieces, uint64_t total) {
  Digested whole;
  for (const Digested& piece : pieces) whole.blocks.insert(whole.blocks.end(), piece.blocks.begin(), piece.blocks.end());
  whole.root = BlockDigest::rootOf(whole.blocks, total);
  return whole;
}

Result<std::vector<Digested>> copyAndDigestAll(const std::vector<CopyPair>& pairs, const MayGoOn& mayGoOn) {
  std::vector<size_t> sizes;
  std::vector<Digested> all;
  for (const CopyPair& pair : pairs) {
    sizes.push_back(pair.from.size());
    all.push_back({0, std::vector<uint64_t>(BlockDigest::countOf(pair.from.size()))});
  }
  const auto work = [&](const PieceBlock& block) {
    const auto& [from, to] = pairs[block.piece];
    all[block.piece].blocks[block.index] = to == nullptr
                                               ? BlockDigest::of(from.subspan(block.at, block.bytes))
                                               : copyAndHash(to + block.at, from.data() + block.at, block.bytes);
  };
  if (Status done = forEachBlock(sizes, work, mayGoOn); !done.ok()) return done;
  for (size_t i = 0; i < all.size(); i++) all[i].root = BlockDigest::rootOf(all[i].blocks, sizes[i]);
  return all;
}

Result<Digested> copyAndDigest(ByteView from, uint8_t* to, const MayGoOn& mayGoOn) {
  Result<std::vector<Digested>> all = copyAndDigestAll({{from, to}}, mayGoOn);
  if (!all.ok()) return all.status();
  return std::move(all.value().front());
}

uint64_t digestOf(ByteView bytes) {
  return copyAndDigest(bytes, nullptr, [] { return Status{}; }).value().root;
}

}  // namespace muster
