// The holder's side of delta sync: what turns blocks that the reader has into blocks of the version that it wants.
//
// A Delta frame stands for one block: {base digest u64, steps u16, each {length u32, delta}}. Its offset is the block's place in
// the stream of sections. The base digest is that of the whole section that the reader says it has.
#pragma once

#include "core/delta_block.h"
#include "core/delta_log.h"
#include "core/version_arena.h"

namespace muster {

class DeltaSource {
 public:
  // Of version `id`. Arena and log must outlive it.
  DeltaSource(VersionArena& arena, DeltaLog& log, VersionId id) : arena_(arena), log_(log), id_(id) {}

  // From here on blocks of this section are asked for, by a reader that has the bytes named by `base`.
  void begin(const Section& target, std::optional<uint64_t> base);
  // Payload of the Delta frame of a block; nullopt when the bytes themselves should be sent.
  std::optional<Bytes> payload(size_t block, ByteView target);

 private:
  bool open();
  DeltaLog::Block step(DeltaLog::Edge edge, size_t block, ByteView target);
  std::optional<Bytes> encode(ByteView base, ByteView target, size_t budget);

  VersionArena& arena_;
  DeltaLog& log_;
  const VersionId id_;
  const Section* target_ = nullptr;
  std::optional<uint64_t> base_;
  std::optional<VersionArena::Lease> lease_;  // of the base, while it is still here
  uint64_t baseOffset_ = 0;                   // of the section, in the base's slot
  std::vector<DeltaLog::Edge> path_;          // otherwise
  unsigned elementBytes_ = 0;                 // 0 until the first block that differs tells which size is shorter
  size_t misses_ = 0;                         // blocks in a row that did not pay
  DeltaEncoder encoder_;
};

}  // namespace muster
