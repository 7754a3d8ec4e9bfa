#include "cpu/sha256_streams.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace muster {

namespace {

constexpr size_t kStepBytes = size_t{1} << 20;  // between two questions whether to go on

#if defined(__x86_64__)

constexpr size_t kBlock = 64;
constexpr size_t kStepBlocks = kStepBytes / kBlock;
constexpr size_t kStreams = 3;  // four have too few registers, two leave waits

using State = std::array<uint32_t, 8>;

// What was taken of an input so far, and where the rest lies.
struct Stream {
  State state = kSha256Start;
  const uint8_t* at = nullptr;
  size_t blocks = 0;  // whole ones that are left
  size_t index = 0;   // of the input
};

#define MUSTER_SHA __attribute__((target("sha,sse4.1")))

MUSTER_SHA inline __m128i load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }
MUSTER_SHA inline void store(void* at, __m128i value) { _mm_storeu_si128(static_cast<__m128i*>(at), value); }

// Takes `blocks` blocks into each of N streams. The instructions want the words of a state as ABEF and CDGH.
template <size_t N>
MUSTER_SHA void compress(Stream* streams, size_t blocks) {
  const __m128i bigEndian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i abef[N], cdgh[N];
  for (size_t n = 0; n < N; n++) {
    const __m128i cdab = _mm_shuffle_epi32(load(&streams[n].state[0]), 0xB1), efgh = _mm_shuffle_epi32(load(&streams[n].state[4]), 0x1B);
    abef[n] = _mm_alignr_epi8(cdab, efgh, 8);
    cdgh[n] = _mm_blend_epi16(efgh, cdab, 0xF0);
  }
  for (size_t block = 0; block < blocks; block++) {
    __m128i words[N][4], abefBefore[N], cdghBefore[N], mixed[N];
    for (size_t n = 0; n < N; n++) {
      abefBefore[n] = abef[n];
      cdghBefore[n] = cdgh[n];
      for (size_t i = 0; i < 4; i++) words[n][i] = _mm_shuffle_epi8(load(streams[n].at + block * kBlock + 16 * i), bigEndian);
    }
#pragma GCC unroll 16
    for (size_t four = 0; four < 16; four++) {  // rounds at a time
#pragma GCC unroll 4
      for (size_t n = 0; n < N; n++) {
        mixed[n] = _mm_add_epi32(words[n][four % 4], load(&kSha256Round[4 * four]));
        cdgh[n] = _mm_sha256rnds2_epu32(cdgh[n], abef[n], mixed[n]);
      }
#pragma GCC unroll 4
      for (size_t n = 0; n < N; n++) {
        if (four < 3 || four == 15) continue;  // the words of the next four rounds are there
        const __m128i first = _mm_sha256msg1_epu32(words[n][(four + 1) % 4], words[n][(four + 2) % 4]);
        const __m128i sum = _mm_add_epi32(first, _mm_alignr_epi8(words[n][four % 4], words[n][(four + 3) % 4], 4));
        words[n][(four + 1) % 4] = _mm_sha256msg2_epu32(sum, words[n][four % 4]);
      }
#pragma GCC unroll 4
      for (size_t n = 0; n < N; n++) abef[n] = _mm_sha256rnds2_epu32(abef[n], cdgh[n], _mm_shuffle_epi32(mixed[n], 0x0E));
    }
    for (size_t n = 0; n < N; n++) {
      abef[n] = _mm_add_epi32(abef[n], abefBefore[n]);
      cdgh[n] = _mm_add_epi32(cdgh[n], cdghBefore[n]);
    }
  }
  for (size_t n = 0; n < N; n++) {
    const __m128i feba = _mm_shuffle_epi32(abef[n], 0x1B), dchg = _mm_shuffle_epi32(cdgh[n], 0xB1);
    store(&streams[n].state[0], _mm_blend_epi16(feba, dchg, 0xF0));
    store(&streams[n].state[4], _mm_alignr_epi8(dchg, feba, 8));
    streams[n].at += blocks * kBlock;
    streams[n].blocks -= blocks;
  }
}

// The digest of an input whose whole blocks were taken: what is left of it, a one and its length in bits follow.
Sha256Digest finish(Stream& stream, size_t bytes) {
  const size_t rest = bytes % kBlock;
  uint8_t last[2 * kBlock] = {};
  if (rest > 0) std::memcpy(last, stream.at, rest);
  last[rest] = 0x80;
  const size_t blocks = rest < kBlock - 8 ? 1 : 2;
  const uint64_t bits = uint64_t{bytes} * 8;
  for (size_t i = 0; i < 8; i++) last[blocks * kBlock - 8 + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  stream.at = last;
  stream.blocks = blocks;
  compress<1>(&stream, blocks);
  Sha256Digest out;
  for (size_t i = 0; i < out.size(); i++) out[i] = static_cast<uint8_t>(stream.state[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

// Takes as many blocks of each of the streams as all of them have, up to a limit.
void advance(std::span<Stream> streams) {
  size_t blocks = kStepBlocks;
  for (const Stream& stream : streams) blocks = std::min(blocks, stream.blocks);
  if (streams.size() == 1) compress<1>(streams.data(), blocks);
  if (streams.size() == 2) compress<2>(streams.data(), blocks);
  if (streams.size() == 3) compress<3>(streams.data(), blocks);
}

Status eachInTurns(std::span<const ByteView> inputs, std::span<Sha256Digest> out, const std::function<Status()>& mayGoOn) {
  std::array<Stream, kStreams> streams;
  size_t active = 0, next = 0;
  for (;;) {
    for (; active < kStreams && next < inputs.size(); next++)
      streams[active++] = {kSha256Start, inputs[next].data(), inputs[next].size() / kBlock, next};
    if (active == 0) return {};
    if (Status status = mayGoOn(); !status.ok()) return status;
    advance({streams.data(), active});
    for (size_t n = active; n-- > 0;) {
      if (streams[n].blocks > 0) continue;
      out[streams[n].index] = finish(streams[n], inputs[streams[n].index].size());
      streams[n] = streams[--active];
    }
  }
}

#endif

}  // namespace

bool hasShaInstructions() {
#if defined(__x86_64__)
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kSha = 1u << 29;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0 && __builtin_cpu_supports("sse4.1");
  }();
  return has;
#else
  return false;
#endif
}

Status sha256EachBaseline(std::span<const ByteView> inputs, std::span<Sha256Digest> out, const std::function<Status()>& mayGoOn) {
  for (size_t i = 0; i < inputs.size(); i++) {
    Sha256 hash;
    for (ByteView rest = inputs[i]; !rest.empty();) {
      if (Status status = mayGoOn(); !status.ok()) return status;
      const size_t bytes = std::min(rest.size(), kStepBytes);
      hash.update(rest.first(bytes));
      rest = rest.subspan(bytes);
    }
    out[i] = hash.finish();
  }
  return {};
}

Status sha256Each(std::span<const ByteView> inputs, std::span<Sha256Digest> out, const std::function<Status()>& mayGoOn) {
#if defined(__x86_64__)
  if (hasShaInstructions()) return eachInTurns(inputs, out, mayGoOn);
#endif
  return sha256EachBaseline(inputs, out, mayGoOn);
}

}  // namespace muster
