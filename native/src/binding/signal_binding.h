// The end of a process whose main loop does not answer a signal.
#pragma once

#include <napi.h>

namespace muster::binding {

// (signal): puts a watch in front of the handler that the signal has now; nothing where it has none. When the main loop does not turn within
// five seconds of the signal, the signal ends the process as it would without any handler. On the main thread alone.
Napi::Value guardSignal(const Napi::CallbackInfo& info);

}  // namespace muster::binding
