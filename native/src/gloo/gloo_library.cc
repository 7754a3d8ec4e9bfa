#include "gloo/gloo_library.h"

#include <unistd.h>

#include "gpu/shared_library.h"

namespace muster {

Result<std::shared_ptr<const GlooLibrary>> GlooLibrary::load(const std::string& path) {
  const auto unsupported = [&](const std::string& why) { return Status{Code::Unsupported, why, {}}; };
  if (::access(path.c_str(), F_OK) != 0) return unsupported("the data plane was built without Gloo: there is no " + path);
  std::vector<LibraryAttempt> failed;
  const Result<SharedLibrary> library = SharedLibrary::open({path}, failed);
  if (!library.ok()) return library.status();
  gloo_abi::Entry* entry = nullptr;
  if (!library.value().find(gloo_abi::kEntryName, entry)) return unsupported(path + " has no " + gloo_abi::kEntryName);
  const gloo_abi::Functions* functions = entry();
  if (functions->version != gloo_abi::kVersion)
    return unsupported(path + " is of another build: " + std::to_string(functions->version) + ", not " +
                       std::to_string(gloo_abi::kVersion));
  return std::shared_ptr<const GlooLibrary>(new GlooLibrary(functions));
}

Result<std::shared_ptr<GlooPlace>> GlooPlace::open(const std::shared_ptr<const GlooLibrary>& library, uint32_t rank, uint32_t worldSize,
                                                   const std::string& host) {
  gloo_abi::Failure failure{};
  void* handle = library->call().open(rank, worldSize, host.c_str(), &failure);
  if (handle == nullptr) return glooFailure(failure);
  return std::shared_ptr<GlooPlace>(new GlooPlace(library, handle));
}

Status glooFailure(const gloo_abi::Failure& failure) {
  std::string text(failure.text);
  const size_t place = text.find("] ");
  if (!text.empty() && text.front() == '[' && place != std::string::npos) text.erase(0, place + 2);
  return {Code::Io, "gloo: " + text, {}};
}

}  // namespace muster
