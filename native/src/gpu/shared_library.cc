#include "gpu/shared_library.h"

#include <dlfcn.h>
#include <link.h>

namespace muster {

Result<SharedLibrary> SharedLibrary::open(const std::vector<std::string>& paths, std::vector<LibraryAttempt>& failed) {
  for (const std::string& path : paths) {
    // Now and local: a library that cannot be linked fails here, and its symbols meet nobody else's.
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = ::dlerror();
      failed.push_back({path, why != nullptr ? why : "the linker gave no reason"});
      continue;
    }
    SharedLibrary library(handle);
    library.path_ = path;
    link_map* place = nullptr;
    if (::dlinfo(handle, RTLD_DI_LINKMAP, &place) == 0 && place != nullptr && place->l_name != nullptr && *place->l_name != 0)
      library.path_ = place->l_name;
    return library;
  }
  std::string tried;
  for (const LibraryAttempt& each : failed) tried += (tried.empty() ? "" : "; ") + each.path + ": " + each.error;
  return Status{Code::Unsupported, tried.empty() ? "no path was given" : tried, {}};
}

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace muster
