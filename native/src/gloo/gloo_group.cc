#include "gloo/gloo_group.h"

#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/cores.h"
#include "core/prefault.h"
#include "core/socket.h"
#include "cpu/stream_copy.h"

namespace muster {

namespace {

using Kind = Operation::Kind;

constexpr uint64_t kWanted = 1, kUnwanted = 2;

std::string hostOf(const MeshOptions& options) {
  if (options.places.empty()) return "127.0.0.1";
  const Result<Address> address = parseAddress(options.places[options.rank].address);
  return address.ok() ? address.value().host : "127.0.0.1";
}

uint8_t* bytesOf(uint64_t& word) { return reinterpret_cast<uint8_t*>(&word); }

}  // namespace

struct GlooGroup::Task {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> done{false};
  bool good = false;
  gloo_abi::Failure failure{};

  bool ended(Milliseconds within) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, within, [this] { return done.load(); });
  }
};

Result<std::shared_ptr<GlooGroup>> GlooGroup::open(const std::string& library, MeshOptions options, uint64_t capacityBytes,
                                                   const Patience& patience) {
  const Result<std::shared_ptr<const GlooLibrary>> loaded = GlooLibrary::load(library);
  if (!loaded.ok()) return loaded.status();
  if (options.group.empty()) return Status{Code::InvalidArgument, "a group needs a name", {}};
  options.group += " over gloo";  // so that it meets no group of another kind
  const uint64_t world = options.members.size();
  const uint64_t watchBytes = world * std::max(world * gloo_abi::kAddressBytes, sizeof(uint64_t));
  const Result<std::shared_ptr<Group>> watch = Group::open(options, watchBytes, patience);
  if (!watch.ok()) return watch.status();
  const Result<std::shared_ptr<GlooPlace>> gloo =
      GlooPlace::open(loaded.value(), options.rank, static_cast<uint32_t>(world), hostOf(options));
  if (!gloo.ok()) return gloo.status();
  const auto memory = std::make_shared<Memory>();
  for (Mapping* each : {&memory->input, &memory->result}) {
    Result<Mapping> mapped = mapPrivate(std::max<uint64_t>(capacityBytes, 1));
    if (!mapped.ok()) return mapped.status();
    *each = std::move(mapped.value());
    const std::span<uint8_t> all{each->data(), each->size()};
    if (!prefault(std::span(&all, 1), usableCores(), [&] { return patience.check().ok(); })) return patience.check();
  }
  const std::shared_ptr<GlooGroup> group(new GlooGroup(watch.value(), gloo.value(), memory, capacityBytes));
  if (Status connected = group->connect(patience); !connected.ok()) return connected;
  return group;
}

Status GlooGroup::connect(const Patience& patience) {
  const uint32_t world = place().worldSize;
  Operation exchange{};
  exchange.kind = Kind::AllGather;
  exchange.count = (world - 1) * gloo_abi::kAddressBytes;
  if (exchange.count > 0) gloo_->call().addresses(gloo_->handle(), watch_->input().data());
  if (Status told = watch_->run(exchange, patience); !told.ok()) return told;
  const auto addresses = watch_->result().first(world * exchange.count);
  std::vector<uint8_t> all(addresses.begin(), addresses.end());
  const auto call = [all = std::move(all)](const GlooPlace& gloo, Memory&, uint32_t timeoutMs, gloo_abi::Failure& failure) {
    return gloo.call().connect(gloo.handle(), all.data(), timeoutMs, &failure);
  };
  const auto body = [&] { return carry(call, "the connections", std::nullopt, patience); };
  if (Status done = member().perform(body, patience); !done.ok()) return done;
  return watch_->run({}, patience);
}

Status GlooGroup::run(const Operation& operation, const Patience& patience) {
  if (Status valid = checkOperation(operation, place()); !valid.ok()) return valid;
  // One operation is several of the watch, so the lock of each of those is not enough.
  const std::unique_lock running(running_, std::try_to_lock);
  if (!running.owns_lock()) return {Code::InvalidArgument, "an operation is in progress here", {}};
  streamCopyAll(operation.gathers);
  const Status done = runAlone(operation, patience);
  if (done.ok()) streamCopyAll(operation.scatters);
  return done;
}

Status GlooGroup::runAlone(const Operation& operation, const Patience& patience) {
  if (operation.kind == Kind::Send || operation.kind == Kind::Receive)
    return member().perform([&] { return message(operation, patience); }, patience);
  if (Status told = announce(operation, patience); !told.ok()) return told;
  if (Status done = member().perform([&] { return collective(operation, patience); }, patience); !done.ok()) return done;
  if (Status all = watch_->run({}, patience); !all.ok()) return theDeadFirst(all);
  const size_t begin = operation.kind == Kind::ReduceScatter ? sliceOf(operation.count, place().rank, place().worldSize).begin : 0;
  streamCopy(operation.into.data(), result().data() + begin * sizeOf(operation.dtype), operation.into.size());
  return {};
}

// A rank may have been through with Gloo when it died, while another one was not, and left for that: then the dead one is to blame.
Status GlooGroup::theDeadFirst(const Status& lost) const {
  std::vector<uint32_t> dead;
  for (uint32_t rank = 0; lost.code == Code::PeerLost && rank < place().worldSize; rank++) {
    const uint32_t state = member().segment().member(rank).state.load(std::memory_order_acquire);
    if (state == static_cast<uint32_t>(MemberState::Dead)) dead.push_back(rank);
  }
  return dead.empty() ? lost : Status{Code::PeerLost, namesOf(dead) + " died", dead};
}

void GlooGroup::close() {
  watch_->close();  // from now on no operation runs or begins here
  if (gloo_) gloo_->abort("it was closed");
  gloo_.reset();
}

// What all ranks do is in the result of the watch afterwards.
Status GlooGroup::announce(const Operation& operation, const Patience& patience) {
  const uint64_t word = operation.encoded();
  std::memcpy(watch_->input().data(), &word, sizeof word);
  Operation exchange{};
  exchange.kind = Kind::AllGather;
  exchange.count = sizeof word;
  return watch_->run(exchange, patience);
}

Status GlooGroup::collective(const Operation& operation, const Patience& patience) {
  for (uint32_t rank = 0; rank < place().worldSize; rank++) {
    uint64_t theirs = 0;
    std::memcpy(&theirs, watch_->result().data() + rank * sizeof theirs, sizeof theirs);
    if (theirs != operation.encoded()) return differsFrom(operation, rank, Operation::decode(theirs));
  }
  if (operation.kind == Kind::Barrier || operation.count == 0) return {};
  const float divisor = operation.reduction == Operation::Reduction::Mean ? static_cast<float>(place().worldSize) : 1;
  const auto call = [operation, divisor](const GlooPlace& gloo, Memory& memory, uint32_t timeoutMs, gloo_abi::Failure& failure) {
    const uint8_t* in = memory.input.data();
    uint8_t* out = memory.result.data();
    const size_t bytes = operation.bytes();
    if (operation.kind == Kind::AllGather) return gloo.call().allGather(gloo.handle(), in, out, bytes, timeoutMs, &failure);
    if (operation.kind == Kind::Broadcast)
      return gloo.call().broadcast(gloo.handle(), in, out, bytes, operation.peer, timeoutMs, &failure);
    const Range all{0, operation.count};
    const auto* floats = reinterpret_cast<const float*>(in);
    auto* sum = reinterpret_cast<float*>(out);
    if (operation.dtype == DType::Bf16) {
      memory.wide.resize(operation.count);
      memory.summed.resize(operation.count);
      partialSum(std::span(&in, 1), DType::Bf16, all, memory.wide.data());
      floats = memory.wide.data();
      sum = memory.summed.data();
    }
    if (!gloo.call().allReduce(gloo.handle(), floats, sum, operation.count, timeoutMs, &failure)) return false;
    if (operation.dtype == DType::Bf16 || divisor != 1) finishSum(sum, operation.dtype, all, divisor, out);
    return true;
  };
  return carry(call, "the " + operation.text(), std::nullopt, patience);
}

// First the receiver hears what comes and says whether it wants it; at the end it says that it has it. Who does not want a message leaves, so it
// makes sure first that the sender has heard it.
Status GlooGroup::message(const Operation& operation, const Patience& patience) {
  const auto call = [operation](const GlooPlace& gloo, Memory& memory, uint32_t timeoutMs, gloo_abi::Failure& failure) {
    const auto send = [&](const uint8_t* from, size_t bytes) {
      return bytes == 0 || gloo.call().send(gloo.handle(), from, bytes, operation.peer, timeoutMs, &failure);
    };
    const auto receive = [&](uint8_t* into, size_t bytes) {
      return bytes == 0 || gloo.call().receive(gloo.handle(), into, bytes, operation.peer, timeoutMs, &failure);
    };
    if (operation.kind == Kind::Send) {
      memory.theirs = operation.encoded();
      if (!send(bytesOf(memory.theirs), sizeof memory.theirs) || !receive(bytesOf(memory.answer), sizeof memory.answer)) return false;
      if (memory.answer != kWanted) return send(bytesOf(memory.theirs), sizeof memory.theirs);
      return send(memory.input.data(), operation.bytes()) && receive(bytesOf(memory.answer), sizeof memory.answer);
    }
    if (!receive(bytesOf(memory.theirs), sizeof memory.theirs)) return false;
    const Operation theirs = Operation::decode(memory.theirs);
    memory.answer = theirs.dtype == operation.dtype && theirs.count == operation.count ? kWanted : kUnwanted;
    if (!send(bytesOf(memory.answer), sizeof memory.answer)) return false;
    if (memory.answer != kWanted) {
      receive(bytesOf(memory.heard), sizeof memory.heard);  // the sender has heard, or is gone
      return true;
    }
    return receive(memory.result.data(), operation.bytes()) && send(bytesOf(memory.answer), sizeof memory.answer);
  };
  if (Status done = carry(call, "the " + operation.text(), operation.peer, patience); !done.ok()) return done;
  if (memory_->answer != kWanted) {
    if (operation.kind == Kind::Send) return unwantedBy(operation.peer, operation);
    return differsFrom(operation, operation.peer, Operation::decode(memory_->theirs));
  }
  if (operation.kind == Kind::Receive) streamCopy(operation.into.data(), result().data(), operation.bytes());
  return {};
}

Status GlooGroup::carry(Call call, const std::string& what, std::optional<uint32_t> peer, const Patience& patience) {
  const auto task = std::make_shared<Task>();
  const auto timeoutMs = static_cast<uint32_t>(patience.deadline.remainingMs() + kGlooBackstop.count());
  try {
    // It owns all that it touches, also when it does not come back.
    std::thread([task, call = std::move(call), gloo = gloo_, memory = memory_, watch = watch_, timeoutMs] {
      bool good = false;
      try {
        good = call(*gloo, *memory, timeoutMs, task->failure);
      } catch (const std::exception& error) {
        // It would end the process if it left the thread.
        std::snprintf(task->failure.text, sizeof task->failure.text, "%s", error.what());
      }
      {
        const std::lock_guard lock(task->mutex);
        task->good = good;
        task->done = true;
        task->changed.notify_all();
      }
      watch->member().segment().ring();
    }).detach();
  } catch (const std::system_error& error) {
    return {Code::Io, std::string("no thread: ") + error.what(), {}};
  }
  const MemberRecord* other = peer ? &member().segment().member(*peer) : nullptr;
  const auto over = [&](const MemberRecord& each) { return task->done.load() || (other != nullptr && &each != other); };
  Status watched = member().await(over, patience);
  if (watched.ok()) return task->good ? Status{} : causeOf(task->failure, patience);
  if (peer && watched.code == Code::PeerLost && task->ended(kGlooLastWords) && task->good) return {};
  if (watched.code == Code::Timeout) watched = {Code::Timeout, "gloo did not end " + what + " in time and does not tell who holds it up", {}};
  gloo_->abort(watched.message);
  if (!task->ended(kGlooGrace)) watched.message += "; its thread does not come back and is left behind";
  return watched;
}

// Gloo says that a connection broke; the watch says whose.
Status GlooGroup::causeOf(const gloo_abi::Failure& failure, const Patience& patience) {
  const Status said = glooFailure(failure);
  Status cause = member().await([](const MemberRecord&) { return false; }, patience.within(kGlooSearch));
  gloo_->abort("it failed");
  if (cause.code == Code::Timeout) return patience.deadline.passed() ? Status{Code::Timeout, said.message, {}} : said;
  cause.message += " (" + said.message + ")";
  return cause;
}

}  // namespace muster
