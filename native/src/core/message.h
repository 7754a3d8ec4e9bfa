// Messages from rank to rank: the sender offers what lies in its own memory, and the receiver says when it has taken it. A
// sender has one message open at a time.
#pragma once

#include <optional>

#include "core/collectives.h"
#include "core/mesh_segment.h"

namespace muster {

struct OpenMessage {
  uint64_t number;
  Operation operation;  // the sender's
};

inline void offerMessage(MemberRecord& sender, uint64_t number, uint64_t op) {
  sender.sendOp.store(op, std::memory_order_relaxed);
  sender.sends.store(number, std::memory_order_release);
}

// `taken` holds twice the number of the message, and one more when the receiver wanted another one.
inline void answerMessage(MemberRecord& sender, uint64_t number, bool fits) {
  sender.taken.store(number * 2 + (fits ? 0 : 1), std::memory_order_release);
}

// The message that a rank has on offer. `taken` is read last: a sender writes its next message only after it has seen that
// the last one was taken, so whoever reads that next one before its number sees here that nothing is open.
inline std::optional<OpenMessage> openMessageOf(const MemberRecord& sender) {
  const uint64_t number = sender.sends.load(std::memory_order_acquire);
  const uint64_t op = sender.sendOp.load(std::memory_order_acquire);
  if (number <= sender.taken.load(std::memory_order_acquire) / 2) return std::nullopt;
  return OpenMessage{number, Operation::decode(op)};
}

}  // namespace muster
