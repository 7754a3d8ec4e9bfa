// Frames as they come from a socket: never more than the budget is allocated, and what was framed comes out again.
#include "fuzz.h"

using namespace muster;
using namespace muster::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView input(data, size);
  if (size >= kFrameHeaderBytes) {
    const Result<FrameHeader> header = parseHeader(input.first<kFrameHeaderBytes>());
    if (header.ok()) HOLDS(header.value().length <= budgetOf(header.value().type));
  }
  ByteReader in(input);
  const auto type = static_cast<FrameType>(in.number<uint16_t>());
  const auto offset = in.number<uint64_t>();
  const ByteView payload = in.raw(in.remaining());
  const EncodedHeader encoded = encodeHeader(type, payload, offset);
  const Result<FrameHeader> again = parseHeader(encoded);
  if (again.ok()) {
    HOLDS(again.value().type == type && again.value().offset == offset && again.value().length == payload.size());
    HOLDS(verifyPayload(again.value(), payload).ok());
  }
  // The same frame, then the raw input, as a peer would send them.
  const Abort never;
  const Patience patience{Deadline::in(Milliseconds(1'000)), &never};
  auto [theirs, ours] = connectedPair();
  ByteWriter stream;
  stream.raw(encoded).raw(payload).raw(input);
  sayAndEnd(theirs, stream.bytes());
  Connection connection(std::move(ours));
  while (connection.receive(FrameType::Hello, patience).ok()) {
  }
  return 0;
}
