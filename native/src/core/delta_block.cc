#include "core/delta_block.h"

#include <algorithm>
#include <limits>

#include "core/limits.h"
#include "cpu/changed_elements.h"

namespace muster {

namespace {

constexpr uint8_t kLong = 255;          // a gap that goes on in two more bytes …
constexpr uint16_t kLonger = 65'535;    // … and in another gap
constexpr size_t kGapBytesMax = 3;      // of one changed element, but for the longest gaps
constexpr size_t kLongestGap = kLong + size_t{kLonger};

Status corrupt(const char* what) { return {Code::Corrupt, std::string("bad delta: ") + what, {}}; }

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
uint8_t* store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

uint8_t* writeGap(uint8_t* to, size_t gap) {
  for (; gap >= kLongestGap; gap -= kLongestGap) {
    *to++ = kLong;
    to = store(to, kLonger);
  }
  if (gap < kLong) {
    *to++ = static_cast<uint8_t>(gap);
    return to;
  }
  *to++ = kLong;
  return store(to, static_cast<uint16_t>(gap - kLong));
}

// Reads one gap; false at the end of the bytes.
bool readGap(const uint8_t*& at, const uint8_t* end, size_t& gap) {
  gap = 0;
  for (;;) {
    if (at == end) return false;
    const uint8_t head = *at++;
    gap += head;
    if (head != kLong) return true;
    if (end - at < 2) return false;
    const auto more = load<uint16_t>(at);
    at += sizeof more;
    gap += more;
    if (more != kLonger) return true;
  }
}

void makeRoom(Bytes& bytes, size_t size) {
  if (bytes.size() < size) bytes.resize(size);
}

}  // namespace

std::optional<Bytes> DeltaEncoder::encode(ByteView base, ByteView target, unsigned elementBytes, size_t budget) {
  if (base.size() != target.size() || target.size() > kDeltaBlockMax) return std::nullopt;
  if (elementBytes == 2) return encodeAs<uint16_t, int8_t>(base, target, budget);
  if (elementBytes == 4) return encodeAs<uint32_t, int16_t>(base, target, budget);
  return std::nullopt;
}

template <class Element, class Small>
std::optional<Bytes> DeltaEncoder::encodeAs(ByteView base, ByteView target, size_t budget) {
  constexpr Small kEscape = std::numeric_limits<Small>::min();
  using Signed = std::make_signed_t<Element>;
  const size_t elements = target.size() / sizeof(Element);
  const size_t longest = kGapBytesMax * (elements / kLongestGap + 1);
  makeRoom(gaps_, budget + kChangedTile * kGapBytesMax + longest);
  makeRoom(differences_, budget + kChangedTile * sizeof(Small));
  makeRoom(escapes_, budget + kChangedTile * sizeof(Element));
  uint8_t *gap = gaps_.data(), *difference = differences_.data(), *escape = escapes_.data();
  uint64_t masks[kChangedTile / 64];
  size_t next = 0;  // the element behind the last changed one
  uint32_t changed = 0;
  const ByteView tail = target.subspan(elements * sizeof(Element));
  const auto size = [&] {
    return kDeltaHeaderBytes + tail.size() + static_cast<size_t>(gap - gaps_.data()) +
           static_cast<size_t>(difference - differences_.data()) + static_cast<size_t>(escape - escapes_.data());
  };
  for (size_t tile = 0; tile < elements; tile += kChangedTile) {
    const size_t count = std::min(kChangedTile, elements - tile);
    changedElements(base.data() + tile * sizeof(Element), target.data() + tile * sizeof(Element), count, sizeof(Element), masks);
    for (size_t word = 0; word * 64 < count; word++) {
      for (uint64_t mask = masks[word]; mask != 0; mask &= mask - 1) {
        const size_t at = tile + word * 64 + static_cast<size_t>(std::countr_zero(mask));
        gap = writeGap(gap, at - next);
        next = at + 1;
        changed++;
        const auto now = load<Element>(target.data() + at * sizeof(Element));
        const auto by = static_cast<Signed>(static_cast<Element>(now - load<Element>(base.data() + at * sizeof(Element))));
        const bool fits = by > kEscape && by <= std::numeric_limits<Small>::max();
        difference = store(difference, fits ? static_cast<Small>(by) : kEscape);
        if (!fits) escape = store(escape, now);
      }
    }
    if (size() > budget) return std::nullopt;
  }
  ByteWriter out;
  out.number(static_cast<uint8_t>(sizeof(Element))).number(uint8_t{0}).number(uint16_t{0}).number(changed);
  out.number(static_cast<uint32_t>(gap - gaps_.data()));
  out.number(static_cast<uint32_t>((escape - escapes_.data()) / static_cast<ptrdiff_t>(sizeof(Element))));
  out.raw({gaps_.data(), gap}).raw({differences_.data(), difference}).raw({escapes_.data(), escape}).raw(tail);
  if (out.bytes().size() > budget) return std::nullopt;
  return out.bytes();
}

namespace {

struct Streams {
  ByteView gaps, differences, escapes, tail;
  uint32_t changed = 0;
};

template <class Element, class Small>
Status applyAs(const Streams& from, uint8_t* block, size_t elements) {
  const uint8_t *gap = from.gaps.data(), *gapsEnd = gap + from.gaps.size();
  const uint8_t *difference = from.differences.data();
  const uint8_t *escape = from.escapes.data(), *escapesEnd = escape + from.escapes.size();
  size_t at = 0;
  for (uint32_t i = 0; i < from.changed; i++) {
    size_t skip = 0;
    if (!readGap(gap, gapsEnd, skip)) return corrupt("the gaps end early");
    if (skip >= elements - at) return corrupt("a change behind the end of the block");
    at += skip;
    uint8_t* element = block + at * sizeof(Element);
    const auto by = load<Small>(difference + i * sizeof(Small));
    if (by != std::numeric_limits<Small>::min()) {
      store(element, static_cast<Element>(load<Element>(element) + static_cast<Element>(by)));
    } else {
      if (escape == escapesEnd) return corrupt("the escapes end early");
      store(element, load<Element>(escape));
      escape += sizeof(Element);
    }
    at++;
  }
  if (gap != gapsEnd || escape != escapesEnd) return corrupt("bytes are left over");
  std::copy(from.tail.begin(), from.tail.end(), block + elements * sizeof(Element));
  return {};
}

}  // namespace

Status applyDelta(ByteView delta, std::span<uint8_t> block) {
  ByteReader in(delta);
  const auto width = in.number<uint8_t>();
  const bool reserved = (in.number<uint8_t>() | in.number<uint16_t>()) != 0;
  Streams streams;
  streams.changed = in.number<uint32_t>();
  const auto gapBytes = in.number<uint32_t>();
  const auto escapes = in.number<uint32_t>();
  if ((width != 2 && width != 4) || reserved) return corrupt("an unknown form");
  const size_t elements = block.size() / width;
  if (streams.changed > elements || escapes > streams.changed) return corrupt("more changes than elements");
  streams.gaps = in.raw(gapBytes);
  streams.differences = in.raw(size_t{streams.changed} * (width / 2));
  streams.escapes = in.raw(size_t{escapes} * width);
  streams.tail = in.raw(block.size() % width);
  if (!in.finished()) return corrupt("its parts do not come to its length");
  if (width == 2) return applyAs<uint16_t, int8_t>(streams, block.data(), elements);
  return applyAs<uint32_t, int16_t>(streams, block.data(), elements);
}

}  // namespace muster
