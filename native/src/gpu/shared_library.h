// Libraries that may or may not be on this host, opened at run time.
#pragma once

#include <memory>
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

// The functions of a library: those that are needed, and those that some versions lack.
class Symbols {
 public:
  explicit Symbols(const SharedLibrary& library) : library_(library) {}

  template <class Function>
  void need(const char* name, Function*& to) {
    if (!library_.find(name, to)) needed_ += (needed_.empty() ? "" : ", ") + std::string(name);
  }
  // True when it is there.
  template <class Function>
  bool want(const char* name, Function*& to) {
    if (!library_.find(name, to)) missing_.emplace_back(name);
    return to != nullptr;
  }
  bool want(const char* name) {
    void (*to)() = nullptr;
    return want(name, to);
  }
  // Nothing is missing where it is not there.
  template <class Function>
  bool find(const char* name, Function*& to) const {
    return library_.find(name, to);
  }

  // Code::Unsupported with the functions that are needed and not there, and `advice`.
  Status complete(const std::string& advice = "") const {
    if (needed_.empty()) return {};
    return {Code::Unsupported, library_.path() + " has no " + needed_ + advice, {}};
  }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  const SharedLibrary& library_;
  std::string needed_;
  std::vector<std::string> missing_;
};

// A library with the functions that are called in it. `Self` resolves them: Status resolve(Symbols&).
template <class Self>
class LoadedLibrary {
 public:
  const std::string& path() const { return path_; }
  // Functions that this version lacks.
  const std::vector<std::string>& missing() const { return missing_; }

 protected:
  // From the first of `paths` that opens.
  static Result<std::shared_ptr<Self>> loadFrom(const std::vector<std::string>& paths, std::vector<LibraryAttempt>& failed) {
    const Result<SharedLibrary> library = SharedLibrary::open(paths, failed);
    if (!library.ok()) return library.status();
    std::shared_ptr<Self> loaded(new Self());
    loaded->path_ = library.value().path();
    Symbols symbols(library.value());
    const Status resolved = loaded->resolve(symbols);
    loaded->missing_ = symbols.missing();
    if (!resolved.ok()) return resolved;
    return loaded;
  }

 private:
  std::string path_;
  std::vector<std::string> missing_;
};

}  // namespace muster
