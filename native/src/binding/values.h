// Translation between JavaScript values and the options and results of the core. packages/collectives/src/native.ts is
// the other side of this file and has checked types and ranges already.
#pragma once

#include <napi.h>

#include <memory>

#include "binding/engine.h"
#include "core/bytes.h"
#include "core/version.h"

namespace muster::binding {

// {ok: false, code, message, ranks}
Settle failure(Status status);
// {ok: true, value}
Settle success(std::function<Napi::Value(Napi::Env)> makeValue);

std::string textOf(const Napi::Object& from, const char* key);
uint64_t numberOf(const Napi::Object& from, const char* key);
Bytes bytesOf(const Napi::Object& from, const char* key);
std::vector<std::string> textsOf(const Napi::Object& from, const char* key);
std::vector<uint32_t> numbersOf(const Napi::Object& from, const char* key);
VersionId versionOf(const Napi::Object& from);

// The memory of a Uint8Array, without copying.
std::span<uint8_t> memoryOf(const Napi::Value& array);
// The memory of each Uint8Array of a list, which must keep them as long as it is used.
std::vector<std::span<uint8_t>> memoriesOf(const Napi::Array& list);
// Names that JavaScript joined by NUL, which none of them has.
std::vector<std::string> namesOf(const Napi::Object& from, const char* key, size_t count);
Napi::Reference<Napi::Value> keepAlive(const Napi::Value& value);

uint64_t digestFromHex(const std::string& hex);

// `new Cancellation()`, `cancel()`, `dispose()`: what an AbortSignal becomes on this side. It holds a file descriptor, which
// dispose() gives back without waiting for the garbage collector.
class Cancellation : public Napi::ObjectWrap<Cancellation> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Cancellation(const Napi::CallbackInfo& info) : ObjectWrap(info), abort_(std::make_shared<Abort>()) {}
  static std::shared_ptr<Abort> of(const Napi::Object& from, const char* key);

 private:
  void cancel(const Napi::CallbackInfo&) {
    if (abort_) abort_->request();
  }
  void dispose(const Napi::CallbackInfo&) { abort_.reset(); }
  std::shared_ptr<Abort> abort_;
};

}  // namespace muster::binding
