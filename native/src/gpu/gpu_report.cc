#include "gpu/gpu_report.h"

#include "gpu/stray_thread.h"

namespace muster {

namespace {

CudaReport describeCuda(const std::string& path) {
  CudaReport report{};
  const auto driver = CudaDriver::load(path, report.failed);
  report.status = driver.status();
  if (!driver.ok()) return report;
  report.path = driver.value()->path();
  report.version = driver.value()->version();
  report.missing = driver.value()->missing();
  Result<std::vector<CudaDevice>> devices = driver.value()->devices();
  report.status = devices.status();
  if (devices.ok()) report.devices = std::move(devices.value());
  return report;
}

NcclReport describeNccl(const std::vector<std::string>& paths) {
  NcclReport report{};
  const auto library = NcclLibrary::load(paths, report.failed);
  report.status = library.status();
  if (!library.ok()) return report;
  const NcclLibrary& nccl = *library.value();
  report.path = nccl.path();
  report.version = nccl.version();
  report.missing = nccl.missing();
  report.shrink = nccl.canShrink();
  report.grow = nccl.canGrow();
  report.revoke = nccl.canRevoke();
  report.severalRanksPerGpu = nccl.severalRanksPerGpu();
  return report;
}

}  // namespace

Result<GpuReport> describeGpus(const GpuPaths& paths, const Patience& patience) {
  const auto ask = [paths]() -> Result<GpuReport> { return GpuReport{describeCuda(paths.cuda), describeNccl(paths.nccl)}; };
  Result<GpuReport> report = awaitStray<GpuReport>(ask, patience);
  if (report.ok() || report.status().code != Code::Timeout) return report;
  return Status{Code::Timeout, "the CUDA driver or NCCL did not answer in time", {}};
}

}  // namespace muster
