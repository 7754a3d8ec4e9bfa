// Gloo, found at run time: the shared object beside the addon that is linked with it, where it was built.
#pragma once

#include <memory>
#include <string>

#include "core/status.h"
#include "gloo/gloo_abi.h"

namespace muster {

class GlooLibrary {
 public:
  // Code::Unsupported when it was not built, does not open, or is of another build.
  static Result<std::shared_ptr<const GlooLibrary>> load(const std::string& path);

  const gloo_abi::Functions& call() const { return *functions_; }
  std::string version() const { return functions_->library; }

 private:
  explicit GlooLibrary(const gloo_abi::Functions* functions) : functions_(functions) {}

  const gloo_abi::Functions* functions_;
};

// One rank's place among Gloo's connections. It is closed when nobody holds it any more; then nobody is in a call.
class GlooPlace {
 public:
  // Listens at `host`, a numeric address of this machine.
  static Result<std::shared_ptr<GlooPlace>> open(const std::shared_ptr<const GlooLibrary>& library, uint32_t rank, uint32_t worldSize,
                                                 const std::string& host);
  ~GlooPlace() { call().close(handle_); }
  GlooPlace(const GlooPlace&) = delete;
  GlooPlace& operator=(const GlooPlace&) = delete;

  const gloo_abi::Functions& call() const { return library_->call(); }
  void* handle() const { return handle_; }
  void abort(const std::string& reason) const { call().abort(handle_, reason.c_str()); }

 private:
  GlooPlace(std::shared_ptr<const GlooLibrary> library, void* handle) : library_(std::move(library)), handle_(handle) {}

  const std::shared_ptr<const GlooLibrary> library_;
  void* const handle_;
};

// "gloo: …" without the place in Gloo's sources.
Status glooFailure(const gloo_abi::Failure& failure);

}  // namespace muster
