// Strangers: callers who do not know the key take no memory, and keep nobody out who does.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "check.h"
#include "core/block_digest.h"
#include "core/handshake.h"
#include "core/pull.h"
#include "core/version_store.h"
#include "support.h"

namespace {

std::atomic<size_t> largestAllocation{0};

void* counted(size_t bytes) {
  size_t known = largestAllocation;
  while (bytes > known && !largestAllocation.compare_exchange_weak(known, bytes)) {
  }
  void* at = std::malloc(bytes);
  if (at == nullptr) std::abort();
  return at;
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, size_t) noexcept { std::free(at); }
void operator delete[](void* at, size_t) noexcept { std::free(at); }

using namespace muster;
using namespace muster::test;

namespace {

constexpr FrameType kTypes[] = {FrameType::Hello, FrameType::Challenge, FrameType::Proof, FrameType::Request, FrameType::Grant,
                                FrameType::Refused, FrameType::Alive, FrameType::Data, FrameType::End, FrameType::Piece,
                                FrameType::News, FrameType::Delta, FrameType::Parcel};

// The header of a frame with as long a payload as its type may have.
EncodedHeader longest(FrameType type) {
  static const Bytes payload(kGrantBytesMax);
  for (uint32_t length = kGrantBytesMax;; length /= 2) {
    const EncodedHeader header = encodeHeader(type, ByteView(payload).first(length), 0);
    if (parseHeader(header).ok()) return header;
  }
}

struct Served {
  Served() : store(VersionStore::open({keyOf("key"), "job", "holder", folder.path(), std::string("127.0.0.1"), size_t{1} << 20, 2}).value()) {
    const Abort never;
    CHECK(store->publish({1, 1}, {{"weights", weights}}, never).ok());
  }
  Address address(Address::Kind kind) const { return parseAddress(store->addresses()[kind == Address::Kind::Tcp]).value(); }
  Result<Pulled> pulled(Address::Kind kind) const {
    const Abort never;
    PullOptions options{keyOf("key"), "job", "reader", {address(kind)}, {1, 1}, {{"weights", weights.size(), digestOf(weights)}}, nullptr};
    return pull(options, patienceOf(never));
  }

  TemporaryFolder folder;
  Bytes weights = Bytes(300'000, 5);
  std::shared_ptr<VersionStore> store;
};

// A caller from an address of this host.
UniqueFd callFrom(const char* host, const Address& to) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  CHECK(::inet_pton(AF_INET, host, &at.sin_addr) == 1);
  CHECK(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  CHECK(::inet_pton(AF_INET, to.host.c_str(), &at.sin_addr) == 1);
  at.sin_port = htons(to.port);
  CHECK(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  return socket;
}

// True when a silent caller was told to go, or closed on.
bool wasEvicted(const UniqueFd& caller) {
  uint8_t next;
  return ::recv(caller.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

}  // namespace

TEST("a frame of another type than the one that belongs here ends the exchange at its header, and takes no memory") {
  const Abort never;
  for (const FrameType type : kTypes) {
    int pair[2] = {-1, -1};
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    const UniqueFd stranger(pair[0]);
    Connection ours{UniqueFd(pair[1])};
    const EncodedHeader header = longest(type);
    CHECK(::send(stranger.get(), header.data(), header.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(header.size()));
    largestAllocation = 0;
    const bool belongs = type == FrameType::Hello || type == FrameType::Refused || type == FrameType::Alive;
    const Status received = ours.receive(FrameType::Hello, patienceOf(never, 50)).status();
    CHECK(received.code == (belongs ? Code::Timeout : Code::Corrupt));
    CHECK(largestAllocation <= kWordBytesMax);
  }
}

TEST("a grant is as long as it may be for what was asked, and no longer") {
  const Abort never;
  int pair[2] = {-1, -1};
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  Connection holder{UniqueFd(pair[0])}, reader{UniqueFd(pair[1])};
  const Bytes grant(2'000);
  CHECK(holder.send({FrameType::Grant, grant}, patienceOf(never)).ok());
  CHECK(holder.send({FrameType::Grant, grant}, patienceOf(never)).ok());
  CHECK(reader.receive(FrameType::Grant, patienceOf(never), kWordBytesMax).ok());
  CHECK(reader.receive(FrameType::Grant, patienceOf(never), 0).status().code == Code::Corrupt);
}

TEST("a refusal is cut to what a stranger may be told") {
  const Abort never;
  int pair[2] = {-1, -1};
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  Connection holder{UniqueFd(pair[0])}, reader{UniqueFd(pair[1])};
  holder.refuse({Code::Gone, std::string(10'000, 'x'), {}}, patienceOf(never));
  const Status refused = reader.receive(FrameType::Grant, patienceOf(never)).status();
  CHECK(refused.code == Code::Gone && refused.message.size() > 4'000 && refused.message.size() < kWordBytesMax);
}

TEST("callers that announce much and prove nothing take no memory of a version store") {
  const Served served;
  std::vector<UniqueFd> callers;
  largestAllocation = 0;
  for (const FrameType type : kTypes) {
    callers.push_back(callFrom("127.0.0.1", served.address(Address::Kind::Tcp)));
    const EncodedHeader header = longest(type);
    CHECK(::send(callers.back().get(), header.data(), header.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(header.size()));
  }
  for (size_t i = 0; i < callers.size(); i++) {
    if (kTypes[i] == FrameType::Hello || kTypes[i] == FrameType::Refused || kTypes[i] == FrameType::Alive) continue;
    char said[256];
    while (::recv(callers[i].get(), said, sizeof said, 0) > 0) {  // until it has been refused
    }
  }
  CHECK(largestAllocation <= kWordBytesMax);
}

TEST("callers that say nothing keep nobody out who knows the key, however many they are") {
  const Served served;
  const Address store = served.address(Address::Kind::Tcp);
  // One that is slow came first, from an address of its own.
  const Abort never;
  Connection slow(callFrom("127.0.0.3", store));
  std::vector<UniqueFd> silent;
  for (size_t i = 0; i < kHalfOpenMax * 3 / 2; i++) silent.push_back(callFrom(i % 3 == 0 ? "127.0.0.2" : "127.0.0.4", store));
  CHECK(served.pulled(Address::Kind::Unix).ok());
  CHECK(served.pulled(Address::Kind::Tcp).ok());
  CHECK(greet(slow, keyOf("key"), {Purpose::Pull, "job", "slow", encodeId({1, 1})}, patienceOf(never)).ok());
  const Bytes request = encodeRequest({0, 1'000, {"weights"}});
  CHECK(slow.send({FrameType::Request, request}, patienceOf(never)).ok());
  CHECK(slow.receive(FrameType::Grant, patienceOf(never)).ok());
  // Of the silent ones the oldest go; where they came faster than they were accepted, that takes a moment.
  const auto gone = [&] { return std::ranges::count_if(silent, wasEvicted); };
  const auto tooMany = static_cast<std::ptrdiff_t>(silent.size() - kHalfOpenMax);
  const Deadline until = Deadline::in(Milliseconds(4'000));
  while (gone() < tooMany && !until.passed()) std::this_thread::yield();
  CHECK(gone() >= tooMany);
  CHECK(wasEvicted(silent.front()) || wasEvicted(silent[1]));
}

TEST("readers of a store are counted by those who proved the key, and the one too many is told to go elsewhere") {
  const Served served;
  const Abort never;
  std::vector<Pulled> readers;  // each holds the memory, and with it its place
  while (readers.size() < 300) {
    Result<Pulled> one = served.pulled(Address::Kind::Unix);
    if (!one.ok()) {
      CHECK(one.status().message.find("too many readers") != std::string::npos);
      break;
    }
    readers.push_back(std::move(one.value()));
  }
  CHECK(readers.size() == 256);
  readers.pop_back();
  // The place is free once the store has seen that its reader is gone.
  const Deadline until = Deadline::in(Milliseconds(5'000));
  while (!served.pulled(Address::Kind::Tcp).ok() && !until.passed()) std::this_thread::yield();
  CHECK(!until.passed());
}
