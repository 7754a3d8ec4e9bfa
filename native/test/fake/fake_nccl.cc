// NCCL's part. What real NCCL leaves undefined is a violation here: two threads in one communicator, a call while another is in
// progress, anything after an abort, Finalize or Destroy with work in flight.
//
// What it does as NCCL does, and where NCCL 2.30.7 (commit 5067397c) does it:
//   an id has 128 bytes                                              src/nccl.h.in:40
//   a config without the magic number is refused                     src/nccl.h.in:61, src/init.cc:2265
//   a group of communicators that do not block is "in progress"      src/group.cc:826-857
//   a call while another one is in progress is refused               src/init.cc:422 (ncclCommEnsureReady)
//   that state, and a pending error, are told by GetAsyncError       src/init.cc:3449
//   shrink says success, with no child until the state has settled   src/init.cc:3099 (NULL), 3177-3204 (returns `res`), 2515 (the child)
//   who is excluded may not call shrink                              src/init.cc:3090
//   calls return when they are queued on the caller's stream         src/nccl.h.in:437
//   a launch comes behind that stream, and Abort waits for launches  src/enqueue.cc:1886, 1915; src/init.cc:2744
//   a shrink with the abort flag ends what the parent does first     src/init.cc:3183
//   Finalize needs a communicator that is ready, and only once       src/init.cc:2793-2801
//   Destroy needs one that is ready; Abort does not                  src/init.cc:2901, 3041
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "fake_gpu.h"

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 22703
#endif

namespace fake {

namespace {

constexpr int kInvalidArgument = 4;
constexpr int kInvalidUsage = 5;
constexpr int kInProgress = 7;

struct Id {
  char bytes[128];
};

enum class Kind { AllReduce, Broadcast, ReduceScatter, AllGather, Send, Receive };

struct Call {
  Kind kind;
  const void* from;
  void* to;
  size_t count;
  int type;
  int op;    // or root, or peer
  Stream* stream;
  bool finished = false;
};
using CallPtr = std::shared_ptr<Call>;

struct Comm;

struct Group {
  size_t ranks;
  std::vector<Comm*> members;
  std::map<size_t, std::map<int, CallPtr>> collectives;          // by number of the operation, by rank
  std::map<std::pair<int, int>, std::list<CallPtr>> sends, receives;  // by (from, to)
};

struct Comm {
  std::shared_ptr<Group> group;
  std::string key;
  int rank;
  std::thread::id owner;
  long polls = 0;  // how many more times it says that a call is in progress
  size_t next = 0;
  Stream* stream = nullptr;
  std::vector<CallPtr> calls{};
  bool shrunkByAbort = false;
  size_t children = 0;
  Comm** childAt = nullptr;  // where its child is written once its state has settled
  Comm* child = nullptr;
};

std::map<std::string, std::shared_ptr<Group>> groups;
std::map<Comm*, std::unique_ptr<Comm>> comms;
long ids = 0;
thread_local int depth = 0;
// By thread; not thread-local, because the thread sanitizer takes the end of such a vector in a loaded library for a race.
std::map<std::thread::id, std::vector<std::pair<Comm*, CallPtr>>> queued;

size_t sizeOf(int type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}

bool isReady(const Comm& comm) { return comm.group->members.size() == comm.group->ranks; }

// The communicator, if it may be called now from here.
Comm* enter(Comm* comm, const char* what) {
  if (!comms.contains(comm)) return violation(std::string(what) + " on a communicator that is gone"), nullptr;
  if (comm->owner == std::thread::id()) comm->owner = std::this_thread::get_id();  // a child goes to a thread of its own
  if (comm->owner != std::this_thread::get_id()) violation(std::string(what) + " from a second thread");
  if (!hasContext()) violation(std::string(what) + " without a context");
  return comm;
}
Comm* enterIdle(Comm* comm, const char* what) {
  comm = enter(comm, what);
  if (comm != nullptr && (comm->polls > 0 || !isReady(*comm))) violation(std::string(what) + " while a call is in progress");
  return comm;
}

void reduce(const std::map<int, CallPtr>& calls, size_t first, size_t count, void* to) {
  const Call& any = *calls.begin()->second;
  if (any.type != 7) return violation("the fake adds float32 only");
  for (size_t i = 0; i < count; i++) {
    float sum = 0;
    for (const auto& [rank, call] : calls) sum += static_cast<const float*>(call->from)[first + i];
    static_cast<float*>(to)[i] = any.op == 4 ? sum / static_cast<float>(calls.size()) : sum;
  }
}

// All ranks have come.
void perform(const std::map<int, CallPtr>& calls) {
  const Call& any = *calls.begin()->second;
  std::vector<std::vector<char>> results;  // first all, then written: buffers may be the same
  for (const auto& [rank, call] : calls) {
    if (call->kind != any.kind || call->count != any.count || call->type != any.type || call->op != any.op)
      violation("the ranks call different operations");
    const size_t bytes = call->count * sizeOf(call->type);
    std::vector<char>& out = results.emplace_back(call->kind == Kind::AllGather ? bytes * calls.size() : bytes);
    const auto ranked = static_cast<size_t>(rank);
    if (call->kind == Kind::AllReduce) reduce(calls, 0, call->count, out.data());
    if (call->kind == Kind::ReduceScatter) reduce(calls, ranked * call->count, call->count, out.data());
    if (call->kind == Kind::Broadcast) std::memcpy(out.data(), calls.at(call->op)->from, bytes);
    if (call->kind == Kind::AllGather)
      for (const auto& [other, its] : calls) std::memcpy(out.data() + static_cast<size_t>(other) * bytes, its->from, bytes);
  }
  size_t at = 0;
  for (const auto& [rank, call] : calls) {
    std::memcpy(call->to, results[at].data(), results[at].size());
    call->finished = true;
    at++;
  }
}

void match(std::list<CallPtr>& sends, std::list<CallPtr>& receives) {
  const auto aborted = [](const CallPtr& call) { return call->finished; };
  std::erase_if(sends, aborted);
  std::erase_if(receives, aborted);
  while (!sends.empty() && !receives.empty()) {
    if (sends.front()->count != receives.front()->count) violation("a send and its receive differ in size");
    std::memcpy(receives.front()->to, sends.front()->from, receives.front()->count * sizeOf(receives.front()->type));
    sends.front()->finished = receives.front()->finished = true;
    sends.pop_front();
    receives.pop_front();
  }
}

// The call has come to the front of its stream.
void arrive(Group& group, int rank, size_t number, const CallPtr& call) {
  if (knob("collectivesHang", 0) != 0) return;
  if (call->kind == Kind::Send || call->kind == Kind::Receive) {
    const auto key = call->kind == Kind::Send ? std::pair(rank, call->op) : std::pair(call->op, rank);
    (call->kind == Kind::Send ? group.sends : group.receives)[key].push_back(call);
    return match(group.sends[key], group.receives[key]);
  }
  auto& calls = group.collectives[number];
  calls[rank] = call;
  const bool aborted = std::ranges::any_of(calls, [](const auto& each) { return each.second->finished; });
  if (calls.size() < group.ranks || aborted) return;
  perform(calls);
  group.collectives.erase(number);
}

void begin(Comm& comm) {
  comm.polls = knob("polls", 2);
  if (comm.stream != nullptr) comm.stream->blocked = comm.polls > 0;
}

// Launches the calls of one group on one communicator.
void launch(Comm* comm, std::vector<CallPtr> calls) {
  Stream* stream = calls.front()->stream;
  comm->stream = stream;
  std::erase_if(comm->calls, [](const CallPtr& call) { return call->finished; });
  comm->calls.insert(comm->calls.end(), calls.begin(), calls.end());
  const size_t number = comm->next++;
  const auto start = [group = comm->group, rank = comm->rank, number, calls] {
    for (const CallPtr& call : calls) arrive(*group, rank, number, call);
  };
  stream->work.push_back({start, [calls] { return std::ranges::all_of(calls, [](const CallPtr& call) { return call->finished; }); }});
  pump(*stream);
  begin(*comm);
}

int enqueue(Comm* comm, const char* what, const Call& call) {
  const Lock lock(state().mutex);
  comm = enterIdle(comm, what);
  if (comm == nullptr || call.stream == nullptr) return kInvalidArgument;
  if (const long result = knob("launchResult", 0); result != 0) return static_cast<int>(result);
  const auto queuedCall = std::make_shared<Call>(call);
  if (depth > 0) return queued[std::this_thread::get_id()].emplace_back(comm, queuedCall), 0;
  launch(comm, {queuedCall});
  return comm->polls > 0 ? kInProgress : 0;
}

bool isConfig(const void* config) {
  uint64_t size;
  uint32_t words[3];
  std::memcpy(&size, config, sizeof size);
  std::memcpy(words, static_cast<const char*>(config) + sizeof size, sizeof words);
  return size == 24 && words[0] == 0xcafebeef && words[1] == 21400 && words[2] == 0;
}

Comm* join(const std::string& key, size_t ranks, int rank) {
  std::shared_ptr<Group>& group = groups[key];
  if (!group) group = std::make_shared<Group>(Group{ranks, {}, {}, {}, {}});
  if (group->ranks != ranks) violation("the ranks disagree on their number");
  auto made = std::make_unique<Comm>(Comm{group, key, rank, std::this_thread::get_id()});
  Comm* comm = made.get();
  comms[comm] = std::move(made);
  group->members.push_back(comm);
  comm->polls = knob("polls", 2);
  return comm;
}

void endWork(Comm& comm) {
  for (const CallPtr& call : comm.calls) call->finished = true;  // the kernels see the flag and end
  if (comm.stream == nullptr) return;
  comm.stream->blocked = false;
  pump(*comm.stream);
  if (!comm.stream->work.empty()) violation("an abort that would wait for what is queued before a launch");
}

int leave(Comm* comm) {
  if (comm->childAt != nullptr) comms.erase(comm->child);  // nobody was given it yet
  return comms.erase(comm), 0;
}

}  // namespace

std::string ncclLeaks() { return comms.empty() ? "" : std::to_string(comms.size()) + " communicators\n"; }

}  // namespace fake

using namespace fake;

EXPORTED int ncclGetVersion(int* version) { return *version = static_cast<int>(knob("ncclVersion", FAKE_NCCL_VERSION)), 0; }
EXPORTED const char* ncclGetErrorString(int result) { return result == 6 ? "remote process exited or there was a network error" : "an error of the fake"; }
EXPORTED const char* ncclGetLastError(Comm*) { return "the last error of the fake"; }
EXPORTED int ncclGetUniqueId(Id* id) {
  const Lock lock(state().mutex);
  std::memset(id->bytes, 0x5a, sizeof id->bytes);  // the end of the id must arrive as well
  std::snprintf(id->bytes, 32, "fake %ld", ++ids);
  return 0;
}
EXPORTED int ncclCommInitRankConfig(Comm** comm, int ranks, Id id, int rank, const void* config) {
  blockWhile("initBlocks");
  const Lock lock(state().mutex);
  if (!isConfig(config)) return violation("a config that is not the one of 2.14, not blocking"), kInvalidArgument;
  if (!hasContext()) violation("ncclCommInitRankConfig without a context");
  if (rank < 0 || rank >= ranks) return kInvalidArgument;
  if (std::memcmp(id.bytes, "fake ", 5) != 0 || id.bytes[127] != 0x5a) return violation("the id did not arrive whole"), kInvalidArgument;
  return *comm = join(std::string(id.bytes, sizeof id.bytes), static_cast<size_t>(ranks), rank), kInProgress;
}
EXPORTED int ncclCommGetAsyncError(Comm* comm, int* result) {
  const Lock lock(state().mutex);
  if (enter(comm, "ncclCommGetAsyncError") == nullptr) return kInvalidArgument;
  *result = 0;
  if (const long error = knob("asyncError", 0); error != 0) return *result = static_cast<int>(error), 0;
  if (!isReady(*comm) || comm->polls-- > 0) return *result = kInProgress, 0;
  comm->polls = 0;
  if (comm->stream != nullptr) comm->stream->blocked = false;
  if (comm->childAt != nullptr) *std::exchange(comm->childAt, nullptr) = comm->child;
  return 0;
}
EXPORTED int ncclCommAbort(Comm* comm) {
  blockWhile("abortBlocks");
  const Lock lock(state().mutex);
  if (enter(comm, "ncclCommAbort") == nullptr) return kInvalidArgument;
  return endWork(*comm), leave(comm);
}
EXPORTED int ncclCommFinalize(Comm* comm) {
  const Lock lock(state().mutex);
  if (enterIdle(comm, "ncclCommFinalize") == nullptr) return kInvalidArgument;
  if (comm->shrunkByAbort) violation("ncclCommFinalize after an abort");
  if (std::ranges::any_of(comm->calls, [](const CallPtr& call) { return !call->finished; })) violation("ncclCommFinalize with work in flight");
  return comm->polls = knob("polls", 2), comm->polls > 0 ? kInProgress : 0;
}
EXPORTED int ncclCommDestroy(Comm* comm) {
  const Lock lock(state().mutex);
  if (enterIdle(comm, "ncclCommDestroy") == nullptr) return kInvalidArgument;
  if (comm->shrunkByAbort) violation("ncclCommDestroy after an abort");
  return leave(comm);
}
EXPORTED int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, Comm* comm, Stream* stream) {
  return enqueue(comm, "ncclAllReduce", {Kind::AllReduce, from, to, count, type, op, stream});
}
EXPORTED int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm* comm, Stream* stream) {
  return enqueue(comm, "ncclBroadcast", {Kind::Broadcast, from, to, count, type, root, stream});
}
EXPORTED int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, Comm* comm, Stream* stream) {
  return enqueue(comm, "ncclReduceScatter", {Kind::ReduceScatter, from, to, count, type, op, stream});
}
EXPORTED int ncclAllGather(const void* from, void* to, size_t count, int type, Comm* comm, Stream* stream) {
  return enqueue(comm, "ncclAllGather", {Kind::AllGather, from, to, count, type, 0, stream});
}
EXPORTED int ncclSend(const void* from, size_t count, int type, int peer, Comm* comm, Stream* stream) {
  return enqueue(comm, "ncclSend", {Kind::Send, from, nullptr, count, type, peer, stream});
}
EXPORTED int ncclRecv(void* to, size_t count, int type, int peer, Comm* comm, Stream* stream) {
  return enqueue(comm, "ncclRecv", {Kind::Receive, nullptr, to, count, type, peer, stream});
}
EXPORTED int ncclGroupStart() { return depth++, 0; }
EXPORTED int ncclGroupEnd() {
  const Lock lock(state().mutex);
  if (depth == 0) return violation("ncclGroupEnd without a start"), kInvalidUsage;
  if (--depth > 0) return 0;
  const auto calls = std::exchange(queued[std::this_thread::get_id()], {});
  if (calls.empty()) return 0;
  std::vector<CallPtr> together;
  for (const auto& [comm, call] : calls) together.push_back(call);
  launch(calls.front().first, together);
  return calls.front().first->polls > 0 ? kInProgress : 0;
}
#ifndef FAKE_NCCL_OLD
EXPORTED int ncclCommShrink(Comm* comm, int* excluded, int count, Comm** child, const void* config, int flags) {
  blockWhile("shrinkBlocks");
  const Lock lock(state().mutex);
  if (!isConfig(config)) return violation("ncclCommShrink with another config"), kInvalidArgument;
  if ((flags == 1 ? enter(comm, "ncclCommShrink") : enterIdle(comm, "ncclCommShrink")) == nullptr) return kInvalidArgument;
  if (const long result = knob("shrinkResult", 0); result != 0) return static_cast<int>(result);
  const std::vector<int> gone(excluded, excluded + count);
  if (std::ranges::find(gone, comm->rank) != gone.end()) return violation("an excluded rank called ncclCommShrink"), kInvalidArgument;
  comm->shrunkByAbort = flags == 1;
  if (flags == 1) endWork(*comm);
  comm->polls = knob("polls", 2);
  std::string key = comm->key;
  key.append("/").append(std::to_string(comm->children++));
  for (const int rank : gone) key.append(",").append(std::to_string(rank));
  const auto lower = std::ranges::count_if(gone, [&](int rank) { return rank < comm->rank; });
  comm->child = join(key, comm->group->ranks - gone.size(), comm->rank - static_cast<int>(lower));
  comm->child->owner = {};
  comm->childAt = child;
  return static_cast<int>(knob("shrinkSays", 0));
}
EXPORTED int ncclCommGrow() { return kInvalidUsage; }
EXPORTED int ncclCommRevoke() { return kInvalidUsage; }
#endif
