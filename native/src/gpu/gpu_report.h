// What this host offers to GPU transports, and where it does not, why.
#pragma once

#include "core/patience.h"
#include "gpu/cuda_driver.h"
#include "gpu/nccl_library.h"

namespace muster {

// Where to look. Empty: in the usual places.
struct GpuPaths {
  std::string cuda;                // the driver, libcuda
  std::vector<std::string> nccl;   // in this order
};

struct CudaReport {
  Status status;  // ok, or why there is no driver
  std::vector<LibraryAttempt> failed{};
  std::string path{};
  int version = 0;
  std::vector<std::string> missing{};
  std::vector<CudaDevice> devices{};
};

struct NcclReport {
  Status status;
  std::vector<LibraryAttempt> failed{};
  std::string path{};
  int version = 0;
  std::vector<std::string> missing{};
  bool shrink = false;
  bool grow = false;
  bool revoke = false;
  bool severalRanksPerGpu = false;
};

struct GpuReport {
  CudaReport cuda;
  NcclReport nccl;
};

// Loads both libraries and asks them. Code::Timeout when a library does not answer within the patience: it is then left to itself on
// a thread of its own, because nothing can be taken back that happens in there.
Result<GpuReport> describeGpus(const GpuPaths& paths, const Patience& patience);

}  // namespace muster
