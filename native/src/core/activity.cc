#include "core/activity.h"

#include <algorithm>
#include <exception>

#include "core/socket.h"

namespace muster {

std::string_view nameOf(Event event) {
  constexpr std::string_view kNames[kEventKinds] = {"retry", "fail-over", "stall", "refused", "evicted", "host-lost", "delta-lost"};
  return kNames[static_cast<size_t>(event)];
}

void Activity::note(Event event, std::string_view peer, std::string_view text) {
  const auto kind = static_cast<size_t>(event);
  counts_[kind].fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  std::deque<Happened>& known = events_[kind];
  if (known.size() >= kEventsMax) {
    known.pop_front();
    forgotten_++;
  }
  try {
    known.push_back({next_++, event, std::string(peer), std::string(text.substr(0, kEventTextMax))});
    if (hear_) hear_();
  } catch (const std::exception&) {
    forgotten_++;  // out of memory: it is counted
  }
}

Activity::Taken Activity::take() {
  Taken taken;
  const std::lock_guard lock(mutex_);
  for (std::deque<Happened>& known : events_) {
    std::ranges::move(known, std::back_inserter(taken.events));
    known.clear();
  }
  taken.forgotten = std::exchange(forgotten_, 0);
  std::ranges::sort(taken.events, {}, &Happened::number);
  return taken;
}

void Activity::hear(const void* who, std::function<void()> hear) {
  const std::lock_guard lock(mutex_);
  hearer_ = who;
  hear_ = std::move(hear);
}

void Activity::deafen(const void* who) {
  const std::lock_guard lock(mutex_);
  if (hearer_ != who) return;
  hearer_ = nullptr;
  hear_ = nullptr;
}

PeerBytes& Activity::peerOf(int socket) {
  std::string name = muster::peerOf(socket);
  if (name.empty()) name = "local";
  const std::lock_guard lock(peersMutex_);
  const bool room = peers_.contains(name) || peers_.size() < kPeersMax;
  return peers_[room ? name : "others"];
}

std::vector<Activity::PeerCount> Activity::peers() const {
  std::vector<PeerCount> all;
  const std::lock_guard lock(peersMutex_);
  for (const auto& [name, bytes] : peers_)
    all.push_back({name, bytes.sent.load(std::memory_order_relaxed), bytes.received.load(std::memory_order_relaxed)});
  return all;
}

Activity& activity() {
  static auto* all = new Activity;
  return *all;
}

}  // namespace muster
