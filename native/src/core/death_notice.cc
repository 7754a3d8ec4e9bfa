#include "core/death_notice.h"

#include <cerrno>

#include "core/limits.h"

namespace muster {

Status initLifeMutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  int error = ::pthread_mutexattr_init(&attributes);
  if (error != 0) return ioError("pthread_mutexattr_init", error);
  if (error == 0) error = ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (error == 0) error = ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (error == 0) error = ::pthread_mutex_init(&mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  return error == 0 ? Status{} : ioError("no robust process-shared mutex", error);
}

bool holderDied(pthread_mutex_t& mutex) {
  const int taken = ::pthread_mutex_trylock(&mutex);
  // Unlocked without being made consistent, a dead holder's mutex tells everybody else ENOTRECOVERABLE.
  if (taken == 0 || taken == EOWNERDEAD) ::pthread_mutex_unlock(&mutex);
  return taken == EOWNERDEAD || taken == ENOTRECOVERABLE;
}

Status LifeLine::hold() {
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(guard_);
  changed_.wait(lock, [this] { return phase_ != Phase::Starting; });
  if (phase_ == Phase::Held) return {};
  return {Code::Disagreement, "another process holds this rank", {}};
}

void LifeLine::run() {
  const Deadline until = Deadline::in(kTakeLife);
  int taken = EBUSY;
  while ((taken = ::pthread_mutex_trylock(&mutex_)) == EBUSY && !until.passed())
    std::this_thread::sleep_for(kTakeAgain);
  // A process that died while looking left it so; nobody has held it for life before.
  if (taken == EOWNERDEAD) taken = ::pthread_mutex_consistent(&mutex_);
  std::unique_lock lock(guard_);
  phase_ = taken == 0 ? Phase::Held : Phase::Failed;
  changed_.notify_all();
  if (taken != 0) return;
  changed_.wait(lock, [this] { return phase_ == Phase::Releasing; });
  ::pthread_mutex_unlock(&mutex_);
}

void LifeLine::release() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(guard_);
    phase_ = Phase::Releasing;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace muster
