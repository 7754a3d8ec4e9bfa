// Somebody in the middle of a connection: passes frames on, and may alter, drop or repeat some, with checksums that fit.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <thread>

#include "core/connection.h"
#include "core/socket.h"
#include "support.h"

namespace muster::test {

struct CaughtFrame {
  FrameType type;
  bool towardsServer;
  uint64_t offset;
  Bytes payload;
};

enum class Deed { Pass, Alter, Drop, Repeat };

class Middle {
 public:
  // Asked about each frame; may change its offset and payload when it says Alter.
  using Plot = std::function<Deed(CaughtFrame&)>;

  Middle(const std::string& to, Plot plot)
      : to_(parseAddress(to).value()), plot_(std::move(plot)), listener_(std::move(listenTcp("127.0.0.1").value())), thread_([this] { run(); }) {}
  ~Middle() {
    stopping_.request();
    thread_.join();
    for (std::thread& each : pumps_) each.join();
  }
  std::string address() const { return listener_.address.text(); }
  int deeds() const { return deeds_; }

 private:
  struct Way {
    UniqueFd near, far;
  };

  void run() {
    while (awaitReady(listener_.fd.get(), POLLIN, patience_).ok()) {
      Result<UniqueFd> near = acceptFrom(listener_.fd.get(), Address::Kind::Tcp);
      if (!near.ok()) continue;
      Result<UniqueFd> far = connectTo(to_, patience_);
      if (!far.ok()) continue;
      const auto way = std::make_shared<Way>(Way{std::move(near.value()), std::move(far.value())});
      pumps_.emplace_back([this, way] { pump(way->near.get(), way->far.get(), true); });
      pumps_.emplace_back([this, way] { pump(way->far.get(), way->near.get(), false); });
    }
  }

  void pump(int from, int to, bool towardsServer) {
    bool sealed = false;
    for (;;) {
      EncodedHeader header;
      Bytes tag;
      if (!read(from, header)) break;
      const Result<FrameHeader> parsed = parseHeader(header);
      if (!parsed.ok()) break;
      if (sealed) tag.resize(kTagBytes);
      CaughtFrame frame{parsed.value().type, towardsServer, parsed.value().offset, Bytes(parsed.value().length)};
      if (!read(from, tag) || !read(from, frame.payload)) break;
      if (frame.type == (towardsServer ? FrameType::Proof : FrameType::Challenge)) sealed = true;
      const Deed deed = plot_(frame);
      if (deed != Deed::Pass) deeds_++;
      if (deed == Deed::Drop) continue;
      if (deed == Deed::Alter) header = encodeHeader(frame.type, frame.payload, frame.offset);
      const Bytes whole = ByteWriter().raw(header).raw(tag).raw(frame.payload).bytes();
      if (!write(to, whole) || (deed == Deed::Repeat && !write(to, whole))) break;
    }
    ::shutdown(to, SHUT_RDWR);
    ::shutdown(from, SHUT_RDWR);
  }

  bool read(int from, std::span<uint8_t> into) {
    while (!into.empty()) {
      const ssize_t got = ::recv(from, into.data(), into.size(), MSG_DONTWAIT);
      if (got > 0) into = into.subspan(static_cast<size_t>(got));
      else if (got == 0 || errno != EAGAIN || !awaitReady(from, POLLIN, patience_).ok()) return false;
    }
    return true;
  }
  bool write(int to, ByteView bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
      else if (errno != EAGAIN || !awaitReady(to, POLLOUT, patience_).ok()) return false;
    }
    return true;
  }

  const Address to_;
  const Plot plot_;
  Abort stopping_;
  const Patience patience_{Deadline::in(Milliseconds(60'000)), &stopping_};
  TcpListener listener_;
  std::atomic<int> deeds_{0};
  std::list<std::thread> pumps_;  // of the accepting thread, until that has ended
  std::thread thread_;
};

}  // namespace muster::test
