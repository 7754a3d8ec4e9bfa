#include "binding/engine.h"

#include <system_error>
#include <utility>

#include "binding/values.h"
#include "core/activity.h"

namespace muster::binding {

namespace {

constexpr size_t kRestingMax = 4;  // threads that wait for the next operation

}  // namespace

struct Engine::Operation {
  uint64_t id;
  Napi::Promise::Deferred promise;
  Work work;
  Settle settle{};
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
  const uint64_t id = nextId_++;
  const auto& slot = operations_[id] =
      std::make_unique<Operation>(Operation{id, Napi::Promise::Deferred::New(env), std::move(work)});
  Operation* operation = slot.get();
  if (operations_.size() == 1) toJs_.Ref(env);  // an operation in progress keeps the event loop alive
  const Napi::Promise promise = operation->promise.Promise();
  try {
    give(*operation);
  } catch (const std::system_error& error) {
    operation->settle = failure({Code::Io, std::string("no thread: ") + error.what(), {}});
    finish(env, id);
  }
  return promise;
}

void Engine::beside(Napi::Env env, std::function<void()> body) {
  auto run = [body = std::move(body)]() mutable -> Settle {
    std::exchange(body, {})();
    return success([](Napi::Env each) { return each.Undefined(); });
  };
  start(env, {std::move(run), std::make_shared<Abort>()});  // no copy: the last one may go here
}

// To a thread that rests, or else to a new one.
void Engine::give(Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (!resting_.empty()) {
    Worker& worker = *resting_.back();
    resting_.pop_back();
    worker.next = &operation;
    worker.given.notify_one();
    return;
  }
  const auto worker = workers_.emplace(workers_.end());
  worker->next = &operation;
  try {
    worker->thread = std::thread([this, worker] { work(worker); });
  } catch (const std::system_error&) {
    workers_.erase(worker);
    throw;
  }
}

void Engine::work(Workers::iterator self) {
  while (Operation* operation = nextOf(*self)) {
    run(*operation);
    const bool stays = rest(self);
    // Refused only when the environment is going; then nobody waits for the promise.
    [[maybe_unused]] const napi_status queued =
        toJs_.BlockingCall([this, id = operation->id, self, stays](Napi::Env env, Napi::Function) {
          if (!operations_.contains(id)) return;  // shut down: all threads were waited for
          if (!stays) {
            self->thread.join();
            workers_.erase(self);
          }
          finish(env, id);
        });
    if (!stays) return;
  }
}

void Engine::run(Operation& operation) {
  try {
    operation.settle = operation.work.run();
  } catch (const std::exception& error) {
    operation.settle = failure({Code::Io, error.what(), {}});
  }
}

// Whether this thread may wait for another operation. It may be given one at once, also before this one is told to JavaScript.
bool Engine::rest(Workers::iterator self) {
  const std::lock_guard lock(mutex_);
  if (closing_ || resting_.size() >= kRestingMax) return false;
  resting_.push_back(&*self);
  return true;
}

// Null when there is nothing more to do.
Engine::Operation* Engine::nextOf(Worker& self) {
  std::unique_lock lock(mutex_);
  self.given.wait(lock, [&] { return self.next != nullptr || closing_; });
  return std::exchange(self.next, nullptr);
}

void Engine::finish(Napi::Env env, uint64_t id) {
  const auto at = operations_.find(id);
  const std::unique_ptr<Operation> operation = std::move(at->second);
  operations_.erase(at);
  if (operations_.empty()) toJs_.Unref(env);
  operation->promise.Resolve(operation->settle(env));
}

void Engine::hear(const Napi::Value& listener) {
  activity().deafen(this);
  listener_.Reset();
  if (!listener.IsFunction()) return;
  listener_ = Napi::Persistent(listener.As<Napi::Function>());
  activity().hear(this, [this] {
    if (told_.exchange(true)) return;
    // Refused only when the environment is going; then nobody listens.
    [[maybe_unused]] const napi_status queued = toJs_.NonBlockingCall([this](Napi::Env, Napi::Function) {
      told_ = false;
      if (!listener_.IsEmpty()) listener_.Call({});
    });
  });
}

void Engine::shutDown() {
  activity().deafen(this);
  listener_.Reset();
  for (const auto& [id, operation] : operations_) operation->work.abort->request();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (Worker& worker : workers_) worker.given.notify_one();
  }
  for (Worker& worker : workers_) worker.thread.join();
  workers_.clear();
  resting_.clear();
  operations_.clear();
}

}  // namespace muster::binding
