#include "gpu/gpu_device.h"

#include <thread>

namespace muster {

Status awaitEvent(const CudaDriver& driver, cuda::Event event, const Patience& patience, const std::function<Status()>& meanwhile) {
  for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    const cuda::Result reached = driver.call().eventQuery(event);
    if (reached == cuda::kSuccess) return {};
    if (reached != cuda::kNotReady) return driver.check(reached, "cuEventQuery");
    if (Status still = patience.check(); !still.ok()) return still;
    if (Status fine = meanwhile(); !fine.ok()) return fine;
    std::this_thread::sleep_for(pause);
  }
}

Result<std::shared_ptr<GpuDevice>> GpuDevice::open(std::shared_ptr<const CudaDriver> driver, int index) {
  const Result<std::vector<CudaDevice>> devices = driver->devices();
  if (!devices.ok()) return devices.status();
  if (index < 0 || static_cast<size_t>(index) >= devices.value().size())
    return Status{Code::Unsupported,
                  "there is no GPU " + std::to_string(index) + "; the driver has " + std::to_string(devices.value().size()),
                  {}};
  std::shared_ptr<GpuDevice> gpu(new GpuDevice(driver, devices.value()[static_cast<size_t>(index)]));
  const CudaFunctions& call = driver->call();
  if (Status got = driver->check(call.deviceGet(&gpu->device_, index), "cuDeviceGet"); !got.ok()) return got;
  if (Status got = driver->check(call.primaryCtxRetain(&gpu->context_, gpu->device_), "cuDevicePrimaryCtxRetain"); !got.ok()) return got;
  if (Status bound = gpu->bind(); !bound.ok()) return bound;
  if (Status made = driver->check(call.streamCreate(&gpu->stream_, cuda::kStreamNonBlocking), "cuStreamCreate"); !made.ok()) return made;
  if (Status made = driver->check(call.eventCreate(&gpu->copied_, cuda::kEventDisableTiming), "cuEventCreate"); !made.ok()) return made;
  return gpu;
}

GpuDevice::~GpuDevice() {
  if (context_ == nullptr) return;
  // What cannot be given back any more is gone with the context.
  if (bind().ok()) {
    if (copied_ != nullptr) driver_->call().eventDestroy(copied_);
    if (stream_ != nullptr) driver_->call().streamDestroy(stream_);
  }
  driver_->call().primaryCtxRelease(device_);
}

Status GpuDevice::bind() const { return driver_->check(driver_->call().ctxSetCurrent(context_), "cuCtxSetCurrent"); }

Result<GpuDevice::Memory> GpuDevice::memory() const {
  if (Status bound = bind(); !bound.ok()) return bound;
  Memory memory{};
  if (Status got = driver_->check(driver_->call().memGetInfo(&memory.free, &memory.total), "cuMemGetInfo"); !got.ok()) return got;
  return memory;
}

template <class Enqueue>
Status GpuDevice::run(const char* what, const Patience& patience, cuda::Stream given, Enqueue enqueue) {
  if (Status bound = bind(); !bound.ok()) return bound;
  const std::lock_guard one(copying_);
  const cuda::Stream stream = given != nullptr ? given : stream_;
  if (Status queued = driver_->check(enqueue(stream), what); !queued.ok()) return queued;
  if (Status marked = driver_->check(driver_->call().eventRecord(copied_, stream), "cuEventRecord"); !marked.ok()) return marked;
  return awaitEvent(*driver_, copied_, patience, [] { return Status{}; });
}

Status GpuDevice::copyIn(cuda::DevicePointer to, ByteView from, const Patience& patience, cuda::Stream stream) {
  return run("cuMemcpyHtoDAsync", patience, stream, [&](cuda::Stream on) { return driver_->call().memcpyHtoDAsync(to, from.data(), from.size(), on); });
}

Status GpuDevice::copyOut(std::span<uint8_t> to, cuda::DevicePointer from, const Patience& patience, cuda::Stream stream) {
  return run("cuMemcpyDtoHAsync", patience, stream, [&](cuda::Stream on) { return driver_->call().memcpyDtoHAsync(to.data(), from, to.size(), on); });
}

Status GpuDevice::copy(cuda::DevicePointer to, cuda::DevicePointer from, size_t bytes, const Patience& patience, cuda::Stream stream) {
  return run("cuMemcpyDtoDAsync", patience, stream, [&](cuda::Stream on) { return driver_->call().memcpyDtoDAsync(to, from, bytes, on); });
}

}  // namespace muster
