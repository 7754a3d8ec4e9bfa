// The calls of one NCCL communicator, all from its owner thread. The order in which NCCL wants them is kept here and nowhere else.
#pragma once

#include "gpu/communicator.h"

namespace muster {

struct Communicator::Core {
  std::shared_ptr<const NcclLibrary> library;
  std::shared_ptr<GpuDevice> gpu;
  bool keepForShrink;
  nccl::Communicator comm = nullptr;
  cuda::Stream stream = nullptr;
  cuda::Event done = nullptr;
  bool marked = false;  // `done` was recorded for what runs now
  Status spent{};

  // Context, stream and event for the owner thread; then the communicator, unless there is one already, until it is ready.
  Status begin(const CommunicatorOptions* options, const Patience& patience);
  Status run(const std::vector<CommunicatorCall>& calls, cuda::Stream behind, const Patience& patience);
  Status shrink(std::vector<int> excluded, nccl::Communicator& child, const Patience& patience);
  Status finish(const Patience& patience);
  // Stops the device and gives up the communicator, in the one way that is allowed at any time.
  void abortNow();
  void release();

 private:
  Status awaitWorkOn(cuda::Stream theirs, const Patience& patience) const;
  Status launch(const std::vector<CommunicatorCall>& calls);
  nccl::Result call(const CommunicatorCall& call) const;
  Status settle(nccl::Result result, const char* what, const Patience& patience);
  Status asyncError(const char* what) const;
  Status failed(nccl::Result result, const char* what) const;
  void spend(const Status& why);
};

}  // namespace muster
