// SHA-256 and HMAC against the vectors of FIPS 180-4 and RFC 4231, XXH64 against its specification.
#include "check.h"
#include "core/sha256.h"
#include "core/xxh64.h"

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

TEST("a section's digest is the hash of its block hashes and its length") {
  const Bytes bytes = numbered(2 * BlockDigest::kBlockBytes + 5);
  const ByteView view(bytes);
  ByteWriter root;
  root.number(xxh64(view.first(BlockDigest::kBlockBytes)));
  root.number(xxh64(view.subspan(BlockDigest::kBlockBytes, BlockDigest::kBlockBytes)));
  root.number(xxh64(view.last(5))).number(uint64_t{bytes.size()});
  CHECK(digestOf(view) == xxh64(root.bytes()));
  CHECK(digestOf({}) == xxh64(Bytes(8, 0)));
}

TEST("hexadecimal digests have sixteen digits") {
  CHECK(toHex(0) == "0000000000000000");
  CHECK(toHex(0x0123456789abcdef) == "0123456789abcdef");
}
