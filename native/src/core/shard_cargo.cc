#include "core/shard_cargo.h"

#include "cpu/ordered_sum.h"

namespace muster {

Status ShardCargo::sendBefore(const MeshRoad& road, uint32_t rank, uint64_t phase) {
  const MeshShape& shape = segment_.shape();
  if (phase == 1) return {};
  if (phase % 2 == 1) {
    const Range slice = sliceOf(shape.shardElements, rank, shape.worldSize);
    return sendRange(road, shape.shards, slice.begin, slice.end);
  }
  const std::span<uint8_t> claims = segment_.claims(rank);
  for (uint32_t shard = 0; shard < shape.shards; shard++) {
    if (claims[shard] == 0) continue;
    for (const uint32_t theirs : road.to().ranks) {
      const Range slice = sliceOf(shape.shardElements, theirs, shape.worldSize);
      if (Status sent = sendRange(road, shard, slice.begin, slice.end); !sent.ok()) return sent;
    }
  }
  return {};
}

// Elements of one shard, or of the result behind the last one. A piece's offset counts bytes in all of them together.
Status ShardCargo::sendRange(const MeshRoad& road, uint32_t index, uint64_t begin, uint64_t end) const {
  const uint64_t shardBytes = segment_.shape().shardElements * sizeof(float);
  const auto* from = reinterpret_cast<const uint8_t*>(segment_.shard(index));
  const uint64_t at = begin * sizeof(float);
  return road.sendPieces({from + at, (end - begin) * sizeof(float)}, index * shardBytes + at);
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
