// NCCL, found at run time. What a version cannot do is known by the symbols that it does not have, not by its number.
#pragma once

#include <memory>

#include "gpu/cuda_abi.h"
#include "gpu/nccl_abi.h"
#include "gpu/shared_library.h"

namespace muster {

// What is called in libnccl. Absent functions are null; see NcclLibrary::load.
struct NcclFunctions {
  nccl::Result (*getVersion)(int*);
  nccl::Result (*getUniqueId)(nccl::UniqueId*);
  nccl::Result (*initRankConfig)(nccl::Communicator*, int ranks, nccl::UniqueId, int rank, nccl::Config*);
  nccl::Result (*finalize)(nccl::Communicator);
  nccl::Result (*destroy)(nccl::Communicator);
  nccl::Result (*abort)(nccl::Communicator);
  nccl::Result (*getAsyncError)(nccl::Communicator, nccl::Result*);
  const char* (*getErrorString)(nccl::Result);
  const char* (*getLastError)(nccl::Communicator);
  nccl::Result (*allReduce)(const void*, void*, size_t, nccl::DataType, nccl::Reduction, nccl::Communicator, cuda::Stream);
  nccl::Result (*broadcast)(const void*, void*, size_t, nccl::DataType, int root, nccl::Communicator, cuda::Stream);
  nccl::Result (*reduceScatter)(const void*, void*, size_t, nccl::DataType, nccl::Reduction, nccl::Communicator, cuda::Stream);
  nccl::Result (*allGather)(const void*, void*, size_t, nccl::DataType, nccl::Communicator, cuda::Stream);
  nccl::Result (*send)(const void*, size_t, nccl::DataType, int peer, nccl::Communicator, cuda::Stream);
  nccl::Result (*receive)(void*, size_t, nccl::DataType, int peer, nccl::Communicator, cuda::Stream);
  nccl::Result (*groupStart)();
  nccl::Result (*groupEnd)();
  // Since 2.27. May be absent.
  nccl::Result (*shrink)(nccl::Communicator, int* excluded, int count, nccl::Communicator*, nccl::Config*, int flags);
};

class NcclLibrary : public LoadedLibrary<NcclLibrary> {
 public:
  // Loads NCCL from the first of `paths` that opens. Code::Unsupported when none does, or it is older than 2.14.
  static Result<std::shared_ptr<const NcclLibrary>> load(const std::vector<std::string>& paths, std::vector<LibraryAttempt>& failed);

  const NcclFunctions& call() const { return functions_; }
  int version() const { return version_; }  // 10000 × major + 100 × minor + patch
  bool canShrink() const { return functions_.shrink != nullptr; }
  bool canGrow() const { return canGrow_; }      // 2.29; reported, not used
  bool canRevoke() const { return canRevoke_; }  // 2.28; reported, not used
  // 2.30 lets several ranks share a GPU, when NCCL_MULTI_RANK_GPU_ENABLE=1 is set. It added no symbol.
  bool severalRanksPerGpu() const { return version_ >= 23000; }

  // The name of a result in words.
  std::string nameOf(nccl::Result result) const;

 private:
  friend class LoadedLibrary<NcclLibrary>;
  NcclLibrary() = default;
  Status resolve(Symbols& symbols);

  NcclFunctions functions_{};
  int version_ = 0;
  bool canGrow_ = false;
  bool canRevoke_ = false;
};

}  // namespace muster
