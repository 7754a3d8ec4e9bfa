// A group: collectives over shared memory inside a host and over a ring between hosts. The memory is a mesh segment with one
// shard for each rank's input, two for partial sums that are wider than their elements, and the result.
#pragma once

#include "core/collectives.h"
#include "core/group_ring.h"
#include "core/group_rules.h"
#include "core/mesh_member.h"

namespace muster {

class Group : public Collectives {
 public:
  // `options.group` names it; `options.shards` and `options.shardElements` follow from `capacityBytes`, the most that one
  // input or result can hold.
  static Result<std::shared_ptr<Group>> open(MeshOptions options, uint64_t capacityBytes, const Patience& patience);

  std::span<uint8_t> input() const override;
  std::span<const uint8_t> result() const override;
  Status run(const Operation& operation, const Patience& patience) override;
  void abort(const std::string& reason) override { member_->abort(reason); }
  void close() override { member_->close(); }

  // For a transport of another kind that uses this group to find the others, to agree with them and to watch them.
  MeshMember& member() const { return *member_; }

 private:
  Group(std::unique_ptr<MeshMember> member, std::vector<MeshHost> hosts, uint64_t capacityBytes);

  uint32_t worldSize() const { return segment().shape().worldSize; }
  const MeshSegment& segment() const { return member_->segment(); }
  const MeshHost& home() const { return hosts_[self_]; }
  uint8_t* inputOf(uint32_t rank) const { return reinterpret_cast<uint8_t*>(segment().shard(rank)); }
  GroupPlace place() const { return {member_->rank(), worldSize(), capacityBytes_}; }
  Status collective(const Operation& operation, const Patience& patience);
  Status contribute(const Operation& operation, const Patience& patience);
  Status addUp(const Operation& operation, const Patience& patience);
  Status exchange(const Operation& operation, const Patience& patience);
  RingPlan planOf(const Operation& operation) const;
  Status send(const Operation& operation, const Patience& patience);
  Status receive(const Operation& operation, const Patience& patience);

  std::unique_ptr<MeshMember> member_;
  const std::vector<MeshHost> hosts_;
  const uint64_t capacityBytes_;
  size_t self_ = 0;         // this host among them
  size_t localIndex_ = 0;   // this rank among those of its host
  GroupRing* ring_ = nullptr;
};

}  // namespace muster
