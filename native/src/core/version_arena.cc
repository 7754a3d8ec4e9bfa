#include "core/version_arena.h"

#include <algorithm>
#include <system_error>

#include "core/block_digest.h"
#include "core/cores.h"
#include "core/numa.h"

namespace muster {

struct VersionArena::Slot {
  Segment memory;
  uint64_t warm = 0;  // so many bytes have pages
  std::optional<Version> version;  // nullopt while empty, being published, or given up
  Arrival state = Arrival::Ended;  // Arriving as long as anybody writes to it, a publication too
  uint64_t watermark = 0;
  size_t leases = 0;
  bool abandoned = false;
};

uint64_t SectionInput::bytes() const {
  uint64_t sum = 0;
  for (const ByteView& piece : pieces) sum += piece.size();
  return sum;
}

namespace {

// Copies sections to `into` by their offsets, or to nowhere, and digests them on the way: what Section::digest and blocks become.
Result<std::vector<Digested>> storeSections(const std::vector<SectionInput>& inputs, const std::vector<Section>& sections, uint8_t* into,
                                            const MayGoOn& mayGoOn) {
  std::vector<CopyPair> pairs;
  for (size_t i = 0; i < inputs.size(); i++) {
    uint64_t at = sections[i].offset;
    for (const ByteView& piece : inputs[i].pieces) {
      pairs.push_back({piece, into == nullptr ? nullptr : into + at});
      at += piece.size();
    }
  }
  Result<std::vector<Digested>> parts = copyAndDigestAll(pairs, mayGoOn);
  if (!parts.ok()) return parts.status();
  std::vector<Digested> all;
  std::span<const Digested> rest = parts.value();
  for (const SectionInput& input : inputs) {
    all.push_back(joinedOf(rest.first(input.pieces.size()), input.bytes()));
    rest = rest.subspan(input.pieces.size());
  }
  return all;
}

}  // namespace

VersionArena::Lease::~Lease() {
  if (slot_) arena_->release(*slot_, abandoned_);
}
const uint8_t* VersionArena::Lease::data() const { return slot_->memory.mapping.data(); }
int VersionArena::Lease::fd() const { return slot_->memory.fd.get(); }

Progress VersionArena::Lease::await(uint64_t watermark, Milliseconds wait) const {
  std::unique_lock lock(arena_->mutex_);
  const auto moved = [&] { return slot_->watermark > watermark || slot_->state != Arrival::Arriving; };
  // What counts is how far it has come, whether or not the time was up.
  [[maybe_unused]] const bool inTime = arena_->changed_.wait_for(lock, wait, moved);
  return {slot_->state, slot_->watermark};
}

VersionArena::Incoming::~Incoming() {
  if (!slot_) return;
  warming_ = {};
  {
    const std::lock_guard lock(arena_->mutex_);
    slot_->version.reset();
    slot_->state = Arrival::Ended;
    slot_->leases--;
  }
  arena_->changed_.notify_all();
}
uint8_t* VersionArena::Incoming::data() { return slot_->memory.mapping.data(); }

void VersionArena::Incoming::advance(uint64_t watermark) {
  {
    const std::lock_guard lock(arena_->mutex_);
    slot_->watermark = watermark;
  }
  arena_->changed_.notify_all();
}

VersionArena::Lease VersionArena::Incoming::finish() {
  warming_ = {};
  {
    const std::lock_guard lock(arena_->mutex_);
    slot_->state = Arrival::Whole;
  }
  arena_->changed_.notify_all();
  return Lease(arena_, std::move(slot_), std::move(sections_));  // the writer's hold becomes the caller's
}

// The hold of a publication on the slot that it writes: nobody is given the slot before the publication is over, whichever
// way it ends.
class VersionArena::Publication {
 public:
  // Call with the arena's mutex_ held.
  Publication(VersionArena& arena, VersionId id, std::shared_ptr<Slot> slot) : arena_(arena), slot_(std::move(slot)) {
    slot_->state = Arrival::Arriving;
    arena_.pending_ = id;
  }
  ~Publication() {
    if (slot_) settle(std::nullopt);
  }
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;

  Slot& slot() { return *slot_; }

  // The version is whole and visible, or nothing is.
  void settle(std::optional<Version> version) {
    {
      const std::lock_guard lock(arena_.mutex_);
      slot_->state = version ? Arrival::Whole : Arrival::Ended;
      slot_->watermark = version ? arena_.slotBytes_ : 0;
      if (version) arena_.newest_ = std::max(arena_.newest_.value_or(version->id), version->id);
      slot_->version = std::move(version);
      arena_.pending_.reset();
    }
    slot_.reset();
    arena_.changed_.notify_all();
  }

 private:
  VersionArena& arena_;
  std::shared_ptr<Slot> slot_;
};

VersionArena::VersionArena(size_t slotBytes, size_t slots) : slotBytes_(slotBytes) {
  for (size_t i = 0; i < slots; i++) slots_.push_back(std::make_shared<Slot>());
}
VersionArena::~VersionArena() = default;

Status VersionArena::layOut(std::vector<Section>& sections) const {
  if (sections.size() > kSectionsMax) return {Code::InvalidArgument, "more than " + std::to_string(kSectionsMax) + " sections", {}};
  return muster::layOut(sections, slotBytes_).status();
}

// Call with mutex_ held. Takes a slot without a version, else the one used longest ago: what failed to arrive, however
// often, costs one version at most. When versions arrive in all of them, the first of these gives way: it stays with its
// writer. A slot that is being published into is never taken.
Result<std::shared_ptr<VersionArena::Slot>> VersionArena::claimSlot() {
  if (slots_.empty()) return Status{Code::Closed, "the version store is closed", {}};
  const auto written = [](const auto& slot) { return slot->state == Arrival::Arriving; };
  auto at = std::ranges::find_if(slots_, [&](const auto& slot) { return !slot->version && !written(slot); });
  if (at == slots_.end()) at = std::ranges::find_if_not(slots_, written);
  if (at == slots_.end()) at = std::ranges::find_if(slots_, [](const auto& slot) { return slot->version.has_value(); });
  if (at == slots_.end()) return Status{Code::Conflict, "no slot is free: a version is being published", {}};
  std::shared_ptr<Slot> slot = *at;
  slots_.erase(at);
  const bool readable = slot->leases > 0 || slot->abandoned;
  if (readable) slot = std::make_shared<Slot>();
  slot->version.reset();
  slot->state = Arrival::Ended;
  slot->watermark = 0;
  slots_.push_back(slot);
  if (slot->memory.mapping.data() == nullptr) {
    Result<Segment> memory = createSegment("muster-version", slotBytes_, Access::ReadOnly);
    if (!memory.ok()) return memory.status();
    slot->memory = std::move(memory.value());
    spreadOverNodes(slot->memory.mapping.data(), slot->memory.mapping.size());
  }
  return slot;
}

Result<std::vector<Section>> VersionArena::compare(VersionId id, const std::vector<SectionInput>& inputs,
                                                   std::vector<Section> sections) const {
  Result<std::vector<Digested>> digested = storeSections(inputs, sections, nullptr, [] { return Status{}; });
  if (!digested.ok()) return digested.status();
  for (size_t i = 0; i < inputs.size(); i++) sections[i].digest = digested.value()[i].root;
  const std::lock_guard lock(mutex_);
  const Slot* slot = find(id);
  const auto same = [](const Section& a, const Section& b) { return a.name == b.name && a.digest == b.digest; };
  if (slot != nullptr && slot->state == Arrival::Arriving)
    return Status{Code::Conflict, "version " + id.text() + " is arriving here", {}};
  if (slot != nullptr && std::ranges::equal(slot->version->sections->all(), sections, same)) return sections;
  return Status{Code::Conflict, "version " + id.text() + " is here already, with other bytes", {}};
}

// Until nobody brings this version: what is still arriving may never be whole, and a version that was published is.
Status VersionArena::awaitArrival(VersionId id, const Abort& abort) {
  std::unique_lock lock(mutex_);
  for (const Slot* slot = find(id); slot != nullptr && slot->state == Arrival::Arriving; slot = find(id)) {
    if (abort.requested()) return {Code::Aborted, "publication aborted", {}};
    changed_.wait_for(lock, kLook);
  }
  return {};
}

Result<std::vector<Section>> VersionArena::publish(VersionId id, const std::vector<SectionInput>& inputs,
                                                   const Abort& abort) {
  if (Status waited = awaitArrival(id, abort); !waited.ok()) return waited;
  const std::lock_guard one(publishing_);
  std::vector<Section> sections;
  for (const SectionInput& input : inputs) sections.push_back({input.name, 0, input.bytes(), 0});
  if (Status fits = layOut(sections); !fits.ok()) return fits;
  std::optional<Publication> publication;
  {
    std::unique_lock lock(mutex_);
    if (find(id) != nullptr) {
      lock.unlock();
      return compare(id, inputs, std::move(sections));
    }
    Result<std::shared_ptr<Slot>> claimed = claimSlot();
    if (!claimed.ok()) return claimed.status();
    publication.emplace(*this, id, std::move(claimed.value()));
  }
  Slot& slot = publication->slot();
  warmUp(slot, sections, [&] { return !abort.requested(); });
  const auto mayGoOn = [&] { return abort.requested() ? Status{Code::Aborted, "publication aborted", {}} : Status{}; };
  Result<std::vector<Digested>> digested = storeSections(inputs, sections, slot.memory.mapping.data(), mayGoOn);
  if (!digested.ok()) return digested.status();
  for (size_t i = 0; i < sections.size(); i++) {
    sections[i].digest = digested.value()[i].root;
    sections[i].blocks = std::move(digested.value()[i].blocks);
  }
  publication->settle(Version{id, std::make_shared<const SectionTable>(sections)});
  return sections;
}

Result<VersionArena::Incoming> VersionArena::receive(VersionId id, std::vector<Section> sections) {
  if (Status fits = layOut(sections); !fits.ok()) return fits;
  const auto table = std::make_shared<const SectionTable>(std::move(sections));
  std::optional<Incoming> incoming;
  {
    const std::lock_guard lock(mutex_);
    if (find(id) != nullptr || pending_ == id)
      return Status{Code::Conflict, "version " + id.text() + " is here already", {}};
    Result<std::shared_ptr<Slot>> claimed = claimSlot();
    if (!claimed.ok()) return claimed.status();
    Slot& slot = *claimed.value();
    slot.version = Version{id, table};
    slot.state = Arrival::Arriving;
    slot.leases++;  // the writer's hold
    newest_ = std::max(newest_.value_or(id), id);
    incoming.emplace(Incoming(this, claimed.value(), table));
  }
  changed_.notify_all();
  // Beside: a holder does not wait for seconds until its first byte is taken.
  const auto warm = [slot = incoming->slot_.get(), placed = incoming->sections_](const std::stop_token& stop) {
    warmUp(*slot, placed->all(), [&] { return !stop.stop_requested(); });
  };
  try {
    incoming->warming_ = std::jthread(warm);
  } catch (const std::system_error&) {
    // No thread to be had: the pages come as they are touched.
  }
  return std::move(*incoming);
}

// Only for the one that writes the slot, without mutex_.
void VersionArena::warmUp(Slot& slot, const std::vector<Section>& sections, const Wanted& wanted) {
  if (sections.empty()) return;
  const uint64_t end = sections.back().offset + sections.back().bytes;
  if (end <= slot.warm) return;
  const size_t whole = std::min((end + kHugePage - 1) / kHugePage * kHugePage, slot.memory.mapping.size());
  const std::span<uint8_t> cold{slot.memory.mapping.data() + slot.warm, whole - slot.warm};
  if (prefault(std::span(&cold, 1), usableCores(), wanted)) slot.warm = whole;
}

Result<VersionArena::Lease> VersionArena::lease(VersionId id, Milliseconds wait) {
  std::unique_lock lock(mutex_);
  const auto settled = [&] { return find(id) != nullptr || (pending_ != id && newest_ && id <= *newest_); };
  if (!changed_.wait_for(lock, wait, settled) && pending_ == id)
    return Status{Code::Timeout, "version " + id.text() + " is being published", {}};
  const auto at = std::ranges::find_if(slots_, [&](const auto& s) { return s->version && s->version->id == id; });
  if (at == slots_.end()) return Status{Code::Gone, "version " + id.text() + " is not here", {}};
  (*at)->leases++;
  return Lease(this, *at, (*at)->version->sections);
}

std::optional<VersionArena::Lease> VersionArena::leaseContent(const std::string& name, uint64_t bytes, uint64_t digest) {
  const std::lock_guard lock(mutex_);
  for (const auto& slot : slots_) {
    if (!slot->version || slot->state != Arrival::Whole) continue;
    const Section* section = slot->version->sections->find(name);
    if (section == nullptr || section->bytes != bytes || section->digest != digest) continue;
    slot->leases++;
    return Lease(this, slot, slot->version->sections);
  }
  return std::nullopt;
}

bool VersionArena::mayCome(VersionId id) const {
  const std::lock_guard lock(mutex_);
  return !newest_ || id > *newest_;
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
  {
    const std::lock_guard lock(mutex_);
    slots_.clear();
  }
  changed_.notify_all();
}

bool VersionArena::holds(VersionId id) const {
  const std::lock_guard lock(mutex_);
  const Slot* slot = find(id);
  return slot != nullptr && slot->state == Arrival::Whole;
}

std::vector<VersionId> VersionArena::versions() const {
  const std::lock_guard lock(mutex_);
  std::vector<VersionId> ids;
  for (const auto& slot : slots_)
    if (slot->version && slot->state == Arrival::Whole) ids.push_back(slot->version->id);
  return ids;
}

}  // namespace muster
