// The reader's side of delta sync: a version that its own store has, from which the one it wants can be made.
#pragma once

#include "core/delta_block.h"
#include "core/delta_log.h"
#include "core/version_store.h"

namespace muster {

class DeltaBase {
 public:
  // The newest whole version of the store that has all the sections wanted, with these sizes.
  static std::optional<DeltaBase> choose(const std::shared_ptr<VersionStore>& store, const std::vector<Section>& wanted);

  VersionId id() const { return id_; }
  // Digests of its sections, as wanted.
  const std::vector<uint64_t>& digests() const { return digests_; }

  // Makes block `block` of section `section` in `into`, from a Delta frame's payload. Code::Corrupt when the delta is not for
  // this base, or cannot be read; `into` is then of no use.
  Status rebuild(ByteView payload, size_t section, size_t block, std::span<uint8_t> into) const;

 private:
  DeltaBase(std::shared_ptr<VersionStore> store, VersionId id, VersionArena::Lease lease)
      : store_(std::move(store)), id_(id), lease_(std::move(lease)) {}

  std::shared_ptr<VersionStore> store_;  // outlives the lease
  VersionId id_;
  VersionArena::Lease lease_;
  std::vector<uint64_t> digests_;
  std::vector<uint64_t> offsets_;  // in the slot
};

// The one step of a payload that has just one, to be passed on; null otherwise.
DeltaLog::Block onlyStepOf(ByteView payload);

}  // namespace muster
