// The shared object that is linked with Gloo: one rank's place in a full mesh of Gloo's connections, behind the functions of gloo_abi.h.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/context.h>
#include <gloo/math.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <ctime>

#include "core/limits.h"
#include "gloo/gloo_abi.h"
#include "gloo/plugin/guarded_transport.h"

namespace muster::gloo_plugin {

namespace {

using gloo_abi::Failure;
using gloo_abi::kAddressBytes;

// Gloo writes to its sockets in a way that raises SIGPIPE when the other side is gone. The signal is for the thread that writes, so it is kept from
// it meanwhile, and dropped before it may come.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now{};
    while (::sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) continue;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

void say(const char* what, Failure* failure) {
  std::strncpy(failure->text, what, sizeof failure->text - 1);
  failure->text[sizeof failure->text - 1] = 0;
}

template <class Body>
bool attempt(Failure* failure, const Body& body) {
  const WithoutSigpipe quiet;
  try {
    body();
    return true;
  } catch (const std::exception& error) {
    say(error.what(), failure);
  } catch (...) {
    say("an exception of an unknown kind", failure);
  }
  return false;
}

constexpr uint64_t kMessageSlot = 1;  // collectives have slots with a prefix in the highest byte

class Place : public gloo::Context {
 public:
  Place(uint32_t self, uint32_t worldSize, const char* host) : Context(static_cast<int>(self), static_cast<int>(worldSize)) {
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(host));
    const auto transport = device_->createContext(rank, size);
    transport->setTimeout(kGlooConnect);
    transportContext_ = std::make_shared<GuardedTransport>(transport);
    for (int other = 0; other < size; other++)
      if (other != rank) transportContext_->createPair(other)->setLocalRank(0);
  }

  void addresses(uint8_t* out) {
    for (int other = 0; other < size; other++) {
      if (other == rank) continue;
      const std::vector<char> bytes = getPair(other)->address().bytes();
      std::memset(out, 0, kAddressBytes);
      std::memcpy(out, bytes.data(), std::min(bytes.size(), kAddressBytes));
      out += kAddressBytes;
    }
  }

  void connect(const uint8_t* all) {
    for (int other = 0; other < size; other++) {
      if (other == rank) continue;
      // The address that the other one has for this rank; it has none for itself.
      const auto index = static_cast<size_t>(other) * static_cast<size_t>(size - 1) + static_cast<size_t>(rank > other ? rank - 1 : rank);
      const uint8_t* at = all + index * kAddressBytes;
      guarded().throwIfAborted();
      getPair(other)->connect(std::vector<char>(at, at + getPair(other)->address().bytes().size()));
    }
  }

  GuardedTransport& guarded() { return static_cast<GuardedTransport&>(*transportContext_); }
};

// What a place is to its caller. Gloo wants to be held by shared pointers.
struct Handle {
  std::shared_ptr<Place> place;
};

Place& placeOf(void* handle) { return *static_cast<Handle*>(handle)->place; }

std::chrono::milliseconds patienceOf(uint32_t timeoutMs) { return std::chrono::milliseconds(timeoutMs); }

void* open(uint32_t rank, uint32_t worldSize, const char* host, Failure* failure) {
  void* out = nullptr;
  attempt(failure, [&] { out = new Handle{std::make_shared<Place>(rank, worldSize, host)}; });
  return out;
}

void addresses(void* handle, uint8_t* out) { placeOf(handle).addresses(out); }

// The caller watches the time; Gloo has no other limit for a connection than one that is set when it begins.
bool connect(void* handle, const uint8_t* all, uint32_t, Failure* failure) {
  return attempt(failure, [&] { placeOf(handle).connect(all); });
}

bool allReduce(void* handle, const float* in, float* out, size_t count, uint32_t timeoutMs, Failure* failure) {
  return attempt(failure, [&] {
    gloo::AllreduceOptions options(static_cast<Handle*>(handle)->place);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);  // each element is added up by one rank, so all get the same bits
    options.setInput(const_cast<float*>(in), count);                // read only
    options.setOutput(out, count);
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    options.setTimeout(patienceOf(timeoutMs));
    gloo::allreduce(options);
  });
}

bool allGather(void* handle, const uint8_t* in, uint8_t* out, size_t bytes, uint32_t timeoutMs, Failure* failure) {
  return attempt(failure, [&] {
    Place& place = placeOf(handle);
    gloo::AllgatherOptions options(static_cast<Handle*>(handle)->place);
    options.setInput(const_cast<uint8_t*>(in), bytes);
    options.setOutput(out, bytes * static_cast<size_t>(place.size));
    options.setTimeout(patienceOf(timeoutMs));
    gloo::allgather(options);
  });
}

bool broadcast(void* handle, const uint8_t* in, uint8_t* out, size_t bytes, uint32_t root, uint32_t timeoutMs, Failure* failure) {
  return attempt(failure, [&] {
    gloo::BroadcastOptions options(static_cast<Handle*>(handle)->place);
    if (placeOf(handle).rank == static_cast<int>(root)) options.setInput(const_cast<uint8_t*>(in), bytes);
    options.setOutput(out, bytes);
    options.setRoot(static_cast<int>(root));
    options.setTimeout(patienceOf(timeoutMs));
    gloo::broadcast(options);
  });
}

bool send(void* handle, const uint8_t* in, size_t bytes, uint32_t to, uint32_t timeoutMs, Failure* failure) {
  return attempt(failure, [&] {
    const auto buffer = placeOf(handle).createUnboundBuffer(const_cast<uint8_t*>(in), bytes);
    buffer->send(static_cast<int>(to), kMessageSlot);
    buffer->waitSend(patienceOf(timeoutMs));
  });
}

bool receive(void* handle, uint8_t* out, size_t bytes, uint32_t from, uint32_t timeoutMs, Failure* failure) {
  return attempt(failure, [&] {
    const auto buffer = placeOf(handle).createUnboundBuffer(out, bytes);
    buffer->recv(static_cast<int>(from), kMessageSlot);
    buffer->waitRecv(patienceOf(timeoutMs));
  });
}

void abort(void* handle, const char* reason) {
  Failure ignored;  // what does not go any more needs no end
  attempt(&ignored, [&] { placeOf(handle).guarded().abort(reason); });
}

void close(void* handle) {
  Failure ignored;
  attempt(&ignored, [&] { placeOf(handle).guarded().abort("it was closed"); });
  delete static_cast<Handle*>(handle);
}

#define MUSTER_TEXT2(value) #value
#define MUSTER_TEXT(value) MUSTER_TEXT2(value)
constexpr const char* kLibrary = MUSTER_TEXT(GLOO_VERSION_MAJOR) "." MUSTER_TEXT(GLOO_VERSION_MINOR) "." MUSTER_TEXT(GLOO_VERSION_PATCH);

constexpr gloo_abi::Functions kFunctions{gloo_abi::kVersion, kLibrary,  open, addresses, connect, allReduce,
                                         allGather,          broadcast, send, receive,   abort,   close};

}  // namespace

}  // namespace muster::gloo_plugin

extern "C" __attribute__((visibility("default"))) const muster::gloo_abi::Functions* muster_gloo_functions() {
  return &muster::gloo_plugin::kFunctions;
}
