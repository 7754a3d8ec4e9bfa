#include "gpu/communicator_core.h"

#include <list>
#include <thread>

namespace muster {

namespace {

// Where NCCL writes the child of a shrink. An attempt that is given up may still write, so its place is never taken away.
nccl::Communicator& placeForChild() {
  static std::mutex mutex;
  static std::list<nccl::Communicator> places;
  const std::lock_guard lock(mutex);
  return places.emplace_back(nullptr);
}

}  // namespace

Status Communicator::Core::begin(const CommunicatorOptions* options, const Patience& patience) {
  if (Status bound = gpu->bind(); !bound.ok()) return bound;
  const CudaDriver& driver = gpu->driver();
  if (Status made = driver.check(driver.call().streamCreate(&stream, cuda::kStreamNonBlocking), "cuStreamCreate"); !made.ok()) return made;
  if (Status made = driver.check(driver.call().eventCreate(&done, cuda::kEventDisableTiming), "cuEventCreate"); !made.ok()) return made;
  nccl::Config config = nccl::kNonBlocking;
  const nccl::Result begun =
      options == nullptr ? nccl::kInProgress
                         : library->call().initRankConfig(&comm, static_cast<int>(options->ranks), options->id,
                                                          static_cast<int>(options->rank), &config);
  Status ready = settle(begun, "ncclCommInitRankConfig", patience);
  if (!ready.ok()) abortNow();
  return ready;
}

// A call has been accepted when no error is pending and nothing is in progress; only then may the next one follow, or CUDA work.
Status Communicator::Core::settle(nccl::Result result, const char* what, const Patience& patience) {
  for (auto pause = kFirstPause; result == nccl::kInProgress; pause = std::min(pause * 2, kLongestPause)) {
    if (Status still = patience.check(); !still.ok()) return {still.code, still.message + " in " + what, {}};
    const nccl::Result asked = library->call().getAsyncError(comm, &result);
    if (asked != nccl::kSuccess) return failed(asked, "ncclCommGetAsyncError");
    if (result == nccl::kInProgress) std::this_thread::sleep_for(pause);
  }
  return result == nccl::kSuccess ? Status{} : failed(result, what);
}

Status Communicator::Core::asyncError(const char* what) const {
  nccl::Result result = nccl::kSuccess;
  const nccl::Result asked = library->call().getAsyncError(comm, &result);
  if (asked != nccl::kSuccess) return failed(asked, "ncclCommGetAsyncError");
  return result == nccl::kSuccess || result == nccl::kInProgress ? Status{} : failed(result, what);
}

Status Communicator::Core::failed(nccl::Result result, const char* what) const {
  const char* last = comm != nullptr ? library->call().getLastError(comm) : nullptr;
  const std::string detail = last != nullptr && *last != 0 ? std::string("; ") + last : "";
  const auto code = [result] {
    switch (result) {
      case nccl::kRemoteError:
      case nccl::kSystemError: return Code::PeerLost;
      case nccl::kTimeout: return Code::Timeout;
      case nccl::kInvalidArgument:
      case nccl::kInvalidUsage: return Code::InvalidArgument;
      default: return Code::Io;
    }
  };
  return {code(), std::string(what) + ": " + library->nameOf(result) + detail, {}};
}

nccl::Result Communicator::Core::call(const CommunicatorCall& c) const {
  const NcclFunctions& f = library->call();
  const auto* from = reinterpret_cast<const void*>(c.from);
  auto* to = reinterpret_cast<void*>(c.to);
  switch (c.collective) {
    case Collective::AllReduce: return f.allReduce(from, to, c.count, c.type, c.reduction, comm, stream);
    case Collective::Broadcast: return f.broadcast(from, to, c.count, c.type, static_cast<int>(c.peer), comm, stream);
    case Collective::ReduceScatter: return f.reduceScatter(from, to, c.count, c.type, c.reduction, comm, stream);
    case Collective::AllGather: return f.allGather(from, to, c.count, c.type, comm, stream);
    case Collective::Send: return f.send(from, c.count, c.type, static_cast<int>(c.peer), comm, stream);
    case Collective::Receive: return f.receive(to, c.count, c.type, static_cast<int>(c.peer), comm, stream);
  }
  return nccl::kInvalidArgument;
}

Status Communicator::Core::launch(const std::vector<CommunicatorCall>& calls) {
  const auto bad = [](nccl::Result result) { return result != nccl::kSuccess && result != nccl::kInProgress; };
  nccl::Result worst = library->call().groupStart();
  if (bad(worst)) return failed(worst, "ncclGroupStart");
  for (const CommunicatorCall& each : calls)
    if (const nccl::Result result = call(each); !bad(worst) && bad(result)) worst = result;
  const nccl::Result ended = library->call().groupEnd();  // in any case: the group is the thread's, and must not stay open
  if (bad(worst)) return failed(worst, "a call of the group");
  return bad(ended) ? failed(ended, "ncclGroupEnd") : Status{};
}

// NCCL orders what it launches behind the stream it is given, and an Abort waits for all of that: nobody could end a collective whose caller
// queued something that does not end. So the caller's work is awaited first, and the communicator's own stream is the only one that NCCL sees.
Status Communicator::Core::awaitWorkOn(cuda::Stream theirs, const Patience& patience) const {
  const CudaDriver& driver = gpu->driver();
  if (Status queued = driver.check(driver.call().eventRecord(done, theirs), "cuEventRecord on the caller's stream"); !queued.ok()) return queued;
  Status reached = awaitEvent(driver, done, patience, [&] { return asyncError("before the launch"); });
  if (reached.code == Code::Timeout) reached.message += ": the caller's stream has not come so far";
  return reached;
}

Status Communicator::Core::run(const std::vector<CommunicatorCall>& calls, cuda::Stream behind, const Patience& patience) {
  if (!spent.ok()) return {Code::Closed, "the communicator is spent: " + spent.message, {}};
  const CudaDriver& driver = gpu->driver();
  const auto perform = [&]() -> Status {
    // An aborted rank that launched would make the others wait for its part.
    if (Status still = patience.check(); !still.ok()) return still;
    if (behind != nullptr)
      if (Status reached = awaitWorkOn(behind, patience); !reached.ok()) return reached;
    if (Status launched = launch(calls); !launched.ok()) return launched;
    if (Status accepted = settle(nccl::kInProgress, "the launch", patience); !accepted.ok()) return accepted;
    if (Status queued = driver.check(driver.call().eventRecord(done, stream), "cuEventRecord"); !queued.ok()) return queued;
    marked = true;
    return awaitEvent(driver, done, patience, [&] { return asyncError("on the device"); });
  };
  Status performed = perform();
  marked = marked && !performed.ok();
  if (!performed.ok()) spend(performed);
  return performed;
}

void Communicator::Core::spend(const Status& why) {
  if (spent.ok()) spent = why;
  if (!keepForShrink) abortNow();
}

void Communicator::Core::abortNow() {
  if (comm == nullptr) return;
  // Finalize and Destroy wait for the others, who may be gone; after a failure this is the only way out. Its result changes nothing.
  library->call().abort(std::exchange(comm, nullptr));
  if (!std::exchange(marked, false)) return;
  const Abort never;
  // When the device has not stopped by then, it is broken, and the caller's error stands.
  [[maybe_unused]] const Status quiet =
      awaitEvent(gpu->driver(), done, {Deadline::in(kQuiet), &never}, [] { return Status{}; });
}

Status Communicator::Core::shrink(std::vector<int> excluded, nccl::Communicator& child, const Patience& patience) {
  if (!library->canShrink()) return {Code::Unsupported, "this NCCL has no ncclCommShrink", {}};
  if (comm == nullptr) return {Code::Closed, "the communicator was aborted: " + spent.message, {}};
  const int flags = spent.ok() ? nccl::kShrinkDefault : nccl::kShrinkAbort;
  nccl::Config config = nccl::kNonBlocking;
  nccl::Communicator& place = placeForChild();
  const nccl::Result begun =
      library->call().shrink(comm, excluded.data(), static_cast<int>(excluded.size()), &place, &config, flags);
  // Also after a success: the child is not there before the state of its parent has settled.
  Status made = settle(begun == nccl::kSuccess ? nccl::kInProgress : begun, "ncclCommShrink", patience);
  if (made.ok() && place == nullptr) made = {Code::Io, "ncclCommShrink made no communicator", {}};
  if (spent.ok()) spent = made.ok() ? Status{Code::Closed, "it was shrunk", {}} : made;
  // Not Destroy: it would wait for the ranks that are excluded.
  abortNow();
  if (made.ok()) child = place;
  else if (place != nullptr) library->call().abort(place);
  return made;
}

Status Communicator::Core::finish(const Patience& patience) {
  if (comm == nullptr) return {};
  if (!spent.ok()) return abortNow(), Status{};
  spent = {Code::Closed, "it was closed", {}};
  Status finalized = settle(library->call().finalize(comm), "ncclCommFinalize", patience);
  if (!finalized.ok()) return abortNow(), finalized;
  const nccl::Result destroyed = library->call().destroy(std::exchange(comm, nullptr));
  return destroyed == nccl::kSuccess || destroyed == nccl::kInProgress ? Status{} : failed(destroyed, "ncclCommDestroy");
}

void Communicator::Core::release() {
  abortNow();
  const CudaFunctions& cuda = gpu->driver().call();
  if (done != nullptr) cuda.eventDestroy(std::exchange(done, nullptr));
  if (stream != nullptr) cuda.streamDestroy(std::exchange(stream, nullptr));
}

}  // namespace muster
