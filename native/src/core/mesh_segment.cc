#include "core/mesh_segment.h"

#include <new>

#include "core/death_notice.h"
#include "core/futex.h"

namespace muster {

namespace {

constexpr uint64_t kMagic = 0x3168'7365'6d72'7473;  // "strmesh1"
constexpr size_t kPage = 4096;

size_t roundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

// How far apart shards of so many bytes lie. All of them are read side by side: at a distance that is a multiple of much, the
// same element of each would fall into the same few places of every cache, and adding them up would take up to twice as long.
size_t strideOf(size_t bytes) {
  constexpr size_t kPattern = 64 * kPage, kShift = 17 * kPage;  // 64 shards before two lie alike
  if (bytes < kPattern) return roundUp(bytes, kPage);
  return roundUp(bytes - kShift, kPattern) + kShift;
}

}  // namespace

struct MeshSegment::Header {
  uint64_t magic;
  MeshShape shape;
  alignas(64) std::atomic<uint32_t> bell;
};

struct MeshSegment::Layout {
  size_t members;
  size_t claims;
  size_t data;
  size_t shardStride;
  size_t total;

  explicit Layout(const MeshShape& shape)
      : members(roundUp(sizeof(Header), 64)),
        claims(members + shape.worldSize * sizeof(MemberRecord)),
        data(roundUp(claims + size_t{shape.worldSize} * shape.shards, kPage)),
        shardStride(strideOf(shape.shardElements * sizeof(float))),
        total(data + (size_t{shape.shards} + 1) * shardStride) {}
};

Result<MeshSegment> MeshSegment::create(const MeshShape& shape) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  Result<Segment> made = createSegment("muster-mesh", Layout(shape).total, Access::ReadWrite);
  if (!made.ok()) return made.status();
  MeshSegment segment(shape, std::move(made.value().fd), std::move(made.value().mapping));
  auto* header = new (segment.mapping_.data()) Header{};
  header->shape = shape;
  for (uint32_t rank = 0; rank < shape.worldSize; rank++) {
    auto* record = new (&segment.member(rank)) MemberRecord{};
    if (Status ready = initLifeMutex(record->life); !ready.ok()) return ready;
  }
  header->magic = kMagic;
  return segment;
}

Result<MeshSegment> MeshSegment::attach(int fd, const MeshShape& shape) {
  Result<Mapping> mapping = mapSegment(fd, Layout(shape).total, Access::ReadWrite);
  if (!mapping.ok()) return mapping.status();
  MeshSegment segment(shape, UniqueFd(), std::move(mapping.value()));
  if (segment.header().magic != kMagic || segment.header().shape != shape)
    return Status{Code::Disagreement, "the mesh memory offered belongs to another mesh", {}};
  return segment;
}

MeshSegment::Header& MeshSegment::header() const { return *std::launder(reinterpret_cast<Header*>(mapping_.data())); }

MemberRecord& MeshSegment::member(uint32_t rank) const {
  return *std::launder(reinterpret_cast<MemberRecord*>(mapping_.data() + Layout(shape_).members) + rank);
}

std::span<uint8_t> MeshSegment::claims(uint32_t rank) const {
  return {mapping_.data() + Layout(shape_).claims + size_t{rank} * shape_.shards, shape_.shards};
}

float* MeshSegment::shard(uint32_t index) const {
  const Layout layout(shape_);
  return reinterpret_cast<float*>(mapping_.data() + layout.data + index * layout.shardStride);
}

std::span<uint8_t> MeshSegment::bytesOf(const ShardPart& part) const {
  auto* const from = reinterpret_cast<uint8_t*>(shard(part.shard) + part.elements.begin);
  return {from, (part.elements.end - part.elements.begin) * sizeof(float)};
}

std::atomic<uint32_t>& MeshSegment::bell() const { return header().bell; }

void MeshSegment::ring() const {
  bell().fetch_add(1, std::memory_order_acq_rel);
  futexWakeAll(bell());
}

}  // namespace muster
