// Copies from the memory of a version to a GPU without a buffer in between: the driver locks the pages, and the device reads them by itself.
#pragma once

#include "gpu/gpu_device.h"

namespace muster {

// Pages of this process that the device reads by itself, as long as the object lives. Page-locked memory is scarce: lock little, and soon let go.
class LockedPages {
 public:
  // The whole pages within `bytes`, which may be mapped read-only. What the driver refuses to lock stays as it is.
  LockedPages(GpuDevice& gpu, ByteView bytes);
  ~LockedPages();
  LockedPages(const LockedPages&) = delete;
  LockedPages& operator=(const LockedPages&) = delete;

  bool areLocked() const { return locked_ != nullptr; }

 private:
  GpuDevice& gpu_;
  void* locked_ = nullptr;
};

// Comes back when the device has read all, or failed, however long that takes: memory that it reads must neither go nor be unlocked. So it is
// for a thread that can be left behind (stray_thread.h), with all that it touches. `stream` null: the device's own.
Status copyDirect(GpuDevice& gpu, cuda::DevicePointer to, ByteView from, cuda::Stream stream, const Abort& abort);

}  // namespace muster
