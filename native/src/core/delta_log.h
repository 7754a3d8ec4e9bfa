// The last deltas that were made or received, block by block, so that they are made once and passed on down the chain. A delta
// leads from the content of one section to that of another, both named by their digest.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "core/bytes.h"

namespace muster {

inline constexpr size_t kDeltaStepsMax = 16;  // deltas applied one after another to one block, at most

class DeltaLog {
 public:
  // One block's delta; null where the bytes themselves are shorter.
  using Block = std::shared_ptr<const Bytes>;
  struct Edge {
    uint64_t base = 0;
    uint64_t target = 0;

    bool operator==(const Edge&) const = default;
  };

  // Remembers `deltas` of them, and at most `bytes` in all; 0 remembers nothing.
  DeltaLog(size_t deltas, uint64_t bytes) : deltasMax_(deltas), bytesMax_(bytes) {}

  // Block number `block` of a section of `blocks`. The oldest deltas make room.
  void put(Edge edge, size_t block, size_t blocks, Block delta);
  // nullopt when it is not known.
  std::optional<Block> find(Edge edge, size_t block) const;
  // Whole deltas that lead from base to target one after another, the shortest way; empty when there is none.
  std::vector<Edge> path(uint64_t base, uint64_t target) const;

 private:
  struct Delta {
    Edge edge;
    std::vector<std::optional<Block>> blocks;
    size_t known = 0;
  };

  const Delta* at(Edge edge) const;

  const size_t deltasMax_;
  const uint64_t bytesMax_;
  mutable std::mutex mutex_;
  std::deque<Delta> deltas_;  // oldest first
  uint64_t bytes_ = 0;
};

}  // namespace muster
