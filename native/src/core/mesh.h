// The gradient mesh: the shards that the members of one epoch fill, and the reduction over them. The sum has the same bits
// whoever fills what, and on however many hosts.
#pragma once

#include "core/mesh_member.h"

namespace muster {

struct ReduceOptions {
  uint64_t op;                    // must be the same on all ranks
  std::vector<uint32_t> written;  // shards this rank has filled for this op
};

class Mesh {
 public:
  static Result<std::shared_ptr<Mesh>> open(const MeshOptions& options, const Patience& patience);

  std::span<float> shard(uint32_t index) const { return {segment().shard(index), segment().shape().shardElements}; }
  std::span<float> result() const { return {segment().result(), segment().shape().shardElements}; }

  // Sums all shards, along the tree of their indices, into result(). Two barriers: before, when every shard must have been written by
  // exactly one rank; after, when the whole result is there. The shards themselves are not changed.
  Status reduce(const ReduceOptions& options, const Patience& patience);

  // See MeshMember.
  void abort(const std::string& reason) { member_->abort(reason); }
  void close() { member_->close(); }

 private:
  Mesh(std::unique_ptr<MeshMember> member, std::vector<uint32_t> neighbours)
      : member_(std::move(member)), neighbours_(std::move(neighbours)) {}

  const MeshSegment& segment() const { return member_->segment(); }
  Status run(const ReduceOptions& options, const Patience& patience);
  Status claim(const ReduceOptions& options);
  Status checkAgreement(uint64_t op) const;
  std::vector<NodeSum> sumsHere() const;
  Status sumSlice(const Patience& patience);

  std::unique_ptr<MeshMember> member_;
  const std::vector<uint32_t> neighbours_;  // the ranks of this host
};

}  // namespace muster
