// One NCCL communicator: the ranks of one epoch. Like a mesh it is spent after any failure, and the survivors make that of the next
// epoch, with a fresh id (the base way) or by shrinking this one.
#pragma once

#include "gpu/device_memory.h"
#include "gpu/nccl_library.h"
#include "gpu/owner_thread.h"

namespace muster {

struct CommunicatorOptions {
  nccl::UniqueId id;  // made by one rank, the same on all
  uint32_t ranks;
  uint32_t rank;
  // After a failure the device is left as it is, for shrink(): until then, or close(), it may still use the buffers.
  bool keepForShrink = false;
};

enum class Collective { AllReduce, Broadcast, ReduceScatter, AllGather, Send, Receive };

// One operation on device memory. `count` is that of NCCL: of the result for ReduceScatter, of one rank's part for AllGather.
struct CommunicatorCall {
  Collective collective;
  cuda::DevicePointer from;
  cuda::DevicePointer to;
  size_t count;
  nccl::DataType type;
  nccl::Reduction reduction;
  uint32_t peer;                              // the root of a broadcast, the other end of a send or receive
  std::vector<std::shared_ptr<DeviceMemory>> keep{};  // what `from` and `to` are in
};

class Communicator {
 public:
  // A new id. One rank asks for it and tells the others, by whatever means they have.
  static Result<nccl::UniqueId> newId(const NcclLibrary& library);

  // Returns when all ranks are there. Code::Timeout otherwise.
  static Result<std::shared_ptr<Communicator>> open(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<GpuDevice> gpu,
                                                    const CommunicatorOptions& options, const Patience& patience);
  ~Communicator() { leave(); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t ranks() const { return ranks_; }
  uint32_t rank() const { return rank_; }

  // Runs the calls as one group and returns when the device has done them. They come behind what the caller has queued on `behind` until now;
  // null: behind nothing. A failure spends the communicator; without keepForShrink the device has then stopped, and the buffers are quiet.
  // Code::PeerLost when NCCL says so; a dead peer is often not noticed by NCCL at all, and costs the deadline.
  Status run(std::vector<CommunicatorCall> calls, const Patience& patience, cuda::Stream behind = nullptr);

  // A communicator without the ranks `excluded`, which do not call. All others call with the same list. Code::Unsupported when this
  // NCCL cannot; after any failure make a new communicator with a fresh id, on all ranks. This one is spent either way.
  Result<std::shared_ptr<Communicator>> shrink(const std::vector<uint32_t>& excluded, const Patience& patience);

  // Ends a run in progress, and the communicator with it. From any thread; does not wait.
  void abort(const std::string& reason);

  // Gives everything back. When nothing has failed, together with the other ranks, which must close as well. Harmless twice.
  Status close(const Patience& patience);

 private:
  struct Core;  // what the owner thread alone touches
  Communicator(std::shared_ptr<Core> core, std::unique_ptr<OwnerThread> owner, uint32_t ranks, uint32_t rank)
      : core_(std::move(core)), owner_(std::move(owner)), ranks_(ranks), rank_(rank) {}

  Status valid(const std::vector<CommunicatorCall>& calls) const;
  Status explained(Status status);
  void leave();

  const std::shared_ptr<Core> core_;
  const std::unique_ptr<OwnerThread> owner_;
  const uint32_t ranks_;
  const uint32_t rank_;
  std::mutex reasonGuard_;
  std::string reason_;
};

}  // namespace muster
