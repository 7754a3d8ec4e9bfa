#include "core/patience.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <new>

namespace muster {

namespace {

Status aborted() { return {Code::Aborted, "aborted by the caller", {}}; }
Status expired() { return {Code::Timeout, "the deadline passed", {}}; }

}  // namespace

Abort::Abort() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw std::bad_alloc();
}

void Abort::request() {
  requested_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  // Only a full counter can refuse the write, and a full counter is readable already.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

Status Patience::check() const {
  if (abort->requested()) return aborted();
  if (deadline.passed()) return expired();
  return {};
}

Status awaitReady(int fd, short events, const Patience& patience) {
  const bool quiet = patience.silence != Milliseconds::max();
  const Deadline until = quiet ? patience.deadline.earlier(Deadline::in(patience.silence)) : patience.deadline;
  for (;;) {
    if (patience.abort->requested()) return aborted();
    pollfd watched[2] = {{fd, events, 0}, {patience.abort->fd(), POLLIN, 0}};
    const int ready = ::poll(watched, 2, Clock::slice(until.remainingMs()));
    if (ready < 0 && errno != EINTR) return ioError("poll", errno);
    if (ready > 0 && watched[0].revents != 0) return {};
    if (ready != 0 || !until.passed()) continue;
    if (patience.deadline.passed()) return expired();
    const auto ms = std::to_string(patience.silence.count());
    return {Code::Unreachable, "silent for " + ms + " ms", {}};
  }
}

Status pause(Milliseconds delay, const Patience& patience) {
  const Deadline until = Deadline::in(delay).earlier(patience.deadline);
  while (!until.passed()) {
    if (patience.abort->requested()) return aborted();
    pollfd watched{patience.abort->fd(), POLLIN, 0};
    if (::poll(&watched, 1, Clock::slice(until.remainingMs())) < 0 && errno != EINTR) return ioError("poll", errno);
  }
  return patience.check();
}

}  // namespace muster
