#include "gpu/owner_thread.h"

#include <exception>
#include <system_error>
#include <thread>

namespace muster {

Result<std::unique_ptr<OwnerThread>> OwnerThread::start() {
  std::unique_ptr<OwnerThread> owner(new OwnerThread());
  try {
    std::thread([state = owner->state_] { loop(state); }).detach();
  } catch (const std::system_error& error) {
    return Status{Code::Io, std::string("no thread: ") + error.what(), {}};
  }
  return owner;
}

void OwnerThread::loop(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ending || !state->tasks.empty(); });
    if (state->tasks.empty()) return;
    const std::shared_ptr<Task> task = state->tasks.front();
    lock.unlock();
    Status result;
    try {
      result = task->body({task->deadline, &task->cancelled});
    } catch (const std::exception& error) {
      result = {Code::Io, error.what(), {}};
    }
    task->body = {};  // what it owned goes here, on the thread that made it
    lock.lock();
    task->result = std::move(result);
    state->tasks.pop_front();
    state->changed.notify_all();
  }
}

Status OwnerThread::run(Body body, const Patience& patience) {
  const auto task = std::make_shared<Task>(std::move(body), patience.deadline);
  std::unique_lock lock(state_->mutex);
  if (state_->givenUp) return {Code::Closed, "its thread did not come back from an earlier call", {}};
  if (state_->ending) return {Code::Closed, "it was closed", {}};
  if (state_->tasks.size() >= kTasksMax) return {Code::TooLarge, "more than " + std::to_string(kTasksMax) + " operations wait already", {}};
  state_->tasks.push_back(task);
  state_->changed.notify_all();
  Status ended;
  std::optional<Deadline> giveUp;
  while (!task->result) {
    if (!giveUp) {
      ended = patience.check();
      if (!ended.ok()) {
        giveUp = Deadline::in(kOwnerGrace);
        if (ended.code == Code::Aborted) task->cancelled.request();  // its deadline, the body knows itself
      }
    } else if (giveUp->passed()) {
      state_->givenUp = true;
      return {ended.code, ended.message + "; the call does not come back, its thread is left behind", {}};
    }
    state_->changed.wait_for(lock, kOwnerLook);
  }
  return *task->result;
}

void OwnerThread::cancel() {
  const std::lock_guard lock(state_->mutex);
  for (const auto& task : state_->tasks) task->cancelled.request();
}

void OwnerThread::end(Body last) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& task : state_->tasks) task->cancelled.request();
  if (state_->ending) return;
  state_->ending = true;
  if (last) state_->tasks.push_back(std::make_shared<Task>(std::move(last), Deadline::in(kOwnerGrace)));
  state_->changed.notify_all();
}

}  // namespace muster
