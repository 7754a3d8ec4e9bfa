#include "core/slice_pull.h"

#include <algorithm>

#include "core/activity.h"
#include "core/block_digest.h"
#include "core/holder.h"
#include "core/shared_memory.h"
#include "core/xxh64.h"

namespace muster {

namespace {

// True when all rows lie within `size` bytes.
bool fits(uint64_t offset, uint64_t stride, const Slice& slice, uint64_t size) {
  if (slice.bytes > size || offset > size - slice.bytes) return false;
  const uint64_t room = size - slice.bytes - offset;
  return slice.count == 1 || (stride <= room && slice.count - 1 <= room / std::max<uint64_t>(stride, 1));
}

class SlicePull {
 public:
  SlicePull(const SlicePullOptions& options, std::span<uint8_t> into, const Patience& patience)
      : options_(options), into_(into), patience_{patience.deadline, patience.abort} {}

  Result<SlicesPulled> run();

 private:
  Status plan();
  Status from(const Address& holder);
  std::vector<ByteRange> missing() const;
  Status agree(const std::vector<Section>& offered);
  Status readMemory(Connection& connection, const Section& section);
  Status receiveAll(Holder& from, const std::vector<ByteRange>& ranges);
  Status receiveData(Holder& from, const FrameHeader& header, const ByteRange& range, uint64_t at);
  bool others() const { return options_.holders.size() > 1; }
  Status verify(const uint8_t* section, size_t block);
  void copyFrom(const uint8_t* section);
  uint64_t blockBytes(size_t block) const {
    return std::min<uint64_t>(BlockDigest::kBlockBytes, options_.section.bytes - block * BlockDigest::kBlockBytes);
  }

  const SlicePullOptions& options_;
  const std::span<uint8_t> into_;
  const Patience patience_;
  std::vector<bool> wanted_;     // by block
  std::vector<bool> have_;       // verified, in staging_
  std::vector<uint64_t> blocks_;  // their digests, which come to the section's
  Mapping staging_;              // as long as the section; only what arrives takes memory
  SlicesPulled pulled_;
};

Status SlicePull::plan() {
  const uint64_t size = options_.section.bytes;
  wanted_.assign(size / BlockDigest::kBlockBytes + (size % BlockDigest::kBlockBytes != 0), false);
  have_ = wanted_;
  for (const Slice& slice : options_.slices) {
    const bool valid = slice.bytes > 0 && slice.count > 0 && fits(slice.from, slice.fromStride, slice, size) &&
                       fits(slice.to, slice.toStride, slice, into_.size());
    if (!valid) return {Code::InvalidArgument, "a slice lies outside of its section or its target", {}};
    for (uint64_t row = 0; row < slice.count; row++) {
      const uint64_t begin = slice.from + row * slice.fromStride;
      const uint64_t last = (begin + slice.bytes - 1) / BlockDigest::kBlockBytes;
      for (uint64_t block = begin / BlockDigest::kBlockBytes; block <= last; block++) wanted_[block] = true;
    }
    pulled_.bytes += slice.bytes * slice.count;
  }
  return {};
}

Result<SlicesPulled> SlicePull::run() {
  if (Status planned = plan(); !planned.ok()) return planned;
  Status all{Code::Unreachable, options_.holders.empty() ? "no holder is named" : "", {}};
  for (const Address& holder : options_.holders) {
    if (!all.message.empty()) activity().note(Event::FailOver, holder.text(), all.message);
    const Status tried = from(holder);
    if (tried.ok()) {
      pulled_.from = holder.text();
      return pulled_;
    }
    all.message += (all.message.empty() ? "" : "; ") + holder.text() + ": " + tried.message;
    if (tried.code == Code::DigestMismatch || tried.code == Code::Refused || tried.code == Code::Gone) all.code = tried.code;
    if (Status still = patience_.check(); !still.ok()) return Status{still.code, still.message + "; " + all.message, {}};
  }
  return all;
}

// The blocks that are wanted and not here, neighbours together; not more than one request may name.
std::vector<ByteRange> SlicePull::missing() const {
  std::vector<ByteRange> ranges;
  for (size_t block = 0; block < wanted_.size(); block++) {
    if (!wanted_[block] || have_[block]) continue;
    const uint64_t at = block * BlockDigest::kBlockBytes;
    const bool joins = !ranges.empty() && ranges.back().offset + ranges.back().bytes == at;
    if (joins) ranges.back().bytes += blockBytes(block);
    else if (ranges.size() == kRangesMax) break;
    else ranges.push_back({at, blockBytes(block)});
  }
  return ranges;
}

Status SlicePull::from(const Address& holder) {
  const bool local = holder.kind == Address::Kind::Unix;
  for (;;) {
    const std::vector<ByteRange> ranges = missing();
    Result<Holder> reached = Holder::reach(holder, others(), patience_);
    if (reached.status().code == Code::Timeout) return {Code::Unreachable, "it does not answer", {}};
    if (!reached.ok()) return reached.status();
    PullRequest request{0, 0, {options_.section.name}};
    request.ranges = ranges;
    const Question question{options_.key, options_.job, options_.member, options_.id, std::move(request), others()};
    const Result<std::vector<Section>> sections = reached.value().ask(question, patience_);
    if (!sections.ok()) return sections.status();
    if (Status agreed = agree(sections.value()); !agreed.ok()) return agreed;
    if (local) return readMemory(reached.value().connection(), sections.value().front());
    if (Status received = ranges.empty() ? Status{} : receiveAll(reached.value(), ranges); !received.ok()) return received;
    if (!missing().empty()) continue;
    pulled_.via = Via::Tcp;
    copyFrom(staging_.data());
    return {};
  }
}

// What is offered must be what was asked for, and its block digests must come to its digest.
Status SlicePull::agree(const std::vector<Section>& offered) {
  const WantedSection& want = options_.section;
  if (offered.size() != 1 || offered.front().name != want.name) return {Code::Corrupt, "other sections than asked for", {}};
  const Section& section = offered.front();
  if (section.bytes != want.bytes || section.digest != want.digest)
    return {Code::DigestMismatch, "section \"" + want.name + "\" is offered with digest " + toHex(section.digest) + ", expected " + toHex(want.digest), {}};
  if (section.blocks.size() != wanted_.size() || BlockDigest::rootOf(section.blocks, section.bytes) != section.digest)
    return {Code::Corrupt, "the block digests do not come to the digest of the section", {}};
  blocks_ = section.blocks;
  if (staging_.data() != nullptr) return {};
  Result<Mapping> memory = mapPrivate(std::max<uint64_t>(want.bytes, 1));
  if (!memory.ok()) return memory.status();
  staging_ = std::move(memory.value());
  return {};
}

Status SlicePull::verify(const uint8_t* section, size_t block) {
  if (BlockDigest::of({section + block * BlockDigest::kBlockBytes, blockBytes(block)}) == blocks_[block]) return {};
  return {Code::DigestMismatch, "block " + std::to_string(block) + " is not the one announced", {}};
}

Status SlicePull::readMemory(Connection& connection, const Section& section) {
  const UniqueFd memory = connection.takeFd();
  if (!memory) return {Code::Corrupt, "the holder sent no memory", {}};
  if (section.offset > UINT64_MAX - section.bytes) return {Code::Corrupt, "a section outside of the address space", {}};
  const Result<Mapping> mapping = mapSegment(memory.get(), std::max<uint64_t>(section.offset + section.bytes, 1), Access::ReadOnly);
  if (!mapping.ok()) return mapping.status();
  const uint8_t* bytes = mapping.value().data() + section.offset;
  for (size_t block = 0; block < wanted_.size(); block++) {
    if (!wanted_[block]) continue;
    if (Status still = patience_.check(); !still.ok()) return still;
    if (Status verified = verify(bytes, block); !verified.ok()) return verified;
  }
  pulled_.via = Via::Memory;
  copyFrom(bytes);
  return {};
}

Status SlicePull::receiveAll(Holder& from, const std::vector<ByteRange>& ranges) {
  Starvation starvation(from.name());
  size_t range = 0;
  uint64_t at = ranges.front().offset;
  for (;;) {
    if (Status still = patience_.check(); !still.ok()) return still;
    const Patience patience = from.streaming(patience_, others());
    const Result<FrameHeader> header = from.connection().receiveHeader(patience);
    if (!header.ok()) return header.status();
    if (header.value().type == FrameType::Data) {
      if (range == ranges.size()) return {Code::Corrupt, "more than was asked for", {}};
      if (Status got = receiveData(from, header.value(), ranges[range], at); !got.ok()) return got;
      starvation.fed();
      at += header.value().length;
      if (at == ranges[range].offset + ranges[range].bytes && ++range < ranges.size()) at = ranges[range].offset;
      continue;
    }
    const Result<Bytes> payload = from.connection().receiveSmall(header.value(), patience);
    if (!payload.ok()) return payload.status();
    if (header.value().type == FrameType::Refused) return statusOfRefusal(payload.value());
    if (header.value().type == FrameType::Alive) {
      if (Status starved = starvation.check(); !starved.ok()) return starved;
      continue;
    }
    if (header.value().type != FrameType::End) return {Code::Corrupt, "a frame out of order", {}};
    if (range == ranges.size()) return {};
    return {Code::Corrupt, "the stream ended early", {}};
  }
}

Status SlicePull::receiveData(Holder& from, const FrameHeader& header, const ByteRange& range, uint64_t at) {
  if (header.offset != at || header.length == 0 || header.length > range.offset + range.bytes - at)
    return {Code::Corrupt, "a chunk at " + std::to_string(header.offset) + " that does not belong there", {}};
  const std::span<uint8_t> into{staging_.data() + at, header.length};
  if (Status got = from.connection().receivePayload(header, into, from.streaming(patience_, others())); !got.ok()) return got;
  pulled_.wireBytes += header.length;
  const uint64_t reached = at + header.length;
  for (size_t block = at / BlockDigest::kBlockBytes; block < have_.size(); block++) {
    if (block * BlockDigest::kBlockBytes + blockBytes(block) > reached) break;
    if (Status verified = verify(staging_.data(), block); !verified.ok()) return verified;
    have_[block] = true;
  }
  return {};
}

void SlicePull::copyFrom(const uint8_t* section) {
  for (const Slice& slice : options_.slices)
    for (uint64_t row = 0; row < slice.count; row++)
      std::memcpy(into_.data() + slice.to + row * slice.toStride, section + slice.from + row * slice.fromStride, slice.bytes);
}

}  // namespace

Result<SlicesPulled> pullSlices(const SlicePullOptions& options, std::span<uint8_t> into, const Patience& patience) {
  return SlicePull(options, into, patience).run();
}

}  // namespace muster
