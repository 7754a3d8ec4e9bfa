// A thread that alone makes all calls of something that allows only one, and that may never come back from one of them. Callers wait
// within their patience; a little later they give the thread up, and it keeps what it needs until it comes back.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "core/patience.h"

namespace muster {

class OwnerThread {
 public:
  // What is done on the thread. It must own all that it touches, and end soon after its patience.
  using Body = std::function<Status(const Patience&)>;

  static Result<std::unique_ptr<OwnerThread>> start();
  ~OwnerThread() { end({}); }
  OwnerThread(const OwnerThread&) = delete;
  OwnerThread& operator=(const OwnerThread&) = delete;

  // Runs `body` after what was asked for before. The answer of `body`; or, when it has not come back kOwnerGrace after the patience ended,
  // that, and the thread is given up: Code::Closed from then on.
  Status run(Body body, const Patience& patience);

  // Raises the abort flag of the body that runs now and of all that wait.
  void cancel();

  // Cancels everything, runs `last` when there is one, and lets the thread end. Does not wait. Harmless twice.
  void end(Body last);


 private:
  struct Task {
    Task(Body what, Deadline until) : body(std::move(what)), deadline(until) {}
    Body body;
    const Deadline deadline;
    Abort cancelled{};
    std::optional<Status> result{};
  };
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::shared_ptr<Task>> tasks;  // the first one runs
    bool ending = false;
    bool givenUp = false;
  };

  OwnerThread() : state_(std::make_shared<State>()) {}
  static void loop(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace muster
