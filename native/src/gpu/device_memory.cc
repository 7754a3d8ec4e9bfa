#include "gpu/device_memory.h"

#include <fcntl.h>

#include <cerrno>

namespace muster {

namespace {

cuda::AllocationProperties propertiesOn(const GpuDevice& gpu) {
  cuda::AllocationProperties properties{};
  properties.type = cuda::kPinned;
  properties.requestedHandleTypes = cuda::kFileDescriptor;
  properties.location = {cuda::kOnDevice, gpu.properties().index};
  return properties;
}

Status canShare(const GpuDevice& gpu) {
  const CudaDevice& properties = gpu.properties();
  if (properties.virtualMemory && properties.fileDescriptorHandles) return {};
  return {Code::Unsupported, properties.name + " cannot share memory by file descriptor; ask `muster doctor` what the driver lacks", {}};
}

}  // namespace

Result<std::shared_ptr<DeviceMemory>> DeviceMemory::create(std::shared_ptr<GpuDevice> gpu, size_t bytes) {
  if (Status able = canShare(*gpu); !able.ok()) return able;
  if (Status bound = gpu->bind(); !bound.ok()) return bound;
  const CudaDriver& driver = gpu->driver();
  const cuda::AllocationProperties properties = propertiesOn(*gpu);
  size_t unit = 0;
  const cuda::Result asked = driver.call().memGetAllocationGranularity(&unit, &properties, cuda::kGranularityMinimum);
  if (Status known = driver.check(asked, "cuMemGetAllocationGranularity"); !known.ok()) return known;
  const size_t size = (std::max<size_t>(bytes, 1) + unit - 1) / unit * unit;
  std::shared_ptr<DeviceMemory> memory(new DeviceMemory(std::move(gpu)));
  const cuda::Result made = driver.call().memCreate(&memory->handle_, size, &properties, 0);
  if (Status created = driver.check(made, "cuMemCreate of " + std::to_string(size) + " bytes"); !created.ok()) return created;
  memory->hasHandle_ = true;
  if (Status mapped = memory->map(size); !mapped.ok()) return mapped;
  if (Status allowed = memory->allow(cuda::kReadWrite); !allowed.ok()) return allowed;
  return memory;
}

Result<std::shared_ptr<DeviceMemory>> DeviceMemory::import(std::shared_ptr<GpuDevice> gpu, int fd, size_t size) {
  if (Status able = canShare(*gpu); !able.ok()) return able;
  if (Status bound = gpu->bind(); !bound.ok()) return bound;
  const CudaDriver& driver = gpu->driver();
  std::shared_ptr<DeviceMemory> memory(new DeviceMemory(std::move(gpu)));
  void* const osHandle = reinterpret_cast<void*>(static_cast<intptr_t>(fd));  // the descriptor travels in the pointer itself
  const cuda::Result got = driver.call().memImportFromShareableHandle(&memory->handle_, osHandle, cuda::kFileDescriptor);
  if (Status imported = driver.check(got, "cuMemImportFromShareableHandle"); !imported.ok()) return imported;
  memory->hasHandle_ = true;
  memory->imported_ = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!memory->imported_) return ioError("fcntl", errno);
  if (Status mapped = memory->map(size); !mapped.ok()) return mapped;
  memory->readOnly_ = memory->allow(cuda::kRead).ok();
  if (memory->readOnly_) return memory;
  if (Status allowed = memory->allow(cuda::kReadWrite); !allowed.ok()) return allowed;
  return memory;
}

Status DeviceMemory::map(size_t size) {
  const CudaDriver& driver = gpu_->driver();
  const cuda::Result reserved = driver.call().memAddressReserve(&at_, size, 0, 0, 0);
  if (Status got = driver.check(reserved, "cuMemAddressReserve of " + std::to_string(size) + " bytes"); !got.ok()) return got;
  size_ = size;
  const cuda::Result mapped = driver.call().memMap(at_, size, 0, handle_, 0);
  if (Status got = driver.check(mapped, "cuMemMap of " + std::to_string(size) + " bytes"); !got.ok()) return got;
  mapped_ = true;
  return {};
}

Status DeviceMemory::allow(int access) const {
  const cuda::AccessDescription description{{cuda::kOnDevice, gpu_->properties().index}, access};
  return gpu_->driver().check(gpu_->driver().call().memSetAccess(at_, size_, &description, 1), "cuMemSetAccess");
}

Result<UniqueFd> DeviceMemory::share() const {
  if (imported_) {
    UniqueFd again(::fcntl(imported_.get(), F_DUPFD_CLOEXEC, 0));
    if (!again) return ioError("fcntl", errno);
    return again;
  }
  if (Status bound = gpu_->bind(); !bound.ok()) return bound;
  int fd = -1;
  const cuda::Result got = gpu_->driver().call().memExportToShareableHandle(&fd, handle_, cuda::kFileDescriptor, 0);
  if (Status exported = gpu_->driver().check(got, "cuMemExportToShareableHandle"); !exported.ok()) return exported;
  UniqueFd shared(fd);
  // The driver does not promise it. Who is started meanwhile must not keep the memory.
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return ioError("fcntl", errno);
  return shared;
}

DeviceMemory::~DeviceMemory() {
  // What the driver refuses to take back goes with the process; there is nobody left to tell.
  if (!gpu_->bind().ok()) return;
  const CudaFunctions& call = gpu_->driver().call();
  if (mapped_) call.memUnmap(at_, size_);
  if (at_ != 0) call.memAddressFree(at_, size_);
  if (hasHandle_) call.memRelease(handle_);
}

}  // namespace muster
