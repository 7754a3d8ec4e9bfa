// Libraries that may or may not be on this host, opened at run time.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"

namespace muster {

// What was tried to open a library, for the person who has to mend it.
struct LibraryAttempt {
  std::string path;
  std::string error;
};

// An open library. It stays open for the life of the process: drivers keep threads and exit handlers, which must not lose their code.
class SharedLibrary {
 public:
  // Opens the first of `paths` that can be opened. Code::Unsupported with every attempt and what the linker said.
  static Result<SharedLibrary> open(const std::vector<std::string>& paths, std::vector<LibraryAttempt>& failed);

  // Where the code really is, which is where the linker found it and not the name that was asked for.
  const std::string& path() const { return path_; }

  // Sets `to` to the symbol, or to null. True when it is there.
  template <class Function>
  bool find(const char* name, Function*& to) const {
    to = reinterpret_cast<Function*>(symbol(name));
    return to != nullptr;
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* symbol(const char* name) const;

  void* handle_;
  std::string path_{};
};

}  // namespace muster
