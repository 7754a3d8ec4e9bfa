#include "core/frame.h"

#include <algorithm>

#include "core/xxh64.h"

namespace muster {

namespace {

constexpr uint32_t kMagic = 0x5254534d;  // "MSTR"
constexpr uint16_t kVersion = 4;
constexpr size_t kCovered = kFrameHeaderBytes - sizeof(uint64_t);

Status corrupt(const std::string& what) { return {Code::Corrupt, "bad frame: " + what, {}}; }

uint64_t checksumOf(FrameType type, ByteView payload, uint64_t seed) {
  return xxh64(type == FrameType::Data ? ByteView{} : payload, seed);
}

}  // namespace

uint32_t budgetOf(FrameType type) {
  switch (type) {
    case FrameType::Data:
    case FrameType::Piece:
    case FrameType::Delta: return kChunkBytesMax;
    case FrameType::Grant: return kGrantBytesMax;
    case FrameType::Request: return kRequestBytesMax;
    case FrameType::News: return kNewsBytesMax;
    default: return kWordBytesMax;
  }
}

EncodedHeader encodeHeader(FrameType type, ByteView payload, uint64_t offset) {
  ByteWriter out;
  out.number(kMagic).number(kVersion).number(static_cast<uint16_t>(type));
  out.number(static_cast<uint32_t>(payload.size())).number(uint32_t{0}).number(offset);
  out.number(checksumOf(type, payload, xxh64(out.bytes())));
  EncodedHeader header;
  std::copy(out.bytes().begin(), out.bytes().end(), header.begin());
  return header;
}

Result<FrameHeader> parseHeader(std::span<const uint8_t, kFrameHeaderBytes> bytes) {
  ByteReader in(bytes);
  if (in.number<uint32_t>() != kMagic) return corrupt("the other side does not speak this protocol");
  const auto version = in.number<uint16_t>();
  if (version != kVersion)
    return corrupt("protocol version " + std::to_string(version) + ", this build speaks " + std::to_string(kVersion));
  const auto type = in.number<uint16_t>();
  if (type < static_cast<uint16_t>(FrameType::Hello) || type > static_cast<uint16_t>(FrameType::Accept))
    return corrupt("unknown type " + std::to_string(type));
  FrameHeader header{};
  header.type = static_cast<FrameType>(type);
  header.length = in.number<uint32_t>();
  const uint32_t budget = budgetOf(header.type);
  if (header.length > budget)
    return corrupt("length " + std::to_string(header.length) + " is over the budget of " + std::to_string(budget));
  if (in.number<uint32_t>() != 0) return corrupt("reserved bits are set");
  header.offset = in.number<uint64_t>();
  header.checksum = in.number<uint64_t>();
  header.seed = xxh64(bytes.first<kCovered>());
  return header;
}

Status verifyPayload(const FrameHeader& header, ByteView payload) {
  if (payload.size() == header.length && checksumOf(header.type, payload, header.seed) == header.checksum) return {};
  return corrupt("the checksum does not fit the payload");
}

}  // namespace muster
