#include "core/shard_cargo.h"

#include <algorithm>

#include "cpu/ordered_sum.h"

namespace muster {

Status ShardCargo::sendBefore(const MeshRoad& road, uint32_t rank, uint64_t phase) {
  const MeshShape& shape = segment_.shape();
  if (phase == 1) return {};
  if (phase % 2 == 1) {
    const Range slice = sliceOf(shape.shardElements, rank, shape.worldSize);
    return sendRange(road, shape.shards, slice.begin, slice.end);
  }
  for (const TreeNode& node : claimedNodes(segment_.claims(rank)))
    for (const uint32_t theirs : road.to().ranks) {
      const Range slice = sliceOf(shape.shardElements, theirs, shape.worldSize);
      const Status sent = node.shards == 1 ? sendRange(road, node.first, slice.begin, slice.end) : sendSum(road, node, slice);
      if (!sent.ok()) return sent;
    }
  return {};
}

// A slice of the sum of several shards, in the place of the first of them: as many bytes as of one.
Status ShardCargo::sendSum(const MeshRoad& road, TreeNode node, Range slice) const {
  constexpr size_t kPiece = kMeshPieceBytes / sizeof(float);
  std::vector<float> sum(std::min(kPiece, slice.end - slice.begin));
  std::vector<NodeSum> leaves;
  for (size_t begin = slice.begin; begin < slice.end; begin += kPiece) {
    const size_t count = std::min(kPiece, slice.end - begin);
    leaves.clear();
    for (uint32_t at = 0; at < node.shards; at++)
      leaves.push_back({{node.first + at, 1}, segment_.shard(node.first + at) + begin});
    treeSum(node, leaves, sum.data(), {0, count});
    const auto* from = reinterpret_cast<const uint8_t*>(sum.data());
    if (Status sent = road.sendPieces({from, count * sizeof(float)}, placeOf(node.first, begin)); !sent.ok()) return sent;
  }
  return {};
}

// Elements of one shard, or of the result behind the last one. A piece's offset counts bytes in all of them together.
Status ShardCargo::sendRange(const MeshRoad& road, uint32_t index, uint64_t begin, uint64_t end) const {
  const auto* from = reinterpret_cast<const uint8_t*>(segment_.shard(index) + begin);
  return road.sendPieces({from, (end - begin) * sizeof(float)}, placeOf(index, begin));
}

uint64_t ShardCargo::placeOf(uint32_t index, uint64_t element) const {
  return (index * segment_.shape().shardElements + element) * sizeof(float);
}

Status ShardCargo::take(const MeshHost&, Connection& connection, const FrameHeader& header, const Patience& patience) {
  if (header.type != FrameType::Piece) return {Code::Corrupt, "a frame out of order", {}};
  const uint64_t shardBytes = segment_.shape().shardElements * sizeof(float);
  const uint64_t index = header.offset / shardBytes, at = header.offset % shardBytes;
  if (index > segment_.shape().shards || header.length > shardBytes - at)
    return {Code::Corrupt, "a piece outside of the shards", {}};
  auto* into = reinterpret_cast<uint8_t*>(segment_.shard(static_cast<uint32_t>(index)));
  return connection.receivePayload(header, {into + at, header.length}, patience);
}

}  // namespace muster
