// A holder that is led by a test.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <thread>

#include "core/handshake.h"
#include "core/socket.h"
#include "core/version.h"
#include "support.h"

namespace muster::test {

// A holder that speaks the protocol by hand, so that a test decides what it says and when.
class Puppet {
 public:
  explicit Puppet(std::function<void(Connection&, const PullRequest&)> serve)
      : listener_(std::move(listenTcp("127.0.0.1").value())), serve_(std::move(serve)), thread_([this] { run(); }) {}
  ~Puppet() {
    stopping_.request();
    thread_.join();
  }
  std::string address() const { return listener_.address.text(); }
  int served() const { return served_; }
  const Abort& stopping() const { return stopping_; }

 private:
  void run() {
    const Patience patience{Deadline::in(Milliseconds(20'000)), &stopping_};
    while (awaitReady(listener_.fd.get(), POLLIN, patience).ok()) {
      Result<UniqueFd> socket = acceptFrom(listener_.fd.get(), Address::Kind::Tcp);
      if (!socket.ok()) continue;
      Connection connection(std::move(socket.value()));
      if (!welcome(connection, keyOf("key"), patience).ok()) continue;
      const Result<Bytes> request = connection.receive(FrameType::Request, patience);
      if (!request.ok()) continue;
      served_++;
      serve_(connection, decodeRequest(request.value()).value());
    }
  }

  Abort stopping_;
  TcpListener listener_;
  std::function<void(Connection&, const PullRequest&)> serve_;
  std::atomic<int> served_{0};
  std::thread thread_;
};

}  // namespace muster::test
