// Views for JavaScript over memory that a native object owns: external ArrayBuffers that keep their owner alive, and that can
// be detached all at once, so that the memory goes when the object is closed and not when the garbage collector comes by.
#pragma once

#include <napi.h>

#include <memory>
#include <span>
#include <vector>

namespace muster::binding {

template <class Owner>
class Views {
 public:
  Napi::ArrayBuffer make(Napi::Env env, std::span<const uint8_t> memory, const std::shared_ptr<Owner>& owner) {
    const auto release = [](Napi::Env, void*, std::shared_ptr<Owner>* held) { delete held; };
    const auto buffer = Napi::ArrayBuffer::New(env, const_cast<uint8_t*>(memory.data()), memory.size(), release,
                                               new std::shared_ptr<Owner>(owner));
    views_.push_back(Napi::Weak(buffer.template As<Napi::Object>()));
    return buffer;
  }

  void detach() {
    for (Napi::ObjectReference& each : views_) {
      const Napi::Object value = each.Value();
      if (!value.IsEmpty()) value.As<Napi::ArrayBuffer>().Detach();
    }
    views_.clear();
  }

 private:
  std::vector<Napi::ObjectReference> views_;
};

}  // namespace muster::binding
