// Memory that this process shares with a program that it started.
#pragma once

#include <napi.h>

namespace muster::binding {

// {name, bytes} → {fd, write, read, hide, close}, or why there is none.
Napi::Value openRegion(const Napi::CallbackInfo& info);

}  // namespace muster::binding
