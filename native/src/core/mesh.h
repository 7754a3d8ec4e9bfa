// One mesh: the members of one epoch, the shards they fill, and the reduction over them. After any failure a mesh is
// spent: its members form the mesh of the next epoch.
#pragma once

#include <memory>
#include <mutex>

#include "core/death_notice.h"
#include "core/mesh_bridge.h"
#include "core/mesh_formation.h"
#include "core/mesh_watch.h"

namespace muster {

struct ReduceOptions {
  uint64_t op;                    // must be the same on all ranks
  std::vector<uint32_t> written;  // shards this rank has filled for this op
};

class Mesh {
 public:
  static Result<std::shared_ptr<Mesh>> open(const MeshOptions& options, const Patience& patience);
  ~Mesh() { close(); }
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  std::span<float> shard(uint32_t index) const { return {segment_.shard(index), segment_.shape().shardElements}; }
  std::span<float> result() const { return {segment_.result(), segment_.shape().shardElements}; }

  // Sums all shards, in shard order, into result(). Two barriers: before, when every shard must have been written by
  // exactly one rank; after, when the whole result is there. The shards themselves are not changed.
  Status reduce(const ReduceOptions& options, const Patience& patience);

  // Ends a reduce in progress and leaves the mesh; the others see this rank as lost. Harmless twice, from any thread.
  void abort(const std::string& reason);
  // As abort, and gives up the sockets and the life line. The memory stays mapped until the object goes.
  void close();

 private:
  Mesh(MeshSegment segment, uint32_t rank)
      : segment_(std::move(segment)), rank_(rank), lifeLine_(self().life), watch_(segment_, rank) {}

  static Result<std::shared_ptr<Mesh>> lead(const MeshOptions& options, const Patience& patience);
  static Result<std::shared_ptr<Mesh>> follow(const MeshOptions& options, const Patience& patience);
  MemberRecord& self() const { return segment_.member(rank_); }
  Status enter();
  Status run(const ReduceOptions& options, const Patience& patience);
  Status claim(const ReduceOptions& options);
  void announcePhase();
  Status awaitPhase(const Patience& patience);
  Status checkAgreement(uint64_t op) const;
  Status sumSlice(const Patience& patience);
  void leave();

  MeshSegment segment_;
  const uint32_t rank_;
  LifeLine lifeLine_;
  MeshWatch watch_;
  std::unique_ptr<MeshBridge> bridge_;  // of a leader, when there are several hosts
  uint64_t phase_ = 0;  // one for joining, two for each reduce
  Abort aborted_;
  std::mutex running_;  // held during a reduce
  std::mutex reasonGuard_;
  std::string reason_;
  Status spent_;  // why nothing more can be reduced; guarded by running_
  bool closed_ = false;
};

}  // namespace muster
