#include "core/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/socket.h"

namespace muster {

namespace {

Status lost(int error) {
  if (error == 0) return {Code::Unreachable, "the connection was closed", {}};
  return {Code::Unreachable, std::string("the connection broke: ") + std::strerror(error), {}};
}

Status outOfOrder() { return {Code::Corrupt, "a frame out of order", {}}; }

// The control data of a message that carries at most one file descriptor.
union FdControl {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

void attach(msghdr& message, FdControl& control, int fd) {
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
}

void collect(msghdr& message, UniqueFd& into) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    // Keeps the last; resetting closes any other that came along, so none can leak.
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      into.reset(fd);
    }
  }
}

}  // namespace

Connection::Connection(UniqueFd socket) : socket_(std::move(socket)), count_(socket_ ? 1 : 0), peer_(&activity().peerOf(socket_.get())) {}

Status Connection::awaitPeer(short events, const Patience& patience) {
  Status ready = awaitReady(socket_.get(), events, patience);
  if (ready.code == Code::Unreachable) activity().note(Event::Stall, peerOf(socket_.get()), ready.message);
  return ready;
}

Status Connection::send(const OutgoingFrame& frame, const Patience& patience) {
  const EncodedHeader plain = encodeHeader(frame.type, frame.payload, frame.offset);
  std::array<uint8_t, kFrameHeaderBytes + kTagBytes> head;
  std::span<uint8_t> header(head.data(), kFrameHeaderBytes);
  std::copy(plain.begin(), plain.end(), head.begin());
  if (session_) {
    const FrameTag tag = session_->out.next(plain, isBulk(frame.type) ? ByteView{} : frame.payload);
    std::copy(tag.begin(), tag.end(), head.begin() + kFrameHeaderBytes);
    header = head;
  }
  const size_t total = header.size() + frame.payload.size();
  FdControl control{};
  for (size_t sent = 0; sent < total;) {
    iovec parts[2];
    size_t count = 0;
    if (sent < header.size()) parts[count++] = {header.data() + sent, header.size() - sent};
    const size_t payloadSent = sent > header.size() ? sent - header.size() : 0;
    // sendmsg never writes through the pointer; its type comes from C.
    parts[count++] = {const_cast<uint8_t*>(frame.payload.data()) + payloadSent, frame.payload.size() - payloadSent};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    if (sent == 0 && frame.fd >= 0) attach(message, control, frame.fd);
    const ssize_t written = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written > 0) {
      sent += static_cast<size_t>(written);
      peer_->sent.fetch_add(static_cast<uint64_t>(written), std::memory_order_relaxed);
    }
    if (written >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return lost(errno);
    if (Status ready = awaitPeer(POLLOUT, patience); !ready.ok()) return ready;
  }
  return {};
}

Status Connection::receiveBytes(std::span<uint8_t> into, const Patience& patience) {
  while (!into.empty()) {
    iovec part{into.data(), into.size()};
    FdControl control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got > 0) {
      collect(message, passed_);
      peer_->received.fetch_add(static_cast<uint64_t>(got), std::memory_order_relaxed);
      into = into.subspan(static_cast<size_t>(got));
      continue;
    }
    if (got == 0) return lost(0);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return lost(errno);
    if (Status ready = awaitPeer(POLLIN, patience); !ready.ok()) return ready;
  }
  return {};
}

Result<FrameHeader> Connection::receiveHeader(const Patience& patience) {
  if (untold_) return outOfOrder();  // the payload of the last one was not taken
  Untold frame;
  if (Status got = receiveBytes(frame.header, patience); !got.ok()) return got;
  Result<FrameHeader> header = parseHeader(frame.header);
  if (!header.ok() || !session_) return header;
  if (Status got = receiveBytes(frame.tag, patience); !got.ok()) return got;
  if (!isBulk(header.value().type)) untold_ = frame;
  else if (Status unaltered = checkTag(frame, {}); !unaltered.ok()) return unaltered;
  return header;
}

Status Connection::checkTag(const Untold& frame, ByteView payload) {
  if (equalInConstantTime(session_->in.next(frame.header, payload), frame.tag)) return {};
  return {Code::Corrupt, "a frame was altered, lost or repeated on its way", {}};
}

Status Connection::receivePayload(const FrameHeader& header, std::span<uint8_t> into, const Patience& patience) {
  if (Status got = receiveBytes(into, patience); !got.ok()) return got;
  if (const std::optional<Untold> frame = std::exchange(untold_, std::nullopt))
    if (Status unaltered = checkTag(*frame, into); !unaltered.ok()) return unaltered;
  return verifyPayload(header, into);
}

Result<Bytes> Connection::receiveSmall(const FrameHeader& header, const Patience& patience) {
  if (budgetOf(header.type) > kNewsBytesMax) return outOfOrder();
  Bytes payload(header.length);
  if (Status got = receivePayload(header, payload, patience); !got.ok()) return got;
  return payload;
}

Result<Bytes> Connection::receive(FrameType expected, const Patience& patience, uint32_t budget, const OnAlive& onAlive) {
  for (;;) {
    const Result<FrameHeader> header = receiveHeader(patience);
    if (!header.ok()) return header.status();
    const FrameType type = header.value().type;
    if (type != expected && type != FrameType::Refused && type != FrameType::Alive) return outOfOrder();
    if (type == expected && header.value().length > budget) return Status{Code::Corrupt, "a frame longer than what belongs here", {}};
    Bytes payload(header.value().length);
    if (Status got = receivePayload(header.value(), payload, patience); !got.ok()) return got;
    if (type == expected) return payload;
    if (type == FrameType::Refused) return statusOfRefusal(payload);
    if (Status still = patience.check(); !still.ok()) return still;
    if (Status wanted = onAlive ? onAlive(header.value().offset) : Status{}; !wanted.ok()) return wanted;
  }
}

void Connection::refuse(const Status& why, const Patience& patience) {
  // Our own time-outs and aborts would read as the caller's; to it they only mean "not from here, not now".
  const bool verdict = why.code == Code::Refused || why.code == Code::Gone || why.code == Code::InvalidArgument;
  ByteWriter out;
  const std::string_view message = std::string_view(why.message).substr(0, kWordBytesMax - sizeof(uint8_t) - sizeof(uint16_t));
  out.number(static_cast<uint8_t>(verdict ? why.code : Code::Unreachable)).text(message);
  // The refusal stands whether or not the other side still listens.
  [[maybe_unused]] const Status sent = send({FrameType::Refused, out.bytes()}, patience);
}

Status statusOfRefusal(ByteView payload) {
  ByteReader in(payload);
  const auto code = in.number<uint8_t>();
  const std::string message = in.text();
  const bool known = in.finished() && code > 0 && code <= static_cast<uint8_t>(Code::Closed);
  if (!known) return {Code::Corrupt, "a refusal that cannot be read", {}};
  return {static_cast<Code>(code), message, {}};
}

}  // namespace muster
