// Weight versions for JavaScript.
#pragma once

#include "binding/values.h"

namespace muster::binding {

Napi::Value openStore(const Napi::CallbackInfo& info);
Napi::Value pullVersion(const Napi::CallbackInfo& info);
Napi::Value mapVersion(const Napi::CallbackInfo& info);

}  // namespace muster::binding
