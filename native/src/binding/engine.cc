#include "binding/engine.h"

#include <system_error>

#include "binding/values.h"

namespace muster::binding {

struct Engine::Operation {
  Napi::Promise::Deferred promise;
  Work work;
  Settle settle{};
  std::thread thread{};
};

void Engine::install(Napi::Env env) {
  auto* engine = new Engine(env);
  env.SetInstanceData<Engine>(engine);
  // Hooks run in reverse order. The thread-safe function registered its own when it was made, so this one comes first:
  // all threads end before the function that they would call goes away.
  env.AddCleanupHook([](Engine* each) { each->shutDown(); }, engine);
}

Engine::Engine(Napi::Env env) {
  const auto nothing = Napi::Function::New(env, [](const Napi::CallbackInfo&) {});
  toJs_ = Napi::ThreadSafeFunction::New(env, nothing, "muster", 0, 1);
  toJs_.Unref(env);
}

Napi::Promise Engine::start(Napi::Env env, Work work) {
  const uint64_t id = next_++;
  const auto& slot = operations_[id] =
      std::make_unique<Operation>(Operation{Napi::Promise::Deferred::New(env), std::move(work)});
  Operation* operation = slot.get();
  if (operations_.size() == 1) toJs_.Ref(env);  // an operation in progress keeps the event loop alive
  const Napi::Promise promise = operation->promise.Promise();
  try {
    operation->thread = std::thread([this, id, operation] { runOnThread(id, *operation); });
  } catch (const std::system_error& error) {
    operation->settle = failure({Code::Io, std::string("no thread: ") + error.what(), {}});
    finish(env, id);
  }
  return promise;
}

void Engine::runOnThread(uint64_t id, Operation& operation) {
  try {
    operation.settle = operation.work.run();
  } catch (const std::exception& error) {
    operation.settle = failure({Code::Io, error.what(), {}});
  }
  // Refused only when the environment is going; then nobody waits for the promise.
  [[maybe_unused]] const napi_status queued =
      toJs_.BlockingCall([this, id](Napi::Env env, Napi::Function) { finish(env, id); });
}

void Engine::finish(Napi::Env env, uint64_t id) {
  const auto at = operations_.find(id);
  if (at == operations_.end()) return;
  const std::unique_ptr<Operation> operation = std::move(at->second);
  operations_.erase(at);
  if (operation->thread.joinable()) operation->thread.join();
  if (operations_.empty()) toJs_.Unref(env);
  operation->promise.Resolve(operation->settle(env));
}

void Engine::shutDown() {
  for (const auto& [id, operation] : operations_) operation->work.abort->request();
  for (const auto& [id, operation] : operations_)
    if (operation->thread.joinable()) operation->thread.join();
  operations_.clear();
}

}  // namespace muster::binding
