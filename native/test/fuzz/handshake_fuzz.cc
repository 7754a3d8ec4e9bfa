// Greetings of strangers: read or refused, and never let in.
#include "core/mesh_formation.h"
#include "fuzz.h"

using namespace muster;
using namespace muster::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView input(data, size);
  const Result<Hello> hello = decodeHello(input);
  if (hello.ok()) HOLDS(hello.value().body.size() <= size && hello.value().job.size() <= size);

  const Abort never;
  const Patience patience{Deadline::in(Milliseconds(1'000)), &never};
  const Bytes key(32, 7);
  const auto framed = [](FrameType type, ByteView payload) {
    return ByteWriter().raw(encodeHeader(type, payload, 0)).raw(payload).bytes();
  };
  const ByteView half = input.first(size / 2), rest = input.subspan(size / 2);
  {
    auto [theirs, ours] = connectedPair();
    sayAndEnd(theirs, ByteWriter().raw(framed(FrameType::Hello, half)).raw(framed(FrameType::Proof, rest)).bytes());
    Connection server(std::move(ours));
    HOLDS(!welcome(server, key, patience).ok());
  }
  auto [theirs, ours] = connectedPair();
  sayAndEnd(theirs, framed(FrameType::Challenge, input));
  Connection client(std::move(ours));
  HOLDS(!greet(client, key, {Purpose::Pull, "job", "member", {}}, patience).ok());
  return 0;
}
