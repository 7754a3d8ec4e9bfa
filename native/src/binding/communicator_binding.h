// NCCL communicators for JavaScript.
#pragma once

#include "binding/values.h"
#include "gpu/communicator.h"
#include "gpu/gpu_report.h"

namespace muster::binding {

// A fresh id as a Buffer. `why` is the reason when `nccl` is null.
Napi::Value newCommunicatorId(const Napi::CallbackInfo& info, const std::shared_ptr<const NcclLibrary>& nccl, const std::string& why);

// {ranks, rank, run, shrink, abort, close}
Napi::Value openCommunicator(const Napi::CallbackInfo& info, const std::shared_ptr<GpuDevice>& gpu,
                             const std::shared_ptr<const NcclLibrary>& nccl, const std::string& why);

}  // namespace muster::binding
