#include "core/delta_source.h"

#include "core/block_digest.h"
#include "core/limits.h"

namespace muster {

void DeltaSource::begin(const Section& target, std::optional<uint64_t> base) {
  target_ = &target;
  base_ = base;
  lease_.reset();
  path_.clear();
  elementBytes_ = 0;
  misses_ = 0;
  if (base_ && !open()) base_.reset();
}

// The base itself, or the way from it that was walked before.
bool DeltaSource::open() {
  std::optional<VersionArena::Lease> lease = arena_.leaseContent(target_->name, target_->bytes, *base_);
  if (lease) {
    baseOffset_ = lease->sections().find(target_->name)->offset;
    path_ = {{*base_, target_->digest}};
    lease_.emplace(std::move(*lease));
    return true;
  }
  path_ = log_.path(*base_, target_->digest);
  return !path_.empty();
}

std::optional<Bytes> DeltaSource::payload(size_t block, ByteView target) {
  if (!base_ || misses_ >= kMissesMax) return std::nullopt;
  const size_t budget = target.size() / 2 + kDeltaHeaderBytes;
  ByteWriter out;
  out.number(*base_).number(static_cast<uint16_t>(path_.size()));
  bool pays = true;
  for (const DeltaLog::Edge& edge : path_) {
    const DeltaLog::Block delta = step(edge, block, target);
    pays = delta && out.bytes().size() + delta->size() <= budget;
    if (!pays) break;
    out.number(static_cast<uint32_t>(delta->size())).raw(*delta);
  }
  misses_ = pays ? 0 : misses_ + 1;
  if (!pays) return std::nullopt;
  return out.bytes();
}

DeltaLog::Block DeltaSource::step(DeltaLog::Edge edge, size_t block, ByteView target) {
  if (const std::optional<DeltaLog::Block> known = log_.find(edge, block)) return *known;
  if (!lease_) return nullptr;  // forgotten since the path was found
  const ByteView base{lease_->data() + baseOffset_ + block * BlockDigest::kBlockBytes, target.size()};
  std::optional<Bytes> made = encode(base, target, target.size() / 2);
  DeltaLog::Block delta = made ? std::make_shared<const Bytes>(std::move(*made)) : nullptr;
  log_.put(edge, {block, target_->blocks.size()}, delta, id_);
  return delta;
}

std::optional<Bytes> DeltaSource::encode(ByteView base, ByteView target, size_t budget) {
  if (elementBytes_ != 0) return encoder_.encode(base, target, elementBytes_, budget);
  std::optional<Bytes> two = encoder_.encode(base, target, 2, budget);
  std::optional<Bytes> four = encoder_.encode(base, target, 4, budget);
  if (!two && !four) return std::nullopt;
  const bool shorter = two && (!four || two->size() < four->size());
  const std::optional<Bytes>& best = shorter ? two : four;
  if (best->size() > kDeltaHeaderBytes + sizeof(uint32_t)) elementBytes_ = shorter ? 2 : 4;
  return best;
}

}  // namespace muster
