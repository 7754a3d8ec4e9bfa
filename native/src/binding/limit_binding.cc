#include "binding/limit_binding.h"

#include "binding/values.h"
#include "cpu/fan_out.h"

namespace muster::binding {

namespace {

using Measure = Result<std::vector<FanOutSample>> (*)(size_t bytes, size_t others, size_t threads, size_t samples);

Napi::Value start(const Napi::CallbackInfo& info, Measure measure) {
  const auto from = info[0].As<Napi::Object>();
  Engine::Work work{[measure, bytes = numberOf(from, "bytes"), targets = numberOf(from, "targets"),
                     threads = numberOf(from, "threads"), samples = numberOf(from, "samples")]() -> Settle {
                      const Result<std::vector<FanOutSample>> measured = measure(bytes, targets, threads, samples);
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

}  // namespace

Napi::Value measureFanOut(const Napi::CallbackInfo& info) { return start(info, muster::measureFanOut); }

Napi::Value measureCopies(const Napi::CallbackInfo& info) { return start(info, muster::measureCopies); }

Napi::Value measureAddUp(const Napi::CallbackInfo& info) { return start(info, muster::measureAddUp); }

}  // namespace muster::binding
