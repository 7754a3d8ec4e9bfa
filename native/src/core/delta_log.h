// The deltas of the last versions that were made or received, block by block, so that they are made once and passed on down the chain. A
// delta leads from the content of one section to that of another, both named by their digest.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "core/bytes.h"
#include "core/version.h"

namespace muster {

class DeltaLog {
 public:
  // One block's delta; null where the bytes themselves are shorter.
  using Block = std::shared_ptr<const Bytes>;
  struct Edge {
    uint64_t base = 0;
    uint64_t target = 0;

    auto operator<=>(const Edge&) const = default;
  };
  struct Place {
    size_t block;
    size_t blocks;  // of the section
  };

  // Remembers the deltas of the sections of so many versions, and at most `bytes` of them in all; 0 versions: nothing.
  DeltaLog(size_t versions, uint64_t bytes) : versionsMax_(versions), bytesMax_(bytes) {}

  // A block's delta in a section of `version`. The oldest versions make room; what they do not make room for is not remembered.
  void put(Edge edge, Place place, Block delta, VersionId version);
  // nullopt when it is not known.
  std::optional<Block> find(Edge edge, size_t block) const;
  // Whole deltas that lead from base to target one after another, the shortest way; empty when there is none.
  std::vector<Edge> path(uint64_t base, uint64_t target) const;

 private:
  struct Delta {
    VersionId version;  // the newest that it is a part of
    std::vector<std::optional<Block>> blocks;
    size_t known = 0;
  };

  bool makeRoom(VersionId version, uint64_t bytes);
  void forget(VersionId version);

  const size_t versionsMax_;
  const uint64_t bytesMax_;
  mutable std::mutex mutex_;
  std::map<Edge, Delta> deltas_;
  std::set<VersionId> versions_;
  uint64_t bytes_ = 0;
};

}  // namespace muster
