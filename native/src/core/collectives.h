// Collective operations between the ranks of a group, whatever carries them. Each rank has an input, which it fills before an
// operation and which no operation changes, and a result, which is valid until this rank's next operation.
#pragma once

#include <memory>
#include <span>

#include "core/patience.h"
#include "cpu/stream_copy.h"
#include "cpu/typed_sum.h"

namespace muster {

struct Operation {
  enum class Kind : uint8_t { Barrier, AllReduce, ReduceScatter, AllGather, Broadcast, Send, Receive };
  enum class Reduction : uint8_t { Sum, Mean };

  Kind kind = Kind::Barrier;
  DType dtype = DType::U8;
  uint64_t count = 0;  // elements of a rank's input
  Reduction reduction = Reduction::Sum;
  uint32_t peer = 0;             // root of a Broadcast, other side of a Send or Receive
  std::span<uint8_t> into{};     // where a Receive writes; for others, where this rank's part of the result goes as well
  // Memory of the caller that is copied into the input before, and that gets parts of the result after; only once it is this operation's turn.
  std::span<const Copy> gathers{};
  std::span<const Copy> scatters{};

  uint64_t bytes() const { return count * sizeOf(dtype); }
  bool reduces() const { return kind == Kind::AllReduce || kind == Kind::ReduceScatter; }
  // In one word, so that ranks can compare what they do.
  uint64_t encoded() const;
  static Operation decode(uint64_t word);
  // "all-reduce (mean) of 5 bf16".
  std::string text() const;
};

inline constexpr uint64_t kOperationCountMax = (uint64_t{1} << 40) - 1;

class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual std::span<uint8_t> input() const = 0;
  virtual std::span<const uint8_t> result() const = 0;

  //   AllReduce      result = the sum or mean of all inputs, with the same bits on all ranks
  //   ReduceScatter  the same, but only the elements of sliceOf(count, rank, worldSize) are there
  //   AllGather      result = the inputs in rank order
  //   Broadcast      result = the root's input
  //   Send, Receive  the sender's input arrives in the receiver's `into`; the sender waits until it has
  //   Barrier        returns when all ranks have called it
  // Code::InvalidArgument, before anything is read or written, for what this rank alone can see to be wrong, such as a second operation beside one
  // in progress. After any other failure the group is spent. Code::PeerLost with ranks that died or left, Code::Timeout with ranks that did not come, Code::Disagreement
  // with a rank that does something else. One operation at a time.
  virtual Status run(const Operation& operation, const Patience& patience) = 0;

  // Ends an operation in progress and leaves. Harmless twice, from any thread.
  virtual void abort(const std::string& reason) = 0;
  virtual void close() = 0;
};

}  // namespace muster
