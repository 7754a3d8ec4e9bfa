// One GPU as this process uses it: the primary context, which NCCL uses too, and a stream to copy on.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "core/bytes.h"
#include "core/patience.h"
#include "gpu/cuda_driver.h"

namespace muster {

class GpuDevice {
 public:
  // Code::Unsupported when there is no such device.
  static Result<std::shared_ptr<GpuDevice>> open(std::shared_ptr<const CudaDriver> driver, int index);
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  const CudaDevice& properties() const { return properties_; }

  // Makes the device's context current on the calling thread: needed on every thread before any call but these below.
  Status bind() const;

  struct Memory {
    size_t free;
    size_t total;
  };
  Result<Memory> memory() const;

  // Copies that are done when they return Ok. After a failed wait the device may still be reading or writing: the memory must stay.
  // On a stream of the caller they come behind what it has queued there; null: the device's own.
  Status copyIn(cuda::DevicePointer to, ByteView from, const Patience& patience, cuda::Stream stream = nullptr);
  Status copyOut(std::span<uint8_t> to, cuda::DevicePointer from, const Patience& patience, cuda::Stream stream = nullptr);
  Status copy(cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, const Patience& patience, cuda::Stream stream = nullptr);

 private:
  GpuDevice(std::shared_ptr<const CudaDriver> driver, CudaDevice properties)
      : driver_(std::move(driver)), properties_(std::move(properties)) {}
  template <class Enqueue>
  Status run(const char* what, const Patience& patience, cuda::Stream stream, Enqueue enqueue);

  std::shared_ptr<const CudaDriver> driver_;
  const CudaDevice properties_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  std::mutex copying_;  // one copy at a time
  cuda::Stream stream_ = nullptr;
  cuda::Event copied_ = nullptr;
};

// Waits until the event is reached, looking after ever longer pauses; between two looks `meanwhile` may end the wait. The context is
// current on the calling thread.
Status awaitEvent(const CudaDriver& driver, cuda::Event event, const Patience& patience, const std::function<Status()>& meanwhile);

}  // namespace muster
