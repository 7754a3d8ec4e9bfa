// One rank's place in a mesh: how it gets there, its barriers with the others, and how it leaves. What is done between the
// barriers is for the mesh (gradients) or the group (collectives) to say. After any failure the place is spent.
#pragma once

#include <memory>
#include <mutex>
#include <thread>

#include "core/death_notice.h"
#include "core/mesh_bridge.h"
#include "core/mesh_formation.h"
#include "core/mesh_watch.h"

namespace muster {

class MeshMember {
 public:
  using CargoMaker = std::function<std::unique_ptr<MeshCargo>(const MeshSegment&)>;
  // Joins and waits until all are there. `cargo` is asked only of the leaders of several hosts.
  static Result<std::unique_ptr<MeshMember>> open(const MeshOptions& options, const CargoMaker& cargo,
                                                  const Patience& patience);
  ~MeshMember() { close(); }
  MeshMember(const MeshMember&) = delete;
  MeshMember& operator=(const MeshMember&) = delete;

  const MeshSegment& segment() const { return segment_; }
  uint32_t rank() const { return rank_; }
  MemberRecord& self() const { return segment_.member(rank_); }
  // Null but for the leaders of several hosts.
  MeshCargo* cargo() const { return cargo_.get(); }

  // Runs one operation; a failure makes this rank leave and spends its place. One at a time.
  Status perform(const std::function<Status()>& operation, const Patience& patience);
  // Within an operation: the next barrier, in two halves.
  void announcePhase();
  Status awaitPhase(const Patience& patience);
  // Within an operation: until `arrived` holds for every member; see MeshWatch::await.
  Status await(const std::function<bool(const MemberRecord&)>& arrived, const Patience& patience);
  // Within an operation: ok while it may go on.
  Status mayGoOn(const Patience& patience) const;

  // Ends an operation in progress and leaves; the others see this rank as lost. Harmless twice, from any thread.
  void abort(const std::string& reason);
  // As abort, and gives up the sockets and the life line. The memory stays mapped until the object goes.
  void close();

 private:
  MeshMember(MeshSegment segment, const MeshOptions& options)
      : segment_(std::move(segment)),
        rank_(options.rank),
        lifeLine_(self().life),
        watch_(segment_, rank_, options.neighboursOf(rank_)) {}

  using Opened = Result<std::unique_ptr<MeshMember>>;
  static Opened lead(const MeshOptions& options, const CargoMaker& cargo, const Patience& patience);
  static Opened follow(const MeshOptions& options, const Patience& patience);
  void warm(const MeshOptions& options, const Patience& patience);
  Status enter();
  void leave();

  MeshSegment segment_;
  std::jthread warming_;  // backs the memory with pages while the others are met
  const uint32_t rank_;
  LifeLine lifeLine_;
  MeshWatch watch_;
  std::unique_ptr<MeshCargo> cargo_;
  std::unique_ptr<MeshBridge> bridge_;
  uint64_t phase_ = 0;  // the first is joining
  Abort aborted_;
  std::mutex running_;  // held during an operation
  std::mutex reasonGuard_;
  std::string reason_;
  Status spent_;  // why nothing more can be done; guarded by running_
  bool closed_ = false;
};

}  // namespace muster
