// The shared memory of one mesh: a header, one record per member, the claims, the shards and the result.
//
//   header | member records | claims [rank][shard] u8 | shard 0 … shard n−1 | result
//
// Every word has one writer, except the bell, a member's state, which others may move from joined to dead, and its count of
// messages taken. Memory that nobody touches costs nothing.
#pragma once

#include <pthread.h>

#include <atomic>
#include <span>

#include "core/shared_memory.h"
#include "cpu/ordered_sum.h"

namespace muster {

enum class MemberState : uint32_t { Absent = 0, Joined = 1, Left = 2, Dead = 3 };

struct alignas(64) MemberRecord {
  pthread_mutex_t life;
  std::atomic<uint32_t> state;
  alignas(64) std::atomic<uint64_t> phase;  // barriers reached so far
  std::atomic<uint64_t> op;                 // written before the phase that announces it
  std::atomic<uint64_t> sends;              // messages offered to other ranks so far; see group.h
  std::atomic<uint64_t> sendOp;             // the last of them, written before `sends`
  std::atomic<uint64_t> taken;              // how many of them were taken; written by the rank that the last one is for
};

struct MeshShape {
  uint64_t epoch;
  uint32_t worldSize;
  uint32_t shards;
  uint64_t shardElements;

  bool operator==(const MeshShape&) const = default;
};

// Elements of a shard; the result is behind the last one.
struct ShardPart {
  uint32_t shard;
  Range elements;

  bool operator==(const ShardPart&) const = default;
};

class MeshSegment {
 public:
  static Result<MeshSegment> create(const MeshShape& shape);
  // Maps the segment of another process and checks that it has this shape.
  static Result<MeshSegment> attach(int fd, const MeshShape& shape);

  const MeshShape& shape() const { return shape_; }
  int fd() const { return fd_.get(); }
  void closeFd() { fd_.reset(); }

  MemberRecord& member(uint32_t rank) const;
  std::span<uint8_t> claims(uint32_t rank) const;
  float* shard(uint32_t index) const;
  float* result() const { return shard(shape_.shards); }
  std::atomic<uint32_t>& bell() const;
  // The memory of some elements of a shard, or of the result behind the last one.
  std::span<uint8_t> bytesOf(const ShardPart& part) const;
  // Wakes everybody who waits for a change in the segment.
  void ring() const;

 private:
  struct Header;
  struct Layout;

  MeshSegment(MeshShape shape, UniqueFd fd, Mapping mapping)
      : shape_(shape), fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  Header& header() const;

  MeshShape shape_;
  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace muster
