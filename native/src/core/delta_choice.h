// When a delta is asked for: never on one host; between hosts by what the last transfers from that holder have shown.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/version.h"

namespace muster {

enum class DeltaMode : uint8_t { Never, Auto, Always };

struct DeltaOptions {
  DeltaMode mode = DeltaMode::Never;
  uint32_t anchorEvery = 0;  // every so many versions one is transferred whole, whatever pays; 0: none
  uint32_t keep = 0;         // deltas that a holder remembers
};

class DeltaChoice {
 public:
  explicit DeltaChoice(DeltaOptions options) : options_(options) {}

  // Whether to ask this holder for a delta of a version.
  bool asks(const std::string& holder, VersionId id) const;
  // What a transfer showed: `bytes` of a version, however they crossed.
  void learn(const std::string& holder, bool delta, uint64_t bytes, double seconds);

 private:
  struct Rates {
    double whole = 0;  // bytes of versions per second; 0 while unknown
    double delta = 0;
  };

  const DeltaOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, Rates> rates_;
};

}  // namespace muster
