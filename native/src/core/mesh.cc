#include "core/mesh.h"

#include <algorithm>

#include "core/shard_cargo.h"
#include "cpu/ordered_sum.h"

namespace muster {

Result<std::shared_ptr<Mesh>> Mesh::open(const MeshOptions& options, const Patience& patience) {
  const auto cargo = [](const MeshSegment& segment) { return std::make_unique<ShardCargo>(segment); };
  Result<std::unique_ptr<MeshMember>> member = MeshMember::open(options, cargo, patience);
  if (!member.ok()) return member.status();
  return std::shared_ptr<Mesh>(new Mesh(std::move(member.value()), options.neighboursOf(options.rank)));
}

Status Mesh::reduce(const ReduceOptions& options, const Patience& patience) {
  return member_->perform([&] { return run(options, patience); }, patience);
}

Status Mesh::run(const ReduceOptions& options, const Patience& patience) {
  if (Status claimed = claim(options); !claimed.ok()) return claimed;
  member_->announcePhase();
  if (Status all = member_->awaitPhase(patience); !all.ok()) return all;
  if (Status agreed = checkAgreement(options.op); !agreed.ok()) return agreed;
  if (Status summed = sumSlice(patience); !summed.ok()) return summed;
  member_->announcePhase();
  return member_->awaitPhase(patience);
}

Status Mesh::claim(const ReduceOptions& options) {
  const std::span<uint8_t> claims = segment().claims(member_->rank());
  for (uint8_t& each : claims) each = 0;
  for (const uint32_t index : options.written) {
    if (index >= claims.size())
      return {Code::InvalidArgument, "shard " + std::to_string(index) + " does not exist", {}};
    claims[index] = 1;
  }
  member_->self().op.store(options.op, std::memory_order_relaxed);  // published by the phase
  return {};
}

// All ranks look at the same words between the same barriers, so all come to the same verdict.
Status Mesh::checkAgreement(uint64_t op) const {
  const MeshShape& shape = segment().shape();
  for (uint32_t rank = 0; rank < shape.worldSize; rank++) {
    const uint64_t theirs = segment().member(rank).op.load(std::memory_order_relaxed);
    if (theirs != op)
      return {Code::Disagreement,
              namesOf({rank}) + " reduces op " + std::to_string(theirs) + ", this rank op " + std::to_string(op),
              {rank}};
  }
  for (uint32_t shard = 0; shard < shape.shards; shard++) {
    std::vector<uint32_t> writers;
    for (uint32_t rank = 0; rank < shape.worldSize; rank++)
      if (segment().claims(rank)[shard] != 0) writers.push_back(rank);
    if (writers.size() == 1) continue;
    const std::string who = writers.empty() ? "nobody" : namesOf(writers);
    return {Code::Disagreement, "shard " + std::to_string(shard) + " was written by " + who, writers};
  }
  return {};
}

// What is here of each rank's shards: those of this host as they are, those of others as the sums that came.
std::vector<NodeSum> Mesh::sumsHere() const {
  std::vector<NodeSum> sums;
  for (uint32_t rank = 0; rank < segment().shape().worldSize; rank++) {
    const bool here = std::ranges::find(neighbours_, rank) != neighbours_.end();
    for (const TreeNode& node : claimedNodes(segment().claims(rank))) {
      if (!here) sums.push_back({node, segment().shard(node.first)});
      else for (uint32_t at = node.first; at < node.first + node.shards; at++) sums.push_back({{at, 1}, segment().shard(at)});
    }
  }
  std::ranges::sort(sums, {}, [](const NodeSum& sum) { return sum.node.first; });
  return sums;
}

Status Mesh::sumSlice(const Patience& patience) {
  const MeshShape& shape = segment().shape();
  const std::vector<NodeSum> sums = sumsHere();
  const Range slice = sliceOf(shape.shardElements, member_->rank(), shape.worldSize);
  for (size_t begin = slice.begin; begin < slice.end; begin += kAbortStep) {
    if (Status still = member_->mayGoOn(patience); !still.ok()) return still;
    treeSum({0, shape.shards}, sums, segment().result(), {begin, std::min(begin + kAbortStep, slice.end)});
  }
  return {};
}

}  // namespace muster
