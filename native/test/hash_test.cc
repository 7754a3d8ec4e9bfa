// SHA-256 and HMAC against the vectors of FIPS 180-4 and RFC 4231, XXH64 and XXH3 against their references.
#include <atomic>

#include "check.h"
#include "core/block_digest.h"
#include "core/sha256.h"
#include "core/xxh64.h"
#include "cpu/xxh3.h"
#include "cpu/xxh3_stripes.h"

using namespace muster;

namespace {

std::string hex(ByteView bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string hmac(ByteView key, std::string_view data) {
  const ByteView parts[] = {viewOf(data)};
  return hex(hmacSha256(key, parts));
}

Bytes numbered(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; i++) bytes[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  return bytes;
}

}  // namespace

TEST("SHA-256 gives the digests of FIPS 180-4") {
  CHECK(hex(Sha256().finish()) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(Sha256().update(viewOf("abc")).finish()) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex(Sha256().update(viewOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")).finish()) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(Sha256().update(Bytes(1'000'000, 'a')).finish()) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST("SHA-256 does not depend on how the input is cut") {
  const Bytes bytes = numbered(300);
  for (size_t cut = 0; cut <= bytes.size(); cut += 7) {
    const ByteView view(bytes);
    CHECK(Sha256().update(view.first(cut)).update(view.subspan(cut)).finish() == Sha256().update(view).finish());
  }
}

TEST("HMAC-SHA-256 gives the values of RFC 4231") {
  CHECK(hmac(Bytes(20, 0x0b), "Hi There") == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac(viewOf("Jefe"), "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac(Bytes(131, 0xaa), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST("proofs are equal only when every byte is") {
  CHECK(equalInConstantTime(viewOf("same"), viewOf("same")));
  CHECK(!equalInConstantTime(viewOf("same"), viewOf("sane")));
  CHECK(!equalInConstantTime(viewOf("same"), viewOf("sam")));
}

TEST("XXH64 gives the values of its reference") {
  CHECK(xxh64({}) == 0xEF46DB3751D8E999);
  CHECK(xxh64(viewOf("a")) == 0xD24EC4F1A98C6E5B);
  CHECK(xxh64(viewOf("abc")) == 0x44BC2CF5AD770999);
  CHECK(xxh64(viewOf("Nobody inspects the spammish repetition")) == 0xFBCEA83C8A378BF1);
  CHECK(xxh64({}, 0x9E3779B1) == 0xAC75FDA2929B17EF);
}

TEST("XXH3 gives the values of its reference, for every way of hashing a length") {
  const std::pair<size_t, uint64_t> expected[] = {
      {0, 0x2d06800538d394c2},   {1, 0xc44bdff4074eecdb},   {4, 0xbb4e3d89ee0b271d},
      {9, 0xf64cecc4271ff461},   {17, 0x47aad6b375eb4bba},  {129, 0x9e2414800f83768a},
      {241, 0xbc424a2c480dd281}, {1024, 0x1fd15e7d36f5e1bc}, {1025, 0xfe08e5a874d23fd2},
      {1048576, 0xe2786b358eab4a67},
  };
  const Bytes bytes = numbered(1048576 + 3);
  for (const auto& [size, hash] : expected) CHECK(xxh3(bytes.data(), size) == hash);
}

TEST("XXH3 is the same in every instruction set of this processor, copied or not") {
  const Bytes bytes = numbered(64 * 1000);
  std::array<xxh3_detail::Main, 3> all{};
  const size_t count = xxh3_detail::variants(all);
  CHECK(count >= 1);
  for (size_t size = 0; size < bytes.size(); size += 64 * 37) {
    xxh3_detail::Lanes expected = xxh3_detail::kStart;
    all[0](expected, nullptr, bytes.data(), size);
    for (size_t i = 0; i < count; i++) {
      alignas(64) static uint8_t to[64 * 1000 + 16];
      xxh3_detail::Lanes lanes = xxh3_detail::kStart, copied = xxh3_detail::kStart;
      all[i](lanes, nullptr, bytes.data(), size);
      all[i](copied, to + 16, bytes.data(), size);
      CHECK(lanes == expected && copied == expected);
      CHECK(std::memcmp(to + 16, bytes.data(), size) == 0);
    }
  }
}

TEST("a copy gives the hash of what it stored, at every size and alignment") {
  const Bytes bytes = numbered(300'000);
  Bytes to(bytes.size() + 64);
  for (const size_t size : {0, 1, 100, 65'535, 65'536, 65'537, 200'001, 300'000 - 7})
    for (const size_t shift : {0, 1, 16, 33}) {
      CHECK(copyAndHash(to.data() + shift, bytes.data() + 7, size) == xxh3(bytes.data() + 7, size));
      CHECK(std::memcmp(to.data() + shift, bytes.data() + 7, size) == 0);
    }
}

TEST("a section's digest is the hash of its block hashes and its length, however many threads there were") {
  const Bytes bytes = numbered(40 * 1024 * 1024 + 5);
  const ByteView view(bytes);
  ByteWriter root;
  for (size_t at = 0; at < bytes.size(); at += BlockDigest::kBlockBytes) {
    const size_t size = std::min(BlockDigest::kBlockBytes, bytes.size() - at);
    root.number(xxh3(bytes.data() + at, size));
  }
  root.number(uint64_t{bytes.size()});
  const uint64_t expected = xxh3(root.bytes().data(), root.bytes().size());
  CHECK(digestOf(view) == expected);
  Bytes to(bytes.size());
  const Result<Digested> copied = copyAndDigest(view, to.data(), [] { return Status{}; });
  REQUIRE_OK(copied);
  CHECK(copied.value().root == expected && to == bytes);
  CHECK(digestOf({}) == xxh3(Bytes(8, 0).data(), 8));
}

TEST("many copies at once have the digests that each has alone, whatever their sizes") {
  const Bytes bytes = numbered(36 * 1024 * 1024);
  Bytes to(bytes.size());
  std::vector<CopyPair> pairs;
  size_t at = 0;
  for (size_t i = 0; at < bytes.size(); i++) {
    const size_t wanted = i % 7 == 0 ? 0 : i % 5 == 0 ? 700'001 : i * 97;
    const size_t size = std::min(wanted, bytes.size() - at);
    pairs.push_back({{bytes.data() + at, size}, to.data() + at});
    at += size;
  }
  pairs.push_back({{}, to.data()});
  const auto copied = copyAndDigestAll(pairs, [] { return Status{}; });
  REQUIRE_OK(copied);
  CHECK(pairs.size() > 100 && to == bytes && copied.value().size() == pairs.size());
  for (size_t i = 0; i < pairs.size(); i++) CHECK(copied.value()[i].root == digestOf(pairs[i].from));
}

TEST("a copy that may not go on ends with the reason") {
  const Bytes bytes = numbered(3'000'000);
  Bytes to(bytes.size());
  std::atomic<int> asked{0};
  const auto stopped = copyAndDigest(bytes, to.data(), [&] {
    return ++asked > 3 ? Status{Code::Aborted, "enough", {}} : Status{};
  });
  CHECK(stopped.status().code == Code::Aborted && asked == 4);
}

TEST("hexadecimal digests have sixteen digits") {
  CHECK(toHex(0) == "0000000000000000");
  CHECK(toHex(0x0123456789abcdef) == "0123456789abcdef");
}
