// Work in foreign code that may never come back. It runs on a thread that can be given up: it shares what it needs, owns it together
// with the waiting side, and is left behind when the wait is over.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "core/patience.h"

namespace muster {

// An exception that left the thread would end the process.
template <class T>
Result<T> answerOf(const std::function<Result<T>()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return Status{Code::Io, error.what(), {}};
  }
}

// The answer of `work`, or Code::Timeout or Code::Aborted when the patience ends first. `work` must own all that it touches.
template <class T>
Result<T> awaitStray(std::function<Result<T>()> work, const Patience& patience) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Result<T>> answer;
  };
  const auto shared = std::make_shared<Shared>();
  try {
    std::thread([shared, work = std::move(work)] {
      Result<T> answer = answerOf(work);
      const std::lock_guard lock(shared->mutex);
      shared->answer.emplace(std::move(answer));
      shared->changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    return Status{Code::Io, std::string("no thread: ") + error.what(), {}};
  }
  std::unique_lock lock(shared->mutex);
  while (!shared->answer) {
    if (Status still = patience.check(); !still.ok()) return still;
    shared->changed.wait_for(lock, kStrayLook);
  }
  return std::move(*shared->answer);
}

}  // namespace muster
