// A member's published versions: an arena, and the server that lets others read it.
#pragma once

#include <memory>

#include "core/delta_choice.h"
#include "core/delta_log.h"
#include "core/version_server.h"

namespace muster {

struct StoreOptions {
  Bytes key;
  std::string job;
  std::string member;
  std::string socketDir;
  std::optional<std::string> tcpHost;
  size_t slotBytes = 0;
  size_t slots = 2;
  DeltaOptions delta{};
  Milliseconds holdMax = kHoldMax;  // how long a reader of this host may have memory before its slot is left to it for good
};

class VersionStore {
 public:
  static Result<std::shared_ptr<VersionStore>> open(const StoreOptions& options);

  const std::vector<std::string>& addresses() const { return addresses_; }
  // Code::Closed after close().
  Result<std::vector<Section>> publish(VersionId id, const std::vector<SectionInput>& inputs, const Abort& abort);
  // A place for a version that arrives from elsewhere; see VersionArena::receive. Code::Closed after close().
  Result<VersionArena::Incoming> receive(VersionId id, std::vector<Section> sections);
  // What this store itself has of a version; Code::Gone at once when it has nothing.
  Result<VersionArena::Lease> lease(VersionId id) { return arena_.lease(id, Milliseconds(0)); }
  // Where the meshes of this member let the leaders of other hosts in.
  MeshListener& listener() { return listener_; }
  // Deltas made here or received, and what transfers into this store have shown about them.
  DeltaLog& deltas() { return deltas_; }
  DeltaChoice& deltaChoice() { return deltaChoice_; }
  bool holds(VersionId id) const { return arena_.holds(id); }
  std::vector<VersionId> versions() const { return arena_.versions(); }
  // Stops serving; readers see their connections close. Memory goes when the last reader lets go. Harmless twice.
  void close();

 private:
  // Deltas take up to half of what one version takes.
  explicit VersionStore(const StoreOptions& options)
      : arena_(options.slotBytes, options.slots),
        deltas_(options.delta.keep, options.slotBytes / 2),
        deltaChoice_(options.delta) {}

  VersionArena arena_;
  DeltaLog deltas_;
  DeltaChoice deltaChoice_;
  MeshListener listener_;
  std::vector<std::string> addresses_;
  std::atomic<bool> closed_{false};
  std::mutex closing_;
  std::unique_ptr<VersionServer> server_;
};

}  // namespace muster
