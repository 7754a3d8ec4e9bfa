// Work on something large, block by block, shared out to a few threads.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/status.h"

namespace muster {

// Asked between blocks; anything but Ok ends the work with it.
using MayGoOn = std::function<Status()>;

// A block of one of several pieces: its bytes [at, at + bytes), which are block number `index` of the piece.
struct PieceBlock {
  size_t piece;
  size_t index;
  size_t at;
  size_t bytes;
};

// What is done to a block. Called by several threads, once for each block.
using BlockWork = std::function<void(const PieceBlock& block)>;

constexpr size_t kBlockBytes = size_t{1} << 18;

// Does `work` to every block of pieces of these sizes. Much work is shared out to several threads, never more than there are
// cores; many small pieces are as good as a large one.
Status forEachBlock(const std::vector<size_t>& pieces, const BlockWork& work, const MayGoOn& mayGoOn);

}  // namespace muster
