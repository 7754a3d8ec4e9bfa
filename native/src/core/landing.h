// Where a version lands that comes over TCP: a slot of a store, so that others can read it while it arrives, or private
// memory. Bytes are verified block by block; what is verified is final, whichever holder the rest comes from.
#pragma once

#include <memory>

#include "core/version_store.h"

namespace muster {

class Landing {
 public:
  // `sections` as a holder granted them: their block digests must come to the digests that are expected. `keepIn` may be
  // null. Code::Corrupt when the block digests do not fit.
  static Result<Landing> open(VersionId id, std::vector<Section> sections, std::shared_ptr<VersionStore> keepIn);

  uint64_t total() const { return total_; }
  // Bytes of the concatenation of the sections that are verified, and that arrived so far.
  uint64_t verified() const { return verified_; }
  uint64_t received() const { return received_; }

  // Where the next `length` bytes go; empty when they would not end within the section that they begin in.
  std::span<uint8_t> next(uint64_t length);
  // The block that begins where the next byte goes; nullopt in the middle of a block, and at the end.
  struct Block {
    size_t section;
    size_t index;
    size_t count;  // of the section's blocks
    uint64_t bytes;
  };
  std::optional<Block> nextBlock() const;
  // The next `length` bytes have arrived: verifies the blocks that they complete. Code::DigestMismatch for a block that is
  // not the one announced; then nothing of it counts as received.
  Status accept(uint64_t length);
  // Forgets what is not verified: another holder goes on from there.
  void rewind();

  struct Landed {
    std::vector<ByteView> sections;
    std::shared_ptr<const void> hold;  // the bytes stay as long as it does
  };
  // When everything is there and verified. The landing is spent.
  Landed finish();

 private:
  Landing(std::vector<Section> sections, std::shared_ptr<VersionStore> store,
          std::optional<VersionArena::Incoming> incoming, Mapping memory);
  uint8_t* base() { return incoming_ ? incoming_->data() : memory_.data(); }
  void settle(uint64_t verifiedInSection);

  std::vector<Section> sections_;
  std::shared_ptr<VersionStore> store_;
  std::optional<VersionArena::Incoming> incoming_;
  Mapping memory_;
  uint64_t total_ = 0;
  uint64_t verified_ = 0;
  uint64_t received_ = 0;
  size_t at_ = 0;       // the section that is arriving …
  uint64_t start_ = 0;  // … and where it begins in the concatenation
};

}  // namespace muster
