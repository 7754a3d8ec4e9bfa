// What both ends of a connection have from their mutual proof: a key for each direction, fresh for this connection, and the minor version that they
// speak. Every frame after the proof carries a tag (HMAC-SHA-256, cut to 16 bytes) over its number, its header and, where it is not bulk, its
// payload. So nobody in the middle can alter, drop, repeat or reorder what is said. Bulk bytes are for their digests and checksums.
#pragma once

#include "core/frame.h"
#include "core/sha256.h"

namespace muster {

inline constexpr uint16_t kMinorVersion = 1;  // the newest that this build speaks: a shelf's grant names the GPU
inline constexpr size_t kTagBytes = 16;

using FrameTag = std::array<uint8_t, kTagBytes>;

// The tags of one direction, in the order of its frames.
class Seal {
 public:
  explicit Seal(const Sha256Digest& key) : key_(key) {}

  // Counts as one frame.
  FrameTag next(const EncodedHeader& header, ByteView payload);

 private:
  Sha256Digest key_;
  uint64_t number_ = 0;
};

struct Session {
  Seal out;
  Seal in;
  uint16_t minor;
};

// Bytes that are large and have digests or checksums of their own: the tag covers their header alone.
inline bool isBulk(FrameType type) { return type == FrameType::Data || type == FrameType::Piece || type == FrameType::Delta; }

}  // namespace muster
