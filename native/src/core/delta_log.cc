#include "core/delta_log.h"

#include <algorithm>

namespace muster {

const DeltaLog::Delta* DeltaLog::at(Edge edge) const {
  const auto found = std::ranges::find(deltas_, edge, &Delta::edge);
  return found == deltas_.end() ? nullptr : &*found;
}

void DeltaLog::put(Edge edge, size_t block, size_t blocks, Block delta) {
  const std::lock_guard lock(mutex_);
  if (deltasMax_ == 0 || block >= blocks) return;
  auto found = std::ranges::find(deltas_, edge, &Delta::edge);
  if (found == deltas_.end()) {
    deltas_.push_back({edge, std::vector<std::optional<Block>>(blocks), 0});
    found = deltas_.end() - 1;
  }
  if (block >= found->blocks.size() || found->blocks[block]) return;
  bytes_ += delta ? delta->size() : 0;
  found->blocks[block] = std::move(delta);
  found->known++;
  while (!deltas_.empty() && (deltas_.size() > deltasMax_ || bytes_ > bytesMax_)) {
    for (const std::optional<Block>& each : deltas_.front().blocks) bytes_ -= each && *each ? (*each)->size() : 0;
    deltas_.pop_front();
  }
}

std::optional<DeltaLog::Block> DeltaLog::find(Edge edge, size_t block) const {
  const std::lock_guard lock(mutex_);
  const Delta* delta = at(edge);
  if (delta == nullptr || block >= delta->blocks.size()) return std::nullopt;
  return delta->blocks[block];
}

std::vector<DeltaLog::Edge> DeltaLog::path(uint64_t base, uint64_t target) const {
  const std::lock_guard lock(mutex_);
  // Breadth first from the base; there are few deltas.
  std::vector<std::vector<Edge>> ways{{}};
  for (size_t length = 0; length < kDeltaStepsMax && !ways.empty(); length++) {
    std::vector<std::vector<Edge>> longer;
    for (const std::vector<Edge>& way : ways) {
      const uint64_t reached = way.empty() ? base : way.back().target;
      for (const Delta& delta : deltas_) {
        const bool visited = std::ranges::find(way, delta.edge.target, &Edge::base) != way.end();
        if (delta.edge.base != reached || visited || delta.known < delta.blocks.size()) continue;
        longer.push_back(way);
        longer.back().push_back(delta.edge);
        if (delta.edge.target == target) return longer.back();
      }
      if (longer.size() > deltas_.size() * deltas_.size()) break;
    }
    ways = std::move(longer);
  }
  return {};
}

}  // namespace muster
