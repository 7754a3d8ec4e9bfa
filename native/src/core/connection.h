// One data-plane connection: whole frames in and out, within a patience, with file descriptors beside them on Unix sockets.
#pragma once

#include <functional>

#include "core/frame.h"
#include "core/patience.h"
#include "core/usage.h"

namespace muster {

struct OutgoingFrame {
  FrameType type;
  ByteView payload{};
  uint64_t offset = 0;
  int fd = -1;  // passed along on a Unix socket when ≥ 0; stays the sender's
};

class Connection {
 public:
  explicit Connection(UniqueFd socket) : socket_(std::move(socket)), count_(socket_ ? 1 : 0) {}

  Status send(const OutgoingFrame& frame, const Patience& patience);

  // Receives a header; then receive exactly `length` payload bytes with receivePayload.
  Result<FrameHeader> receiveHeader(const Patience& patience);
  Status receivePayload(const FrameHeader& header, std::span<uint8_t> into, const Patience& patience);

  // The payload of a frame whose header came, for types of at most kNewsBytesMax; any other is Code::Corrupt and takes no memory.
  Result<Bytes> receiveSmall(const FrameHeader& header, const Patience& patience);

  // Receives one control frame of this type, passing over Alive frames. A Refused frame becomes its status. Memory is taken for no
  // other type, and for at most `budget` bytes. `onAlive` hears the offset of each Alive frame, and ends the wait unless it says ok.
  using OnAlive = std::function<Status(uint64_t offset)>;
  Result<Bytes> receive(FrameType expected, const Patience& patience, uint32_t budget = kGrantBytesMax, const OnAlive& onAlive = {});

  // Tells the other side why it gets nothing. Best effort: it may be gone.
  void refuse(const Status& why, const Patience& patience);

  // The socket, to look at: it stays the connection's.
  int fd() const { return socket_.get(); }

  // The file descriptor that came with the last frame, if any.
  UniqueFd takeFd() { return std::move(passed_); }
  // Ends the exchange of frames; the socket stays open for its new owner.
  UniqueFd takeSocket() {
    count_ = {};
    return std::move(socket_);
  }

 private:
  Status receiveBytes(std::span<uint8_t> into, const Patience& patience);

  UniqueFd socket_;
  ConnectionCount count_;
  UniqueFd passed_;
};

// The status a Refused payload stands for.
Status statusOfRefusal(ByteView payload);

}  // namespace muster
