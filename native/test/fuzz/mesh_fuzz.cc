// Claims of a place in a mesh, and what another host says of its ranks: nobody gets a place that is not his, and nothing that
// a host says touches the ranks of this one.
#include "core/mesh_bridge.h"
#include "core/mesh_formation.h"
#include "core/shard_cargo.h"
#include "fuzz.h"

using namespace muster;
using namespace muster::fuzz;

namespace {

constexpr MeshShape kShape{1, 2, 3, 100};

void claim(ByteView input) {
  MeshOptions options{Bytes(32, 7), "job", 1, 0, {"a", "b", "c"}, "", kShape.shards, kShape.shardElements};
  const Hello hello{Purpose::Mesh, "job", "b", Bytes(input.begin(), input.end())};
  const Result<uint32_t> rank = judgeClaim(options, hello);
  if (rank.ok()) HOLDS(rank.value() == 1);
}

// The input as frames of a type each: {type u8, offset u16, length u8, payload}.
Bytes framesOf(ByteView input) {
  ByteReader in(input);
  ByteWriter out;
  while (in.remaining() > 0 && out.bytes().size() < 60'000) {
    constexpr FrameType kTypes[] = {FrameType::News, FrameType::Piece, FrameType::Alive, FrameType::End};
    const FrameType type = kTypes[in.number<uint8_t>() % 4];
    const auto offset = in.number<uint16_t>();
    const auto length = in.number<uint8_t>();
    const ByteView payload = in.raw(std::min<size_t>(length, in.remaining()));
    out.raw(encodeHeader(type, payload, offset)).raw(payload);
  }
  return out.bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView input(data, size);
  claim(input);
  static const MeshSegment segment = std::move(MeshSegment::create(kShape).value());
  segment.member(0).state.store(static_cast<uint32_t>(MemberState::Left));  // of this host, and never changed by the other
  segment.member(0).phase.store(5);
  segment.member(1).state.store(static_cast<uint32_t>(MemberState::Joined));
  auto [theirs, ours] = connectedPair();
  sayAndEnd(theirs, framesOf(input));
  MeshWatch watch(segment, 0);
  ShardCargo cargo(segment);
  {
    MeshBridge bridge(segment, watch, cargo, {});
    bridge.add({1, {1}}, Connection(std::move(ours)));
    // Until the bridge has heard everything: then the other host is lost to it, or has said that it leaves.
    const Deadline until = Deadline::in(Milliseconds(1'000));
    while (segment.member(1).state.load() == static_cast<uint32_t>(MemberState::Joined) && !until.passed()) std::this_thread::yield();
  }
  HOLDS(segment.member(0).state.load() == static_cast<uint32_t>(MemberState::Left) && segment.member(0).phase.load() == 5);
  return 0;
}
