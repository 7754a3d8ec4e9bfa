// Measures of the host itself.
#pragma once

#include <napi.h>

namespace muster::binding {

Napi::Value measureFanOut(const Napi::CallbackInfo& info);
Napi::Value measureCopies(const Napi::CallbackInfo& info);
Napi::Value measureAddUp(const Napi::CallbackInfo& info);

}  // namespace muster::binding
