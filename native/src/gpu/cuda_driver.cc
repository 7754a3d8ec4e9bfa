#include "gpu/cuda_driver.h"

namespace muster {

Result<std::shared_ptr<const CudaDriver>> CudaDriver::load(const std::string& path, std::vector<LibraryAttempt>& failed) {
  // The file without a number belongs to the toolkit and may be a stub: it is no place to look.
  const std::vector<std::string> paths = path.empty() ? std::vector<std::string>{"libcuda.so.1"} : std::vector{path};
  const Result<std::shared_ptr<CudaDriver>> loaded = loadFrom(paths, failed);
  if (!loaded.ok()) return loaded.status();
  const std::shared_ptr<CudaDriver>& driver = loaded.value();
  const CudaFunctions& call = driver->call();
  if (Status begun = driver->check(call.init(0), "cuInit"); !begun.ok()) return Status{Code::Unsupported, begun.message, {}};
  if (Status known = driver->check(call.driverGetVersion(&driver->version_), "cuDriverGetVersion"); !known.ok()) return known;
  return std::shared_ptr<const CudaDriver>(driver);
}

Status CudaDriver::resolve(Symbols& symbols) {
  CudaFunctions& f = functions_;
  symbols.need("cuInit", f.init);
  symbols.need("cuDriverGetVersion", f.driverGetVersion);
  symbols.need("cuGetErrorString", f.getErrorString);
  symbols.need("cuDeviceGetCount", f.deviceGetCount);
  symbols.need("cuDeviceGet", f.deviceGet);
  symbols.need("cuDeviceGetName", f.deviceGetName);
  symbols.need("cuDeviceTotalMem_v2", f.deviceTotalMem);
  symbols.need("cuDeviceGetAttribute", f.deviceGetAttribute);
  // The second version tells apart what one GPU is cut into (MIG); nothing else needs either.
  if (!symbols.find("cuDeviceGetUuid_v2", f.deviceGetUuid)) symbols.find("cuDeviceGetUuid", f.deviceGetUuid);
  // Without them the driver copies through a buffer of its own.
  if (!symbols.find("cuMemHostRegister_v2", f.memHostRegister) || !symbols.find("cuMemHostUnregister", f.memHostUnregister))
    f.memHostRegister = nullptr;
  symbols.need("cuDevicePrimaryCtxRetain", f.primaryCtxRetain);
  symbols.need("cuDevicePrimaryCtxRelease_v2", f.primaryCtxRelease);
  symbols.need("cuCtxSetCurrent", f.ctxSetCurrent);
  symbols.need("cuMemGetInfo_v2", f.memGetInfo);
  symbols.need("cuMemcpyHtoDAsync_v2", f.memcpyHtoDAsync);
  symbols.need("cuMemcpyDtoHAsync_v2", f.memcpyDtoHAsync);
  symbols.need("cuMemcpyDtoDAsync_v2", f.memcpyDtoDAsync);
  symbols.need("cuStreamCreate", f.streamCreate);
  symbols.need("cuStreamDestroy_v2", f.streamDestroy);
  symbols.need("cuEventCreate", f.eventCreate);
  symbols.need("cuEventRecord", f.eventRecord);
  symbols.need("cuEventQuery", f.eventQuery);
  symbols.need("cuEventDestroy_v2", f.eventDestroy);
  symbols.want("cuMemGetAllocationGranularity", f.memGetAllocationGranularity);
  symbols.want("cuMemCreate", f.memCreate);
  symbols.want("cuMemRelease", f.memRelease);
  symbols.want("cuMemAddressReserve", f.memAddressReserve);
  symbols.want("cuMemAddressFree", f.memAddressFree);
  symbols.want("cuMemMap", f.memMap);
  symbols.want("cuMemUnmap", f.memUnmap);
  symbols.want("cuMemSetAccess", f.memSetAccess);
  symbols.want("cuMemExportToShareableHandle", f.memExportToShareableHandle);
  symbols.want("cuMemImportFromShareableHandle", f.memImportFromShareableHandle);
  return symbols.complete();
}

Status CudaDriver::check(cuda::Result result, const std::string& what) const {
  if (result == cuda::kSuccess) return {};
  const char* text = nullptr;
  const bool known = functions_.getErrorString(result, &text) == cuda::kSuccess && text != nullptr;
  return {result == cuda::kOutOfMemory ? Code::TooLarge : Code::Io,
          what + ": " + (known ? text : "unknown error") + " (CUDA " + std::to_string(result) + ")",
          {}};
}

Result<std::vector<CudaDevice>> CudaDriver::devices() const {
  int count = 0;
  if (Status counted = check(functions_.deviceGetCount(&count), "cuDeviceGetCount"); !counted.ok()) return counted;
  std::vector<CudaDevice> found;
  for (int index = 0; index < count; index++) {
    cuda::Device device{};
    if (Status got = check(functions_.deviceGet(&device, index), "cuDeviceGet " + std::to_string(index)); !got.ok()) return got;
    char name[256] = {};
    size_t bytes = 0;
    const auto attribute = [&](int which) {
      int value = 0;
      // An attribute that the driver does not know is one that the device does not have.
      return functions_.deviceGetAttribute(&value, which, device) == cuda::kSuccess ? value : 0;
    };
    if (Status got = check(functions_.deviceGetName(name, sizeof name - 1, device), "cuDeviceGetName"); !got.ok()) return got;
    if (Status got = check(functions_.deviceTotalMem(&bytes, device), "cuDeviceTotalMem"); !got.ok()) return got;
    cuda::Uuid uuid{};
    if (functions_.deviceGetUuid != nullptr && functions_.deviceGetUuid(&uuid, device) != cuda::kSuccess) uuid = {};
    found.push_back({index, name, bytes, attribute(cuda::kComputeMajor), attribute(cuda::kComputeMinor), uuid,
                     hasVirtualMemory() && attribute(cuda::kVirtualMemory) != 0,
                     hasVirtualMemory() && attribute(cuda::kFileDescriptorHandles) != 0});
  }
  return found;
}

}  // namespace muster
