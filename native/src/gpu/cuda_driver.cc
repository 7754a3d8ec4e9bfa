#include "gpu/cuda_driver.h"

namespace muster {

Result<std::shared_ptr<const CudaDriver>> CudaDriver::load(const std::string& path, std::vector<LibraryAttempt>& failed) {
  // The file without a number belongs to the toolkit and may be a stub: it is no place to look.
  const std::vector<std::string> paths = path.empty() ? std::vector<std::string>{"libcuda.so.1"} : std::vector{path};
  const Result<SharedLibrary> library = SharedLibrary::open(paths, failed);
  if (!library.ok()) return library.status();
  std::shared_ptr<CudaDriver> driver(new CudaDriver());
  driver->path_ = library.value().path();
  if (Status resolved = driver->resolve(library.value()); !resolved.ok()) return resolved;
  const CudaFunctions& call = driver->call();
  if (Status begun = driver->check(call.init(0), "cuInit"); !begun.ok()) return Status{Code::Unsupported, begun.message, {}};
  if (Status known = driver->check(call.driverGetVersion(&driver->version_), "cuDriverGetVersion"); !known.ok()) return known;
  return std::shared_ptr<const CudaDriver>(driver);
}

Status CudaDriver::resolve(const SharedLibrary& library) {
  CudaFunctions& f = functions_;
  std::vector<std::string> needed;
  const auto need = [&](const char* name, auto& to) {
    if (!library.find(name, to)) needed.emplace_back(name);
  };
  const auto want = [&](const char* name, auto& to) {
    if (!library.find(name, to)) missing_.emplace_back(name);
  };
  need("cuInit", f.init);
  need("cuDriverGetVersion", f.driverGetVersion);
  need("cuGetErrorString", f.getErrorString);
  need("cuDeviceGetCount", f.deviceGetCount);
  need("cuDeviceGet", f.deviceGet);
  need("cuDeviceGetName", f.deviceGetName);
  need("cuDeviceTotalMem_v2", f.deviceTotalMem);
  need("cuDeviceGetAttribute", f.deviceGetAttribute);
  need("cuDevicePrimaryCtxRetain", f.primaryCtxRetain);
  need("cuDevicePrimaryCtxRelease_v2", f.primaryCtxRelease);
  need("cuCtxSetCurrent", f.ctxSetCurrent);
  need("cuMemGetInfo_v2", f.memGetInfo);
  need("cuMemcpyHtoDAsync_v2", f.memcpyHtoDAsync);
  need("cuMemcpyDtoHAsync_v2", f.memcpyDtoHAsync);
  need("cuMemcpyDtoDAsync_v2", f.memcpyDtoDAsync);
  need("cuStreamCreate", f.streamCreate);
  need("cuStreamDestroy_v2", f.streamDestroy);
  need("cuEventCreate", f.eventCreate);
  need("cuEventRecord", f.eventRecord);
  need("cuEventQuery", f.eventQuery);
  need("cuEventDestroy_v2", f.eventDestroy);
  want("cuMemGetAllocationGranularity", f.memGetAllocationGranularity);
  want("cuMemCreate", f.memCreate);
  want("cuMemRelease", f.memRelease);
  want("cuMemAddressReserve", f.memAddressReserve);
  want("cuMemAddressFree", f.memAddressFree);
  want("cuMemMap", f.memMap);
  want("cuMemUnmap", f.memUnmap);
  want("cuMemSetAccess", f.memSetAccess);
  want("cuMemExportToShareableHandle", f.memExportToShareableHandle);
  want("cuMemImportFromShareableHandle", f.memImportFromShareableHandle);
  if (needed.empty()) return {};
  std::string names;
  for (const std::string& each : needed) names += (names.empty() ? "" : ", ") + each;
  return {Code::Unsupported, path_ + " has no " + names, {}};
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
    found.push_back({index, name, bytes, attribute(cuda::kComputeMajor), attribute(cuda::kComputeMinor),
                     hasVirtualMemory() && attribute(cuda::kVirtualMemory) != 0,
                     hasVirtualMemory() && attribute(cuda::kFileDescriptorHandles) != 0});
  }
  return found;
}

}  // namespace muster
