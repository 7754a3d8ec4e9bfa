// Takes large mappings out of the address space on a thread of its own: it takes up to 100 ms for each GiB, and whoever lets go of them last
// may be a thread that must not wait, as that of JavaScript.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

// Whole pages. Smaller mappings than this go at once, and larger ones, too, where no thread is to be had.
void unmapLater(uint8_t* data, size_t size);

// Until all that was let go of before is given back: so that memory is not taken twice.
void awaitUnmapped();

}  // namespace muster
