// What a weight version is, and the messages by which one is pulled.
//
//   Hello.body = {lineage, version}   Request = {offset, timeoutMs, section names, digests of a base, ranges}
//   Grant = {sections: name, offset, bytes, digest, digests of its blocks}, with the arena's file descriptor beside it on a
//   Unix socket; over TCP then Data frames from `offset` in the concatenation of the sections asked for, and End. A reader that
//   names a base, digest by digest, may get Delta frames in the place of whole blocks; one that names ranges of the
//   concatenation gets those alone, in their order.
//   Alive at any time before End; its offset says how far the holder's own copy of the sections asked for reaches.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/limits.h"
#include "core/status.h"

namespace muster {

struct VersionId {
  uint64_t lineage = 0;
  uint64_t version = 0;

  auto operator<=>(const VersionId&) const = default;
  std::string text() const { return std::to_string(lineage) + "/" + std::to_string(version); }
};

struct Section {
  std::string name;
  uint64_t offset;  // in the arena slot; a multiple of 64
  uint64_t bytes;
  uint64_t digest;                 // root of `blocks`; see BlockDigest
  std::vector<uint64_t> blocks{};  // one for each BlockDigest::kBlockBytes
};


// Lays the sections out one behind another. The bytes that they take; Code::TooLarge when that is more than `room`.
inline Result<uint64_t> layOut(std::vector<Section>& sections, uint64_t room) {
  uint64_t end = 0;
  for (Section& section : sections) {
    section.offset = (end + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
    if (section.offset > room || section.bytes > room - section.offset) {
      const std::string need = std::to_string(section.offset) + " + " + std::to_string(section.bytes);
      return Status{Code::TooLarge, "the sections need " + need + " bytes, there is room for " + std::to_string(room), {}};
    }
    end = section.offset + section.bytes;
  }
  return end;
}

// A part of the concatenation of the sections asked for.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct PullRequest {
  uint64_t offset = 0;
  uint32_t timeoutMs = 0;  // how long the reader waits for the version
  std::vector<std::string> names;
  std::vector<uint64_t> bases{};    // what the reader has of each section; empty when it wants no deltas
  std::vector<ByteRange> ranges{};  // all it wants; empty for everything from `offset` on
};

inline Bytes encodeId(VersionId id) { return ByteWriter().number(id.lineage).number(id.version).bytes(); }

inline Result<VersionId> decodeId(ByteView bytes) {
  ByteReader in(bytes);
  VersionId id;
  id.lineage = in.number<uint64_t>();
  id.version = in.number<uint64_t>();
  if (!in.finished()) return Status{Code::Corrupt, "a version id that cannot be read", {}};
  return id;
}

inline Bytes encodeRequest(const PullRequest& request) {
  ByteWriter out;
  out.number(request.offset).number(request.timeoutMs).number(static_cast<uint16_t>(request.names.size()));
  for (const std::string& name : request.names) out.text(name);
  out.number(static_cast<uint16_t>(request.bases.size()));
  for (const uint64_t base : request.bases) out.number(base);
  out.number(static_cast<uint16_t>(request.ranges.size()));
  for (const ByteRange& range : request.ranges) out.number(range.offset).number(range.bytes);
  return out.bytes();
}

inline Result<PullRequest> decodeRequest(ByteView bytes) {
  ByteReader in(bytes);
  PullRequest request;
  request.offset = in.number<uint64_t>();
  request.timeoutMs = in.number<uint32_t>();
  const auto count = in.number<uint16_t>();
  const Status tooMany{Code::Corrupt, "a request for too much at once", {}};
  if (count > kSectionsMax) return tooMany;
  for (size_t i = 0; i < count; i++) request.names.push_back(in.text());
  const auto bases = in.number<uint16_t>();
  if (bases > count) return tooMany;
  for (size_t i = 0; i < bases; i++) request.bases.push_back(in.number<uint64_t>());
  const auto ranges = in.number<uint16_t>();
  if (ranges > kRangesMax) return tooMany;
  for (size_t i = 0; i < ranges; i++) {
    ByteRange& range = request.ranges.emplace_back();
    range.offset = in.number<uint64_t>();
    range.bytes = in.number<uint64_t>();
  }
  if (!request.bases.empty() && request.bases.size() != request.names.size())
    return Status{Code::Corrupt, "a request with a base for other sections", {}};
  if (!in.finished()) return Status{Code::Corrupt, "a request that cannot be read", {}};
  return request;
}

inline Bytes encodeSections(const std::vector<Section>& sections) {
  ByteWriter out;
  out.number(static_cast<uint16_t>(sections.size()));
  for (const Section& s : sections) {
    out.text(s.name).number(s.offset).number(s.bytes).number(s.digest).number(static_cast<uint32_t>(s.blocks.size()));
    for (const uint64_t block : s.blocks) out.number(block);
  }
  return out.bytes();
}

inline Result<std::vector<Section>> decodeSections(ByteView bytes) {
  ByteReader in(bytes);
  std::vector<Section> sections;
  const auto count = in.number<uint16_t>();
  if (count > kSectionsMax) return Status{Code::Corrupt, "a grant of too many sections", {}};
  for (size_t i = 0; i < count; i++) {
    Section& s = sections.emplace_back();
    s.name = in.text();
    s.offset = in.number<uint64_t>();
    s.bytes = in.number<uint64_t>();
    s.digest = in.number<uint64_t>();
    const auto blocks = in.number<uint32_t>();
    if (blocks > in.remaining() / sizeof(uint64_t)) return Status{Code::Corrupt, "a grant that is cut short", {}};
    for (uint32_t block = 0; block < blocks; block++) s.blocks.push_back(in.number<uint64_t>());
  }
  if (!in.finished()) return Status{Code::Corrupt, "a grant that cannot be read", {}};
  return sections;
}

}  // namespace muster
