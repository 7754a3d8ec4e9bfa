// Frames: what is refused, and that no malformed input can run past an end.
#include <sys/socket.h>

#include <random>
#include <thread>

#include "check.h"
#include "core/connection.h"
#include "core/handshake.h"
#include "core/version.h"

using namespace muster;

namespace {

std::pair<Connection, Connection> connected() {
  int pair[2] = {-1, -1};
  CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  return {Connection(UniqueFd(pair[0])), Connection(UniqueFd(pair[1]))};
}

Bytes hello(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

TEST("a header survives the wire, and its checksum fits its payload alone") {
  const Bytes payload = hello("weights");
  const Result<FrameHeader> header = parseHeader(encodeHeader(FrameType::Grant, payload, 4096));
  REQUIRE_OK(header);
  CHECK(header.value().type == FrameType::Grant && header.value().length == 7 && header.value().offset == 4096);
  CHECK(verifyPayload(header.value(), payload).ok());
  CHECK(!verifyPayload(header.value(), hello("weightz")).ok());
  CHECK(!verifyPayload(header.value(), hello("weight")).ok());
}

TEST("every single flipped bit of a frame is noticed") {
  const Bytes payload = hello("0123456789");
  const EncodedHeader good = encodeHeader(FrameType::Grant, payload, 0);
  for (size_t bit = 0; bit < good.size() * 8; bit++) {
    EncodedHeader bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    const Result<FrameHeader> header = parseHeader(bad);
    CHECK(!header.ok() || !verifyPayload(header.value(), payload).ok());
  }
}

TEST("the checksum of a data frame covers its header alone: block digests cover the bytes") {
  const Bytes payload = hello("weights");
  const EncodedHeader good = encodeHeader(FrameType::Data, payload, 4096);
  const Result<FrameHeader> header = parseHeader(good);
  REQUIRE_OK(header);
  CHECK(verifyPayload(header.value(), hello("weightz")).ok());
  EncodedHeader moved = good;
  moved[16] ^= 1;  // the offset
  const Result<FrameHeader> other = parseHeader(moved);
  CHECK(!other.ok() || !verifyPayload(other.value(), payload).ok());
}

TEST("a length over the budget is refused before anything is allocated") {
  EncodedHeader control = encodeHeader(FrameType::Hello, {}, 0);
  const uint32_t tooLong = kWordBytesMax + 1;
  std::memcpy(control.data() + 8, &tooLong, sizeof tooLong);
  CHECK(parseHeader(control).status().code == Code::Corrupt);
}

TEST("random bytes never parse as messages, and never run past the end") {
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; round++) {
    Bytes bytes(random() % 80);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const Result<PullRequest> request = decodeRequest(bytes);
    const Result<std::vector<Section>> sections = decodeSections(bytes);
    CHECK(!request.ok() || request.value().names.size() <= kSectionsMax);
    CHECK(!sections.ok() || sections.value().size() <= kSectionsMax);
  }
}

TEST("a request or a grant of more sections than allowed is refused, not cut") {
  PullRequest request{0, 1, std::vector<std::string>(kSectionsMax + 1)};
  CHECK(decodeRequest(encodeRequest(request)).status().code == Code::Corrupt);
  ByteWriter hidden;  // the names behind the sixty-fourth once read as bases and ranges
  hidden.number(uint64_t{0}).number(uint32_t{1}).number(static_cast<uint16_t>(kSectionsMax + 1));
  for (size_t i = 0; i < kSectionsMax; i++) hidden.text("");
  hidden.number(uint16_t{0}).number(uint16_t{0});
  CHECK(decodeRequest(hidden.bytes()).status().code == Code::Corrupt);
  CHECK(decodeSections(ByteWriter().number(static_cast<uint16_t>(kSectionsMax + 1)).bytes()).status().code == Code::Corrupt);
}

TEST("messages survive the wire") {
  const Result<PullRequest> request = decodeRequest(encodeRequest({12, 345, {"weights", "optimizer"}}));
  REQUIRE_OK(request);
  CHECK(request.value().offset == 12 && request.value().timeoutMs == 345 && request.value().names.size() == 2);
  const Result<std::vector<Section>> sections = decodeSections(encodeSections({{"weights", 64, 1000, 7, {3, 4}}}));
  REQUIRE_OK(sections);
  CHECK(sections.value().front().name == "weights" && sections.value().front().bytes == 1000);
  CHECK((sections.value().front().blocks == std::vector<uint64_t>{3, 4}));
}

TEST("a file descriptor arrives with its frame") {
  auto [a, b] = connected();
  const Abort never;
  const Patience patience{Deadline::in(Milliseconds(2000)), &never};
  const UniqueFd sent(::dup(1));
  REQUIRE_OK(a.send({FrameType::Grant, hello("x"), 0, sent.get()}, patience));
  REQUIRE_OK(b.receive(FrameType::Grant, patience));
  CHECK(static_cast<bool>(b.takeFd()));
  CHECK(!b.takeFd());
}

TEST("a silent peer ends a wait by silence, the deadline or an abort, whichever is first") {
  auto [a, b] = connected();
  Abort abort;
  const Patience quiet{Deadline::in(Milliseconds(5000)), &abort, Milliseconds(20)};
  CHECK(b.receive(FrameType::Hello, quiet).status().code == Code::Unreachable);
  const Patience hasty{Deadline::in(Milliseconds(20)), &abort};
  CHECK(b.receive(FrameType::Hello, hasty).status().code == Code::Timeout);
  std::thread aborter([&] { abort.request(); });
  const Patience patient{Deadline::in(Milliseconds(60'000)), &abort};
  CHECK(b.receive(FrameType::Hello, patient).status().code == Code::Aborted);
  aborter.join();
}

TEST("a handshake succeeds with the same key and fails with another on both sides") {
  const Abort never;
  for (const bool same : {true, false}) {
    auto ends = connected();
    const Patience patience{Deadline::in(Milliseconds(2000)), &never};
    Status greeted;
    std::thread client([&] {
      Connection mine = std::move(ends.first);
      greeted = greet(mine, same ? hello("key") : hello("yek"), {Purpose::Pull, "job", "member", hello("body")}, patience);
    });
    const Result<Hello> welcomed = welcome(ends.second, hello("key"), patience);
    client.join();
    CHECK(greeted.ok() == same);
    CHECK(welcomed.ok() == same);
    if (same) CHECK(welcomed.value().job == "job" && welcomed.value().body == hello("body"));
    if (!same) CHECK(greeted.code == Code::Refused);
  }
}

TEST("a proof cannot be replayed: the nonce is fresh") {
  CHECK(freshNonce() != freshNonce());
}
