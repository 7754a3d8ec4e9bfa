#include "binding/limit_binding.h"

#include "binding/values.h"
#include "cpu/fan_out.h"

namespace muster::binding {

Napi::Value measureFanOut(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{[bytes = numberOf(from, "bytes"), targets = numberOf(from, "targets"),
                     threads = numberOf(from, "threads"), samples = numberOf(from, "samples")]() -> Settle {
                      const Result<std::vector<FanOutSample>> measured =
                          muster::measureFanOut(bytes, targets, threads, samples);
                      if (!measured.ok()) return failure(measured.status());
                      return success([all = measured.value()](Napi::Env env) -> Napi::Value {
                        Napi::Array out = Napi::Array::New(env);
                        for (const FanOutSample& sample : all) {
                          Napi::Object each = Napi::Object::New(env);
                          each.Set("seconds", sample.seconds);
                          each.Set("cpuSeconds", sample.cpuSeconds);
                          out.Set(out.Length(), each);
                        }
                        return out;
                      });
                    },
                    std::make_shared<Abort>()};
  return Engine::of(info.Env()).start(info.Env(), std::move(work));
}

}  // namespace muster::binding
