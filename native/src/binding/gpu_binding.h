// GPUs for JavaScript.
#pragma once

#include "binding/values.h"

namespace muster::binding {

Napi::Value describeGpus(const Napi::CallbackInfo& info);

}  // namespace muster::binding
