#include "gpu/direct_copy.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "core/limits.h"

namespace muster {

namespace {

// A page is locked once: one copy at a time in this process, because two may want the same pages, and whoever ends first unlocks them.
std::mutex locking;

}  // namespace

LockedPages::LockedPages(GpuDevice& gpu, ByteView bytes) : gpu_(gpu) {
  const CudaFunctions& call = gpu.driver().call();
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (call.memHostRegister == nullptr || begin >= end) return;
  void* const at = reinterpret_cast<void*>(begin);
  if (call.memHostRegister(at, end - begin, cuda::kHostPortable | cuda::kHostReadOnly) == cuda::kSuccess) locked_ = at;
}

LockedPages::~LockedPages() {
  // What the driver does not unlock goes with the process; there is nobody left to tell.
  if (locked_ != nullptr && gpu_.bind().ok()) gpu_.driver().call().memHostUnregister(locked_);
}

Status copyDirect(GpuDevice& gpu, cuda::DevicePointer to, ByteView from, cuda::Stream stream, const Abort& abort) {
  const Abort never;
  for (size_t at = 0; at < from.size(); at += kLockedBytes) {
    if (abort.requested()) return {Code::Aborted, "the copy was aborted", {}};
    const std::lock_guard one(locking);
    if (Status bound = gpu.bind(); !bound.ok()) return bound;
    const ByteView piece = from.subspan(at, std::min<size_t>(kLockedBytes, from.size() - at));
    const LockedPages pages(gpu, piece);
    const Status copied = gpu.copyIn(to + at, piece, {Deadline::in(kForEver), &never}, stream);
    if (!copied.ok()) return copied;
  }
  return {};
}

}  // namespace muster
