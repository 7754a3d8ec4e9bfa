// The CUDA driver (libcuda), found at run time. Only the driver is used, never a CUDA runtime, so there is no version to match.
#pragma once

#include <memory>

#include "gpu/cuda_abi.h"
#include "gpu/shared_library.h"

namespace muster {

// What is called in libcuda, by the exact names of its binary interface. Absent functions are null; see CudaDriver::load.
struct CudaFunctions {
  cuda::Result (*init)(unsigned flags);
  cuda::Result (*driverGetVersion)(int* version);
  cuda::Result (*getErrorString)(cuda::Result, const char** text);
  cuda::Result (*deviceGetCount)(int* count);
  cuda::Result (*deviceGet)(cuda::Device*, int ordinal);
  cuda::Result (*deviceGetName)(char* name, int length, cuda::Device);
  cuda::Result (*deviceTotalMem)(size_t* bytes, cuda::Device);
  cuda::Result (*deviceGetAttribute)(int* value, int attribute, cuda::Device);
  cuda::Result (*deviceGetUuid)(cuda::Uuid*, cuda::Device);  // null in a driver that has none
  cuda::Result (*primaryCtxRetain)(cuda::Context*, cuda::Device);
  cuda::Result (*primaryCtxRelease)(cuda::Device);
  cuda::Result (*ctxSetCurrent)(cuda::Context);
  cuda::Result (*memGetInfo)(size_t* free, size_t* total);
  cuda::Result (*memcpyHtoDAsync)(cuda::DevicePointer, const void*, size_t, cuda::Stream);
  cuda::Result (*memcpyDtoHAsync)(void*, cuda::DevicePointer, size_t, cuda::Stream);
  cuda::Result (*memHostRegister)(void*, size_t, unsigned);  // both or none
  cuda::Result (*memHostUnregister)(void*);
  cuda::Result (*memcpyDtoDAsync)(cuda::DevicePointer, cuda::DevicePointer, size_t, cuda::Stream);
  cuda::Result (*streamCreate)(cuda::Stream*, unsigned flags);
  cuda::Result (*streamDestroy)(cuda::Stream);
  cuda::Result (*eventCreate)(cuda::Event*, unsigned flags);
  cuda::Result (*eventRecord)(cuda::Event, cuda::Stream);
  cuda::Result (*eventQuery)(cuda::Event);
  cuda::Result (*eventDestroy)(cuda::Event);
  // Virtual memory, of drivers since 10.2: memory that another process can map.
  cuda::Result (*memGetAllocationGranularity)(size_t*, const cuda::AllocationProperties*, int option);
  cuda::Result (*memCreate)(cuda::MemoryHandle*, size_t, const cuda::AllocationProperties*, unsigned long long flags);
  cuda::Result (*memRelease)(cuda::MemoryHandle);
  cuda::Result (*memAddressReserve)(cuda::DevicePointer*, size_t, size_t alignment, cuda::DevicePointer hint, unsigned long long flags);
  cuda::Result (*memAddressFree)(cuda::DevicePointer, size_t);
  cuda::Result (*memMap)(cuda::DevicePointer, size_t, size_t offset, cuda::MemoryHandle, unsigned long long flags);
  cuda::Result (*memUnmap)(cuda::DevicePointer, size_t);
  cuda::Result (*memSetAccess)(cuda::DevicePointer, size_t, const cuda::AccessDescription*, size_t count);
  cuda::Result (*memExportToShareableHandle)(void* handle, cuda::MemoryHandle, int type, unsigned long long flags);
  cuda::Result (*memImportFromShareableHandle)(cuda::MemoryHandle*, void* osHandle, int type);
};

// One device, as the driver describes it.
struct CudaDevice {
  int index;
  std::string name;
  uint64_t memoryBytes;
  int computeMajor;
  int computeMinor;
  cuda::Uuid uuid;             // zeros where the driver does not tell
  bool virtualMemory;          // memory can be created and mapped in separate steps …
  bool fileDescriptorHandles;  // … and handed to other processes as a file descriptor
};

class CudaDriver : public LoadedLibrary<CudaDriver> {
 public:
  // Loads and initialises the driver. `path` is where the user says it is, or empty for the usual places.
  // Code::Unsupported when there is none, a function is missing that nothing works without, or it finds no device.
  // May take seconds, and as long as a broken driver likes: call it where that hurts nobody.
  static Result<std::shared_ptr<const CudaDriver>> load(const std::string& path, std::vector<LibraryAttempt>& failed);

  const CudaFunctions& call() const { return functions_; }
  int version() const { return version_; }  // 1000 × major + 10 × minor
  bool hasVirtualMemory() const { return missing().empty(); }

  Result<std::vector<CudaDevice>> devices() const;

  // Ok, or what was tried and what the driver said.
  Status check(cuda::Result result, const std::string& what) const;

 private:
  friend class LoadedLibrary<CudaDriver>;
  CudaDriver() = default;
  Status resolve(Symbols& symbols);

  CudaFunctions functions_{};
  int version_ = 0;
};

}  // namespace muster
