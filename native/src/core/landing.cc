#include "core/landing.h"

#include <algorithm>

#include "core/block_digest.h"

namespace muster {

namespace {

Status checkBlocks(const std::vector<Section>& sections) {
  for (const Section& section : sections) {
    if (section.blocks.size() == BlockDigest::countOf(section.bytes) &&
        BlockDigest::rootOf(section.blocks, section.bytes) == section.digest) continue;
    return {Code::Corrupt, "the block digests of section \"" + section.name + "\" do not come to its digest", {}};
  }
  return {};
}

}  // namespace

Result<Landing> Landing::open(VersionId id, std::vector<Section> sections, std::shared_ptr<VersionStore> keepIn) {
  if (Status fits = checkBlocks(sections); !fits.ok()) return fits;
  if (keepIn) {
    Result<VersionArena::Incoming> incoming = keepIn->receive(id, sections);
    if (incoming.ok()) {
      std::vector<Section> placed = incoming.value().sections();
      return Landing(std::move(placed), std::move(keepIn), std::move(incoming.value()), Mapping());
    }
    // Another pull of the same version lands there already: this one needs memory of its own.
    if (incoming.status().code != Code::Conflict) return incoming.status();
  }
  constexpr uint64_t kRoom = uint64_t{1} << 62;  // what is more is not asked of the kernel
  const Result<uint64_t> bytes = layOut(sections, kRoom);
  if (!bytes.ok()) return bytes.status();
  Result<Mapping> memory = mapPrivate(std::max<uint64_t>(bytes.value(), 1));
  if (!memory.ok()) return memory.status();
  return Landing(std::move(sections), nullptr, std::nullopt, std::move(memory.value()));
}

Landing::Landing(std::vector<Section> sections, std::shared_ptr<VersionStore> store,
                 std::optional<VersionArena::Incoming> incoming, Mapping memory)
    : sections_(std::move(sections)), store_(std::move(store)), memory_(std::move(memory)) {
  if (incoming) incoming_.emplace(std::move(*incoming));
  for (const Section& section : sections_) total_ += section.bytes;
}

std::span<uint8_t> Landing::next(uint64_t length) {
  while (at_ < sections_.size() && received_ == start_ + sections_[at_].bytes) start_ += sections_[at_++].bytes;
  if (at_ == sections_.size() || length > start_ + sections_[at_].bytes - received_) return {};
  return {base() + sections_[at_].offset + (received_ - start_), static_cast<size_t>(length)};
}

std::optional<Landing::Block> Landing::nextBlock() const {
  size_t at = at_;
  uint64_t start = start_;
  while (at < sections_.size() && received_ == start + sections_[at].bytes) start += sections_[at++].bytes;
  if (at == sections_.size() || (received_ - start) % BlockDigest::kBlockBytes != 0) return std::nullopt;
  const Section& section = sections_[at];
  const uint64_t done = received_ - start;
  return Block{at, done / BlockDigest::kBlockBytes, section.blocks.size(),
               std::min<uint64_t>(BlockDigest::kBlockBytes, section.bytes - done)};
}

Status Landing::accept(uint64_t length) {
  const Section& section = sections_[at_];
  received_ += length;
  uint64_t done = verified_ - start_;
  while (done < section.bytes) {
    const uint64_t size = std::min<uint64_t>(BlockDigest::kBlockBytes, section.bytes - done);
    if (received_ - start_ < done + size) break;
    const uint64_t block = done / BlockDigest::kBlockBytes;
    const ByteView bytes{base() + section.offset + done, static_cast<size_t>(size)};
    if (BlockDigest::of(bytes) != section.blocks[block]) {
      settle(done);
      rewind();
      const std::string which = "block " + std::to_string(block) + " of section \"" + section.name + "\"";
      return {Code::DigestMismatch, which + " is not the one announced", {}};
    }
    done += size;
  }
  settle(done);
  return {};
}

void Landing::settle(uint64_t verifiedInSection) {
  if (verified_ == start_ + verifiedInSection) return;
  verified_ = start_ + verifiedInSection;
  if (incoming_) incoming_->advance(sections_[at_].offset + verifiedInSection);
}

void Landing::rewind() { received_ = verified_; }

Landing::Landed Landing::finish() {
  struct Hold {
    std::shared_ptr<VersionStore> store;  // outlives the lease
    std::optional<VersionArena::Lease> lease;
    Mapping memory;
  };
  const auto hold = std::make_shared<Hold>(Hold{std::move(store_), std::nullopt, std::move(memory_)});
  if (incoming_) hold->lease.emplace(incoming_->finish());
  const uint8_t* from = hold->lease ? hold->lease->data() : hold->memory.data();
  Landed landed{{}, hold};
  for (const Section& section : sections_) landed.sections.push_back({from + section.offset, section.bytes});
  return landed;
}

}  // namespace muster
