// Frames: what crosses a data-plane socket. A fixed header, then `length` bytes of payload.
//
//   0 magic u32 | 4 major version u16 | 6 type u16 | 8 length u32 | 12 zero u32 | 16 offset u64 | 24 checksum u64
//
// All little-endian. The checksum is XXH64 of the payload, seeded with XXH64 of the first 24 header bytes, so it covers
// the whole frame; in a Data frame the header alone, because block digests cover the payload end to end. `offset` places
// a Data or Delta payload in the stream of sections and a Piece in the shards, and in an Alive frame is the sender's watermark; other types leave it 0.
#pragma once

#include <array>

#include "core/bytes.h"
#include "core/limits.h"
#include "core/status.h"

namespace muster {

enum class FrameType : uint16_t {
  Hello = 1,
  Challenge = 2,
  Proof = 3,
  Request = 4,
  Grant = 5,
  Refused = 6,
  Alive = 7,
  Data = 8,
  End = 9,
  Piece = 10,  // of a gradient shard, or of the sum
  News = 11,   // of a rank of a mesh
  Delta = 12,  // what turns a block that the reader has into one of the version; see delta_source.h
  Parcel = 13,  // of a message between ranks of a group: it is there, or it was taken
  Accept = 14,  // of a place in a mesh over hosts that was granted
};

inline constexpr size_t kFrameHeaderBytes = 32;

// The longest payload of a type.
uint32_t budgetOf(FrameType type);

struct FrameHeader {
  FrameType type;
  uint32_t length;
  uint64_t offset;
  uint64_t checksum;
  uint64_t seed;  // what the payload's checksum starts from; not on the wire
};

using EncodedHeader = std::array<uint8_t, kFrameHeaderBytes>;

EncodedHeader encodeHeader(FrameType type, ByteView payload, uint64_t offset);

// Refuses foreign magic, another version, unknown types and lengths over the budget of the type, before any allocation.
Result<FrameHeader> parseHeader(std::span<const uint8_t, kFrameHeaderBytes> bytes);

// Ok when the payload is the one the header was made for; of a Data frame only its length is known.
Status verifyPayload(const FrameHeader& header, ByteView payload);

}  // namespace muster
