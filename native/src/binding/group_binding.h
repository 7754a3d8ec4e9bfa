// Collective groups for JavaScript.
#pragma once

#include "binding/values.h"

namespace muster::binding {

Napi::Value openGroup(const Napi::CallbackInfo& info);

// (path) → {reason, version}
Napi::Value describeGloo(const Napi::CallbackInfo& info);

}  // namespace muster::binding
