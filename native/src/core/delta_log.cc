#include "core/delta_log.h"

#include <algorithm>

#include "core/limits.h"

namespace muster {

namespace {

uint64_t sizeOf(const DeltaLog::Block& block) { return block ? block->size() : 0; }

}  // namespace

void DeltaLog::put(Edge edge, Place place, Block delta, VersionId version) {
  const std::lock_guard lock(mutex_);
  if (place.block >= place.blocks || !makeRoom(version, sizeOf(delta))) return;
  Delta& all = deltas_.try_emplace(edge, Delta{version, std::vector<std::optional<Block>>(place.blocks)}).first->second;
  all.version = std::max(all.version, version);
  if (place.block >= all.blocks.size() || all.blocks[place.block]) return;
  bytes_ += sizeOf(delta);
  all.blocks[place.block] = std::move(delta);
  all.known++;
}

// Call with mutex_ held. Only what is older makes room.
bool DeltaLog::makeRoom(VersionId version, uint64_t bytes) {
  if (versionsMax_ == 0) return false;
  versions_.insert(version);
  while ((versions_.size() > versionsMax_ || bytes_ + bytes > bytesMax_) && *versions_.begin() < version) forget(*versions_.begin());
  if (versions_.size() > versionsMax_) versions_.erase(version);  // it is the oldest itself
  return versions_.contains(version) && bytes_ + bytes <= bytesMax_;
}

void DeltaLog::forget(VersionId version) {
  versions_.erase(version);
  std::erase_if(deltas_, [&](const auto& each) {
    if (each.second.version != version) return false;
    for (const std::optional<Block>& block : each.second.blocks) bytes_ -= block ? sizeOf(*block) : 0;
    return true;
  });
}

std::optional<DeltaLog::Block> DeltaLog::find(Edge edge, size_t block) const {
  const std::lock_guard lock(mutex_);
  const auto delta = deltas_.find(edge);
  if (delta == deltas_.end() || block >= delta->second.blocks.size()) return std::nullopt;
  return delta->second.blocks[block];
}

std::vector<DeltaLog::Edge> DeltaLog::path(uint64_t base, uint64_t target) const {
  const std::lock_guard lock(mutex_);
  // Breadth first from the base; few deltas begin at any content.
  std::vector<std::vector<Edge>> ways{{}};
  for (size_t length = 0; length < kDeltaStepsMax && !ways.empty(); length++) {
    std::vector<std::vector<Edge>> longer;
    for (const std::vector<Edge>& way : ways) {
      const uint64_t reached = way.empty() ? base : way.back().target;
      for (auto at = deltas_.lower_bound({reached, 0}); at != deltas_.end() && at->first.base == reached; ++at) {
        const auto& [edge, delta] = *at;
        const bool visited = std::ranges::find(way, edge.target, &Edge::base) != way.end();
        if (visited || delta.known < delta.blocks.size()) continue;
        longer.push_back(way);
        longer.back().push_back(edge);
        if (edge.target == target) return longer.back();
      }
      if (longer.size() > versionsMax_ * versionsMax_) break;
    }
    ways = std::move(longer);
  }
  return {};
}

}  // namespace muster
