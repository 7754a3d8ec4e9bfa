#include "core/delta_choice.h"

#include "core/limits.h"

namespace muster {

bool DeltaChoice::asks(const std::string& holder, VersionId id) const {
  const uint64_t every = options_.anchorEvery;
  const bool anchor = every > 0 && id.version % every == 0;
  if (options_.mode == DeltaMode::Never || anchor) return false;
  if (options_.mode == DeltaMode::Always) return true;
  const std::lock_guard lock(mutex_);
  const auto at = rates_.find(holder);
  if (at == rates_.end() || at->second.whole == 0 || at->second.delta == 0) return true;
  const bool again = every > 1 && id.version % every == 1;  // the anchor before it has shown what whole versions take
  return again || at->second.delta >= at->second.whole;
}

void DeltaChoice::learn(const std::string& holder, bool delta, uint64_t bytes, double seconds) {
  if (bytes < kTellingBytes || seconds <= 0) return;
  const std::lock_guard lock(mutex_);
  if (rates_.size() >= kHoldersMax && !rates_.contains(holder)) rates_.erase(rates_.begin());
  Rates& rates = rates_[holder];
  (delta ? rates.delta : rates.whole) = static_cast<double>(bytes) / seconds;
}

}  // namespace muster
