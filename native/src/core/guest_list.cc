#include "core/guest_list.h"

#include <algorithm>
#include <exception>
#include <map>

#include "core/activity.h"

namespace muster {

bool Guest::proved() {
  Stage expected = Stage::HalfOpen;
  return stage_.compare_exchange_strong(expected, Stage::Proved);
}

void GuestList::take(UniqueFd socket, Address::Kind kind) {
  try {
    std::string from = kind == Address::Kind::Tcp ? peerOf(socket.get()) : "";
    makeRoom(kind, from);
    Guest& guest = guests_.emplace_back(kind, std::move(from));
    guest.thread_ = std::thread([this, &guest, connection = Connection(std::move(socket))]() mutable {
      try {
        serve_(guest, std::move(connection));
      } catch (const std::exception&) {
        // Out of memory even for the refusal: the caller sees the connection close.
      }
      guest.done_.store(true, std::memory_order_release);
    });
  } catch (const std::exception&) {
    // No thread, descriptor or memory to be had: the caller sees the connection close and tries another holder.
    guests_.remove_if([](const Guest& guest) { return !guest.thread_.joinable(); });
  }
}

void GuestList::makeRoom(Address::Kind kind, const std::string& from) {
  const auto halfOpen = [kind](const Guest& guest) { return guest.kind_ == kind && guest.stage_ == Guest::Stage::HalfOpen && !guest.done_; };
  std::map<std::string, size_t> count;
  size_t all = 0;
  for (const Guest& guest : guests_) {
    if (!halfOpen(guest)) continue;
    count[guest.from_]++;
    all++;
  }
  const bool crowd = count[from] >= kHalfOpenOfOneMax;
  if (!crowd && all < kHalfOpenMax) return;
  const auto most = std::ranges::max_element(count, {}, [](const auto& each) { return each.second; });
  const std::string& whose = crowd ? from : most->first;
  const auto oldest = std::ranges::find_if(guests_, [&](const Guest& guest) { return halfOpen(guest) && guest.from_ == whose; });
  if (oldest == guests_.end()) return;  // it proved the key, or went, just now
  Guest::Stage expected = Guest::Stage::HalfOpen;
  if (!oldest->stage_.compare_exchange_strong(expected, Guest::Stage::Evicted)) return;
  activity().note(Event::Evicted, oldest->from_.empty() ? "local" : oldest->from_, "it had proved nothing yet, and others wait");
  oldest->leaving_.request();
  oldest->thread_.join();
  guests_.erase(oldest);
}

void GuestList::reap() {
  std::erase_if(guests_, [](Guest& guest) {
    if (!guest.done_.load(std::memory_order_acquire)) return false;
    guest.thread_.join();
    return true;
  });
}

void GuestList::end() {
  for (Guest& guest : guests_) guest.leaving_.request();
  for (Guest& guest : guests_) guest.thread_.join();
  guests_.clear();
}

}  // namespace muster
