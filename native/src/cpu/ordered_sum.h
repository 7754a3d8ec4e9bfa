// The sums behind reductions. Their order is fixed beforehand, so the bits do not depend on who adds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster {

struct Range {
  size_t begin;
  size_t end;

  bool operator==(const Range&) const = default;
};

// The part of `elements` elements that `rank` of `worldSize` sums: contiguous, whole cache lines of 16 floats, together
// covering everything once.
Range sliceOf(size_t elements, size_t rank, size_t worldSize);

// out[i] = (((shards[0][i] + shards[1][i]) + shards[2][i]) + …) / divisor for i in `range`, in float32. `shards` is not empty;
// `out` overlaps none of them. No reassociation, no fused operations: the same bits on every machine. A divisor of 1 changes
// no bit. A large range bypasses the caches on the way out.
void orderedSum(std::span<const float* const> shards, float* out, Range range, float divisor = 1);

// A node of the tree along which gradients are summed: shard `first` and those behind it, `shards` in all. A node of one shard is a leaf; others have
// two children, of which the left one has the largest power of two of the shards that leaves some for the right one. So the tree follows from the
// number of shards alone.
struct TreeNode {
  uint32_t first;
  uint32_t shards;

  TreeNode left() const;
  TreeNode right() const;
  bool operator==(const TreeNode&) const = default;
};

// The largest nodes of the tree over all shards whose leaves are all claimed (not 0), in the order of their shards.
std::vector<TreeNode> claimedNodes(std::span<const uint8_t> claims);

// The sum of a node, known already; of a leaf it is the shard itself.
struct NodeSum {
  TreeNode node;
  const float* values;
};

// The sum of `node` along its tree, from the sums of nodes that cover it, each leaf once and in order: the same bits whichever nodes they are. As
// orderedSum in all else.
void treeSum(TreeNode node, std::span<const NodeSum> parts, float* out, Range range);

}  // namespace muster
