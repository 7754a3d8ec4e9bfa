// Trials with versions: publishers, sources, chains, receivers and senders of deltas that die or freeze.
#pragma once

#include "trial.h"

namespace muster::test {

// The publisher is struck while it publishes and readers ask for it.
void strikePublisher(Trial& trial);
// The source is struck while readers map, copy and receive from it.
void strikeSource(Trial& trial);
// Somebody in a chain of receivers is struck: the source, a member in the middle or the last one; whole versions or deltas.
void strikeChain(Trial& trial);

}  // namespace muster::test
