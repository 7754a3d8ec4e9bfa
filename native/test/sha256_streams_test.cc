// SHA-256 of several inputs at once against the one that takes them one by one.
#include <sys/mman.h>

#include <random>

#include "check.h"
#include "cpu/sha256_streams.h"

using namespace muster;

namespace {

constexpr auto kGoOn = [] { return Status{}; };

std::vector<Sha256Digest> oneByOne(const std::vector<ByteView>& inputs) {
  std::vector<Sha256Digest> digests;
  for (const ByteView input : inputs) digests.push_back(Sha256().update(input).finish());
  return digests;
}

void checkAll(const std::vector<ByteView>& inputs) {
  const std::vector<Sha256Digest> expected = oneByOne(inputs);
  std::vector<Sha256Digest> fast(inputs.size()), baseline(inputs.size());
  CHECK(sha256Each(inputs, fast, kGoOn).ok() && fast == expected);
  CHECK(sha256EachBaseline(inputs, baseline, kGoOn).ok() && baseline == expected);
}

}  // namespace

TEST("inputs hashed together have the digests that each has alone: any number, length and place") {
  if (!hasShaInstructions()) std::printf("not run: this processor has no SHA instructions; the baseline alone was tested\n");
  std::mt19937 random(7);
  Bytes bytes(70'000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (int round = 0; round < 400; round++) {
    std::vector<ByteView> inputs;
    for (size_t i = random() % 9; i > 0; i--) {
      const size_t longest = random() % 2 == 0 ? 300 : 60'000, from = random() % 5'000;
      inputs.push_back(ByteView(bytes).subspan(from, random() % longest));
    }
    checkAll(inputs);
  }
}

TEST("every length up to a few blocks is padded as it should be") {
  const Bytes bytes(300, 0x61);
  std::vector<ByteView> inputs;
  for (size_t size = 0; size <= bytes.size(); size++) inputs.push_back(ByteView(bytes).first(size));
  inputs.push_back({});
  checkAll(inputs);
}

TEST("inputs of more than one step, one of them much longer than the others") {
  const Bytes bytes(5'000'017, 0x5a);
  const ByteView view(bytes);
  checkAll({view, view.first(1'048'576), view.subspan(3, 1'048'577), view.subspan(1, 2'097'151), {}, view.subspan(64)});
}

TEST("hashing that may not go on ends with the reason, whichever instructions it uses") {
  const Bytes bytes(8 << 20);
  for (const auto hash : {sha256Each, sha256EachBaseline}) {
    const std::vector<ByteView> inputs(4, bytes);
    std::vector<Sha256Digest> digests(inputs.size());
    int asked = 0;
    const Status stopped = hash(inputs, digests, [&] { return ++asked > 3 ? Status{Code::Aborted, "enough", {}} : Status{}; });
    CHECK(stopped.code == Code::Aborted && asked == 4);
  }
}

TEST("an input of more than 4 GiB has its length in the digest, and does not keep others back") {
  if (!hasShaInstructions()) {
    std::printf("not run: without SHA instructions it takes half a minute\n");
    return;
  }
  constexpr size_t kBytes = (size_t{1} << 32) + 7;  // zeros, which nothing holds
  void* zeros = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(zeros != MAP_FAILED);
  if (zeros == MAP_FAILED) return;
  const std::vector<ByteView> inputs = {{static_cast<const uint8_t*>(zeros), kBytes}, viewOf("abc"), viewOf("abcd")};
  std::vector<Sha256Digest> digests(inputs.size());
  CHECK(sha256Each(inputs, digests, kGoOn).ok());
  ::munmap(zeros, kBytes);
  const Sha256Digest large = {0x8b, 0xfc, 0x02, 0x89, 0x43, 0xc6, 0xcd, 0x8d, 0x43, 0xe5, 0x4f, 0x9b, 0x91, 0xc3, 0x80, 0xe0,
                              0xce, 0x43, 0xee, 0xa4, 0xb5, 0x4c, 0x4c, 0x56, 0x7b, 0x33, 0x06, 0x93, 0x85, 0xc2, 0xc7, 0xb9};  // head -c 4294967303 /dev/zero | sha256sum
  CHECK(digests[0] == large);
  CHECK(digests[1] == Sha256().update(inputs[1]).finish() && digests[2] == Sha256().update(inputs[2]).finish());
}
