// A long way to a holder: a proxy that delays what it passes on, and lets no more of it be under way than TCP would at its beginning.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <thread>

#include "core/connection.h"
#include "core/socket.h"
#include "support.h"

namespace muster::test {

struct LinkOptions {
  Milliseconds roundTrip{0};
  size_t stallAt = SIZE_MAX;    // after so many bytes towards the reader …
  Milliseconds stall{0};        // … nothing comes for so long, once for each connection
  Milliseconds pausing{0};      // nothing comes for so long after every 128 KiB
};

class Link {
 public:
  Link(const std::string& to, const LinkOptions& options)
      : to_(parseAddress(to).value()), options_(options), listener_(std::move(listenTcp("127.0.0.1").value())), thread_([this] { run(); }) {}
  ~Link() {
    stopping_.request();
    thread_.join();
    for (std::thread& each : pumps_) each.join();
  }
  std::string address() const { return listener_.address.text(); }
  int calls() const { return calls_; }

 private:
  struct Way {
    UniqueFd near, far;
  };

  void run() {
    const Patience patience{Deadline::in(Milliseconds(60'000)), &stopping_};
    while (awaitReady(listener_.fd.get(), POLLIN, patience).ok()) {
      Result<UniqueFd> near = acceptFrom(listener_.fd.get(), Address::Kind::Tcp);
      if (!near.ok()) continue;
      Result<UniqueFd> far = connectTo(to_, patience);
      if (!far.ok()) continue;
      calls_++;
      const auto way = std::make_shared<Way>(Way{std::move(near.value()), std::move(far.value())});
      pumps_.emplace_back([this, way] { pump(way->near.get(), way->far.get(), false); });
      pumps_.emplace_back([this, way] { pump(way->far.get(), way->near.get(), true); });
    }
  }

  // Passes on what comes, half a round trip later.
  void pump(int from, int to, bool towardsReader) {
    struct Parcel {
      Clock::time_point at;
      Bytes bytes;
    };
    std::deque<Parcel> underWay;
    size_t window = size_t{28} << 10, inWindow = 0, passed = 0;
    Clock::time_point opened = Clock::now(), held = opened;
    bool stalled = false, ended = false;
    while (!stopping_.requested() && !(ended && underWay.empty())) {
      const auto now = Clock::now();
      const bool room = !ended && underWay.size() < 64;
      const bool due = !underWay.empty() && std::max(underWay.front().at, held) <= now;
      if (due) {
        Parcel& parcel = underWay.front();
        size_t size = parcel.bytes.size();
        if (towardsReader && options_.roundTrip > Milliseconds(0)) {
          if (inWindow == window) {  // what follows waits for the acknowledgement
            held = std::max(now, opened + options_.roundTrip);
            window *= 2, inWindow = 0, opened = held;
            continue;
          }
          if (inWindow == 0) opened = now;
          size = std::min(size, window - inWindow);
          inWindow += size;
        }
        if (!write(to, ByteView(parcel.bytes).first(size))) break;
        parcel.bytes.erase(parcel.bytes.begin(), parcel.bytes.begin() + static_cast<std::ptrdiff_t>(size));
        if (parcel.bytes.empty()) underWay.pop_front();
        const bool pauses = (passed >> 17) != (passed + size) >> 17;
        passed += size;
        if (towardsReader && !stalled && passed >= options_.stallAt) {
          stalled = true;
          held = Clock::now() + options_.stall;
        }
        if (towardsReader && pauses) held = std::max(held, Clock::now() + options_.pausing);
        continue;
      }
      pollfd watched[2] = {{room ? from : -1, POLLIN, 0}, {stopping_.fd(), POLLIN, 0}};
      const Milliseconds wait = underWay.empty() ? Milliseconds(1'000) : std::chrono::ceil<Milliseconds>(std::max(underWay.front().at, held) - now);
      if (::poll(watched, 2, static_cast<int>(std::max<int64_t>(wait.count(), 0))) <= 0 || watched[0].revents == 0) continue;
      Bytes bytes(16 << 10);
      const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) ended = true;
      else bytes.resize(static_cast<size_t>(got)), underWay.push_back({Clock::now() + options_.roundTrip / 2, std::move(bytes)});
    }
    ::shutdown(to, SHUT_WR);
    if (!ended) ::shutdown(from, SHUT_RD);
  }

  bool write(int to, ByteView bytes) {
    const Patience patience{Deadline::in(Milliseconds(10'000)), &stopping_};
    while (!bytes.empty()) {
      const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
      else if (errno != EAGAIN || !awaitReady(to, POLLOUT, patience).ok()) return false;
    }
    return true;
  }

  const Address to_;
  const LinkOptions options_;
  Abort stopping_;
  TcpListener listener_;
  std::atomic<int> calls_{0};
  std::list<std::thread> pumps_;  // of the accepting thread, until that has ended
  std::thread thread_;
};

}  // namespace muster::test
