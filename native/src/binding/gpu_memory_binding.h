// Device memory for JavaScript.
#pragma once

#include "binding/values.h"
#include "gpu/device_memory.h"

namespace muster::binding {

using DeviceMemoryRef = std::shared_ptr<DeviceMemory>;

// {memory, bytes, write, read, close}. `memory` is the handle for calls.
Napi::Value memoryObject(Napi::Env env, const DeviceMemoryRef& memory, size_t bytes);

// The memory behind a handle.
DeviceMemoryRef memoryBehind(const Napi::Value& handle);

// {timeoutMs}, and the abort of the work.
Patience gpuPatienceOf(const Napi::Object& from, const Engine::Work& work);

// {stream}: the address of a CUstream of the caller, or null.
cuda::Stream streamOf(const Napi::Object& from);

}  // namespace muster::binding
