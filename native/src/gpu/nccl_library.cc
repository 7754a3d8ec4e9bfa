#include "gpu/nccl_library.h"

namespace muster {

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::load(const std::vector<std::string>& paths,
                                                             std::vector<LibraryAttempt>& failed) {
  const Result<SharedLibrary> library = SharedLibrary::open(paths, failed);
  if (!library.ok()) return library.status();
  std::shared_ptr<NcclLibrary> loaded(new NcclLibrary());
  loaded->path_ = library.value().path();
  if (Status resolved = loaded->resolve(library.value()); !resolved.ok()) return resolved;
  if (const nccl::Result got = loaded->functions_.getVersion(&loaded->version_); got != nccl::kSuccess)
    return Status{Code::Unsupported, loaded->path_ + " does not tell its version: " + loaded->nameOf(got), {}};
  if (loaded->version_ < nccl::kVersionMin)
    return Status{Code::Unsupported, loaded->path_ + " is NCCL " + std::to_string(loaded->version_) + ", 2.14 is needed", {}};
  return std::shared_ptr<const NcclLibrary>(loaded);
}

Status NcclLibrary::resolve(const SharedLibrary& library) {
  NcclFunctions& f = functions_;
  std::vector<std::string> needed;
  const auto need = [&](const char* name, auto& to) {
    if (!library.find(name, to)) needed.emplace_back(name);
  };
  const auto want = [&](const char* name) {
    void (*to)() = nullptr;
    if (!library.find(name, to)) missing_.emplace_back(name);
    return to != nullptr;
  };
  need("ncclGetVersion", f.getVersion);
  need("ncclGetUniqueId", f.getUniqueId);
  need("ncclCommInitRankConfig", f.initRankConfig);
  need("ncclCommFinalize", f.finalize);
  need("ncclCommDestroy", f.destroy);
  need("ncclCommAbort", f.abort);
  need("ncclCommGetAsyncError", f.getAsyncError);
  need("ncclGetErrorString", f.getErrorString);
  need("ncclGetLastError", f.getLastError);
  need("ncclAllReduce", f.allReduce);
  need("ncclBroadcast", f.broadcast);
  need("ncclReduceScatter", f.reduceScatter);
  need("ncclAllGather", f.allGather);
  need("ncclSend", f.send);
  need("ncclRecv", f.receive);
  need("ncclGroupStart", f.groupStart);
  need("ncclGroupEnd", f.groupEnd);
  if (!library.find("ncclCommShrink", f.shrink)) missing_.emplace_back("ncclCommShrink");
  canGrow_ = want("ncclCommGrow");
  canRevoke_ = want("ncclCommRevoke");
  if (needed.empty()) return {};
  std::string names;
  for (const std::string& each : needed) names += (names.empty() ? "" : ", ") + each;
  return {Code::Unsupported, path_ + " has no " + names + "; NCCL 2.14 or newer is needed", {}};
}

std::string NcclLibrary::nameOf(nccl::Result result) const {
  const char* text = functions_.getErrorString != nullptr ? functions_.getErrorString(result) : nullptr;
  return std::string(text != nullptr ? text : "unknown error") + " (NCCL " + std::to_string(result) + ")";
}

}  // namespace muster
