// SHA-256 for JavaScript.
#pragma once

#include "binding/values.h"

namespace muster::binding {

// () → whether this processor has instructions for it.
Napi::Value hasShaInstructions(const Napi::CallbackInfo& info);
// (pieces) → a promise of the SHA-256 of all pieces, 32 bytes each, one behind the other; computed on one thread of its own.
Napi::Value sha256Each(const Napi::CallbackInfo& info);

}  // namespace muster::binding
