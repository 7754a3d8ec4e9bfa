// Pulling a version from the first holder that can give it: by shared memory on one host, by TCP from another.
#pragma once

#include <functional>

#include "core/socket.h"
#include "core/version_store.h"

namespace muster {

struct WantedSection {
  std::string name;
  uint64_t bytes;
  uint64_t digest;  // what the bytes must digest to
};

struct PullOptions {
  Bytes key;
  std::string job;
  std::string member;
  std::vector<Address> holders;  // in order of preference
  VersionId id;
  std::vector<WantedSection> wanted;
  std::shared_ptr<VersionStore> keepIn;  // takes the version when it comes over TCP, and serves it from the first byte; may be null
  std::vector<std::span<uint8_t>> into{};  // one for each section wanted, as large; empty: nothing is copied
  // Told after each block that came over TCP how many bytes are verified, of how many; from the thread of the pull.
  std::function<void(uint64_t verified, uint64_t total)> onProgress{};
};

enum class Via { Memory, Tcp };

struct Pulled {
  std::vector<ByteView> sections;    // as wanted; read-only
  std::shared_ptr<const void> hold;  // the bytes stay where they are as long as it does
  uint64_t bytes;
  Via via;
  std::string from;
  uint64_t wireBytes = 0;          // of them, what crossed a network
  std::optional<VersionId> base{};  // what deltas were applied to, when some were
};

// Fills each piece of `into` from the piece of `from` with its number, which has its size; nothing where `into` is empty.
Status copyPieces(std::span<const ByteView> from, std::span<const std::span<uint8_t>> into, const Patience& patience);

// Tries the holders in order, and again those that broke off after they were reached. A TCP transfer that breaks off goes
// on with the next holder at the last block that is verified. Fails with the most telling reason: a digest mismatch before
// a refusal, before a version that is gone, before nobody there.
Result<Pulled> pull(const PullOptions& options, const Patience& patience);

}  // namespace muster
