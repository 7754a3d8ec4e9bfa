// A version that was mapped, as other calls of JavaScript are given it.
#pragma once

#include <napi.h>

#include <memory>

#include "core/pull.h"

namespace muster::binding {

// Empty once it was released.
struct MappedState {
  Pulled pulled;
};
using Mapped = std::shared_ptr<MappedState>;

// What `MappedVersion.mapped` of JavaScript stands for.
inline const Mapped& mappedBehind(const Napi::Value& handle) { return *handle.As<Napi::External<Mapped>>().Data(); }

}  // namespace muster::binding
