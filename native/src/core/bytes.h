// Little-endian encoding of control messages, with a reader that never runs past the end.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace muster {

static_assert(std::endian::native == std::endian::little, "the wire format and the shared layout are little-endian");

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

inline ByteView viewOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class ByteWriter {
 public:
  template <class T>
  ByteWriter& number(T value) {
    static_assert(std::is_integral_v<T>);
    return raw({reinterpret_cast<const uint8_t*>(&value), sizeof value});
  }
  ByteWriter& raw(ByteView bytes);
  // A length-prefixed string of at most 65,535 bytes; longer ones are cut, which the reader's checks then refuse.
  ByteWriter& text(std::string_view value) {
    const std::string_view cut = value.substr(0, UINT16_MAX);
    return number(static_cast<uint16_t>(cut.size())).raw(viewOf(cut));
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

// Reads what ByteWriter wrote. Past the end it yields zeros and remembers: check finished() once, at the end.
class ByteReader {
 public:
  explicit ByteReader(ByteView bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    static_assert(std::is_integral_v<T>);
    T value{};
    const ByteView from = raw(sizeof value);
    if (from.size() == sizeof value) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  ByteView raw(size_t count) {
    if (count > rest_.size()) {
      overrun_ = true;
      rest_ = {};
      return {};
    }
    const ByteView taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::string text() {
    const ByteView from = raw(number<uint16_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  size_t remaining() const { return rest_.size(); }
  // True when everything was there and nothing is left over.
  bool finished() const { return !overrun_ && rest_.empty(); }

 private:
  ByteView rest_;
  bool overrun_ = false;
};

}  // namespace muster
