// Pulling a version from the first holder that can give it: by shared memory on one host, by TCP from another.
#pragma once

#include "core/socket.h"
#include "core/version.h"

namespace muster {

struct PullTarget {
  std::string name;
  uint64_t digest;            // what the bytes must digest to
  std::span<uint8_t> into;    // exactly the section's size; written only when every section is verified
};

struct PullOptions {
  Bytes key;
  std::string job;
  std::string member;
  std::vector<Address> holders;  // in order of preference
  VersionId id;
  std::vector<PullTarget> targets;
};

enum class Via { Memory, Tcp };

struct PullResult {
  uint64_t bytes;
  Via via;
  std::string from;
};

// Tries the holders in order, and once more those that broke off after an answer. A TCP transfer that breaks off goes on
// with the next holder where it stood. Fails with the most telling reason: a digest mismatch before a refusal, before a
// version that is gone, before nobody there.
Result<PullResult> pull(const PullOptions& options, const Patience& patience);

}  // namespace muster
