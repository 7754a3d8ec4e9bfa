// One data-plane connection: whole frames in and out, within a patience, with file descriptors beside them on Unix sockets.
#pragma once

#include <functional>
#include <optional>

#include "core/activity.h"
#include "core/patience.h"
#include "core/session.h"
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
  explicit Connection(UniqueFd socket);

  // From now on frames carry tags, in both directions.
  void secure(const Session& session) { session_ = session; }
  // What both ends speak; once it is secure.
  uint16_t minorVersion() const { return session_ ? session_->minor : 0; }

  // One thread may send while another one receives.
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
  // A frame whose header came with a tag that covers its payload, too.
  struct Untold {
    EncodedHeader header;
    FrameTag tag;
  };
  Status awaitPeer(short events, const Patience& patience);
  Status receiveBytes(std::span<uint8_t> into, const Patience& patience);
  Status checkTag(const Untold& frame, ByteView payload);

  std::optional<Session> session_;
  std::optional<Untold> untold_;  // of the thread that receives
  UniqueFd socket_;
  ConnectionCount count_;
  PeerBytes* peer_;
  UniqueFd passed_;
};

// The status a Refused payload stands for.
Status statusOfRefusal(ByteView payload);

}  // namespace muster
