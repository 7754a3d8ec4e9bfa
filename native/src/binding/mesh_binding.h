// Gradient meshes for JavaScript.
#pragma once

#include "binding/values.h"

namespace muster::binding {

Napi::Value openMesh(const Napi::CallbackInfo& info);

}  // namespace muster::binding
