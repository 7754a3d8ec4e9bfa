#include "core/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace muster {

namespace {

// "max 100000" or "200000 100000"
std::optional<double> quotaIn(const std::string& folder) {
  std::string quota;
  double period = 0;
  if (std::ifstream(folder + "/cpu.max") >> quota >> period) {
    if (quota == "max" || period <= 0) return std::nullopt;
    return std::stod(quota) / period;
  }
  double micros = 0;  // negative for none
  const bool given = (std::ifstream(folder + "/cpu.cfs_quota_us") >> micros) && (std::ifstream(folder + "/cpu.cfs_period_us") >> period);
  if (!given || micros <= 0 || period <= 0) return std::nullopt;
  return micros / period;
}

// Of a group and all that it is a part of. A container may see its own group at the root: then the folders above are not there.
std::optional<double> leastQuota(const std::string& root, std::string group) {
  std::optional<double> least;
  for (;;) {
    const std::optional<double> quota = quotaIn(root + group);
    if (quota) least = std::min(*quota, least.value_or(*quota));
    const size_t up = group.rfind('/');
    if (up == std::string::npos) return least;
    group.resize(up);
  }
}

}  // namespace

std::optional<double> quotaOf(const std::string& groups, const std::string& root) {
  std::optional<double> least;
  std::istringstream lines(groups);
  // number:controllers:path; version 2 names no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::string mounts[] = {controllers.empty() ? root : root + "/" + controllers, root + (controllers.empty() ? "/unified" : "/cpu")};
    for (const std::string& mount : mounts)
      if (const auto quota = leastQuota(mount, group == "/" ? "" : group)) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

size_t usableCores() {
  cpu_set_t allowed;
  const auto cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<size_t>(CPU_COUNT(&allowed)) : size_t{1};
  std::ifstream file("/proc/self/cgroup");
  const std::string groups((std::istreambuf_iterator<char>(file)), {});
  const std::optional<double> quota = quotaOf(groups, "/sys/fs/cgroup");
  return quota ? std::clamp<size_t>(static_cast<size_t>(*quota), 1, cores) : cores;
}

}  // namespace muster
