#include "core/mesh_listener.h"

#include <algorithm>

#include "core/socket.h"

namespace muster {

namespace {

bool gaveUp(const MeshListener::Caller& caller) { return hasHungUp(caller.connection.fd()); }

}  // namespace

void MeshListener::open(uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  waiting_.try_emplace(epoch);
}

void MeshListener::close(uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  waiting_.erase(epoch);
}

Status MeshListener::offer(uint64_t epoch, Hello hello, Connection& connection) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = waiting_.find(epoch);
    if (at == waiting_.end()) return {Code::Unreachable, "no mesh of epoch " + std::to_string(epoch) + " is forming here", {}};
    std::vector<Caller>& callers = at->second;
    std::erase_if(callers, [&](const Caller& each) { return each.hello.member == hello.member || gaveUp(each); });
    if (callers.size() >= kCallersMax) return {Code::Unreachable, "too many callers", {}};
    callers.push_back({std::move(hello), std::move(connection)});
    calls_++;
  }
  came_.notify_all();
  return {};
}

Result<MeshListener::Caller> MeshListener::take(uint64_t epoch, const Patience& patience) {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::vector<Caller>& callers = waiting_[epoch];
    std::erase_if(callers, gaveUp);
    if (!callers.empty()) {
      Caller first = std::move(callers.front());
      callers.erase(callers.begin());
      return first;
    }
    if (Status still = patience.check(); !still.ok()) return still;
    came_.wait_for(lock, kLook);
  }
}

}  // namespace muster
