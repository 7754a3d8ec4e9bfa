// Pulling parts of a section for JavaScript.
#pragma once

#include "binding/values.h"

namespace muster::binding {

// {key, job, member, holders, lineage, version, section, slices, into, timeoutMs, cancellation}; a slice is six numbers.
Napi::Value pullSlices(const Napi::CallbackInfo& info);

}  // namespace muster::binding
