// Work on something large, block by block, shared out to a few threads.
#pragma once

#include <cstddef>
#include <functional>

#include "core/status.h"

namespace muster {

// Asked between blocks; anything but Ok ends the work with it.
using MayGoOn = std::function<Status()>;

// What is done to the bytes [at, at + bytes), which are block number `block`. Called by several threads, once for each block.
using BlockWork = std::function<void(size_t block, size_t at, size_t bytes)>;

constexpr size_t kBlockBytes = size_t{1} << 18;

// Does `work` to every block of `total` bytes. Much work is shared out to several threads, never more than there are cores.
Status forEachBlock(size_t total, const BlockWork& work, const MayGoOn& mayGoOn);

}  // namespace muster
