#include "core/version_arena.h"

#include <algorithm>

#include "core/xxh64.h"
#include "cpu/stream_copy.h"

namespace muster {

namespace {

constexpr size_t kAlignment = 64;

// Copies a section and digests it on the way, so that the source is read from memory once.
Status copyAndDigest(ByteView from, uint8_t* to, uint64_t& digest, const Abort& abort) {
  BlockDigest blocks;
  for (size_t done = 0; done < from.size();) {
    if (abort.requested()) return {Code::Aborted, "publication aborted", {}};
    const ByteView block = from.subspan(done, std::min(BlockDigest::kBlockBytes, from.size() - done));
    blocks.add(block);
    streamCopy(to + done, block.data(), block.size());
    done += block.size();
  }
  digest = blocks.root();
  return {};
}

}  // namespace

struct VersionArena::Slot {
  Segment memory;
  std::optional<Version> version;  // nullopt while empty or being filled
  size_t leases = 0;
  bool abandoned = false;
};

VersionArena::Lease::~Lease() {
  if (slot_) arena_->release(*slot_, abandoned_);
}
const uint8_t* VersionArena::Lease::data() const { return slot_->memory.mapping.data(); }
int VersionArena::Lease::fd() const { return slot_->memory.fd.get(); }

VersionArena::VersionArena(size_t slotBytes, size_t slots) : slotBytes_(slotBytes) {
  for (size_t i = 0; i < slots; i++) slots_.push_back(std::make_shared<Slot>());
}
VersionArena::~VersionArena() = default;

Result<std::vector<Section>> VersionArena::layOut(const std::vector<SectionInput>& inputs) const {
  std::vector<Section> sections;
  uint64_t end = 0;
  for (const SectionInput& input : inputs) {
    const uint64_t offset = (end + kAlignment - 1) / kAlignment * kAlignment;
    end = offset + input.bytes.size();
    sections.push_back({input.name, offset, input.bytes.size(), 0});
  }
  if (end > slotBytes_)
    return Status{Code::TooLarge,
                  "the sections need " + std::to_string(end) + " bytes, a slot has " + std::to_string(slotBytes_),
                  {}};
  if (sections.size() > kSectionsMax) return Status{Code::InvalidArgument, "more than 64 sections", {}};
  return sections;
}

Result<std::shared_ptr<VersionArena::Slot>> VersionArena::claimSlot(VersionId id) {
  const std::lock_guard lock(mutex_);
  if (slots_.empty()) return Status{Code::Closed, "the version store is closed", {}};
  std::shared_ptr<Slot> slot = slots_.front();
  slots_.erase(slots_.begin());
  slot->version.reset();
  const bool readable = slot->leases > 0 || slot->abandoned;
  if (readable) slot = std::make_shared<Slot>();
  slots_.push_back(slot);
  if (slot->memory.mapping.data() == nullptr) {
    Result<Segment> memory = createSegment("muster-version", slotBytes_, Access::ReadOnly);
    if (!memory.ok()) return memory.status();
    slot->memory = std::move(memory.value());
  }
  pending_ = id;
  return slot;
}

Result<std::vector<Section>> VersionArena::publish(VersionId id, const std::vector<SectionInput>& inputs,
                                                   const Abort& abort) {
  const std::lock_guard one(publishing_);
  Result<std::vector<Section>> layout = layOut(inputs);
  if (!layout.ok()) return layout;
  std::vector<Section>& sections = layout.value();
  if (holds(id)) {
    for (size_t i = 0; i < inputs.size(); i++) sections[i].digest = digestOf(inputs[i].bytes);
    const std::lock_guard lock(mutex_);
    const auto same = [](const Section& a, const Section& b) { return a.name == b.name && a.digest == b.digest; };
    if (std::ranges::equal(find(id)->version->sections, sections, same)) return layout;
    return Status{Code::Conflict, "version " + id.text() + " is here already, with other bytes", {}};
  }
  const Result<std::shared_ptr<Slot>> claimed = claimSlot(id);
  if (!claimed.ok()) return claimed.status();
  Slot& slot = *claimed.value();
  Status copied;
  for (size_t i = 0; i < inputs.size() && copied.ok(); i++)
    copied = copyAndDigest(inputs[i].bytes, slot.memory.mapping.data() + sections[i].offset, sections[i].digest, abort);
  {
    const std::lock_guard lock(mutex_);
    pending_.reset();
    if (copied.ok()) slot.version = Version{id, sections};
  }
  settled_.notify_all();
  if (!copied.ok()) return copied;
  return layout;
}

Result<VersionArena::Lease> VersionArena::lease(VersionId id, Milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (!settled_.wait_for(lock, wait, [&] { return pending_ != id; }))
    return Status{Code::Timeout, "version " + id.text() + " is being published", {}};
  const auto at = std::ranges::find_if(slots_, [&](const auto& s) { return s->version && s->version->id == id; });
  if (at == slots_.end()) return Status{Code::Gone, "version " + id.text() + " is not here", {}};
  (*at)->leases++;
  return Lease(this, *at, (*at)->version->sections);
}

void VersionArena::release(Slot& slot, bool abandoned) {
  const std::lock_guard lock(mutex_);
  slot.leases--;
  slot.abandoned = slot.abandoned || abandoned;
}

VersionArena::Slot* VersionArena::find(VersionId id) const {
  for (const auto& slot : slots_)
    if (slot->version && slot->version->id == id) return slot.get();
  return nullptr;
}

void VersionArena::close() {
  const std::lock_guard one(publishing_);
  const std::lock_guard lock(mutex_);
  slots_.clear();
}

bool VersionArena::holds(VersionId id) const {
  const std::lock_guard lock(mutex_);
  return find(id) != nullptr;
}

std::vector<VersionId> VersionArena::versions() const {
  const std::lock_guard lock(mutex_);
  std::vector<VersionId> ids;
  for (const auto& slot : slots_)
    if (slot->version) ids.push_back(slot->version->id);
  return ids;
}

}  // namespace muster
