#include "gpu/nccl_library.h"

namespace muster {

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::load(const std::vector<std::string>& paths,
                                                             std::vector<LibraryAttempt>& failed) {
  const Result<std::shared_ptr<NcclLibrary>> opened = loadFrom(paths, failed);
  if (!opened.ok()) return opened.status();
  const std::shared_ptr<NcclLibrary>& loaded = opened.value();
  if (const nccl::Result got = loaded->functions_.getVersion(&loaded->version_); got != nccl::kSuccess)
    return Status{Code::Unsupported, loaded->path() + " does not tell its version: " + loaded->nameOf(got), {}};
  if (loaded->version_ < nccl::kVersionMin)
    return Status{Code::Unsupported, loaded->path() + " is NCCL " + std::to_string(loaded->version_) + ", 2.14 is needed", {}};
  return std::shared_ptr<const NcclLibrary>(loaded);
}

Status NcclLibrary::resolve(Symbols& symbols) {
  NcclFunctions& f = functions_;
  symbols.need("ncclGetVersion", f.getVersion);
  symbols.need("ncclGetUniqueId", f.getUniqueId);
  symbols.need("ncclCommInitRankConfig", f.initRankConfig);
  symbols.need("ncclCommFinalize", f.finalize);
  symbols.need("ncclCommDestroy", f.destroy);
  symbols.need("ncclCommAbort", f.abort);
  symbols.need("ncclCommGetAsyncError", f.getAsyncError);
  symbols.need("ncclGetErrorString", f.getErrorString);
  symbols.need("ncclGetLastError", f.getLastError);
  symbols.need("ncclAllReduce", f.allReduce);
  symbols.need("ncclBroadcast", f.broadcast);
  symbols.need("ncclReduceScatter", f.reduceScatter);
  symbols.need("ncclAllGather", f.allGather);
  symbols.need("ncclSend", f.send);
  symbols.need("ncclRecv", f.receive);
  symbols.need("ncclGroupStart", f.groupStart);
  symbols.need("ncclGroupEnd", f.groupEnd);
  symbols.want("ncclCommShrink", f.shrink);
  canGrow_ = symbols.want("ncclCommGrow");
  canRevoke_ = symbols.want("ncclCommRevoke");
  return symbols.complete("; NCCL 2.14 or newer is needed");
}

std::string NcclLibrary::nameOf(nccl::Result result) const {
  const char* text = functions_.getErrorString != nullptr ? functions_.getErrorString(result) : nullptr;
  return std::string(text != nullptr ? text : "unknown error") + " (NCCL " + std::to_string(result) + ")";
}

}  // namespace muster
