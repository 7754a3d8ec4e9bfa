// Every time and size of the data plane that somebody chose, with its reason. What depends on the network is in NetworkTimes, which a job file sets
// ([network], docs/reference/configuration.md). Elsewhere stand only what is derived, formats, and tiles that follow from caches (src/cpu).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace muster {

using Milliseconds = std::chrono::milliseconds;

// The round trip comes on top where it is measured; see silenceOf.
struct NetworkTimes {
  Milliseconds alive{50};        // how often an end that has nothing to say says that it lives: often beside all silences, rarely beside the traffic
  Milliseconds answer{500};      // shortest silence that loses a holder before its grant, and the only one that is known: a busy one needs its time
  Milliseconds connect{1'500};   // until a call is given up: Linux sends a lost first packet again after a second
  Milliseconds starved{2'000};   // a holder that lives and gets nothing itself for so long is left
  Milliseconds stall{5'000};     // an end that takes no byte for so long is dropped: it costs a thread, and others wait for what it has
  Milliseconds hostSilence{1'000};  // loses a host of a mesh: the step that waits for it is tried again, which costs more than the second
  Milliseconds meshCall{2'000};     // until a call at the leader of another host is made again: that one may be busy with its own ranks
  Milliseconds handshake{5'000};    // for all that a caller says before its request, whatever it is asked meanwhile

  // Code::InvalidArgument with the two that do not go together.
  Status check() const;
};

// Those of this process. What is under way goes on with those that it began with, or takes the new ones at its next wait.
const NetworkTimes& network();
Status setNetwork(const NetworkTimes& times);

// Pulls.
inline constexpr Milliseconds kRetransmission{200};  // TCP_RTO_MIN of Linux: a lost packet comes no sooner, and a frozen holder looks the same
inline constexpr Milliseconds kLate{20};             // for the threads at both ends to get their turn
inline constexpr Milliseconds kAgain{20};            // before holders that broke off are asked once more: they may be starting again
inline constexpr Milliseconds kMayCome{250};         // a version that is not here yet is waited for: who was told of it first publishes it soon
inline constexpr Milliseconds kWaitMax{600'000};     // for a version, whatever the reader asks for: a thread of the holder waits as well
inline constexpr Milliseconds kHoldMax{600'000};     // of memory by a reader of this host; then its slot is left to it for good
inline constexpr size_t kReasonsMax = 64;            // failures remembered for one message: people read no more
inline constexpr size_t kSectionsMax = 1024;         // of a version: their names fit into a control frame
inline constexpr size_t kRangesMax = 8192;           // of one request: it fits into its frame
inline constexpr uint64_t kStreamBytes = 256 * 1024;  // of one Data frame: small, so that the next hop of a chain starts soon
inline constexpr uint64_t kSectionAlignment = 64;     // of sections in memory: a cache line, and the widest vector

// Frames, by type: memory is taken for the announced length.
inline constexpr uint32_t kWordBytesMax = 4 * 1024;           // all that is said before both ends have proved the key, and small news
inline constexpr uint32_t kNewsBytesMax = 8 * 1024;           // a rank's claims of shards
inline constexpr uint32_t kRequestBytesMax = 256 * 1024;      // kRangesMax, and names
inline constexpr uint32_t kGrantBytesMax = 33 * 1024 * 1024;  // block digests of a terabyte
inline constexpr uint32_t kChunkBytesMax = 1024 * 1024;       // of bulk: four times what is sent today

// Callers.
inline constexpr size_t kHalfOpenMax = 256;                     // of one kind of listener: each costs a thread and a descriptor
inline constexpr size_t kHalfOpenOfOneMax = kHalfOpenMax / 2;   // of one address: the others keep a half
inline constexpr size_t kReadersMax = 256;                      // who has proved the key; the next one asks another holder
inline constexpr size_t kCallersMax = 1024;                     // waiting for one mesh: as many as it can have ranks
inline constexpr int kBacklog = 1024;                           // callers that the kernel keeps while nobody accepts them
inline constexpr Milliseconds kShort{10};  // until descriptors or memory may be there again: others give them back, nothing tells when
inline constexpr Milliseconds kBusy{2};    // until a listener that is there may have taken another caller

// Meshes and groups.
inline constexpr uint32_t kWorldSizeMax = 1024;   // ranks: each is looked at by all others
inline constexpr const char* kSumOrder = "tree";  // of gradients: all members of a mesh add in the same one, and send each other what it lets them
inline constexpr uint32_t kShardsMax = 4096;      // of a mesh: the claims of one rank fit into its news
inline constexpr uint64_t kShardElementsMax = uint64_t{1} << 40;  // four terabytes: all shards together can still be counted in 64 bits
inline constexpr Milliseconds kJoinAgain{5};      // before a leader of this host is looked for again: it comes within moments, and a look is cheap
inline constexpr Milliseconds kLook{20};          // between two looks at what nobody tells of: abort flags, callers who hung up
inline constexpr Milliseconds kDeathLook{5};      // between two looks at mutexes and sockets of other ranks: a few atomic operations for each
inline constexpr Milliseconds kTakeLife{200};     // to take one's own mutex: others only ever hold it for the length of a look
inline constexpr Milliseconds kTakeAgain{1};      // between two tries
inline constexpr Milliseconds kFarewell{200};     // for what is announced when a mesh ends: nobody waits for it but memory
inline constexpr Milliseconds kForEver{1'000'000'000};  // where the deadline of somebody else ends a wait
inline constexpr size_t kMeshPieceBytes = 256 * 1024;   // of a shard: others get their turn in between
inline constexpr std::chrono::microseconds kMoment{100};  // looked for before sleeping: about as long as it takes to be woken
inline constexpr size_t kPenaltyMax = 128;                // waits without such a look after vain ones

// Deltas.
inline constexpr size_t kDeltaStepsMax = 16;               // applied one after another to one block: more cost what they save
inline constexpr size_t kDeltaBlockMax = size_t{1} << 26;  // longest block that is ever encoded
inline constexpr size_t kMissesMax = 8;                    // blocks that got no smaller, then the rest of the section is sent as it is
inline constexpr size_t kHoldersMax = 256;                 // whose rates are remembered
inline constexpr uint64_t kTellingBytes = 1024 * 1024;     // shorter transfers tell of latency, not of rates

// Threads and pages.
inline constexpr size_t kBusThreads = 4;                       // for copying and backing: a memory bus has enough of them
inline constexpr int kCrewNiceness = 10;                       // of threads that copy and back: a tenth of a core beside a busy event loop, and what it leaves
inline constexpr size_t kBytesPerThread = size_t{16} << 20;    // less is done before another thread has begun
inline constexpr size_t kUnmapLaterBytes = size_t{16} << 20;   // that take long enough (about a millisecond) to go on a thread
inline constexpr size_t kHugePage = size_t{2} << 20;           // of x86-64 and of arm64 with 4 KiB pages
inline constexpr size_t kPrefaultPiece = 32 * kHugePage;       // of one thread at a time: an abort is seen in between
inline constexpr size_t kAbortStep = size_t{1} << 18;          // elements summed between two looks at the abort flag

// GPUs and Gloo: foreign code that may not come back.
inline constexpr Milliseconds kStrayLook{20};    // between two looks at the abort flag
inline constexpr Milliseconds kOwnerLook{5};     // the same, where operations are short
inline constexpr Milliseconds kOwnerGrace{1'000};  // behind a deadline, for the owner's thread to come back
inline constexpr size_t kLockedBytes = size_t{64} << 20;  // of host memory, locked at a time for a device: the rest of the host needs pages that move
inline constexpr size_t kTasksMax = 64;          // that wait for one communicator
inline constexpr Milliseconds kQuiet{500};       // for an aborted kernel to see the flag
inline constexpr std::chrono::microseconds kFirstPause{5}, kLongestPause{500};  // between two questions to a driver, doubled from the first on
inline constexpr Milliseconds kShelfCaller{1'000};  // a caller at a shelf that says nothing for so long is dropped; the others wait for it
inline constexpr Milliseconds kShelfTick{100};      // between two looks whether a shelf is to close, should the event be missed
inline constexpr Milliseconds kGlooBackstop{5'000};   // behind our deadline Gloo ends its wait itself, should it not be told to
inline constexpr Milliseconds kGlooGrace{1'000};      // for a call of Gloo to end after it was told to
inline constexpr Milliseconds kGlooSearch{1'000};     // a connection of Gloo broke: the watch knows the rank about as soon
inline constexpr Milliseconds kGlooLastWords{50};     // what a rank sent before it left may still be on its way
inline constexpr Milliseconds kGlooConnect{6'000};    // a fifth of what Gloo waits for a connection; all ranks have met by then

// What is remembered of what happened.
inline constexpr size_t kPeersMax = 64;        // hosts whose bytes are counted apart; a label of a metric has no more values
inline constexpr size_t kEventsMax = 32;       // of one kind, so that a flood of one pushes out no other
inline constexpr size_t kEventTextMax = 300;   // of one event, in bytes

}  // namespace muster
