// A group whose bytes are carried by Gloo. A small group of our own finds the others, has them agree on each operation and watches them: Gloo
// does none of this. Each call of Gloo is made on a thread of its own, which ends when the watch says so.
#pragma once

#include <optional>

#include <mutex>

#include "core/group.h"
#include "gloo/gloo_library.h"

namespace muster {

class GlooGroup : public Collectives {
 public:
  // As Group::open; `library` is the path of the shared object. Code::Unsupported when Gloo is not to be had.
  static Result<std::shared_ptr<GlooGroup>> open(const std::string& library, MeshOptions options, uint64_t capacityBytes,
                                                 const Patience& patience);
  ~GlooGroup() override { close(); }

  std::span<uint8_t> input() const override { return {memory_->input.data(), capacityBytes_}; }
  std::span<const uint8_t> result() const override { return {memory_->result.data(), capacityBytes_}; }
  Status run(const Operation& operation, const Patience& patience) override;
  void abort(const std::string& reason) override { watch_->abort(reason); }
  void close() override;

 private:
  // What Gloo reads and writes; kept by a thread that does not come back.
  struct Memory {
    Mapping input;
    Mapping result;
    std::vector<float> wide;    // bfloat16 inputs as float32
    std::vector<float> summed;  // and their sum
    uint64_t theirs = 0;        // the operation of a message's other side
    uint64_t answer = 0;
    uint64_t heard = 0;
  };
  // One call, or several in a row; false and the failure when one failed.
  using Call = std::function<bool(const GlooPlace&, Memory&, uint32_t timeoutMs, gloo_abi::Failure&)>;
  struct Task;

  GlooGroup(std::shared_ptr<Group> watch, std::shared_ptr<GlooPlace> gloo, std::shared_ptr<Memory> memory, uint64_t capacityBytes)
      : watch_(std::move(watch)), gloo_(std::move(gloo)), memory_(std::move(memory)), capacityBytes_(capacityBytes) {}

  MeshMember& member() const { return watch_->member(); }
  GroupPlace place() const { return {member().rank(), member().segment().shape().worldSize, capacityBytes_}; }
  Status connect(const Patience& patience);
  Status runAlone(const Operation& operation, const Patience& patience);
  Status announce(const Operation& operation, const Patience& patience);
  Status collective(const Operation& operation, const Patience& patience);
  Status message(const Operation& operation, const Patience& patience);
  // Without `peer` all ranks take part in the call.
  Status carry(Call call, const std::string& what, std::optional<uint32_t> peer, const Patience& patience);
  Status theDeadFirst(const Status& lost) const;
  Status causeOf(const gloo_abi::Failure& failure, const Patience& patience);

  const std::shared_ptr<Group> watch_;
  std::shared_ptr<GlooPlace> gloo_;
  const std::shared_ptr<Memory> memory_;
  const uint64_t capacityBytes_;
  std::mutex running_;  // held during an operation
};

}  // namespace muster
