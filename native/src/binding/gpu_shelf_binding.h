// Versions in device memory for JavaScript.
#pragma once

#include "binding/values.h"
#include "gpu/gpu_device.h"

namespace muster::binding {

// Opens a shelf: {address, put, close}. See gpu/device_shelf.h.
Napi::Value openGpuShelf(const Napi::CallbackInfo& info);

// Maps a version of another process: device memory.
Napi::Value takeGpuVersion(const Napi::CallbackInfo& info, const std::shared_ptr<GpuDevice>& gpu);

}  // namespace muster::binding
