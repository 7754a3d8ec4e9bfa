// GPUs for JavaScript.
#pragma once

#include "binding/values.h"

namespace muster::binding {

Napi::Value describeGpus(const Napi::CallbackInfo& info);

// Opens one GPU: {index, name, memory, allocate, newId, openCommunicator}. See gpu_device_binding.cc.
Napi::Value openGpu(const Napi::CallbackInfo& info);

}  // namespace muster::binding
