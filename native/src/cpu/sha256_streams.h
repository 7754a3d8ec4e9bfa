// SHA-256 (FIPS 180-4) of several runs of bytes in one thread. The rounds of one run wait for each other; where the processor has instructions for
// them, three runs in turns fill these waits, and take half of the time that they take one by one.
#pragma once

#include <functional>
#include <span>

#include "core/sha256.h"
#include "core/status.h"

namespace muster {

// True where this processor has the instructions. Elsewhere sha256Each gives the same digests, slower than a library that knows the processor.
bool hasShaInstructions();

// out[i] = SHA-256 of inputs[i]; as many of both. `mayGoOn` is asked now and then, and anything but Ok ends the work with it.
Status sha256Each(std::span<const ByteView> inputs, std::span<Sha256Digest> out, const std::function<Status()>& mayGoOn);

// The same with baseline instructions alone.
Status sha256EachBaseline(std::span<const ByteView> inputs, std::span<Sha256Digest> out, const std::function<Status()>& mayGoOn);

}  // namespace muster
