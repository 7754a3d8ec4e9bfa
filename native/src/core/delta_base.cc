#include "core/delta_base.h"

#include <algorithm>

#include "core/block_digest.h"
#include "core/limits.h"

namespace muster {

std::optional<DeltaBase> DeltaBase::choose(const std::shared_ptr<VersionStore>& store,
                                           const std::vector<Section>& wanted) {
  std::vector<VersionId> versions = store->versions();
  std::ranges::sort(versions, std::greater<>());
  for (const VersionId id : versions) {
    Result<VersionArena::Lease> lease = store->lease(id);
    if (!lease.ok()) continue;
    DeltaBase base(store, id, std::move(lease.value()));
    for (const Section& want : wanted) {
      const Section* have = base.lease_.sections().find(want.name);
      if (have == nullptr || have->bytes != want.bytes) break;
      base.digests_.push_back(have->digest);
      base.offsets_.push_back(have->offset);
    }
    if (base.digests_.size() == wanted.size()) return base;
  }
  return std::nullopt;
}

Status DeltaBase::rebuild(ByteView payload, size_t section, size_t block, std::span<uint8_t> into) const {
  ByteReader in(payload);
  if (in.number<uint64_t>() != digests_[section])
    return {Code::Corrupt, "a delta for other bytes than those of version " + id_.text(), {}};
  const auto steps = in.number<uint16_t>();
  if (steps > kDeltaStepsMax) return {Code::Corrupt, "a delta of too many steps", {}};
  std::memcpy(into.data(), lease_.data() + offsets_[section] + block * BlockDigest::kBlockBytes, into.size());
  for (uint16_t i = 0; i < steps; i++) {
    const ByteView delta = in.raw(in.number<uint32_t>());
    if (Status applied = applyDelta(delta, into); !applied.ok()) return applied;
  }
  if (!in.finished()) return {Code::Corrupt, "a delta that cannot be read", {}};
  return {};
}

DeltaLog::Block onlyStepOf(ByteView payload) {
  ByteReader in(payload);
  in.number<uint64_t>();
  if (in.number<uint16_t>() != 1) return nullptr;
  const ByteView delta = in.raw(in.number<uint32_t>());
  if (!in.finished()) return nullptr;
  return std::make_shared<const Bytes>(delta.begin(), delta.end());
}

}  // namespace muster
