// Device memory that other processes can map: made in the driver's virtual memory, handed over as a file descriptor. It lives as long
// as somebody has it mapped, like a memfd; the process that made it may die.
#pragma once

#include "core/unique_fd.h"
#include "gpu/gpu_device.h"

namespace muster {

class DeviceMemory {
 public:
  // At least `bytes` of new memory. Code::TooLarge when the device is full; Code::Unsupported without virtual memory.
  static Result<std::shared_ptr<DeviceMemory>> create(std::shared_ptr<GpuDevice> gpu, size_t bytes);

  // Maps memory of `size` bytes that came from another process. Read-only where the driver can do that; see isReadOnly.
  static Result<std::shared_ptr<DeviceMemory>> import(std::shared_ptr<GpuDevice> gpu, int fd, size_t size);

  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  cuda::DevicePointer at() const { return at_; }
  size_t size() const { return size_; }  // of the whole, which is more than was asked for
  GpuDevice& gpu() const { return *gpu_; }
  bool isReadOnly() const { return readOnly_; }

  // A file descriptor for another process; that it is open keeps the memory.
  Result<UniqueFd> share() const;

 private:
  explicit DeviceMemory(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {}
  Status map(size_t size);
  Status allow(int access) const;

  std::shared_ptr<GpuDevice> gpu_;
  cuda::MemoryHandle handle_ = 0;
  bool hasHandle_ = false;
  UniqueFd imported_;  // what it came by: a driver (580) does not export what it imported
  cuda::DevicePointer at_ = 0;
  size_t size_ = 0;
  bool mapped_ = false;
  bool readOnly_ = false;
};

}  // namespace muster
