// Requests, grants and refusals: what can be read is written the same way again.
#include "core/landing.h"
#include "core/version.h"
#include "fuzz.h"

using namespace muster;

namespace {

bool same(const Bytes& written, ByteView read) {
  return written.size() == read.size() && std::memcmp(written.data(), read.data(), read.size()) == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView input(data, size);
  const Result<VersionId> id = decodeId(input);
  if (id.ok()) HOLDS(same(encodeId(id.value()), input));
  const Result<PullRequest> request = decodeRequest(input);
  if (request.ok()) HOLDS(same(encodeRequest(request.value()), input));
  [[maybe_unused]] const Status refusal = statusOfRefusal(input);
  const Result<std::vector<Section>> sections = decodeSections(input);
  if (!sections.ok()) return 0;
  HOLDS(same(encodeSections(sections.value()), input));
  uint64_t total = 0;
  for (const Section& section : sections.value()) total += section.bytes;
  // Only sections whose block digests come to their digest get memory.
  const Result<Landing> landing = Landing::open({1, 1}, sections.value(), nullptr);
  if (landing.ok()) HOLDS(landing.value().total() == total);
  return 0;
}
