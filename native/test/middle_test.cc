// Integrity after the proof: whatever somebody in the middle does to a frame, nobody takes it for what was said.
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "check.h"
#include "core/block_digest.h"
#include "core/group.h"
#include "core/handshake.h"
#include "core/mesh.h"
#include "core/pull.h"
#include "core/version_store.h"
#include "middle.h"

using namespace muster;
using namespace muster::test;

namespace {

constexpr Deed kDeeds[] = {Deed::Alter, Deed::Drop, Deed::Repeat};
constexpr size_t kElements = 100'000;
const Bytes kWeights(700'000, 5);

const char* nameOf(Deed deed) { return deed == Deed::Alter ? "alter" : deed == Deed::Drop ? "drop" : "repeat"; }

// Does it to the frame of this type and direction with this number; an alteration changes the last byte said, or where it belongs.
Middle::Plot against(FrameType type, bool towardsServer, Deed deed, int number = 0) {
  const auto seen = std::make_shared<std::atomic<int>>(0);
  return [=](CaughtFrame& frame) {
    if (frame.type != type || frame.towardsServer != towardsServer || (*seen)++ < number) return Deed::Pass;
    if (deed != Deed::Alter) return deed;
    if (isBulk(type) || frame.payload.empty()) frame.offset += 4;
    else frame.payload.back() ^= 1;
    return deed;
  };
}

std::shared_ptr<VersionStore> storeIn(const TemporaryFolder& folder, const std::string& member) {
  return VersionStore::open({keyOf("key"), "job", member, folder.path(), std::string("127.0.0.1"), size_t{1} << 20, 2}).value();
}

PullOptions pullFrom(const std::string& address, uint64_t version) {
  return {keyOf("key"), "job", "reader", {parseAddress(address).value()}, {0, version}, {{"weights", kWeights.size(), digestOf(kWeights)}}, nullptr};
}

MeshOptions placeOf(uint32_t rank, const TemporaryFolder& folder, const std::vector<std::shared_ptr<VersionStore>>& stores, const Middle& middle) {
  MeshOptions options;
  options.key = keyOf("key");
  options.job = std::string("job");
  options.epoch = 1;
  options.rank = rank;
  options.members = {"a", "b"};
  options.socketDir = folder.path();
  options.shards = 2;
  options.shardElements = kElements;
  options.places = {{"host-a", middle.address()}, {"host-b", stores[1]->addresses()[1]}};
  options.store = stores[rank];
  return options;
}

// Two hosts add up through somebody in the middle; true when anybody got a wrong sum, or all a right one.
struct Added {
  int right = 0, wrong = 0, deeds = 0;
};
Added addedThrough(const Middle::Plot& plot) {
  const TemporaryFolder folder;
  const std::vector<std::shared_ptr<VersionStore>> stores{storeIn(folder, "a"), storeIn(folder, "b")};
  const Middle middle(stores[0]->addresses()[1], plot);
  std::atomic<int> right{0}, wrong{0};
  const auto rank = [&](uint32_t self) {
    const Abort never;
    const auto mesh = Mesh::open(placeOf(self, folder, stores, middle), patienceOf(never, 700));
    if (!mesh.ok()) return;
    for (size_t i = 0; i < kElements; i++) mesh.value()->shard(self)[i] = static_cast<float>(i % 1'000 + self);
    if (!mesh.value()->reduce({1, {self}}, patienceOf(never, 700)).ok()) return;
    bool same = true;
    for (size_t i = 0; i < kElements; i++) same = same && mesh.value()->result()[i] == static_cast<float>(2 * (i % 1'000) + 1);
    (same ? right : wrong)++;
    mesh.value()->close();
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return {right, wrong, middle.deeds()};
}

}  // namespace

TEST("a pull notices every frame that was altered, dropped or repeated on its way") {
  const TemporaryFolder folder;
  const Abort never;
  const auto store = storeIn(folder, "holder");
  REQUIRE_OK(store->publish({0, 1}, {{"weights", kWeights}}, never));
  {
    const Middle honest(store->addresses()[1], [](CaughtFrame&) { return Deed::Pass; });
    REQUIRE_OK(pull(pullFrom(honest.address(), 1), patienceOf(never)));
  }
  const std::pair<FrameType, bool> kinds[] = {{FrameType::Hello, true}, {FrameType::Challenge, false}, {FrameType::Proof, true}, {FrameType::Request, true},
                                              {FrameType::Grant, false}, {FrameType::Data, false},    {FrameType::End, false}};
  for (const auto& [type, towardsServer] : kinds) {
    for (const Deed deed : kDeeds) {
      // What comes behind the last word of an end is not read.
      if ((type == FrameType::End || type == FrameType::Request) && deed == Deed::Repeat) continue;
      const Middle middle(store->addresses()[1], against(type, towardsServer, deed));
      const auto pulled = pull(pullFrom(middle.address(), 1), patienceOf(never, 900));
      if (pulled.ok()) std::printf("type %d: %s was not noticed\n", static_cast<int>(type), nameOf(deed));
      CHECK(!pulled.ok() && middle.deeds() > 0);
    }
  }
}

TEST("a refusal cannot be made another one") {
  const TemporaryFolder folder;
  const Abort never;
  const auto store = storeIn(folder, "holder");
  REQUIRE_OK(store->publish({0, 1}, {{"weights", kWeights}}, never));
  const auto makeRefused = [](CaughtFrame& frame) {
    if (frame.type != FrameType::Refused) return Deed::Pass;
    frame.payload.front() = static_cast<uint8_t>(Code::Refused);
    return Deed::Alter;
  };
  const Middle middle(store->addresses()[1], makeRefused);
  CHECK(pull(pullFrom(middle.address(), 0), patienceOf(never, 2'000)).status().code == Code::Unreachable);
  CHECK(pull(pullFrom(store->addresses()[1], 0), patienceOf(never, 2'000)).status().code == Code::Gone);
}

TEST("a mesh over hosts gives no sum that somebody in the middle made wrong") {
  const Added honest = addedThrough([](CaughtFrame&) { return Deed::Pass; });
  CHECK(honest.right == 2 && honest.wrong == 0);
  for (const FrameType type : {FrameType::Grant, FrameType::Accept, FrameType::News, FrameType::Piece}) {
    for (const bool towardsServer : {false, true}) {
      if (type == FrameType::Grant && towardsServer) continue;
      if (type == FrameType::Accept && !towardsServer) continue;
      for (const Deed deed : kDeeds) {
        const Added added = addedThrough(against(type, towardsServer, deed));
        if (added.wrong > 0) std::printf("type %d: %s made a wrong sum\n", static_cast<int>(type), nameOf(deed));
        CHECK(added.wrong == 0 && added.deeds > 0);
        CHECK(added.right < 2);
      }
    }
  }
}

TEST("each connection has keys of its own: what was said in one is nothing in another") {
  const Abort never;
  const auto patience = patienceOf(never, 2'000);
  const auto secured = [&] {
    int pair[2] = {-1, -1};
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    std::pair<Connection, Connection> ends{Connection(UniqueFd(pair[0])), Connection(UniqueFd(pair[1]))};
    std::thread client([&] { CHECK(greet(ends.first, keyOf("key"), {Purpose::Pull, "job", "a", {}}, patience).ok()); });
    CHECK(welcome(ends.second, keyOf("key"), patience).ok());
    client.join();
    return ends;
  };
  auto one = secured();
  auto two = secured();
  const Bytes word = keyOf("word");
  CHECK(one.first.send({FrameType::Request, word}, patience).ok());
  Bytes said(kFrameHeaderBytes + kTagBytes + word.size());
  CHECK(::recv(one.second.fd(), said.data(), said.size(), 0) == static_cast<ssize_t>(said.size()));
  CHECK(::send(two.first.fd(), said.data(), said.size(), 0) == static_cast<ssize_t>(said.size()));
  CHECK(two.second.receive(FrameType::Request, patience).status().code == Code::Corrupt);
  // Nor can it be sent back to who said it.
  CHECK(::send(one.second.fd(), said.data(), said.size(), 0) == static_cast<ssize_t>(said.size()));
  CHECK(one.first.receive(FrameType::Request, patience).status().code == Code::Corrupt);
}

TEST("both ends speak the lower minor version, and who speaks a newer one may say more") {
  const Abort never;
  const auto patience = patienceOf(never, 2'000);
  for (const uint16_t minor : {uint16_t{0}, uint16_t{1}, uint16_t{700}}) {
    int pair[2] = {-1, -1};
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    Connection client{UniqueFd(pair[0])}, server{UniqueFd(pair[1])};
    std::thread caller([&] { CHECK(greet(client, keyOf("key"), {Purpose::Pull, "job", "a", {}, minor}, patience).ok()); });
    CHECK(welcome(server, keyOf("key"), patience).ok());
    caller.join();
    CHECK(client.minorVersion() == std::min(minor, kMinorVersion) && server.minorVersion() == client.minorVersion());
    CHECK(client.send({FrameType::End}, patience).ok() && server.receive(FrameType::End, patience).ok());
  }
  const auto helloOf = [](uint16_t minor) {
    std::array<uint8_t, 30> said{static_cast<uint8_t>(Purpose::Pull), static_cast<uint8_t>(minor)};
    said[19] = said[22] = 1;  // the lengths of job and member, behind the nonce; no body
    said.back() = 42;         // something new
    return said;
  };
  CHECK(decodeHello(helloOf(kMinorVersion + 1)).ok());
  CHECK(!decodeHello(helloOf(kMinorVersion)).ok());
}
