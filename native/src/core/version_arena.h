// Memory in which weight versions live until their slot is needed again. A slot is one sealed memfd that only this
// process can write; readers of other processes map it read-only.
//
// The rule that makes torn reads impossible: the bytes of a slot never change while a reader may look at them. A slot
// with a lease, or with a reader of unknown fate, is not overwritten: its memory is left to its readers, which keep it
// alive by their mappings, and the slot gets fresh memory. So a frozen reader delays nobody, and costs one slot's memory.
//
// A version may be read while it arrives, up to its watermark: behind it every byte is verified and final.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/patience.h"
#include "core/prefault.h"
#include "core/section_table.h"
#include "core/shared_memory.h"
#include "core/version.h"

namespace muster {

// A section in one piece or several, one behind the other; each but the last is a whole number of blocks (kBlockBytes).
struct SectionInput {
  SectionInput(std::string named, ByteView bytes) : name(std::move(named)), pieces{bytes} {}
  SectionInput(std::string named, std::vector<ByteView> parts) : name(std::move(named)), pieces(std::move(parts)) {}

  uint64_t bytes() const;

  std::string name;
  std::vector<ByteView> pieces;
};

// How far a version has come. Ended: it will not get further.
enum class Arrival { Arriving, Whole, Ended };

struct Progress {
  Arrival state;
  uint64_t watermark;  // offset in the slot
};

class VersionArena {
  struct Slot;
  class Publication;

 public:
  // A reader's hold on one version. Ends with the object.
  class Lease {
   public:
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    const SectionTable& sections() const { return *sections_; }
    const uint8_t* data() const;
    int fd() const;
    // Waits until the version has come further than `watermark`, came to its end, or `wait` is over.
    Progress await(uint64_t watermark, Milliseconds wait) const;
    // A reader outside this process may go on reading after the lease: the memory is then never written again …
    void abandon() { abandoned_ = true; }
    // … unless that reader is known to have let go.
    void reclaim() { abandoned_ = false; }

   private:
    friend class VersionArena;
    Lease(VersionArena* arena, std::shared_ptr<Slot> slot, Sections sections)
        : arena_(arena), slot_(std::move(slot)), sections_(std::move(sections)) {}

    VersionArena* arena_;
    std::shared_ptr<Slot> slot_;
    Sections sections_;
    bool abandoned_ = false;
  };

  // The writer's side of a version that arrives from elsewhere. When it goes before finish(), the version is dropped and
  // its readers are told.
  class Incoming {
   public:
    Incoming(Incoming&&) noexcept = default;
    Incoming& operator=(Incoming&&) = delete;
    ~Incoming();

    const std::vector<Section>& sections() const { return sections_->all(); }  // with their offsets in this slot
    uint8_t* data();
    // Every byte before this offset in the slot is verified. Wakes readers that wait.
    void advance(uint64_t watermark);
    // The version is whole, and held for the caller.
    Lease finish();

   private:
    friend class VersionArena;
    Incoming(VersionArena* arena, std::shared_ptr<Slot> slot, Sections sections)
        : arena_(arena), slot_(std::move(slot)), sections_(std::move(sections)) {}

    VersionArena* arena_;
    std::shared_ptr<Slot> slot_;
    Sections sections_;
    std::jthread warming_;  // backs the slot with pages while the version arrives; nobody else is given the slot before it has ended
  };

  VersionArena(size_t slotBytes, size_t slots);
  ~VersionArena();
  VersionArena(const VersionArena&) = delete;
  VersionArena& operator=(const VersionArena&) = delete;

  // Copies the sections into a slot without a version, or the one used longest ago, digests them and makes the version
  // visible. A version that is here already with the same bytes is a success; with other bytes Code::Conflict. One that is still
  // arriving is waited for, and published when it does not come.
  Result<std::vector<Section>> publish(VersionId id, const std::vector<SectionInput>& inputs, const Abort& abort);

  // A place for a version that is about to arrive, with these names, sizes and digests; readers may lease it from now on.
  // Code::Conflict when it is here or arriving already, or the only slot is being published into.
  Result<Incoming> receive(VersionId id, std::vector<Section> sections);

  // A lease on a version, arriving or whole. Code::Timeout when it is still being published after `wait`; Code::Gone when
  // it is not here; for one that is newer than all that were ever here, and so may come yet, only after `wait`.
  Result<Lease> lease(VersionId id, Milliseconds wait);

  // A lease on a whole version with this section in it, whichever version that is; nullopt when there is none.
  std::optional<Lease> leaseContent(const std::string& name, uint64_t bytes, uint64_t digest);

  // True for a version newer than all that were ever here.
  bool mayCome(VersionId id) const;

  // Gives all memory back that no lease holds; publishing is over (Code::Closed).
  void close();

  bool holds(VersionId id) const;           // whole
  std::vector<VersionId> versions() const;  // whole ones, oldest publication first

 private:
  struct Version {
    VersionId id;
    Sections sections;
  };

  Status layOut(std::vector<Section>& sections) const;
  Result<std::shared_ptr<Slot>> claimSlot();
  static void warmUp(Slot& slot, const std::vector<Section>& sections, const Wanted& wanted);
  Status awaitArrival(VersionId id, const Abort& abort);
  Result<std::vector<Section>> compare(VersionId id, const std::vector<SectionInput>& inputs,
                                       std::vector<Section> sections) const;
  Slot* find(VersionId id) const;
  void release(Slot& slot, bool abandoned);

  const size_t slotBytes_;
  std::mutex publishing_;  // one publication at a time
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::shared_ptr<Slot>> slots_;  // oldest publication first
  std::optional<VersionId> pending_;          // being published
  std::optional<VersionId> newest_;           // of all that ever were here
};

}  // namespace muster
