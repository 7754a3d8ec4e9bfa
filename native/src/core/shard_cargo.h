// Gradients between hosts: the slices of a rank's shards that the other host sums, then the slice of the sum. What a rank wrote of a whole node of the
// tree along which shards are summed crosses as the sum of that node.
#pragma once

#include "core/mesh_cargo.h"
#include "core/mesh_segment.h"

namespace muster {

class ShardCargo : public MeshCargo {
 public:
  explicit ShardCargo(const MeshSegment& segment) : segment_(segment) {}

  // Phase 1 is joining; then each reduce has an even one, its shards are written, and an odd one, its slice is summed. The
  // claims cross with the shards, and only then: after the sum a rank may be claiming for its next reduce already.
  bool opens(uint64_t phase) const override { return phase % 2 == 0; }
  Status sendBefore(const MeshRoad& road, uint32_t rank, uint64_t phase) override;
  Result<bool> sendDue(const MeshRoad&) override { return false; }
  Status take(const MeshHost& from, Connection& connection, const FrameHeader& header, const Patience& patience) override;

 private:
  Status sendRange(const MeshRoad& road, uint32_t index, uint64_t begin, uint64_t end) const;
  Status sendSum(const MeshRoad& road, TreeNode node, Range slice) const;
  // Where an element of a shard is among the bytes of all of them.
  uint64_t placeOf(uint32_t index, uint64_t element) const;

  const MeshSegment& segment_;
};

}  // namespace muster
