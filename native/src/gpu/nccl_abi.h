// The part of NCCL's binary interface that is used here. NCCL's header is not needed: names, values and layouts below have not
// changed since the versions named. See docs/internals/gpu.md.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

namespace muster::nccl {

using Result = int;  // ncclResult_t
using Communicator = struct CommunicatorOpaque*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kUnhandledCudaError = 1;
inline constexpr Result kSystemError = 2;
inline constexpr Result kInternalError = 3;
inline constexpr Result kInvalidArgument = 4;
inline constexpr Result kInvalidUsage = 5;
inline constexpr Result kRemoteError = 6;  // 2.13
inline constexpr Result kInProgress = 7;   // 2.14
inline constexpr Result kTimeout = 8;      // 2.30

// Passed by value: the System V convention copies these 128 bytes onto the stack.
struct UniqueId {
  char internal[128];
};
static_assert(sizeof(UniqueId) == 128 && alignof(UniqueId) == 1);

enum class DataType : int { Int8 = 0, Uint8 = 1, Int32 = 2, Uint32 = 3, Int64 = 4, Uint64 = 5, Float16 = 6, Float32 = 7, Float64 = 8, Bfloat16 = 9 };
enum class Reduction : int { Sum = 0, Product = 1, Max = 2, Min = 3, Average = 4 };

inline constexpr int kShrinkDefault = 0;  // the parent is idle
inline constexpr int kShrinkAbort = 1;    // ends what the parent is doing

// ncclConfig_t as of 2.14. Later versions appended fields: they read `size` bytes and take their own defaults for the rest.
struct Config {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};
static_assert(sizeof(Config) == 24 && offsetof(Config, blocking) == 16);

inline constexpr Config kNonBlocking{sizeof(Config), 0xcafebeef, 21400, 0};
inline constexpr int kVersionMin = 21400;  // the first with a config

}  // namespace muster::nccl
