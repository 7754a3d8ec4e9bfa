// What the shared object that is linked with Gloo offers. Plain C, so that neither exceptions nor the standard library's types cross, and so that
// the data plane itself needs no Gloo: it opens the object at run time, where it was built.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::gloo_abi {

inline constexpr uint32_t kVersion = 1;
// Bytes of one address; a rank has one for each other rank.
inline constexpr size_t kAddressBytes = 192;

// What Gloo said when something failed; always ends with a zero.
struct Failure {
  char text[512];
};

// Functions that can fail return false and fill in the failure. Between `connect` and `close` one thread at a time makes the calls, but for `abort`.
struct Functions {
  uint32_t version;
  const char* library;  // "0.5.0"
  // One rank's place, with an address for each other rank that listens at `host`. Null when that failed.
  void* (*open)(uint32_t rank, uint32_t worldSize, const char* host, Failure*);
  // Writes worldSize − 1 addresses, for the other ranks in their order.
  void (*addresses)(void*, uint8_t* out);
  // `all`: the addresses of all ranks, in the order of the ranks. Returns when this rank is connected to all others.
  bool (*connect)(void*, const uint8_t* all, uint32_t timeoutMs, Failure*);
  bool (*allReduce)(void*, const float* in, float* out, size_t count, uint32_t timeoutMs, Failure*);
  // `out` has `bytes` for each rank.
  bool (*allGather)(void*, const uint8_t* in, uint8_t* out, size_t bytes, uint32_t timeoutMs, Failure*);
  bool (*broadcast)(void*, const uint8_t* in, uint8_t* out, size_t bytes, uint32_t root, uint32_t timeoutMs, Failure*);
  // Messages between two ranks come in the order in which they went. A message has `bytes` on both sides.
  bool (*send)(void*, const uint8_t* in, size_t bytes, uint32_t to, uint32_t timeoutMs, Failure*);
  bool (*receive)(void*, uint8_t* out, size_t bytes, uint32_t from, uint32_t timeoutMs, Failure*);
  // Ends the call in progress and all later ones. From any thread; harmless twice.
  void (*abort)(void*, const char* reason);
  void (*close)(void*);
};

// The one symbol of the object.
using Entry = const Functions*();
inline constexpr const char* kEntryName = "muster_gloo_functions";

}  // namespace muster::gloo_abi
