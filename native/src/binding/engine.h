// The bridge between native threads and one JavaScript environment. Every operation that can block runs on a thread of its
// own, never on libuv's pool, and settles a promise through one thread-safe function. A few threads wait for the next
// operation, because to begin one takes longer than a small operation.
#pragma once

#include <napi.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/patience.h"

namespace muster::binding {

// Makes the JavaScript value of a finished operation; runs on the JavaScript thread.
using Settle = std::function<Napi::Value(Napi::Env)>;

class Engine {
 public:
  // One per environment (main thread or worker); destroyed with it.
  static void install(Napi::Env env);
  static Engine& of(Napi::Env env) { return *env.GetInstanceData<Engine>(); }

  explicit Engine(Napi::Env env);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  struct Work {
    std::function<Settle()> run;             // on the thread of its own; must end soon after `abort` is raised
    std::shared_ptr<Abort> abort;
    std::vector<Napi::Reference<Napi::Value>> keep{};  // JavaScript memory that `run` touches
  };
  // The promise always resolves, with a value that says whether the operation succeeded.
  Napi::Promise start(Napi::Env env, Work work);
  // Runs what nobody waits for, such as letting go of memory. The process stays until it is done; its captures go on its thread.
  void beside(Napi::Env env, std::function<void()> body);

  // Calls `listener` soon after something happened in the data plane of this process, once for all that happened until then; null: nobody.
  void hear(const Napi::Value& listener);

  // Aborts everything and waits for it. After this no native thread touches the environment.
  void shutDown();

 private:
  struct Operation;
  // A thread, and what it is to do next.
  struct Worker {
    std::thread thread{};
    Operation* next = nullptr;  // guarded by mutex_
    std::condition_variable given{};
  };
  using Workers = std::list<Worker>;

  void give(Operation& operation);
  void work(Workers::iterator self);
  void run(Operation& operation);
  bool rest(Workers::iterator self);
  Operation* nextOf(Worker& self);
  void finish(Napi::Env env, uint64_t id);

  Napi::ThreadSafeFunction toJs_;
  std::unordered_map<uint64_t, std::unique_ptr<Operation>> operations_;  // touched on the JavaScript thread alone
  uint64_t nextId_ = 0;                                                  // likewise
  Workers workers_;                                                      // likewise
  Napi::FunctionReference listener_;  // likewise
  std::atomic<bool> told_{false};     // it will be called
  std::mutex mutex_;
  std::vector<Worker*> resting_;  // guarded by mutex_
  bool closing_ = false;          // guarded by mutex_
};

}  // namespace muster::binding
