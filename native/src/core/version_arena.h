// Memory in which weight versions live until their slot is needed again. A slot is one sealed memfd that only this
// process can write; readers of other processes map it read-only.
//
// The rule that makes torn reads impossible: the bytes of a slot never change while a reader may look at them. A slot
// with a lease, or with a reader of unknown fate, is not overwritten: its memory is left to its readers, which keep it
// alive by their mappings, and the slot gets fresh memory. So a frozen reader delays nobody, and costs one slot's memory.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "core/patience.h"
#include "core/shared_memory.h"
#include "core/version.h"

namespace muster {

struct SectionInput {
  std::string name;
  ByteView bytes;
};

class VersionArena {
  struct Slot;

 public:
  // A reader's hold on one version. Ends with the object.
  class Lease {
   public:
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    const std::vector<Section>& sections() const { return sections_; }
    const uint8_t* data() const;
    int fd() const;
    // A reader outside this process may go on reading after the lease: the memory is then never written again …
    void abandon() { abandoned_ = true; }
    // … unless that reader is known to have let go.
    void reclaim() { abandoned_ = false; }

   private:
    friend class VersionArena;
    Lease(VersionArena* arena, std::shared_ptr<Slot> slot, std::vector<Section> sections)
        : arena_(arena), slot_(std::move(slot)), sections_(std::move(sections)) {}

    VersionArena* arena_;
    std::shared_ptr<Slot> slot_;
    std::vector<Section> sections_;
    bool abandoned_ = false;
  };

  VersionArena(size_t slotBytes, size_t slots);
  ~VersionArena();
  VersionArena(const VersionArena&) = delete;
  VersionArena& operator=(const VersionArena&) = delete;

  // Copies the sections into the slot used longest ago, digests them and makes the version visible. A version that is
  // here already with the same bytes is a success; with other bytes Code::Conflict.
  Result<std::vector<Section>> publish(VersionId id, const std::vector<SectionInput>& inputs, const Abort& abort);

  // A lease on a version; Code::Gone when it is not here, Code::Timeout when it is still being published after `wait`.
  Result<Lease> lease(VersionId id, Milliseconds wait);

  // Gives all memory back that no lease holds; publishing is over (Code::Closed).
  void close();

  bool holds(VersionId id) const;
  std::vector<VersionId> versions() const;  // oldest publication first

 private:
  struct Version {
    VersionId id;
    std::vector<Section> sections;
  };

  Result<std::vector<Section>> layOut(const std::vector<SectionInput>& inputs) const;
  Result<std::shared_ptr<Slot>> claimSlot(VersionId id);
  Slot* find(VersionId id) const;
  void release(Slot& slot, bool abandoned);

  const size_t slotBytes_;
  std::mutex publishing_;  // one publication at a time
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::vector<std::shared_ptr<Slot>> slots_;  // oldest publication first
  std::optional<VersionId> pending_;
};

}  // namespace muster
