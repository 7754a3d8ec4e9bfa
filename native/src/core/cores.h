// How many cores this process may use.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace muster {

// Those that it may run on, and no more than the quotas of its control groups pay for: threads above that take turns, and all of them stand
// still when the quota is used up. At least one.
size_t usableCores();

// What the quotas pay for, in cores; nullopt when there is none. `groups` is what /proc/self/cgroup says, `root` where control groups are
// mounted, of version 2, version 1, or both.
std::optional<double> quotaOf(const std::string& groups, const std::string& root);

}  // namespace muster
